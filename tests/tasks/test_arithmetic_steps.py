"""Every chain that is drawn is right in each step, as an independent reader says, and Python's own arithmetic."""

import random
import re
from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import pairwise

import pytest
import torch

from lengthwise import tasks
from lengthwise.errors import Error
from lengthwise.tasks.arithmetic_steps import Numbers, check_chain, evaluate, reductions, split_lines

from ..seeded import seeded

KINDS = {
    "modulo 11": {},
    "modulo 2": {"modulus": 2},
    "modulo 5": {"modulus": 5},
    "whole": {"modulus": None, "largest": 20},
}
LENGTHS = (1, 2, 3, 6, 9)
MODULAR = "1 * ( 1 - 9 + 1 ) = 1 * ( 3 + 1 ) = 1 * 4 = 4"
WHOLE = "( 7 + 8 ) / ( 5 + 2 * 7 - 2 * 8 ) = 15 / ( 5 + 2 * 7 - 2 * 8 ) = 15 / ( 5 + 14 - 2 * 8 )"
WHOLE += " = 15 / ( 19 - 2 * 8 ) = 15 / ( 19 - 16 ) = 15 / 3 = 5"
every_kind = pytest.mark.parametrize("kind", KINDS)


@cache
def build(kind):
    return tasks.get("arithmetic-steps", **KINDS[kind])


@cache
def drawn(kind, length, count=200):
    """Chains as lists of symbols."""
    task = build(kind)
    return [task.write(row).split() for row in task.draw(length, count, seeded(length)).tolist()]


class Modular:
    """A number modulo m, with the operators of Python."""

    def __init__(self, value, m):
        self.value, self.m = value % m, m

    def __add__(self, other):
        return Modular(self.value + other.value, self.m)

    def __sub__(self, other):
        return Modular(self.value - other.value, self.m)

    def __mul__(self, other):
        return Modular(self.value * other.value, self.m)

    def __truediv__(self, other):
        (inverse,) = (x for x in range(self.m) if x * other.value % self.m == 1)
        return Modular(self.value * inverse, self.m)


def python_value(line, m):
    """What Python makes of an expression."""
    wrap = (lambda n: Modular(int(n), m)) if m else (lambda n: Fraction(int(n)))
    found = eval(re.sub(r"\d+", r"wrap(\g<0>)", " ".join(line)), {"wrap": wrap})
    return found.value if m else found


def same_for_all_numbers(one, other):
    """Whether two expressions of the same numbers, in the same order, are equal whatever the numbers are."""
    for seed in range(4):
        values = []
        for line in (one, other):
            draw = random.Random(seed)
            fresh = [f"Fraction({draw.randint(1, 10**6)}, 997)" if s.isdigit() else s for s in line]
            values.append(eval(" ".join(fresh), {"Fraction": Fraction}))
        if values[0] != values[1]:
            return False
    return True


def follows(line, before, m):
    """By definition: a pair that might stand in brackets became its value, and lost the brackets it had."""
    for i in range(len(before) - 2):
        pair = before[i : i + 3]
        if not (pair[0].isdigit() and pair[1] in "+-*/" and pair[2].isdigit()):
            continue
        if not same_for_all_numbers(before, [*before[:i], "(", *pair, ")", *before[i + 3 :]]):
            continue
        try:
            value = str(python_value(pair, m))
        except (ValueError, ZeroDivisionError):
            continue
        bracketed = i > 0 and before[i - 1] == "(" and before[i + 3] == ")"
        if line == [*before[: i - bracketed], value, *before[i + 3 + bracketed :]]:
            return True
    return False


@every_kind
@pytest.mark.parametrize("length", LENGTHS)
def test_every_chain_is_right_step_by_step(kind, length):
    numbers = build(kind).numbers
    for chain in drawn(kind, length):
        judged = check_chain(chain, numbers)
        assert (judged.right, judged.valid, judged.steps, judged.first_wrong_step) == (True, True, length, None)
        lines = split_lines(chain)
        assert [sum(symbol in "+-*/" for symbol in line) for line in lines] == [*range(length, -1, -1)]
        assert {python_value(line, numbers.modulus) for line in lines} == {int(lines[-1][0])}


