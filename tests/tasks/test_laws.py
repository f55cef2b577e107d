"""`tasks.check` passes right tasks and names the law that a wrong one breaks."""

import pytest
import torch

from lengthwise import tasks
from lengthwise.automata import Semiautomaton
from lengthwise.errors import Error


class Digits(tasks.Task):
    """Digits; the answer is their sum modulo 3."""

    vocabulary, outputs = ("0", "1", "2"), 3

    def __init__(self, shift: int = 0):
        self.shift = shift

    def draw(self, length, batch, generator):
        return torch.randint(3, (batch, length), generator=generator)

    def answer(self, tokens):
        return (tokens.cumsum(1) + self.shift) % 3

    def baseline(self, length):
        return 1 / 3


def broken(**changes):
    return type("Broken", (Digits,), changes)()


def blocks_that_count(task, n, count, seed):
    """The first block is right, and those behind it depend on how many strings are asked for."""
    first, *rest = tasks.Task.test_blocks(task, n, count, seed)
    yield first
    yield from ((block + count) % 3 for block in rest)


def remembering(task, n, tokens):
    """Strings that depend on the longest length that was ever drawn."""
    task.longest = max(task.longest, n)
    return (tokens + task.longest) % 3


def forgetful(self, shift=0):
    self.shift, self.params = shift + 1, {}


WRONG = {
    "vocabulary is a tuple": {"vocabulary": "012"},
    "written in its own way": {"vocabulary": ("0", "1", "1")},
    "outputs is a whole number": {"outputs": 0},
    "params are written as JSON": {"params": {"shift": torch.zeros(1)}},
    "must be kept under its own name": {"__init__": lambda self, colour=1: None},
    "params rebuild the task": {"params": {"colour": 1}},
    "a length below 1 is refused": {"problem": lambda self, length: None},
    "integers (torch.long), got torch.float32": {"draw": lambda s, n, b, g: torch.rand(b, n, generator=g)},
    "a string of length 1 has 1 tokens, got 2": {"draw": lambda s, n, b, g: torch.zeros(b, n + 1).long()},
    "one of the 2 of the vocabulary": {"vocabulary": ("0", "1")},
    "true somewhere in each row": {"asked": lambda s, tokens: torch.zeros_like(tokens, dtype=torch.bool)},
    "answer gives integers (torch.long) of shape (3, 1)": {"answer": lambda s, tokens: tokens[:, -1] % 3},
    "one of 2 classes, counted from 0": {"outputs": 2},
    "the same seed draws the same strings": {"draw": lambda s, n, b, g: torch.randint(3, (b, n))},
    "numbers from torch's global one": {
        "draw": lambda s, n, b, g: torch.randint(3, (b, n), generator=g) + 0 * torch.randint(3, (b, n))
    },
    "the answer to a string is a function of that string": {
        "answer": lambda s, tokens: (tokens.cumsum(1) + len(tokens)) % 3
    },
    "test_parts, joined, are test_set": {
        "test_parts": lambda s, n, count, seed=0: iter([tasks.Task.test_set(s, n, count, seed + 1)])
    },
    "test strings of another seed are others": {
        "test_blocks": lambda s, n, count, seed=0: tasks.Task.test_blocks(s, n, count)
    },
    "a test string is a function of (task, length, seed) alone": {
        "test_blocks": lambda s, n, count, seed=0: blocks_that_count(s, n, count, seed)
    },
    "params rebuild the very task": {
        "longest": 0,
        "draw": lambda s, n, b, g: remembering(s, n, torch.randint(3, (b, n), generator=g)),
    },
    "machine and readout": {"machine": tasks.get("modular-sum", modulus=3).machine, "readout": torch.tensor([1, 2, 0])},
    "a share in 0..1": {"baseline": lambda s, n: 2.0},
    "the score of the best constant answer": {"baseline": lambda s, n: 0.6},
    # Half of the strings at every length but one: the short and the neighbouring lengths are all asked.
    "(length 2: 0.500)": {
        "baseline": lambda s, n: 0.5,
        "answer": lambda s, tokens: (tokens.cumsum(1) % 3 > 0).long() if tokens.shape[1] == 2 else tokens % 2,
        "draw": lambda s, n, b, g: torch.randint(2, (b, n), generator=g),
    },
    "the best constant answer (length 1: 0.200)": {
        "kind": "set",
        "scoring": "every",
        "answer": lambda s, tokens: torch.nn.functional.one_hot(tokens, 3).bool(),
        "baseline": lambda s, n: 0.2,
    },
}


def test_a_machine_is_asked_about_all_short_words():
    """One that is wrong on a word that is hardly ever drawn."""
    machine = tasks.from_machine(Semiautomaton([[0, 1], [0, 2], [0, 2]], accepting=[2])).machine
    rare = broken(
        vocabulary=("0", "1"),
        outputs=2,
        machine=machine,
        readout=torch.tensor([0, 0, 1]),
        draw=lambda s, n, b, g: torch.randint(2, (b, n), generator=g) * (1 - torch.arange(n) % 2),
        answer=lambda s, tokens: torch.zeros_like(tokens),
        baseline=lambda s, n: 1.0,
    )
    with pytest.raises(Error, match="machine and readout say what answer says"):
        tasks.check(rare)


def test_a_right_task_passes():
    tasks.check(Digits())
    tasks.check(Digits(shift=2))


@pytest.mark.parametrize("law", WRONG)
def test_a_broken_law_is_named(law):
    with pytest.raises(Error) as caught:
        tasks.check(broken(**WRONG[law]))
    assert law in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_a_task_is_checked():
    with pytest.raises(Error, match="takes a task, got 'parity'"):
        tasks.check("parity")
