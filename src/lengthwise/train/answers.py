"""Training on answers: prompts with what shall be written behind them, of which the answers' tokens alone are learned.

    loss of a batch = mean of -log p(token | all before it) over the tokens of all its answers

Shapes: B prompts with answers, T tokens of the longest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..text import packing
from ..text.prompts import AnsweredPrompt
from .objectives import IGNORED, Measure, Objective, Tensors, finite, negative_log_likelihood, summed_loss
from .settings import Training
from .state import TrainState


class AnswerBatch(NamedTuple):
    tokens: Tensor
    """(B, T), each row padded on its right, which no causal model sees."""
    labels: Tensor
    """(B, T) the tokens of the answers, and `IGNORED` elsewhere."""

    @classmethod
    def of(cls, rows: Sequence[AnsweredPrompt]) -> AnswerBatch:
        tokens = [row.tokens.long() for row in rows]
        labels = [torch.cat([torch.full((row.start,), IGNORED), row.tokens[row.start :].long()]) for row in rows]
        pad = torch.nn.utils.rnn.pad_sequence
        return cls(pad(tokens, batch_first=True), pad(labels, batch_first=True, padding_value=IGNORED))


class PromptsAndAnswers:
    """Prompts with their answers, every one once an epoch; those of other rows are validated on."""

    def __init__(
        self, train: Sequence[AnsweredPrompt], training: Training, window: int, held_out: Sequence[AnsweredPrompt] = ()
    ):
        self.train, self.training, self.held_out = train, training, held_out
        self.lengths = [window]

    def batch(self, seed: int, step: int, length: int) -> AnswerBatch:
        return AnswerBatch.of([self.train[i] for i in packing.drawn(len(self.train), step, self.training.batch, seed)])

    def validation(self, seed: int) -> list[AnswerBatch]:
        return [AnswerBatch.of([row]) for row in self.held_out]


class AnswerTokens(Objective):
    """Every token of an answer, given its prompt and those before it; of a batch the mean over all of them.

    A part is tokens (B, T), labels (B, T), and the share of one token in the loss of its batch.
    """

    def __init__(self, tokens_at_once: int = 8192):
        self.tokens_at_once = tokens_at_once
        """About how many tokens of a batch are read in one part."""

    def parts(self, batch: AnswerBatch) -> Sequence[Tensors]:
        share = 1 / (batch.labels != IGNORED).sum()
        return [(*part, share) for part in parts(batch, self.tokens_at_once)]

    def split(self, batch: AnswerBatch, rank: int, ranks: int) -> tuple[AnswerBatch, float]:
        own = AnswerBatch(*(tensor.chunk(ranks)[rank] for tensor in batch))
        return own, int((own.labels != IGNORED).sum()) / int((batch.labels != IGNORED).sum())

    def align(self, batches: Sequence[AnswerBatch]) -> Sequence[Tensors]:
        T = max(batch.tokens.shape[1] for batch in batches)
        return [
            (
                F.pad(tokens, (0, T - tokens.shape[1])),
                F.pad(labels, (0, T - labels.shape[1]), value=IGNORED),
                1 / (labels != IGNORED).sum(),
            )
            for tokens, labels in batches
        ]

    def measure(self, batches: Sequence[AnswerBatch]) -> Measure:
        def measure(
            forward: Callable[..., Tensor], tokens: Tensor, labels: Tensor, share: Tensor
        ) -> tuple[Tensor, Tensor]:
            loss = negative_log_likelihood(forward(tokens), labels) * share
            return loss, loss.detach().new_zeros(())

        return measure

    def validate(self, state: TrainState, batches: Sequence[AnswerBatch]) -> tuple[float, float]:
        autocast = state.training.precision
        loss, predicted = total_loss(state.model, batches, self.tokens_at_once, device=state.device, autocast=autocast)
        return 0.0, finite(loss / predicted, state)


def total_loss(
    model: Callable[[Tensor], Tensor], batches: Sequence[AnswerBatch], tokens_at_once: int, **reading: Any
) -> tuple[float, int]:
    """-log p summed over the tokens of all answers, and how many they are; `reading` is what `summed_loss` takes."""
    total = summed_loss(model, (part for batch in batches for part in parts(batch, tokens_at_once)), **reading)
    return total, sum(int((batch.labels != IGNORED).sum()) for batch in batches)


def parts(batch: AnswerBatch, tokens_at_once: int) -> list[AnswerBatch]:
    """The batch in parts of about so many tokens, each of at least one row and as long as its longest."""
    rows = max(1, tokens_at_once // batch.tokens.shape[1])
    split = zip(batch.tokens.split(rows), batch.labels.split(rows), strict=True)
    longest = [(tokens, labels, int((labels != IGNORED).nonzero()[:, 1].max()) + 1) for tokens, labels in split]
    return [AnswerBatch(tokens[:, :T], labels[:, :T]) for tokens, labels, T in longest]
