"""The laws that every task keeps, for one of your own: `tasks.check(MyTask())` passes in silence or names one broken.

What is tried, at lengths 1, 2, 3 and others below 20, neighbours among them: the task is built again from its
parameters, and a used one is as a fresh one; impossible lengths are refused; tokens, answers and masks have their
shapes, types and ranges; the same seed gives the same strings, whatever was drawn before; test strings depend on (task,
length, seed) alone, and on the seed, a larger test set begins with the smaller, and its parts are its strings; held-out
strings are kept apart; the oracle says of a string alone what it says of it among others; what stands behind a prompt
is right, and nothing is not; the baseline is a share, and what the best constant answer scores.

Shapes: B batch, T tokens, S outputs, E questions.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import Error
from .base import TEST_BLOCK, Batch, GeneratedAnswers, Task

STRINGS = 512
"""The baseline is held against so many strings at least, and against eight times as many at length 1."""
WORDS = 3000
"""A machine is asked about all words of a length, where there are no more."""
CONSTANTS = 32
"""Where a model writes its answer, the best constant is sought among those of so many strings."""


def check(task: Task, lengths: Sequence[int] | None = None) -> None:
    """Raises an `Error` that names the law a task breaks; `lengths` are those tried, by default a few below 20.

    >>> from lengthwise import tasks
    >>> tasks.check(tasks.get("modular-sum"))
    """
    if not isinstance(task, Task):
        raise Error(f"tasks.check takes a task, got {task!r}. Pass an instance of a class of lengthwise.tasks.Task.")
    _described(task)
    tried = list(lengths) if lengths else _few(task)
    for n in tried:
        _strings(task, n)
        _seeds(task, n)
        _oracle(task, n)
        _written(task, n)
        _baseline(task, n)
    _rebuilt(task, tried)


def _require(task: Task, holds: object, law: str, got: object) -> None:
    if not holds:
        raise Error(f"{task.name}: {law}, got {got}.")


def _few(task: Task) -> list[int]:
    """Returns the first three, two middle and the last two possible lengths below 20, or the shortest of all."""
    possible = [n for n in range(1, 20) if task.problem(n) is None] or task.lengths(1, 1000)[:1]
    middle = len(possible) // 2
    return sorted({*possible[:3], *possible[middle : middle + 2], *possible[-2:]})


def _described(task: Task) -> None:
    for name in ("vocabulary", "outputs"):
        if not hasattr(task, name):
            raise Error(f"{task.name}: a task has {name}, and this one does not. Set self.{name} in __init__.")
    symbols, outputs = task.vocabulary, task.outputs
    listed = not isinstance(symbols, str) and symbols and all(isinstance(symbol, str) for symbol in symbols)
    _require(task, listed, "vocabulary is a tuple of texts, one for each token", repr(symbols))
    _require(task, len(set(symbols)) == len(symbols), "every token is written in its own way", repr(symbols))
    _require(task, isinstance(outputs, int) and outputs >= 1, "outputs is a whole number of at least 1", repr(outputs))
    try:
        json.dumps(task.params)
    except TypeError as error:
        raise Error(f"{task.name}: params are written as JSON, got {task.params!r} ({error}).") from error
    for n in (0, -1):
        law = "a length below 1 is refused (let problem begin with super().problem)"
        _require(task, task.problem(n) is not None, law, f"none for {n}")


def _rebuilt(task: Task, tried: list[int]) -> None:
    """The last law, so that a task that was used is held against a fresh one."""
    from .registry import rebuild

    kind, params = type(task), json.loads(json.dumps(task.params))
    registered = kind.__module__.startswith("lengthwise.tasks.")
    try:
        again = rebuild(task.name, params) if registered else kind(**params)
    except Exception as error:
        remedy = "Keep each argument of __init__ under its name."
        raise Error(f"{task.name}: params rebuild the task, got {params} ({error}). {remedy}") from error
    first, second = [
        (each.vocabulary, each.outputs, each.supervision, json.dumps(each.params)) for each in (task, again)
    ]
    same = first == second and all(
        _equal(task.sample(n, 5, _seeded(3)), again.sample(n, 5, _seeded(3)))
        and _equal(task.test_set(n, 8), again.test_set(n, 8))
        for n in sorted(tried)
    )
    _require(task, same, "params rebuild the very task, and hold all that decides it", f"another one from {params}")


def _strings(task: Task, n: int) -> None:
    """Shapes, types and ranges of a batch."""
    tokens, targets, mask = task.sample(n, 3, _seeded(0))
    right = tokens.dtype == torch.long and tokens.dim() == 2 and len(tokens) == 3
    _require(task, right, "draw gives (batch, tokens) integers (torch.long)", _kind(tokens))
    right = task.padding is not None or tokens.shape[1] == n
    _require(task, right, f"a string of length {n} has {n} tokens", f"{tokens.shape[1]}; other widths need padding")
    right = int(tokens.min()) >= 0 and int(tokens.max()) < len(task.vocabulary)
    law = f"a token is one of the {len(task.vocabulary)} of the vocabulary, counted from 0"
    _require(task, right, law, _range(tokens))
    right = mask.shape == tokens.shape and mask.dtype == torch.bool and bool(mask.any(1).all())
    _require(task, right, "asked gives (batch, tokens) booleans, true somewhere in each row", _kind(mask))

    classes, several = task.kind == "class", task.questions > 1
    last = () if classes and not several else (task.questions if classes else task.outputs,)
    shape = (*tokens.shape, *last)
    right = tuple(targets.shape) == shape and targets.dtype == (torch.long if classes else torch.bool)
    law = f"answer gives {'integers (torch.long)' if classes else 'booleans'} of shape {shape}, asked or not"
    _require(task, right, law, _kind(targets))
    answers = targets[mask].int()
    right = not classes or (int(answers.min()) >= -several and int(answers.max()) < task.outputs)
    _require(task, right, f"an answer is one of {task.outputs} classes, counted from 0", _range(answers))
    task.write(tokens[0])


def _seeds(task: Task, n: int) -> None:
    before = torch.random.get_rng_state()
    same = _equal(task.sample(n, 5, _seeded(3)), task.sample(n, 5, _seeded(3)))
    _require(task, same, "the same seed draws the same strings", f"others at length {n}")
    same = torch.equal(before, torch.random.get_rng_state())
    _require(task, same, "draw passes its generator to every random function", "numbers from torch's global one")
    few, many = task.test_set(n, TEST_BLOCK + 3), task.test_set(n, 2 * TEST_BLOCK)
    same = torch.equal(few.tokens, many.tokens[: len(few.tokens), : few.tokens.shape[1]])
    law = "a test string is a function of (task, length, seed) alone"
    _require(task, same, law, f"another one at length {n} when more are asked for")
    others = len(many.tokens.unique(dim=0)) == 1 or not _equal(many, task.test_set(n, 2 * TEST_BLOCK, seed=1))
    _require(task, others, "test strings of another seed are others", f"the same at length {n}")
    parts = Batch(*(torch.cat(each) for each in zip(*task.test_parts(n, 2 * TEST_BLOCK), strict=True)))
    law = "test_parts, joined, are test_set (override test_set alone, or both alike)"
    _require(task, _equal(many, parts), law, f"other strings or answers at length {n}")
    held = task.held_out(many.tokens)
    _require(task, held is None or held.all(), "test strings are held out, by the string alone", "some that are not")


def _oracle(task: Task, n: int) -> None:
    batch = task.sample(n, 5, _seeded(5))
    same = torch.equal(task.answer(batch.tokens)[batch.mask], batch.targets[batch.mask])
    _require(task, same, "the targets are what answer says", "others")
    for tokens, targets, mask in zip(*batch, strict=True):
        same = torch.equal(task.answer(tokens[None])[0][mask], targets[mask])
        got = f"another for {task.write(tokens)!r} alone than among others"
        _require(task, same, "the answer to a string is a function of that string", got)
    if task.machine is not None and task.readout is not None:
        answered = torch.ones(len(task.readout), dtype=torch.bool) if task.answered is None else task.answered
        same = answered[task.machine.run(batch.tokens)][batch.mask].all()
        _require(task, same, "only states with an answer are asked about", "a question in another")
        for strings in (batch.tokens, *_all_words(task, n)):
            states = task.machine.run(strings)
            questions = answered[states] & task.asked(strings)
            same = torch.equal(task.readout[states][questions], task.answer(strings)[questions])
            _require(task, same, "machine and readout say what answer says", "another answer")


def _all_words(task: Task, n: int) -> list[Tensor]:
    """All words of length n (S^n,n), where these are few."""
    symbols = torch.arange(len(task.vocabulary))
    return [torch.cartesian_prod(*[symbols] * n).view(-1, n)] if len(symbols) ** n <= WORDS else []


def _written(task: Task, n: int) -> None:
    """Where a model writes its answer, the one that the string has is right, and an empty one is wrong."""
    if not isinstance(task, GeneratedAnswers):
        return
    tokens = task.sample(n, 5, _seeded(6)).tokens
    own, longest = _own_answers(task, tokens), task.longest_answer(tokens)
    wrong = task.is_right(tokens, torch.full_like(own, task.padding))
    _require(
        task, task.is_right(tokens, own).all(), f"what stands behind a prompt is right (length {n})", "the contrary"
    )
    _require(task, not wrong.any(), f"who writes nothing is not right (length {n})", "the contrary")
    law = f"longest_answer is the most tokens of an answer with its padding (length {n})"
    _require(task, own.shape[1] <= longest, law, f"{longest} for one of {own.shape[1]}")


def _own_answers(task: GeneratedAnswers, tokens: Tensor) -> Tensor:
    """Returns the answers that stand behind the prompts (B, n), each with at least one padding."""
    starts = task.prompts(tokens)
    own = [torch.cat([row[start:], row.new_tensor([task.padding])]) for row, start in zip(tokens, starts, strict=True)]
    whole = torch.nn.utils.rnn.pad_sequence(own, batch_first=True, padding_value=task.padding)
    return whole[:, : int((whole != task.padding).sum(1).max()) + 1]


def _baseline(task: Task, n: int) -> None:
    claimed = task.baseline(n)
    right = isinstance(claimed, (int, float)) and 0 <= claimed <= 1
    _require(task, right, f"the baseline is a share in 0..1 (length {n})", repr(claimed))
    if task.questions > 1:
        return
    strings = max(STRINGS, 8 * STRINGS // n)
    best = _best_constant(task, task.sample(n, strings, _seeded(7)))
    # The most common of several classes lies a little above its expectation, hence five standard errors.
    right = abs(best - claimed) <= 5 * math.sqrt(max(claimed * (1 - claimed), 1 / strings) / strings) + 1e-6
    law = f"the baseline is the score of the best constant answer (length {n}: {claimed:.3f})"
    _require(task, right, law, f"{best:.3f} on {strings} strings")


def _best_constant(task: Task, batch: Batch) -> float:
    """The score of the best constant answer to these strings, as the task scores."""
    if isinstance(task, GeneratedAnswers):
        constants = _own_answers(task, batch.tokens[:CONSTANTS]).unique(dim=0)
        constants = constants[:, None].expand(-1, len(batch.tokens), -1)
        return max(float(task.is_right(batch.tokens, constant).float().mean()) for constant in constants)
    rows = [targets[mask].tolist() for targets, mask in zip(batch.targets, batch.mask, strict=True)]
    rows = [list(map(tuple, row)) for row in rows] if task.kind == "set" else rows
    if task.scoring == "last":
        counted = Counter(row[-1] for row in rows)
    elif task.scoring == "every":
        counted = Counter(row[0] for row in rows if len(set(row)) == 1)
    else:
        answers = {answer for row in rows for answer in row}
        return max(sum(row.count(answer) / len(row) for row in rows) for answer in answers) / len(rows)
    return max(counted.values(), default=0) / len(rows)


def _equal(a: Batch, b: Batch) -> bool:
    return all(x.shape == y.shape and torch.equal(x, y) for x, y in zip(a, b, strict=True))


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _kind(tensor: Tensor) -> str:
    return f"{tensor.dtype} of shape {tuple(tensor.shape)}"


def _range(tensor: Tensor) -> str:
    return f"{int(tensor.min())} to {int(tensor.max())}"
