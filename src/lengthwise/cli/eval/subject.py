"""What every measurement takes: the model and how it is loaded, and where the findings go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ...files import must_exist
from .. import console
from ..typed import Html
from ..verb import Typed
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
    "A run directory, or a Hugging Face checkpoint: its folder or hub name.",
    Typed("MODEL", argument=True, read=_place),
]
Corpora = Annotated[
    list[str] | None,
    "stdlib, a file or folder of text, or hf:NAME; all of it is tested on. Repeat it for more.",
    Typed("CORPUS", default="a run's own held-out text", flag="--corpus"),
]
Lengths = Annotated[
    str | None,
    "Lengths in tokens, such as 512,1024,2048.",
    Typed("LENGTHS", default="those a run was tested at"),
]
Seed = Annotated[int, "Draws others."]


@dataclass(frozen=True)
class Loading:
    """How the model is loaded."""

    convert: Annotated[
        list[str] | None,
        "Convert a checkpoint first, as in --convert 'yarn factor=4' or 'bipe ends=sentence'; repeat it.",
        Typed("NAME"),
    ] = None
    tokenizer: Annotated[Path | None, "The folder of a tokenizer.", Typed("DIR", default="the model's own")] = None
    precision: Annotated[Literal["fp32", "bf16"], "The number format: fp32 or bf16.", Typed("FORMAT")] = "fp32"
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

    html: Html = None
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
