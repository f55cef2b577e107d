"""What a training step makes small: the loss of a task's strings, or of every next token of a text.

An objective reads a batch in parts, each of which the memory holds; their losses add up to the batch's, and so do
their gradients. It also measures the validation batches, by which the best weights are chosen.

Shapes: B strings or blocks, T tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import Error, NonFiniteError
from ..models import TokenClassifier
from ..models.cache import LengthwiseCache
from ..models.token_classifier import PresetClassifier
from ..seeds import generator
from ..tasks.base import Batch, Task
from ..text import packing
from .counting import count_right, one_place, precision
from .scoring import asked, logits, loss, narrow, right
from .settings import Steadiness
from .spans import Spans
from .state import TrainState
from .steady import SURE, Silencing, Steadied, penalty, steadied_parts, with_noise

IGNORED = -100
"""The label of a token that nobody asks for."""
SAMPLED = 40
"""Tokens that a sample has beyond its prompt."""

Tensors = tuple[Tensor, ...]
Measure = Callable[..., tuple[Tensor, Tensor]]
"""From (forward, *tensors of a part) to its loss and the share that is right, both of no dimension.

`forward` calls the model, with its parameters or with others. Nothing in it depends on the data's values, so that it
can be mapped over a population; but steady training, which is not mapped, may silence entries of the model in it.
"""


class Objective:
    """The base of all objectives."""

    logs_first_step = True
    """Whether the loss of the first step is logged: where nothing is validated, it says where training began."""
    has_accuracy = False
    """Whether the share that is right means anything."""
    kind: Hashable = None
    """What `measure` last looked up in the values of its batches: where that is equal, it makes the same function."""

    def prepare(self, state: TrainState, stacked: bool) -> None:
        """Set the model up for training, in which it is already."""

    def parts(self, batch: Any) -> Sequence[Tensors]:
        """The batch in parts; a part is a tuple of tensors on the CPU."""
        raise NotImplementedError

    def split(self, batch: Any, rank: int, ranks: int) -> tuple[Any, float]:
        """The rows of a batch that one of several processes takes, and the share of their loss in the batch's."""
        raise NotImplementedError

    def align(self, batches: Sequence[Any]) -> Sequence[Tensors]:
        """The batches of a population, padded to one shape."""
        raise NotImplementedError

    def measure(self, batches: Sequence[Any]) -> Measure:
        """Returns the function that measures a part of these batches."""
        raise NotImplementedError

    def validate(self, state: TrainState, batches: Sequence[Any]) -> tuple[float, float]:
        """Accuracy and mean loss, with the model in evaluation mode."""
        raise NotImplementedError

    def tokens_per_second(self, state: TrainState) -> float | None:
        """Returns how fast the model was trained so far; None if rows are of many lengths."""

    def sample(self, state: TrainState) -> str | None:
        """Something that the model writes by itself; None where it writes nothing."""


