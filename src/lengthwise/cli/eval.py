"""`lengthwise eval`: measure a trained language model on text, at any lengths."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from . import console, typed
from .train import HowMeasured
from .work import Device, print_panels

if TYPE_CHECKING:
    from ..evaluate import Loss

KINDS = ("perplexity",)


def evaluate(
    what: Annotated[
        Literal["perplexity"],
        typer.Argument(
            parser=typed.one_of("WHAT", *KINDS),
            autocompletion=typed.words(*KINDS),
            metavar="WHAT",
            help="What is measured: perplexity.",
        ),
    ],
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="A run directory, or a Hugging Face checkpoint: its folder or hub name."),
    ],
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            "--corpus",
            metavar="CORPUS",
            show_default="a run's own held-out text",
            help="stdlib, a file or folder of text, or hf:NAME; all of it is tested on. Repeat it for more.",
        ),
    ] = None,
    lengths: Annotated[
        str | None,
        typer.Option(
            "--lengths",
            metavar="LENGTHS",
            show_default="those a run was tested at",
            help="Lengths in tokens, such as 512,1024,2048.",
        ),
    ] = None,
    way: HowMeasured = "windows",
    tokens: Annotated[
        int,
        typer.Option(
            "--tokens",
            parser=typed.whole("--tokens", 2),
            metavar="N",
            help="Windows: at most so many tokens of the text are tested, at every length the same.",
        ),
    ] = 65_536,
    samples: Annotated[
        int,
        typer.Option(
            "--samples", parser=typed.whole("--samples", 1), metavar="N", help="Last token: how many chunks are drawn."
        ),
    ] = 1000,
    seed: Annotated[int, typer.Option("--seed", parser=typed.whole("--seed"), metavar="N", help="Draws others.")] = 0,
    checkpoint: Annotated[
        Literal["last", "best"],
        typer.Option(
            "--checkpoint",
            parser=typed.one_of("--checkpoint", "last", "best"),
            autocompletion=typed.words("last", "best"),
            metavar="WHICH",
            help="Of a run: the weights at the end, or those of the best validation.",
        ),
    ] = "last",
    conversions: Annotated[
        list[str] | None,
        typer.Option(
            "--convert",
            metavar="JSON",
            help='A conversion of a checkpoint first, such as \'{"name": "yarn", "factor": 4}\'; repeat it for more.',
        ),
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option("--tokenizer", metavar="DIR", show_default="the model's own", help="The folder of a tokenizer."),
    ] = None,
    precision: Annotated[
        Literal["fp32", "bf16"],
        typer.Option(
            "--precision",
            parser=typed.one_of("--precision", "fp32", "bf16"),
            metavar="FORMAT",
            help="The number format: fp32 or bf16.",
        ),
    ] = "fp32",
    store: Annotated[
        Path, typer.Option("--store", metavar="DIR", help="Where the corpus's tokens are kept for the next call.")
    ] = Path("runs/text"),
    device: Device = "auto",
    as_json: console.Json = False,
) -> None:
    """Measure the perplexity of a run's model, or of any Hugging Face checkpoint, at several lengths of text.

    Exit codes: 0 fine, 1 a loss is not finite, 2 wrong input.

    Example: [bold]lengthwise eval perplexity runs/stdlib-bipe-s0-1a2b3c --lengths 512,1024,4096[/bold]

    Example: [bold]lengthwise eval perplexity ./my-llama --corpus book.txt --lengths 1024 --way last-token[/bold]
    """
    from .. import lab, report
    from ..lab.measured import measure_perplexity

    with console.stdout_kept(as_json):
        done = measure_perplexity(
            model,
            corpus or (),
            lengths,
            way=way,
            tokens=tokens,
            samples=samples,
            seed=seed,
            which=checkpoint,
            conversions=[read_conversion(text) for text in conversions or ()],
            tokenizer=tokenizer,
            precision=precision,
            store=store,
            device=lab.chosen_device(device),
            after=_tell,
        )
        panel = report.perplexity(done)
    if as_json:
        console.emit(done.to_json())
    else:
        print_panels([panel])
    if any(loss.mean is None for loss in done.losses.values()):
        raise typer.Exit(1)


def read_conversion(text: str) -> dict[str, Any]:
    """
    >>> read_conversion('{"name": "yarn", "factor": 4}'), read_conversion("chain")
    ({'name': 'yarn', 'factor': 4}, {'name': 'chain'})
    """
    import json

    from ..errors import Error

    try:
        found = json.loads(text) if text.lstrip().startswith("{") else {"name": text}
    except ValueError as error:
        raise Error(f"--convert is a name, or JSON with one, got {text!r} ({error}).") from error
    return found


def _tell(found: dict[int, Loss]) -> None:
    length, loss = list(found.items())[-1]
    console.remark(f"{length:,} tokens: perplexity {loss.perplexity:.4g}")
