"""How well a language model predicts text it was not trained on, at each of several lengths T.

    windows:     exp( mean of -log p(token | those before it in its window) ), over all but the first token of a window
    last-token:  exp( mean of -log p(token | the T-1 before it) ), over tokens drawn from the text at random

Windows of T tokens follow one another through the text without overlap, so that all lengths are measured on the same
text, and a long window holds tokens near its beginning too (BiPE). The last token of a chunk has as much before it as
the length allows, and nearly the same tokens are drawn for every length (RegularGPT, Table 3).

Shapes: N blocks, T tokens of a block, M tokens of the text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import Error, OutOfMemory
from ..models import TokenClassifier
from ..models.token_classifier import evaluating
from ..seeds import generator
from ..text import packing
from ..train.counting import precision, ran_out
from ..train.objectives import summed_loss

Way = Literal["windows", "last-token"]
"""What is measured at a length."""


class Loss(NamedTuple):
    """The loss at one length."""

    mean: float | None
    """-log p of a token, in nats; None where it is not finite."""
    tokens: int
    """How many tokens were predicted."""

    @property
    def perplexity(self) -> float:
        """NaN where the loss is not finite; infinite where it is greater than any float."""
        if self.mean is None:
            return math.nan
        return math.exp(self.mean) if self.mean < 709 else math.inf


def losses_by_length(
    model: nn.Module,
    text: Tensor,
    lengths: Sequence[int],
    *,
    device: torch.device,
    way: Way = "windows",
    samples: int = 512,
    seed: int = 0,
    autocast: str = "fp32",
    tokens_at_once: int = 4096,
    known: Mapping[int, Loss] | None = None,
    before: Callable[[], None] | None = None,
    after: Callable[[dict[int, Loss]], None] | None = None,
) -> dict[int, Loss]:
    """Returns the losses of a text (M,) at each of these lengths but those `known`.

    `after` is called after each length with all losses so far. `samples` and `seed` are for last tokens: how
    many, and which.
    """
    check_lengths(len(text), lengths)
    reading: dict[str, Any] = {"device": device, "autocast": autocast, "tokens_at_once": tokens_at_once}
    losses = dict(known or {})
    with evaluating(model):
        for length in (n for n in lengths if n not in losses):
            with memory_for(f"a window of {length:,} tokens", "Test shorter lengths, or use a smaller model."):
                if way == "windows":
                    losses[length] = _window_loss(model, windows(text, length), before=before, **reading)
                else:
                    places = last_places(len(text), length, samples, seed)
                    losses[length] = _last_token_loss(model, text, places, length, before=before, **reading)
            if after:
                after(losses)
    return losses


@contextmanager
def memory_for(what: str, remedy: str) -> Iterator[None]:
    """Raises an `OutOfMemory` that says what there was no memory for, and what to do."""
    try:
        yield
    except (RuntimeError, OutOfMemory) as error:
        if not ran_out(error):
            raise
        raise OutOfMemory(f"There is not enough memory for {what}. {remedy}") from error


def check_lengths(tokens: int, lengths: Sequence[int]) -> None:
    """Raises unless a text of so many tokens has a window of every length."""
    if min(lengths) < 2:
        raise Error(f"A test length of text must be at least 2, a token and one to predict, got {min(lengths)}.")
    if max(lengths) > tokens:
        raise Error(
            f"The text to test on must fill a window of {max(lengths):,} tokens, the longest test length, and it has "
            f"{tokens:,}. Give more text, or test shorter lengths."
        )


def windows(text: Tensor, length: int) -> Tensor:
    """(N, T) a text (M,) cut into windows, without its last tokens that fill none.

    >>> windows(torch.arange(7), 3).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    count = len(text) // length
    return text[: count * length].view(count, length)


def last_places(tokens: int, length: int, samples: int, seed: int) -> Tensor:
    """(samples,) where the last tokens of chunks stand, drawn from a text of so many tokens.

    One sequence of draws serves every length: those with too little text before them are passed over.
    """
    draw, begins, count = generator("last-token", tokens, seed), [], 0
    while count < samples:
        places = torch.randint(tokens, (max(samples, 1024),), generator=draw)
        begins.append(places[places >= length - 1])
        count += len(begins[-1])
    return torch.cat(begins)[:samples]


def _window_loss(model: nn.Module, blocks: Tensor, *, tokens_at_once: int, **reading: Any) -> Loss:
    """Returns the loss of blocks (N, T), of which every token but the first is predicted."""
    parts = ((rows, rows) for rows in packing.parts(blocks, tokens_at_once))
    total = summed_loss(lambda tokens: logits_of(model, tokens), parts, **reading)
    return _loss(total, blocks[:, 1:].numel())


@torch.no_grad()
def _last_token_loss(
    model: nn.Module,
    text: Tensor,
    places: Tensor,
    length: int,
    *,
    device: torch.device,
    autocast: str,
    tokens_at_once: int,
    before: Callable[[], None] | None,
) -> Loss:
    """Returns the loss of the tokens of a text (M,) at these places, each predicted from the `length` - 1 before it."""
    total = 0.0
    for part in places.split(max(1, tokens_at_once // length)):
        if before:
            before()
        chunks = torch.stack([text[end - length + 1 : end + 1] for end in part.tolist()]).to(device).long()
        with precision(autocast, device):
            logits = logits_of(model, chunks[:, :-1], last=True)
        total += F.cross_entropy(logits[:, -1].float(), chunks[:, -1], reduction="sum").item()
    return _loss(total, len(places))


def logits_of(model: nn.Module, tokens: Tensor, last: bool = False) -> Tensor:
    """Returns the logits of one of our models, or of one of Hugging Face's; `last`: those of the last token will do."""
    if isinstance(model, TokenClassifier):
        return model(tokens, last=last)
    return model(input_ids=tokens, use_cache=False).logits


def _loss(total: float, tokens: int) -> Loss:
    mean = total / tokens
    return Loss(mean if math.isfinite(mean) else None, tokens)
