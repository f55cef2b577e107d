"""What was extracted from a model, and how it compares with a machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from ...errors import Error
from ...models import LengthwiseForCausalLM
from ..claim import Claim
from .algebra import Algebra
from .difference import Difference
from .moore import Moore

Method = Literal["tree", "states", "learned"]


@dataclass(frozen=True, eq=False)
class Extracted:
    """A finite machine or algebra that says what the model says, as far as that was looked at."""

    method: Method
    algebra: Algebra | None
    """Of a tree model; None for the other methods."""
    moore: Moore | None
    """The machine of the other methods, with as few states as it can have."""
    agreement: float
    """The share of the words looked at after which the model and what was extracted say the same."""
    words: int
    """How many words were looked at."""
    clusters: int
    """Of nodes or states; for `learned`, the states of the machine."""
    claim: Claim | None
    difference: Difference | None
    """From the machine it was compared with, of all words of all lengths; None where there is none."""
    raw: bool | None
    """Whether the model itself is wrong after the word of `difference`; None without a word."""

    model: nn.Module
    """From which it was extracted."""

    def snap(self) -> LengthwiseForCausalLM:
        """The model with every node replaced by the nearest of the algebra's centres: the algebra, run by the network.

        A node outside the radius of all of them is an error. Saved, loaded and run as any other model.
        """
        if self.algebra is None or not isinstance(self.model, LengthwiseForCausalLM):
            raise Error(f"snap: only the nodes of a tree are snapped, and this was extracted by {self.method!r}.")
        return self.model.snap(self.algebra.centres, self.algebra.radius)

    @property
    def equal(self) -> bool | None:
        """Whether it says what the machine says after every word of every length; None where nothing was compared."""
        return None if self.claim is None else self.difference is None

    def __str__(self) -> str:
        if self.algebra is not None:
            found = f"an algebra of {_counted(len(self.algebra), 'element')}"
        else:
            assert self.moore is not None
            found = f"a machine of {_counted(len(self.moore), 'state')}"
            found += f" (of {self.clusters} clusters)" if self.method == "states" else ""
        same = "the same" if self.agreement == 1 else f"the same of {100 * self.agreement:.2f}%"
        text = f"{found}; the model says {same} of {self.words:,} words"
        if self.claim is None:
            return text
        compared = "equal to the machine at every length" if self.equal else f"unlike the machine {self.difference}"
        return f"{text}; {compared}"

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "algebra": None if self.algebra is None else self.algebra.to_json(),
            "machine": None if self.moore is None else self.moore.to_json(),
            "agreement": self.agreement,
            "words": self.words,
            "clusters": self.clusters,
            "equal": self.equal,
            "difference": None if self.difference is None else self.difference.to_json(),
            "model_is_wrong_there": self.raw,
        }


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'s' * (count != 1)}"