class StringObjective(Objective):
    """The answers that a task asks of each string."""

    logs_first_step = False
    has_accuracy = True

    def __init__(self, task: Task, share: int = 1, steady: Steadiness | None = None, spans: bool = False):
        self.task = task
        self.share = share
        """How many processes share the machine's memory."""
        self.steady = steady if steady and steady.kind == "on" else None
        """How what the model remembers is made steady; None: it is not."""
        self._parts: list[Steadied] = []
        self._silencing: Silencing | None = None
        self.asks_spans = spans
        self._spans: Spans | None = None

    def prepare(self, state: TrainState, stacked: bool) -> None:
        """Compute equal tokens once, where the model can."""
        if self.steady:
            self._parts = steadied_parts(state.model)
            self._silencing = Silencing(self._parts, state) if self.steady.silence else None
        if self.asks_spans:
            self._spans = Spans(state.model, self.task, state.training.curriculum.lengths[1])
        if isinstance(state.model, TokenClassifier) and state.model.reuse_refusal(stacked=stacked) is None:
            state.model.reuse_equal_tokens(stacked=stacked)

    def parts(self, batch: Batch) -> Sequence[Tensors]:
        return (batch,)

    def split(self, batch: Batch, rank: int, ranks: int) -> tuple[Batch, float]:
        if self.steady or self.asks_spans:
            name = "steady" if self.steady else "spans"
            raise Error(f"training.{name} is for a training in one process. Leave the strategy out.")
        own = Batch(*(tensor.chunk(ranks)[rank] for tensor in batch))
        # The loss is a mean over the places that are asked, and strings may be asked unequally much.
        return own, int(asked(own, self.task).sum()) / int(asked(batch, self.task).sum())

    def align(self, batches: Sequence[Batch]) -> Sequence[Tensors]:
        return self.task.align(batches)

    def measure(self, batches: Sequence[Batch]) -> Measure:
        task = self.task
        at_the_end = self._spans is not None or task.supervision == "last"
        last = self.kind = at_the_end and all(one_place(task, batch) for batch in batches)

        def surely_right(answers: Tensor, questions: Batch) -> bool:
            sure = float(loss(answers, questions, task)) <= SURE
            return sure and bool(right(answers, questions, task, "every").all())

        def measure(forward: Callable[..., Tensor], *tensors: Tensor) -> tuple[Tensor, Tensor]:
            batch = Batch(*tensors)
            if self._spans:
                batch = self._spans.drawn(batch)
            questions = narrow(batch, last)
            length, to = batch.tokens.shape[1], self.steady
            if self._silencing and not last:
                self._silencing.try_one(length, lambda: surely_right(logits(forward, batch, last), questions))
            noise = with_noise(self._parts, to.noise, to.forget, to.leave_out) if to else nullcontext()
            with noise, self._spans.noted() if self._spans else nullcontext():
                answers = logits(forward, batch, last)
                cost = self._spans.loss(batch.tokens) if self._spans else loss(answers, questions, task)
            score = right(answers, questions, task).to(answers.dtype).mean()
            if self.steady:
                cost = cost + penalty(self._parts, self.steady, float(score))
            return cost, score

        return measure

    def validate(self, state: TrainState, batches: Sequence[Batch]) -> tuple[float, float]:
        correct, total, weighted = 0, 0, 0.0
        for batch in batches:
            strings, length = batch.tokens.shape
            counted = count_right(
                state.model,
                self.task,
                batch,
                device=state.device,
                autocast=state.training.precision,
                share=self.share,
                strict=True,
            )
            # In a test such strings are wrong; here they would choose the best checkpoint by a loss that is none.
            if counted.overflowed:
                raise NonFiniteError(
                    f"The model's logits are not finite at length {length} of {self.task.name}. "
                    "Its weights or activations overflowed: lower training.lr."
                )
            correct, total = correct + counted.right, total + strings
            weighted += counted.loss * strings
        return correct / total, weighted / total


