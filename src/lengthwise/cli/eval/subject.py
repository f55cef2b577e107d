"""What every measurement takes: the model and how it is loaded, and where the findings go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ...files import must_exist
from .. import console, typed
from ..work import Device, Trust, page_path, print_panels

if TYPE_CHECKING:
    from ...report import Panel


def _place(model: str) -> str:
    """Raises for a path that is not there; a name on the hub has one slash, after no folder of that name here."""
    place = Path(model).expanduser()
    if model[:1] in "./~" or len(place.parts) > 2 or (len(place.parts) == 2 and place.parent.is_dir()):
        must_exist(place)
    return model


Model = Annotated[
    str,
    typer.Argument(
        parser=_place, metavar="MODEL", help="A run directory, or a Hugging Face checkpoint: its folder or hub name."
    ),
]
Corpora = Annotated[
    list[str] | None,
    typer.Option(
        "--corpus",
        metavar="CORPUS",
        show_default="a run's own held-out text",
        help="stdlib, a file or folder of text, or hf:NAME; all of it is tested on. Repeat it for more.",
    ),
]
Lengths = Annotated[
    str | None,
    typer.Option(
        "--lengths",
        metavar="LENGTHS",
        show_default="those a run was tested at",
        help="Lengths in tokens, such as 512,1024,2048.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", parser=typed.whole("--seed"), metavar="N", help="Draws others.")]
Checkpoint = Annotated[
    Literal["last", "best"],
    typer.Option(
        "--checkpoint",
        parser=typed.one_of("--checkpoint", "last", "best"),
        autocompletion=typed.words("last", "best"),
        metavar="WHICH",
        help="Of a run: the weights at the end, or those of the best validation.",
    ),
]


@dataclass(frozen=True)
class Loading:
    """How the model is loaded."""

    convert: Annotated[
        list[str] | None,
        typer.Option(
            "--convert",
            metavar="NAME",
            help="Convert a checkpoint first, as in --convert 'yarn factor=4' or 'bipe ends=sentence'; repeat it.",
        ),
    ] = None
    tokenizer: Annotated[
        Path | None,
        typer.Option("--tokenizer", metavar="DIR", show_default="the model's own", help="The folder of a tokenizer."),
    ] = None
    precision: Annotated[
        Literal["fp32", "bf16"],
        typer.Option(
            "--precision",
            parser=typed.one_of("--precision", "fp32", "bf16"),
            metavar="FORMAT",
            help="The number format: fp32 or bf16.",
        ),
    ] = "fp32"
    trust: Trust = False
    device: Device = "auto"

    def arguments(self) -> dict[str, Any]:
        """Returns what `lab.measure_perplexity` and its like take of these."""
        from ... import lab

        return {
            "conversions": self.convert or (),
            "tokenizer": self.tokenizer,
            "precision": self.precision,
            "trust": self.trust,
            "device": lab.chosen_device(self.device),
        }


@dataclass(frozen=True)
class Output:
    """Where the findings go."""

    html: Annotated[Path | None, typer.Option("--html", metavar="PATH", help="Write a page here.")] = None
    as_json: console.Json = False

    def show(self, panels: Sequence[Panel], data: dict[str, Any], remark: str = "") -> None:
        """Writes the page, and prints the panels and a remark about them; or, with --json, the data alone."""
        from ... import report

        page = None
        if self.html:
            title = panels[0].title
            page = report.html([], page_path(self.html), title=title, panels=panels, command=console.command)
        if self.as_json:
            console.emit({**data, "page": str(page) if page else None})
            return
        print_panels(panels)
        for line in filter(None, (remark, page and f"Page: {page}")):
            console.out().print(f"\n{line}", markup=False)
