"""Methods of proof, tried in turn until one proves the claim.

A method is a plain function. It finds what a certificate holds, or says in one sentence why it does not, which is also
what it says of a model that it cannot take. It is no authority: unless the checker accepts it, nothing is proved.
"""

from __future__ import annotations

from collections.abc import Callable

from ...models import LengthwiseForCausalLM
from ..claim import Claim
from ..verdict import Proof, Refuted, Unknown
from .boxes import prove_tree_boxes, prove_tree_boxes_in_float64
from .cascade import prove_cascade
from .codes import prove_codes
from .recurrence import prove_recurrence, prove_recurrence_in_float64
from .snapped import prove_snapped

Method = Callable[[LengthwiseForCausalLM, Claim, float], Proof | Refuted | Unknown | str]
"""From a model in eval mode, a claim and seconds to a proof, or to why there is none: a wrong word that it met, say."""

METHODS: tuple[Method, ...] = (
    prove_codes,
    prove_tree_boxes,
    prove_recurrence,
    prove_cascade,
    prove_snapped,
    prove_tree_boxes_in_float64,
    prove_recurrence_in_float64,
)

ALONE: tuple[Method, ...] = (prove_codes, prove_cascade)
"""Methods whose models no other can take, so that all the time that is left is theirs."""

__all__ = ["ALONE", "METHODS", "Method"]
