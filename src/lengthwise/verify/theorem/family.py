"""What a family of networks brings to a theorem about one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..checker.intervals import Array

Certificate = dict[str, Any]


class Family(NamedTuple):
    kind: str
    """The certificates that it is about, by their kind."""
    file: str
    """The file of `theorem/` with what is claimed, and the check."""
    refusal: Callable[[Certificate], str | None]
    """Why no theorem speaks of this certificate, or None."""
    names: Callable[[Certificate], dict[str, str]]
    """The parts of the network, and what each is called among the weights."""
    network: Callable[[Certificate, dict[str, Array], int], str]
    """The weights, from the parts and the scale at which they are whole: defines `weights`."""
    proof: Callable[[Certificate, dict[str, Array], int], str]
    """The sets: what they are, and a lemma `checked` that they are closed."""
    theorem: str
    """What follows. NAME stands for the certificate's."""
    extracted: str | None = None
    """What follows where an extracted program finds that all conditions hold, if there is one. NAME as above."""


CLAIMED = """(** For every word that is not empty, every state and every logits that the arithmetic allows after it, the
    logit of the machine's answer is above every other. (The name is that of the certificate, by its digest.) *)
"""


def common_refusal(certificate: Certificate, *, asked: bool = True) -> str | None:
    """Why none of the theorems speaks of this claim, or None. `asked`: only of machines asked after every word."""
    claim = certificate["claim"]
    if certificate["arithmetic"] != "float32":
        return "theorems are about float32, and this network is proved for float64 alone"
    if (asked and not all(claim["asked"])) or isinstance(claim["answers"][0], list):
        return "theorems are of machines with one answer after every word so far"
    return None
