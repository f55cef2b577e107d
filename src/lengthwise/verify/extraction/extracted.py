"""What was extracted from a model, and how it compares with a machine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from torch import nn

from ...automata import to_regex
from ...errors import Error
from ...models import LengthwiseForCausalLM
from ..claim import Claim
from .algebra import Algebra
from .answers import Difference
from .moore import Moore

Method = Literal["tree", "states", "learned"]
SHORT, FEW = 80, 12
"""Regular expressions of more characters, or of machines of more states, are not written out."""


@dataclass(frozen=True, eq=False)
class Extracted:
    """A finite machine or algebra that says what the model says, as far as that was looked at."""

    method: Method
    finite: Algebra | Moore
    """Of a tree its algebra; of others a machine, with as few states as it can have."""
    agreement: float
    """The share of the words looked at after which the model and what was extracted say the same."""
    words: int
    """How many words were looked at."""
    clusters: int
    """Of nodes or states; for `learned`, the states of the machine."""
    model: nn.Module
    """From which it was extracted."""
    refused: str | None = None
    """Why finer cuts into clusters were not taken; None where none had to be."""
    claim: Claim | None = None
    difference: Difference | None = None
    """From the machine it was compared with, of all words of all lengths; None where there is none."""
    raw: bool | None = None
    """Whether the model itself is wrong after the word of `difference`; None without a word."""

    @property
    def algebra(self) -> Algebra | None:
        return self.finite if isinstance(self.finite, Algebra) else None

    @property
    def moore(self) -> Moore | None:
        return self.finite if isinstance(self.finite, Moore) else None

    def snap(self) -> LengthwiseForCausalLM:
        """The model with every node replaced by the nearest of the algebra's centres: the algebra, run by the network.

        A node outside the radius of all of them is an error. Saved, loaded and run as any other model.
        """
        if self.algebra is None:
            raise Error(f"snap: only the nodes of a tree are snapped, and this was extracted by {self.method!r}.")
        inner: Any = getattr(self.model, "inner", self.model)
        return inner.snap(self.algebra.centres, self.algebra.radius)

    @property
    def equal(self) -> bool | None:
        """True if it says what the machine says after every word of every length; None where nothing was compared."""
        return None if self.claim is None else self.difference is None

    @cached_property
    def regexes(self) -> dict[int, str]:
        """For an answer the words after which it is given, as a regular expression; empty where none is short.

        Of two answers the second is left to say the rest: only the larger is there.
        """
        if self.moore is not None:
            machine, outputs = self.moore.machine, list(self.moore.said)
        elif self.equal and self.claim is not None and not self.claim.several:
            machine, asked = self.claim.machine, self.claim.asked
            outputs = [int(a) if here else None for a, here in zip(self.claim.answers, asked, strict=True)]
        else:
            return {}
        answers = sorted({answer for answer in outputs if isinstance(answer, int)})
        if len(outputs) > FEW or any(isinstance(answer, tuple) for answer in outputs):
            return {}
        expressions = {
            answer: to_regex(machine.with_accepting([q for q, own in enumerate(outputs) if own == answer]), SHORT)
            for answer in (answers if len(answers) > 2 else answers[-1:])
        }
        return {answer: regex for answer, regex in expressions.items() if regex is not None}

    def __str__(self) -> str:
        if self.algebra is not None:
            size = f"an algebra of {_counted(len(self.algebra), 'element')}"
        else:
            size = f"a machine of {_counted(len(self.finite), 'state')}"
            size += f" (of {self.clusters} clusters)" if self.method == "states" else ""
        same = "the same" if self.agreement == 1 else f"the same of {100 * self.agreement:.2f}%"
        text = f"{size}; the model says {same} of {self.words:,} words"
        if self.claim is not None:
            compared = "are equal at every length" if self.equal else f"differ {self.difference}"
            text = f"{text}; the two machines {compared}"
        if self.refused and self.agreement < 1:
            text += f"; more clusters were refused ({self.refused.removesuffix('.')})"
        return text

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "algebra": None if self.algebra is None else self.algebra.to_json(),
            "machine": None if self.moore is None else self.moore.to_json(),
            "agreement": self.agreement,
            "words": self.words,
            "clusters": self.clusters,
            "equal": self.equal,
            "regexes": {str(answer): regex for answer, regex in self.regexes.items()},
            "difference": None if self.difference is None else self.difference.to_json(),
            "model_is_wrong_there": self.raw,
            "refused": self.refused,
        }


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'s' * (count != 1)}"
