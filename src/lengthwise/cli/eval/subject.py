"""What every measurement takes: the model, how it is loaded, and the text that it is measured on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from ...lab.launch import Loading
from ...options import at_least, schema
from ..train import HowMeasured
from ..typed import Checkpoint, read_place
from ..verb import Typed
from ..work import Device

LINES = schema(Loading)


Model = Annotated[
    str,
    "A run directory, or a Hugging Face checkpoint: its folder or hub name.",
    Typed("MODEL", argument=True, read=read_place),
]


@dataclass(frozen=True)
class Loaded(Loading):
    """Options of loading a model."""

    which: Checkpoint = "last"
    conversions: Annotated[Sequence[Any], LINES["conversions"].line, Typed("NAME", flag="--convert")] = ()
    device: Device = "auto"

    def arguments(self) -> dict[str, Any]:
        """Returns what `lab.measure_perplexity` and its like take of these."""
        from ... import lab

        how = {name: getattr(self, name) for name in LINES}
        return {**how, "conversions": self.conversions or (), "device": lab.chosen_device(self.device)}


@dataclass(frozen=True)
class OnText(Loaded):
    """A model, and the text on which it is measured."""

    corpus: Annotated[
        list[str] | None,
        "stdlib, a file or folder of text, or hf:NAME; all of it is tested on. Repeat it for more.",
        Typed("CORPUS", default="a run's own held-out text"),
    ] = None
    lengths: Annotated[
        str | None,
        "Lengths in tokens, such as 512,1024,2048.",
        Typed("LENGTHS", default="those a run was tested at"),
    ] = None
    seed: Annotated[int, "Draws others."] = 0

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "corpus": self.corpus or (), "lengths": self.lengths, "seed": self.seed}


@dataclass(frozen=True)
class Windows:
    """Options of reading a text for its perplexity."""

    way: HowMeasured = "windows"
    tokens: Annotated[
        int, at_least(2), "Windows: at most so many tokens of the text are tested, at every length the same."
    ] = 65_536
    store: Annotated[Path, "Where the corpus's tokens are kept for the next call.", Typed("DIR")] = Path("runs/text")
