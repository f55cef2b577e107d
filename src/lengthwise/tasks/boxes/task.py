"""Boxes: objects are put into boxes, moved and removed; at the end, say what is where (Kim & Schuster 2023).

Shapes: B batch, T tokens, N boxes, M objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import Error
from ...seeds import generator as seeded
from ..base import TEST_BLOCK, Batch, Task
from . import split
from .constant import best_share
from .forms import Form, checked
from .judging import Judgement, judge
from .reading import Story, solve
from .sampler import Sampler
from .wording import spell
from .words import GLUE_ID, LETTERS, PAD, STOP, join, numbers, vocabulary

STORIES = 16_384
"""How many stories the baseline is estimated from."""


class Boxes(Task):
    """A description, `length` operations, then the answer: every token of the answer is asked of the token before it.

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

    def __init__(self, form: str = "default", boxes: int | None = None, objects: int = 100):
        self.name = "boxes"
        self.form, self.boxes, self.objects = checked(self.name, form, boxes, objects)
        self.params = {"form": form, "boxes": self.boxes, "objects": self.objects}
        self.vocabulary = vocabulary(self.boxes, self.objects)
        self.outputs = len(self.vocabulary)
        self.supervision, self.judged, self.padding = "prefix", "every", PAD
        self.known = {word: i for i, word in enumerate(self.vocabulary)}
        self.sampler = Sampler(self.form, self.boxes, self.objects)

    def draw(self, length: int, batch: int, generator: torch.Generator, held: bool | None = None) -> Tensor:
        """Stories with their answers; of one side only, if `held` says which: a description of the other side is drawn
        again before the story goes on, which is the same distribution as drawing the whole story again, and cheaper.
        """
        rng = np.random.default_rng(int(torch.randint(2**63 - 1, (), generator=generator)))
        side = None if held is None else partial(self._on_side, held)
        return torch.from_numpy(spell(self.sampler(length, batch, rng, side), self.boxes))

    def _on_side(self, held: bool, where: np.ndarray) -> np.ndarray:
        return split.held(split.of_places(where, self.boxes, self.form.half)) == held

    def held_out(self, tokens: Tensor) -> Tensor:
        """By the description: the number of objects in each box, or in the advanced form which object is in which."""
        return torch.from_numpy(split.held(split.of_tokens(tokens.cpu().numpy(), self.boxes, self.form.half)))

    def sample(self, length: int, batch: int, generator: torch.Generator) -> Batch:
        self.check(length)
        if batch < 1:
            raise Error(f"{self.name}: batch must be at least 1, got {batch}.")
        return self.label(self.draw(length, batch, generator, held=False))

    def test_set(self, length: int, count: int, seed: int = 0) -> Batch:
        self.check(length)
        blocks = [
            self.draw(length, TEST_BLOCK, seeded("test", self.name, self.params, length, seed, i), held=True)
            for i in range((count + TEST_BLOCK - 1) // TEST_BLOCK)
        ]
        return self.label(self.join([self.join(blocks)[:count]]))

    def label(self, tokens: Tensor) -> Batch:
        """Targets are the next tokens; that they are what `answer` finds is a law the tests hold it to."""
        return Batch(tokens, F.pad(tokens[:, 1:], (0, 1), value=PAD), self.asked(tokens))

    def asked(self, tokens: Tensor) -> Tensor:
        following = torch.arange(1, tokens.shape[1] + 1, device=tokens.device)
        there = F.pad(tokens[:, 1:] != PAD, (0, 1))
        return there & (following >= self.answer_starts(tokens)[:, None])

    def answer_starts(self, tokens: Tensor) -> Tensor:
        """(B,) where the answer begins, or would: at the "Box" that begins a sentence, or behind "Box X contains"."""
        begins = F.pad((tokens[:, 1:] == GLUE_ID["Box"]) & (tokens[:, :-1] == STOP), (1, 0))
        end = (tokens != PAD).sum(1)
        found = begins.int().argmax(1) + (3 if self.form.query else 0)
        return torch.where(begins.any(1), torch.minimum(found, end), end)

    def answer(self, tokens: Tensor) -> Tensor:
        """The right answer's tokens from reading the prompt and carrying it out; PAD at the other places."""
        targets = torch.full_like(tokens, PAD)
        for row, start, story in zip(targets, self.answer_starts(tokens).tolist(), self.stories(tokens), strict=True):
            right = torch.tensor(self.tokenize(story.answer()), device=tokens.device)
            room = row[start - 1 :]
            room[: len(right)] = right[: len(room)]
        return targets

    def stories(self, tokens: Tensor) -> list[Story]:
        """Every row's prompt, read and carried out; what follows the prompt is not looked at."""
        return [solve(self.parts(row)[0], self.form.name) for row in tokens]

    def answers(self, tokens: Tensor, predicted: Tensor) -> Tensor:
        """(B, longest answer) what `predicted` (B, T) says at the asked places, moved to the left: `judge` takes it."""
        asked = self.asked(tokens)
        first = (~asked).int().argsort(dim=1, stable=True)[:, : int(asked.sum(1).max())]
        return predicted.masked_fill(~asked, PAD).gather(1, first)

    def judge(self, tokens: Tensor, answers: Tensor) -> Judgement:
        """Answers (B, any number of tokens) to the prompts of `tokens`; what follows an answer's full stop is ignored.

        >>> from lengthwise import tasks
        >>> task = tasks.get("boxes", boxes=2, objects=7)
        >>> tokens = torch.tensor([task.tokenize(
        ...     "The bell is in Box A, there is nothing in Box B. Move the contents of Box A to Box B.")])
        >>> found = task.judge(tokens, torch.tensor([task.tokenize("Box A is empty, Box B contains the bag.")]))
        >>> found.exact.tolist(), found.right.tolist(), found.touched.tolist(), found.depth.tolist()
        ([False], [[True, False]], [[1, 1]], [1])
        """
        return judge(self.stories(tokens), map(self._said, answers.tolist()), LETTERS[: self.boxes])

    def _said(self, answer: list[int]) -> str:
        """An answer as text, up to its full stop, or else its last word; a <pad> within is a word, and a wrong one."""
        last = answer.index(STOP) if STOP in answer else max((i for i, t in enumerate(answer) if t != PAD), default=-1)
        return join([self.vocabulary[t] for t in answer[: last + 1]])

    def write(self, tokens: Tensor | Sequence[int]) -> str:
        """One story as text, as the paper prints it."""
        plain = tokens.tolist() if isinstance(tokens, Tensor) else tokens
        return join([self.vocabulary[t] for t in plain if t != PAD])

    def parts(self, tokens: Tensor) -> tuple[str, str]:
        """One story's prompt and answer as text."""
        start = int(self.answer_starts(tokens[None])[0])
        return self.write(tokens[:start]), self.write(tokens[start:])

    def tokenize(self, text: str) -> list[int]:
        """The tokens of a text; `write` gives it back."""
        return numbers(text, self.known)

    def baseline(self, length: int) -> float:
        """The share of the best constant answer, exact but for the sizes of the boxes: see `constant`.

        How often boxes end with which sizes is counted in 16,384 stories with a fixed seed, held out or not. The share
        is about zero when all boxes are asked, for then a constant answer must name objects; one box is often empty.
        """
        self.check(length)
        return baseline(self.form, self.boxes, self.objects, length)


@lru_cache
def baseline(form: Form, boxes: int, objects: int, length: int) -> float:
    sampler = Sampler(form, boxes, objects)
    sizes = sampler.sizes(sampler.end(length, STORIES, np.random.default_rng(0)))[:, :boxes]
    sizes = sizes[:, :1] if form.query else np.sort(sizes, 1)
    return best_share(map(tuple, sizes.tolist()), objects)
