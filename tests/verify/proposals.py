"""What a method of proof proposes, as the checker takes it."""

from __future__ import annotations

from lengthwise.verify import certificate
from lengthwise.verify.checker import Rejected


def accepted(method, model, claim, seconds=20.0):
    """Returns the certificate of what the method proposes, or, as text, why there is none."""
    model = getattr(model, "inner", model)
    proof = method(model, claim, seconds)
    if not isinstance(proof, dict):
        return str(proof)
    try:
        return certificate.accepted(model, claim, proof)
    except Rejected as reason:
        return str(reason)