@every_kind
def test_a_step_is_what_the_definition_says(kind):
    numbers = build(kind).numbers
    for chain in drawn(kind, 4, 40):
        lines = split_lines(chain)
        assert all(follows(line, before, numbers.modulus) for before, line in pairwise(lines))
        for before in lines:
            for line in reductions(before, numbers):
                assert follows(line, before, numbers.modulus)


@every_kind
def test_one_changed_symbol_is_found(kind):
    """At the step where it stands, or at the next; unless by chance it is a right step too."""
    numbers, draw = build(kind).numbers, random.Random(3)
    by_chance = 0
    for chain in drawn(kind, 3):
        start = chain.index("=") + 1
        at = draw.randrange(start, len(chain))
        wrong = [*chain]
        wrong[at] = draw.choice([s for s in numbers.vocabulary[:-1] if s != chain[at]])
        lines = split_lines(wrong)
        steps = 0
        while steps + 1 < len(lines) and follows(lines[steps + 1], lines[steps], numbers.modulus):
            steps += 1
        judged = check_chain(wrong, numbers)
        assert judged.steps == steps, " ".join(wrong)
        assert judged.valid == (steps == len(lines) - 1 and len(lines[-1]) == 1)
        by_chance += judged.valid
    assert by_chance < 20


@every_kind
def test_lines_left_out_doubled_or_in_disorder_are_found(kind):
    numbers = build(kind).numbers
    for chain in drawn(kind, 3):
        lines = split_lines(chain)
        for wrong, steps in (
            ([*lines[:1], *lines[2:]], 0),
            ([*lines[:2], *lines[1:]], 1),
            ([lines[0], lines[2], lines[1], lines[3]], 0),
            (lines[:-1], 2),
            ([*lines, lines[-1]], 3),
            ([*lines[:-1], []], 2),
        ):
            judged = check_chain(" = ".join(" ".join(line) for line in wrong).split(), numbers)
            assert not judged.valid
            assert judged.steps == steps
            assert judged.first_wrong_step == steps + 1
            assert judged.right == (wrong[-1] == lines[-1])
        assert not check_chain(chain, numbers, ended=False).right, "a chain without its end is not right"


def test_the_chains_of_the_papers():
    assert check_chain(MODULAR.split(), Numbers(11, 11)).valid
    assert check_chain(WHOLE.split(), Numbers(20)).valid
    assert not check_chain(WHOLE.split(), Numbers(19)).valid, "19 is then no number"


@pytest.mark.parametrize("text", ["", "1 +", "( 1", "1 )", "1 2", "( )", "+ 1", "1 + x", "1 / 0", "( 1 + 2 ) 3"])
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(Error, match=r"no expression|divided by 0"):
        evaluate(text.split(), Numbers(11, 11))
    with pytest.raises(Error, match=r"no expression|divided by 0"):
        evaluate(text.split(), Numbers(21))


@every_kind
def test_brackets_stand_where_they_are_needed_and_nowhere_else(kind):
    seen = 0
    for problem in (split_lines(chain)[0] for chain in drawn(kind, 6)):
        opened = []
        for i, symbol in enumerate(problem):
            if symbol == "(":
                opened.append(i)
            elif symbol == ")":
                j = opened.pop()
                assert not same_for_all_numbers(problem, [s for k, s in enumerate(problem) if k not in (i, j)])
                seen += 1
    assert seen > 100


@every_kind
def test_the_targets_are_what_the_oracle_finds(kind):
    task = build(kind)
    for length in LENGTHS:
        batch = task.sample(length, 50, seeded(1))
        for row, targets, mask in zip(*(each.tolist() for each in batch), strict=True):
            chain = task.write(row).split()
            first = chain.index("=")
            asked = [i for i, is_asked in enumerate(mask) if is_asked]
            assert asked == [*range(first, len(chain))]
            assert [task.vocabulary[targets[i]] for i in asked] == [*chain[first + 1 :], "<end>"]


