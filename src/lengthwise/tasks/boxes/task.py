"""Boxes: objects are put into boxes, moved and removed; at the end, say what is where (Kim & Schuster 2023).

Shapes: B batch, T tokens, N boxes, M objects.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from math import factorial, prod
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import Error
from ...options import at_least
from ...seeds import generator as seeded
from ..base import TEST_BLOCK, Batch, Task
from .forms import Form, FormName, checked_sizes
from .story import Story, solve
from .story_sampler import StorySampler
from .vocabulary import GLUE, GLUE_ID, LETTERS, OBJECTS, PAD, STOP, join_words

# The baseline of Boxes: how often the best constant answer is exactly right.
#
# Nothing tells one object from another, nor one box from another (but by name), so all answers that are relabellings of
# each other are equally likely. With n the sizes of the boxes at the end, sorted, and |n| the number of answers of
# these sizes, P(best constant answer) = max over n of P(n) / |n|. All boxes: |n| = N!/Π(times each size occurs)! ·
# M!/(Π n_b! (M - Σ n_b)!). One box: |n| = M!/(n! (M - n)!).

STORIES = 16_384
"""How many stories the probabilities P(n) are estimated from."""


@lru_cache
def constant_answer_share(form: Form, boxes: int, objects: int, length: int) -> float:
    """The share of stories of `length` operations that the best constant answer answers right."""
    sampler = StorySampler(form, boxes, objects)
    sizes = sampler.sizes(sampler.end(length, STORIES, np.random.default_rng(0)))[:, :boxes]
    sizes = sizes[:, :1] if form.query else np.sort(sizes, 1)
    return best_share(map(tuple, sizes.tolist()), objects)


def count_answers(sizes: tuple[int, ...], objects: int) -> int:
    """|n|, the number of answers in which the boxes have these sizes, in any order."""
    nowhere = factorial(objects - sum(sizes))
    orders = factorial(len(sizes)) // prod(factorial(times) for times in Counter(sizes).values())
    return orders * (factorial(objects) // (prod(map(factorial, sizes)) * nowhere))


def best_share(sizes: Iterable[tuple[int, ...]], objects: int) -> float:
    """The share of the best constant answer among stories whose boxes end with these sizes, each sorted."""
    counts = Counter(sizes)
    return max(count / count_answers(n, objects) for n, count in counts.items()) / counts.total()


# The stories that are held out for the test: a rule on the description alone.
#
# The signature has one digit a box: how many objects it holds at first, as Kim & Schuster split; where every occupied
# box holds one, which (its number from 1). Read as a number in base 4, Σ 4^box digit, about a seventh of all signatures
# leave the remainder 2 modulo 7. A test description's signature never occurs in training, though all its parts do.

MODULUS, REMAINDER = 7, 2


def is_held_out(signatures: np.ndarray) -> np.ndarray:
    """(B,) booleans, from signatures (B, N)."""
    weights = np.resize([1, 4, 2], signatures.shape[1])  # 4^box modulo 7
    return signatures @ weights % MODULUS == REMAINDER


def signatures_of_tokens(tokens: np.ndarray, boxes: int, which: bool) -> np.ndarray:
    """(B, N) signatures from tokens (B, T): an object of the description belongs to the next box named after it.

    With `which` by the object instead of the count.
    """
    ended = (tokens == STOP).argmax(1)
    first = tokens[:, : int(ended.max(initial=0))]
    first = np.where(np.arange(first.shape[1]) < ended[:, None], first, 0) - len(GLUE)
    letter = (first >= 0) & (first < boxes)
    clause = letter.cumsum(1) - letter
    box = np.zeros((len(tokens), first.shape[1] + 1), dtype=np.int64)
    row, at = np.nonzero(letter)
    box[row, clause[row, at]] = first[row, at]
    row, at = np.nonzero(first >= boxes)
    weights = first[row, at] - boxes + 1 if which else np.ones(len(row))
    sums = np.bincount(row * boxes + box[row, clause[row, at]], weights, len(tokens) * boxes)
    return sums.astype(np.int64).reshape(-1, boxes)


class Boxes(Task):
    """A description, `length` operations, then the answer. Each token of the answer is the target of the one before it.

    Form "default" asks for all boxes; "advanced" too, with half of them occupied at all times and moves of whole boxes
    only; "original" asks for one box, always names what moves, and was published with 12 operations. Boxes have
    letters in every form.

    >>> from lengthwise import tasks
    >>> task = tasks.get("boxes", form="advanced", boxes=4, objects=20)
    >>> batch = task.sample(2, 1, torch.Generator().manual_seed(3))
    >>> prompt, answer = task.parts(batch.tokens[0])
    >>> prompt
    'The chain is in Box A, the ball is in Box C. Move the contents of Box C to Box B. Put the chalk into Box B.'
    >>> answer
    'Box A contains the chain, Box B contains the ball and the chalk.'
    """

    unit = "operations"

    def __init__(
        self,
        form: Annotated[FormName, "Which description, operations and question the stories have."] = "default",
        boxes: Annotated[
            int | None,
            at_least(2, at_most=len(LETTERS)),
            "How many boxes there are; None: as many as the form was published with.",
        ] = None,
        objects: Annotated[int, at_least(1, at_most=len(OBJECTS)), "How many different objects there are."] = 100,
    ):
        self.name = "boxes"
        self.form, self.boxes, self.objects = checked_sizes(self.name, form, boxes, objects)
        self.params = {"form": form, "boxes": self.boxes, "objects": self.objects}
        self.vocabulary = (*GLUE, *LETTERS[: self.boxes], *OBJECTS[: self.objects])
        self.outputs = len(self.vocabulary)
        self.supervision, self.scoring, self.padding = "prefix", "every", PAD
        self.known = {word: i for i, word in enumerate(self.vocabulary)}
        self.sampler = StorySampler(self.form, self.boxes, self.objects)

    def draw(self, length: int, batch: int, generator: torch.Generator, held: bool | None = None) -> Tensor:
        """Stories with their answers: those held out, those not held out, or (None) both.

        A description of the wrong side is drawn again before the story goes on. That is cheaper than drawing the whole
        story again, and gives the same distribution.
        """
        rng = np.random.default_rng(int(torch.randint(2**63 - 1, (), generator=generator)))
        side = None if held is None else partial(self._on_side, held)
        return torch.from_numpy(self.sampler(length, batch, rng, side))

    def _on_side(self, held: bool, where: np.ndarray) -> np.ndarray:
        return is_held_out(self.sampler.sizes(where, numbered=self.form.half)[:, : self.boxes]) == held

    def held_out(self, tokens: Tensor) -> Tensor:
        """By the description: the number of objects in each box, or in the advanced form which object is in which."""
        return torch.from_numpy(is_held_out(signatures_of_tokens(tokens.cpu().numpy(), self.boxes, self.form.half)))

    def sample(self, length: int, batch: int, generator: torch.Generator) -> Batch:
        self.check_size(length, batch)
        return self.label(self.draw(length, batch, generator, held=False))

    def test_blocks(self, length: int, count: int, seed: int = 0) -> Iterator[Tensor]:
        for i in range((count + TEST_BLOCK - 1) // TEST_BLOCK):
            seeds = seeded("test", self.name, self.params, int(length), seed, i)
            yield self.draw(length, TEST_BLOCK, seeds, held=True)[: count - i * TEST_BLOCK]

    def label(self, tokens: Tensor) -> Batch:
        """The strings with their targets, which are the next tokens. A test holds that `answer` finds the same."""
        return Batch(tokens, F.pad(tokens[:, 1:], (0, 1), value=PAD), self.asked(tokens))

    def asked(self, tokens: Tensor) -> Tensor:
        following = torch.arange(1, tokens.shape[1] + 1, device=tokens.device)
        there = F.pad(tokens[:, 1:] != PAD, (0, 1))
        return there & (following >= self.answer_starts(tokens)[:, None])

    def answer_starts(self, tokens: Tensor) -> Tensor:
        """(B,) where the answer begins, or would: at the "Box" that begins a sentence, or behind "Box X contains"."""
        plain = tokens.cpu().numpy()  # numpy counts and searches booleans several times faster than torch
        begins = np.zeros(plain.shape, dtype=bool)
        np.logical_and(plain[:, 1:] == GLUE_ID["Box"], plain[:, :-1] == STOP, out=begins[:, 1:])
        end = np.count_nonzero(plain != PAD, 1)
        start = begins.argmax(1) + (3 if self.form.query else 0)
        return torch.from_numpy(np.where(begins.any(1), np.minimum(start, end), end)).to(tokens.device)

    def answer(self, tokens: Tensor) -> Tensor:
        """The right answer's tokens from reading the prompt and carrying it out; PAD at the other places."""
        targets = torch.full_like(tokens, PAD)
        for row, start, story in zip(targets, self.answer_starts(tokens).tolist(), self.stories(tokens), strict=True):
            right = torch.tensor(self.tokenize(story.answer()), device=tokens.device)
            room = row[start - 1 :]
            room[: len(right)] = right[: len(room)]
        return targets

    def stories(self, tokens: Tensor) -> list[Story]:
        """Every row's prompt, read and carried out. What follows the prompt is ignored."""
        return [solve(self.parts(row)[0], self.form.name) for row in tokens]

    def write(self, tokens: Tensor | Sequence[int]) -> str:
        """One story as text, as the paper prints it."""
        plain = tokens.tolist() if isinstance(tokens, Tensor) else tokens
        return join_words(self.vocabulary[t] for t in plain if t != PAD)

    def parts(self, tokens: Tensor) -> tuple[str, str]:
        """One story's prompt and answer as text."""
        start = int(self.answer_starts(tokens[None])[0])
        return self.write(tokens[:start]), self.write(tokens[start:])

    def tokenize(self, text: str) -> list[int]:
        """The tokens of a text; `write` gives it back."""
        try:
            return [self.known[word] for word in re.findall(r"[^\s.,]+|[.,]", text)]
        except KeyError as unknown:
            raise Error(
                f"boxes: every word must be in the vocabulary, got {unknown.args[0]!r}. "
                "Use the words of `task.vocabulary`; more boxes or objects have more."
            ) from None

    def baseline(self, length: int) -> float:
        """The share of the best constant answer, exact but for how often boxes have which sizes: see `best_share`.

        Those frequencies are counted in 16,384 stories with a fixed seed, held out or not. The share is about zero
        where the answer covers all boxes, because a constant answer must then name objects. One box is often empty.
        """
        self.check(length)
        return constant_answer_share(self.form, self.boxes, self.objects, length)