class NextToken(Objective):
    """Every token of a block but the first, given those before it, by a causal language model.

    With `state_passing` (Buitrago and Gu 2025) a recurrent model begins each block of a batch in the state that the
    blocks before it have left, the last ones being before the first. They are read with the weights of this step and
    without gradient, so that a batch stays a function of seed and step, and no checkpoint holds a state.
    """

    def __init__(
        self, tokens_at_once: int = 4096, tokenizer: Any = None, prompt: Tensor | None = None, state_passing: int = 0
    ):
        self.tokens_at_once, self.state_passing = tokens_at_once, state_passing
        """About how many tokens of a batch are read in one part."""
        self.tokenizer, self.prompt = tokenizer, prompt
        """With which samples are read and begun, if there are to be some."""

    def prepare(self, state: TrainState, stacked: bool) -> None:
        if self.state_passing:
            check_state_passing(state.model, self.state_passing, state.training.batch)

    def parts(self, batch: Tensor) -> Sequence[Tensors]:
        every = (packing.parts(rows, self.tokens_at_once) for rows in self._behind_others(batch))
        return list(zip(*every, strict=True))

    def _behind_others(self, batch: Tensor) -> Tensors:
        """The blocks, and those that are read before each of them, the last one last."""
        return (batch, *(batch.roll(n, 0) for n in range(self.state_passing, 0, -1)))

    def split(self, batch: Tensor, rank: int, ranks: int) -> tuple[Tensor, float]:
        if self.state_passing:
            raise Error("objective.state_passing is for a training in one process. Leave the strategy out.")
        return batch.chunk(ranks)[rank], 1 / ranks

    def align(self, batches: Sequence[Tensor]) -> Sequence[Tensors]:
        return [self._behind_others(batch) for batch in batches]

    def measure(self, batches: Sequence[Tensor]) -> Measure:
        predicted = batches[0][:, 1:].numel()

        def measure(forward: Callable[..., Tensor], blocks: Tensor, *others: Tensor) -> tuple[Tensor, Tensor]:
            past = {"past": LengthwiseCache()} if others else {}
            with torch.no_grad():
                for other in others:
                    forward(other, last=True, **past)
            share = negative_log_likelihood(forward(blocks, **past), blocks) / predicted
            # No text is right or wrong: nothing is learned from its accuracy.
            return share, share.detach().new_zeros(())

        return measure

    def validate(self, state: TrainState, batches: Sequence[Tensor]) -> tuple[float, float]:
        loss = math.fsum(
            summed_loss(
                state.model,
                ((rows, rows) for rows in packing.parts(blocks, self.tokens_at_once)),
                device=state.device,
                autocast=state.training.precision,
            )
            for blocks in batches
        ) / sum(blocks[:, 1:].numel() for blocks in batches)
        return 0.0, finite(loss, state)

    def tokens_per_second(self, state: TrainState) -> float | None:
        if not state.train_seconds:
            return None
        return round(state.step * state.training.batch * state.curriculum.length(0) / state.train_seconds, 1)

    @torch.no_grad()
    def sample(self, state: TrainState) -> str | None:
        """The prompt and what the model makes of it: a function of (seed, step), drawn as likely as the model says.

        The model reads no more tokens at once than in training: its positions may end there.
        """
        if self.tokenizer is None or self.prompt is None:
            return None
        tokens, most = self.prompt.long()[None], state.curriculum.length(0)
        draw = generator("sample", state.seed, state.step)
        for _ in range(SAMPLED):
            with precision(state.training.precision, state.device):
                logits = state.model(tokens[:, -most:].to(state.device), last=True)[0, -1]
            drawn = torch.multinomial(logits.float().softmax(-1).cpu(), 1, generator=draw)
            tokens = torch.cat([tokens, drawn[None]], 1)
        return self.tokenizer.decode(tokens[0].tolist())


def check_state_passing(model: nn.Module, blocks: int, batch: int) -> None:
    """Raises if a model has no state of a fixed size, or a batch no `blocks` others to take it from."""
    rule, inner = "objective.state_passing", getattr(model, "inner", None)
    if not isinstance(model, PresetClassifier):
        raise Error(f"{rule}: {type(inner).__name__} hands out no state. Name a recurrent preset, such as block-lrnn.")
    if keys := sorted({type(mixer).__name__ for mixer in model.inner.mixers() if mixer.traits.keeps_keys}):
        raise Error(
            f"{rule} is for models whose state has a fixed size, and {', '.join(keys)} keeps the keys of all tokens. "
            "Name a recurrent model, such as block-lrnn, or leave it out."
        )
    if model.inner.uncached:
        raise Error(f"{rule}: {model.inner.uncached}")
    if blocks >= batch:
        raise Error(f"{rule}={blocks} needs more windows in a batch than that, got training.batch={batch}.")


def finite(loss: float, state: TrainState) -> float:
    """The loss of a validation; raises where it is NaN or infinite."""
    if not math.isfinite(loss):
        raise NonFiniteError(
            f"The loss on the validation text is not finite ({loss}) at step {state.step}. Lower training.lr."
        )
    return loss


@torch.no_grad()
def summed_loss(
    model: Callable[[Tensor], Tensor],
    parts: Iterable[tuple[Tensor, Tensor]],
    *,
    device: torch.device,
    autocast: str,
    before: Callable[[], None] | None = None,
) -> float:
    """-log p of the labels of these parts, tokens and labels (B, T), summed; `before` each part is called."""
    total = 0.0
    for tokens, labels in parts:
        if before:
            before()
        with precision(autocast, device):
            logits = model(tokens.to(device).long())
        total += negative_log_likelihood(logits, labels.to(device).long()).item()
    return total


def negative_log_likelihood(logits: Tensor, labels: Tensor) -> Tensor:
    """-log p of labels (B, T), each given all tokens before it, summed over all but each row's first and `IGNORED`."""
    predicted, labels = logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    return F.cross_entropy(predicted.float(), labels, ignore_index=IGNORED, reduction="sum")
