"""What a model answers to a story of Boxes when it goes on by itself, and how much of that is right.

The lab scores with the right answer before the model's eyes (teacher-forced). For whole answers that is the same: all
of it is right there exactly when greedy decoding gives it. For single boxes only the model's own answer can tell.

Shapes: B strings, n tokens of the longest answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from ...errors import Error
from ...models import LengthwiseForCausalLM, TokenClassifier
from ...tasks.boxes import Boxes, StoryScores, layers_needed
from ...tasks.boxes.vocabulary import PAD, STOP
from ...train.counting import batch_size, memory_free
from ..probing import listening


def generate_answers(classifier: TokenClassifier, task: Boxes, tokens: Tensor) -> Tensor:
    """(B, n) greedy answers, on the CPU, to the prompts of `tokens` (B, T); what follows those is not looked at.

    An answer ends with its full stop; one that is longer than the longest right answer of its batch is cut there.

    >>> from lengthwise import models, tasks
    >>> task = tasks.get("boxes", boxes=2, objects=7)
    >>> classifier = models.build("chacal", vocab_size=task.outputs, num_outputs=task.outputs, width=8, heads=2)
    >>> tokens = torch.tensor([task.tokenize("The bag is in Box A, there is nothing in Box B.")])
    >>> generate_answers(classifier, task, tokens).shape[1] <= 11  # Box A contains the bag, Box B is empty.
    True
    """
    inner = classifier.inner
    if not isinstance(inner, LengthwiseForCausalLM) or inner.config.outputs != len(task.vocabulary):
        raise Error(
            f"{classifier.name}: to answer by itself a model must have `generate` and the task's words as its outputs, "
            f"got a {type(inner).__name__}. Use a model of this library, trained on {task.name}."
        )
    answers = []
    with listening(classifier), torch.no_grad():
        size = batch_size(tokens.shape[1], len(tokens), memory_free(next(inner.parameters()).device))
        for rows in tokens.split(size):
            answers += _greedy(inner, task, rows).unbind()
    return torch.nn.utils.rnn.pad_sequence(answers, batch_first=True, padding_value=PAD)


def _greedy(model: LengthwiseForCausalLM, task: Boxes, tokens: Tensor) -> Tensor:
    """One batch, its prompts padded on the left; every token is decoded with the cache."""
    starts = task.answer_starts(tokens)
    T, device = int(starts.max()), next(model.parameters()).device
    source = torch.arange(T, device=tokens.device) - (T - starts)[:, None]
    prompts = tokens.gather(1, source.clamp(min=0)).masked_fill(source < 0, PAD)
    longest = max(len(task.tokenize(story.answer())) for story in task.stories(tokens))
    made = cast(Any, model).generate(
        inputs=prompts.to(device),
        attention_mask=(source >= 0).long().to(device),
        do_sample=False,
        num_beams=1,
        max_new_tokens=longest,
        eos_token_id=STOP,
        pad_token_id=PAD,
    )
    return made[:, T:].cpu()


@dataclass(frozen=True)
class Score:
    right: int
    asked: int

    @property
    def share(self) -> float:
        return self.right / self.asked


@dataclass(frozen=True)
class AnswerScores:
    """Counts, so that those of several seeds or lengths can be added."""

    exact: Score
    """Whole answers."""
    boxes: Score
    """Boxes with their right contents."""
    touched: dict[int, Score]
    """The same by how many operations touched the box."""
    depths: dict[int, Score]
    """Whole answers by the depth of the story's graph."""

    @property
    def layers(self) -> dict[int, Score]:
        """Whole answers by the layers that Theorem 1 says the story needs."""
        return _sums((layers_needed(depth), score) for depth, score in self.depths.items())

    def to_json(self) -> dict[str, Any]:
        def plain(score: Score) -> list[float]:
            return [score.right, score.asked]

        return {
            "exact": plain(self.exact),
            "boxes": plain(self.boxes),
            "touched": {str(n): plain(score) for n, score in self.touched.items()},
            "depths": {str(n): plain(score) for n, score in self.depths.items()},
            "layers": {str(n): plain(score) for n, score in self.layers.items()},
        }


def score_answers(classifier: TokenClassifier, task: Boxes, length: int, strings: int, seed: int = 0) -> AnswerScores:
    """Counts how many of the answers to the first `strings` test stories of `length` operations are right."""
    tokens = task.test_set(length, strings, seed).tokens
    return count_answers(task.score_answers(tokens, generate_answers(classifier, task, tokens)))


def count_answers(judgement: StoryScores) -> AnswerScores:
    boxes = [
        (touched, Score(int(right), 1))
        for row in zip(judgement.touched.tolist(), judgement.right.tolist(), judgement.asked.tolist(), strict=True)
        for touched, right, asked in zip(*row, strict=True)
        if asked
    ]
    exact = judgement.exact.tolist()
    return AnswerScores(
        Score(sum(exact), len(exact)),
        Score(sum(score.right for _, score in boxes), len(boxes)),
        _sums(boxes),
        _sums((depth, Score(int(right), 1)) for depth, right in zip(judgement.depth.tolist(), exact, strict=True)),
    )


def add_scores(parts: Iterable[AnswerScores]) -> AnswerScores:
    """The scores of several seeds or lengths as one."""
    parts = list(parts)
    return AnswerScores(
        _sums((0, part.exact) for part in parts)[0],
        _sums((0, part.boxes) for part in parts)[0],
        _sums(item for part in parts for item in part.touched.items()),
        _sums(item for part in parts for item in part.depths.items()),
    )


def _sums(scores: Iterable[tuple[int, Score]]) -> dict[int, Score]:
    right, total = Counter[int](), Counter[int]()
    for key, score in scores:
        right[key] += score.right
        total[key] += score.asked
    return {key: Score(right[key], total[key]) for key in sorted(total)}
