"""Up to which length is a language model usable?

    measure_cliff("./my-llama", "book.txt", trained=512).usable

Every token of long windows is read behind its whole window and behind the trained length alone
(`evaluate/long_context.py`). The places beyond the trained length are parted into bins, each 5% further than the one
before. The loss has fallen off the cliff in the first bin whose interval lies above 1.1 times; needles have in the
shortest prompts of which fewer are found than at the trained length, by intervals that do not meet.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from ..errors import Error
from ..evaluate import FarScores, Needle, score_far_tokens
from ..evaluate.long_context import HOLDS, losses_twice
from ..evaluate.text import Loss, check_lengths
from ..evaluate.text import windows as windows_of
from ..files import finite
from ..limits import SAMPLES
from ..models import pretrained
from ..options import at_least, checked
from .launch import Loading
from .measurements import Opened, Seen, open_model, text_of
from .statistics import student, wilson

GROWTH = 1.05
"""The end of a bin of places over that of the one before."""
TIMES = 4
"""Windows have so many times the trained length, unless another is asked for."""


@dataclass(frozen=True)
class Step:
    """The tokens from the end of the step before up to this length, and what was read of them."""

    length: int
    loss: float
    """-log p of a token behind its whole window, in nats."""
    times: float
    """The perplexity over that behind the trained length alone."""
    low: float
    high: float
    """The interval of `times` over windows, of 95% for all steps together."""


@dataclass(frozen=True)
class Cliff:
    """The length up to which a model is usable, and what was measured to say so."""

    model: str
    conversions: tuple[str, ...]
    text: str
    seen: Seen
    trained: int
    """The length that longer ones are compared with."""
    made_for: int | None
    """What its config calls max_position_embeddings."""
    places: int | None
    """How many tokens it has places for, where these stand in a table."""
    windows: int
    window: int
    precision: str
    steps: tuple[Step, ...]
    needles: FarScores | None = None

    @property
    def name(self) -> str:
        return " + ".join([self.model, *self.conversions])

    @property
    def by_loss(self) -> int:
        """The longest length before the first step that is reliably worse."""
        return _longest(self.trained, [(step.length, not step.low <= HOLDS) for step in self.steps])

    @property
    def needle_shares(self) -> dict[int, tuple[float, float, float]]:
        """By length the share of needles that were found, and its interval."""
        far = self.needles
        if far is None:
            return {}
        n = far.samples * len(far.depths)
        return {length: (share, *wilson(share * n, n)) for length, share in far.by_length.items()}

    @property
    def by_needles(self) -> int | None:
        """The longest prompts of which no fewer are found; None of a model that finds none at the trained length."""
        if self.needles is None or self.needle_shares[self.trained][1] <= self.needles.baseline:
            return None
        least = self.needle_shares[self.trained][1]
        return _longest(self.trained, [(length, high < least) for length, (_, _, high) in self.needle_shares.items()])

    @property
    def usable(self) -> int:
        """The most tokens that it is usable with."""
        return min(self.by_loss, self.by_needles or self.by_loss)

    @property
    def limit(self) -> Literal["loss", "needles", "places", "tested"]:
        """The first thing to end: its predictions, what it finds, its table of places, or the test."""
        if self.usable < self.window:
            return "loss" if self.by_loss == self.usable else "needles"
        return "places" if self.places == self.window else "tested"

    def to_json(self) -> dict[str, Any]:
        needles = self.needles and {
            **self.needles.to_json(),
            "intervals": {str(length): list(share[1:]) for length, share in self.needle_shares.items()},
        }
        own = {"stride": self.trained // 2, "holds": HOLDS, "by_loss": self.by_loss, "by_needles": self.by_needles}
        steps = [finite(asdict(step)) for step in self.steps]
        return {"usable": self.usable, "limit": self.limit, **asdict(self), **own, "steps": steps, "needles": needles}


@checked
def measure_cliff(
    model: str | Path,
    corpus: str | Path | Sequence[str | Path] = (),
    *,
    trained: Annotated[
        int | None, at_least(4), "The length that longer ones are compared with; None: the trained one."
    ] = None,
    up_to: Annotated[int | None, at_least(4), "The longest length; None: four times the trained one."] = None,
    windows: Annotated[int, at_least(2, at_most=SAMPLES), "At most so many windows of the longest length."] = 16,
    needles: Annotated[int, at_least(0, at_most=SAMPLES), "Prompts of each length and depth; 0: none."] = 10,
    seed: Annotated[int, "Another one draws other prompts."] = 0,
    store: str | Path = "runs/text",
    after: Callable[[str], None] | None = None,
    **loading: Any,
) -> Cliff:
    """Returns up to which length a run's model, or a checkpoint's folder or hub name, is usable.

    Text and model are named as in `measure_perplexity`, and `loading` are the fields of `Loading`. `after` each part it
    is called with a line on it.
    """
    how = Loading(**loading)
    opened = open_model(model, (2,), how)
    config, places = getattr(opened.classifier.inner, "config", None), pretrained.position_rows(opened.classifier.inner)
    made_for = getattr(config, "max_position_embeddings", None)
    short = trained or _trained(str(model), opened, config)
    longest = _longest_tested(str(model), short, up_to, places)
    name, text, seen = text_of(opened.run, corpus, opened.tokenizer, store)
    blocks, tell = _blocks(text, longest, windows), after or (lambda line: None)
    opened.classifier.to(how.device)
    scores = needles and score_far_tokens(
        opened.prompted,
        opened.tokenizer,
        text,
        Needle(),
        lengths=[*(short << k for k in range(32) if short << k < longest), longest],
        samples=needles,
        seed=seed,
        autocast=how.precision,
        after=lambda done, of: tell(f"{done} of {of} lengths and depths of needles"),
    )
    losses = losses_twice(
        opened.classifier,
        blocks,
        short,
        device=torch.device(how.device),
        autocast=how.precision,
        after=lambda done: tell(f"{done} of {len(blocks)} windows"),
    )
    return Cliff(
        model=str(model),
        conversions=tuple(each if isinstance(each, str) else str(dict(each)) for each in how.conversions),
        text=name,
        seen=seen,
        trained=short,
        made_for=made_for if isinstance(made_for, int) else None,
        places=places,
        windows=len(blocks),
        window=longest,
        precision=how.precision,
        steps=tuple(_steps(*losses, short)),
        needles=scores or None,
    )


def _trained(name: str, opened: Opened, config: Any) -> int:
    """The length a model was trained at, as its run or its config says; YaRN keeps the one before it there."""
    if opened.run:
        return opened.run.experiment.text.block
    before = (getattr(config, "rope_parameters", None) or {}).get("original_max_position_embeddings")
    length = before or getattr(config, "max_position_embeddings", None)
    if not isinstance(length, int):
        raise Error(f"{name}: its config does not say what length it was trained at. Name it, as in --trained 512.")
    return length


def _longest_tested(name: str, short: int, up_to: int | None, places: int | None) -> int:
    longest = min(up_to or TIMES * short, places or (up_to or TIMES * short))
    if longest <= short:
        what = f"it has places for {places:,} tokens" if places and places <= short else f"up_to is {up_to:,}"
        raise Error(
            f"{name}: lengths beyond {short:,} are compared with it, and {what}. Name a shorter trained length, at "
            "which it is good (--trained), or a longer one to go up to (--up-to)."
        )
    return longest


def _blocks(text: Tensor, length: int, most: int) -> Tensor:
    check_lengths(len(text), [length])
    blocks = windows_of(text, length)[:most]
    if len(blocks) < 2:
        raise Error(
            f"An interval needs two windows of {length:,} tokens, and the text has {len(text):,}. Give more text, or "
            "go up to a shorter length (--up-to)."
        )
    return blocks


def _steps(long: Tensor, short: Tensor, trained: int) -> list[Step]:
    """Parts the places (N, M-1) beyond the trained length into bins; a window is one observation of each."""
    windows, last = long.shape
    ends = [trained]
    while ends[-1] < last + 1:
        ends.append(min(last + 1, math.ceil(GROWTH * ends[-1])))
    # Many intervals are looked at, and a cliff is where any lies too high: all of them hold at once.
    t = student(windows - 1, 1 - 0.05 / (len(ends) - 1))
    steps = []
    for start, end in pairwise(ends):
        here = slice(start - 1, end - 1)  # the token at place p is predicted at p - 1
        each = (long[:, here] - short[:, here]).double().mean(1).tolist()
        loss = long[:, here].double().mean().item()
        if not all(map(math.isfinite, each)):
            steps.append(Step(end, loss, math.inf, math.inf, math.inf))
            continue
        mean, half = statistics.fmean(each), t * statistics.stdev(each) / math.sqrt(windows)
        steps.append(Step(end, loss, *(Loss(x, 0).perplexity for x in (mean, mean - half, mean + half))))
    return steps


def _longest(first: int, worse: Sequence[tuple[int, bool]]) -> int:
    """The last length before one that is worse."""
    longest = first
    for length, bad in worse:
        if bad:
            break
        longest = length
    return longest