def test_the_last_answer_is_calculated_from_the_problem():
    task = build("modulo 11")
    tokens = task.sample(3, 20, seeded(2)).tokens
    spoilt = tokens.clone()
    last = (tokens != task.padding).sum(1) - 1
    rows = torch.arange(20)
    spoilt[rows, last] = (spoilt[rows, last] + 1) % 11
    assert torch.equal(task.answer(spoilt)[rows, last - 1], tokens[rows, last])


def test_training_and_test_share_no_problem():
    task = build("modulo 11")
    for length in (1, 2, 6):
        training, test = task.sample(length, 2000, seeded(3)).tokens, task.test_set(length, 200).tokens
        problems = [{tuple(row[: row.index(task.equals)]) for row in tokens.tolist()} for tokens in (training, test)]
        assert not problems[0] & problems[1]
    share = task.held_out(task.draw(6, 20_000, seeded(4))).float().mean()
    assert 0.085 < share < 0.097, "one of eleven"


def test_what_is_held_out_depends_on_the_problem_alone():
    task = build("modulo 11")
    tokens = task.draw(5, 500, seeded(5))
    prompts = task.prompts(tokens)
    spoilt = torch.where(torch.arange(tokens.shape[1]) < prompts[:, None], tokens, 3)
    assert torch.equal(task.held_out(spoilt), task.held_out(tokens))
    alone = [task.held_out(row[None, : int(n)])[0] for row, n in zip(tokens, prompts, strict=True)]
    assert torch.equal(torch.stack(alone), task.held_out(tokens))


@every_kind
def test_answers_operators_and_pairs_are_uniform(kind):
    task, count = build(kind), 10_000
    chains = [task.write(row).split() for row in task.draw(1, count, seeded(6)).tolist()]
    answers = Counter(chain[-1] for chain in chains)
    operators = Counter(chain[1] for chain in chains)
    assert len(answers) == task.numbers.count
    for counts in (answers, operators):
        each = count / len(counts)
        assert sum((n - each) ** 2 / each for n in counts.values()) < len(counts) + 5 * (2 * len(counts)) ** 0.5
    share = Counter((chain[-1], chain[1], chain[0], chain[2]) for chain in chains)
    for (answer, operator, *_), n in share.items():
        pairs = sum(
            task.numbers.apply(operator, a, b) == int(answer)
            for a in range(task.numbers.count)
            for b in range(task.numbers.count)
        )
        expected = count / task.numbers.count / 4 / pairs
        assert abs(n - expected) < 6 * expected**0.5 + 2


def test_what_is_written_is_judged_up_to_its_end():
    task = build("modulo 11")
    known = {symbol: i for i, symbol in enumerate(task.vocabulary)}
    tokens = torch.tensor([[known[s] for s in ("2", "+", "3", "*", "4", "=")]] * 6)
    said = ["2 + 1 = 3 <end>", "3 <end>", "2 + 1 + 0 = 3", "2 + 1 = 4 <end>", "5 * 4 = 3 <end>", "2 + 1 = 3 <end> ="]
    written = [torch.tensor([known[s] for s in text.split()]) for text in said]
    written = torch.nn.utils.rnn.pad_sequence(written, batch_first=True, padding_value=3)
    assert task.is_right(tokens, written).tolist() == [True, True, False, False, True, True]
    judged = task.judge(tokens, written)
    assert [each.right for each in judged] == task.is_right(tokens, written).tolist()
    assert [each.valid for each in judged] == [True, False, False, False, False, True]
    assert [each.first_wrong_step for each in judged] == [None, 1, 1, 2, 1, None]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"modulus": 10}, "must be a prime"),
        ({"modulus": None}, "need a largest one"),
        ({"largest": 20}, "Leave largest out"),
        ({"modulus": 1}, "modulus"),
    ],
)
def test_numbers_that_cannot_be_are_refused(settings, said):
    with pytest.raises(Error, match=said):
        tasks.get("arithmetic-steps", **settings)
