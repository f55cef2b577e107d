"""Modular arithmetic: lengths, precedence, and bracketed expressions each equally likely."""

from collections import Counter
from itertools import product

import pytest
import torch

from lengthwise import tasks
from lengthwise.tasks.modular_arithmetic import BracketedExpressions

from ..seeded import seeded


def test_only_whole_expressions_are_asked():
    task = tasks.get("modular-arithmetic", brackets=True, supervision="prefix")
    text = "2*(1+(2-0))-3"
    word = torch.tensor([[task.vocabulary.index(c) for c in text]])
    asked = task.asked(word)[0].tolist()
    assert [text[: t + 1] for t, a in enumerate(asked) if a] == ["2", "2*(1+(2-0))", "2*(1+(2-0))-3"]


@pytest.mark.parametrize("length", [1, 3, 5])
def test_bracketed_expressions_are_uniform(length):
    """With one digit and one operator there are few enough to list: Catalan numbers of them."""
    grammar = BracketedExpressions(1, 1)
    found = Counter("".join("1+()"[s] for s in row) for row in grammar.draw(length, 3000, seeded(0)).tolist())
    expected = {w for w in map("".join, product("1+()", repeat=length)) if well_formed(w)}
    assert len(expected) == {1: 1, 3: 2, 5: 5}[length]
    assert set(found) == expected
    each = 3000 / len(expected)
    assert sum((n - each) ** 2 / each for n in found.values()) < 4 * len(expected)


def test_counts_weigh_digits_and_operators():
    found = Counter(
        "(" in "".join("01234+-*()"[s] for s in row) for row in BracketedExpressions(5, 3).draw(3, 8000, seeded(1))
    )
    # 5 * 3 * 5 plain expressions of three tokens, and 5 in brackets.
    assert found[True] / 8000 == pytest.approx(5 / 80, abs=0.012)


def test_long_expressions():
    task = tasks.get("modular-arithmetic", brackets=True)
    batch = task.sample(1001, 4, seeded(2))
    for row, target in zip(batch.tokens, batch.targets[:, -1].tolist(), strict=True):
        text = task.write(row)
        assert eval(text) % 5 == target
        assert text.count("(") == text.count(")") > 10


def well_formed(word):
    """By the grammar, taking the first factor off."""
    if word.startswith("1"):
        rest = word[1:]
    elif word.startswith("("):
        level = [sum(1 if c == "(" else -1 if c == ")" else 0 for c in word[: i + 1]) for i in range(len(word))]
        if 0 not in level or not well_formed(word[1 : level.index(0)]):
            return False
        rest = word[level.index(0) + 1 :]
    else:
        return False
    return rest == "" or (rest.startswith("+") and well_formed(rest[1:]))


@pytest.mark.parametrize("params", [{}, {"brackets": True}, {"leading_plus": True}, {"brackets": True, "modulus": 3}])
@pytest.mark.parametrize("length", [1, 3, 5])
def test_the_baseline_is_exact(params, length):
    """Over all expressions of the length: every one is equally likely, with brackets and without."""
    task = tasks.get("modular-arithmetic", **params)
    m = task.modulus
    operands = [str(d) for d in range(m)]
    found = {1: operands, 3: [a + o + b for a, o, b in product(operands, "+-*", operands)]}
    if task.brackets:
        found[3] += [f"({a})" for a in operands]
    found[5] = [a + o + b for a, o, b in product(operands, "+-*", found[3])]
    if task.brackets:
        found[5] += [f"({a})" for a in found[3]]
        found[5] += [f"({a}){o}{b}" for a, o, b in product(operands, "+-*", operands)]
    values = Counter(eval(text) % m for text in found[length])
    assert task.baseline(length + task.leading_plus) == pytest.approx(max(values.values()) / len(found[length]))
