"""`lengthwise eval perplexity`: how well a model predicts text, by length."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...options import at_least
from .. import console
from ..train import HowMeasured
from ..typed import Checkpoint
from ..verb import Typed, verb
from .subject import Corpora, Lengths, Loading, Model, Output, Seed

if TYPE_CHECKING:
    from ...evaluate import Loss


@dataclass(frozen=True)
class Text:
    """How the text is read."""

    way: HowMeasured = "windows"
    tokens: Annotated[
        int, at_least(2), "Windows: at most so many tokens of the text are tested, at every length the same."
    ] = 65_536
    store: Annotated[Path, "Where the corpus's tokens are kept for the next call.", Typed("DIR")] = Path("runs/text")


@verb
def perplexity(
    model: Model,
    *,
    corpus: Corpora = None,
    lengths: Lengths = None,
    text: Text,
    samples: Annotated[int, at_least(1), "Last token: how many chunks are drawn."] = 1000,
    seed: Seed = 0,
    checkpoint: Checkpoint = "last",
    loading: Loading,
    output: Output,
) -> None:
    """How well a model predicts text, at several lengths.

    Exit codes: 0 fine, 1 a loss is not finite, 2 wrong input.

    Example: [bold]lengthwise eval perplexity runs/stdlib-bipe-s0-1a2b3c --lengths 512,1024,4096[/bold]

    Example: [bold]lengthwise eval perplexity ./my-llama --corpus book.txt --lengths 1024 --way last-token[/bold]
    """
    from ... import lab, report

    how: dict[str, Any] = {"way": text.way, "tokens": text.tokens, "store": text.store, "seed": seed}
    how |= {"samples": samples, "which": checkpoint, **loading.arguments()}
    with console.stdout_kept(output.as_json):
        measured = lab.measure_perplexity(model, corpus or (), lengths, **how, after=tell)
    output.show([report.perplexity(measured)], measured.to_json())
    fail_unless_finite(measured)


def tell(losses: dict[int, Loss]) -> None:
    """A remark on the length that was measured last."""
    length, loss = list(losses.items())[-1]
    console.remark(f"{length:,} tokens: perplexity {loss.perplexity:.4g}")


def fail_unless_finite(measured: Any) -> None:
    if any(loss.mean is None for loss in measured.losses.values()):
        raise typer.Exit(1)
