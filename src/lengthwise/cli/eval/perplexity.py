"""`lengthwise eval perplexity`: how well a model predicts text, by length."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...options import at_least
from .. import console
from ..verb import verb
from ..work import Output
from .subject import Model, OnText, Windows

if TYPE_CHECKING:
    from ...evaluate import Loss


@verb
def perplexity(
    model: Model,
    *,
    on: OnText,
    windows: Windows,
    samples: Annotated[int, at_least(1), "Last token: how many chunks are drawn."] = 1000,
    output: Output,
) -> None:
    """How well a model predicts text, at several lengths.

    Exit codes: 0 fine, 1 a loss is not finite, 2 wrong input.

    Example: [bold]lengthwise eval perplexity runs/stdlib-bipe-s0-1a2b3c --lengths 512,1024,4096[/bold]

    Example: [bold]lengthwise eval perplexity ./my-llama --corpus book.txt --lengths 1024 --way last-token[/bold]
    """
    from ... import lab, report

    with console.stdout_kept(output.as_json):
        losses = lab.measure_perplexity(model, **on.arguments(), **asdict(windows), samples=samples, after=tell)
    output.show([report.perplexity(losses)], losses.to_json())
    fail_unless_finite(losses)


def tell(losses: dict[int, Loss]) -> None:
    """A remark on the length that was measured last."""
    length, loss = list(losses.items())[-1]
    console.remark(f"{length:,} tokens: perplexity {loss.perplexity:.4g}")


def fail_unless_finite(perplexity: Any) -> None:
    if any(loss.mean is None for loss in perplexity.losses.values()):
        raise typer.Exit(1)
