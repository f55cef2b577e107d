"""Networks taught the algebra of a machine: compiled from random weights, or consolidated after training on strings.

A way of consolidation is a plain function: it returns a taught copy, or says in one sentence why it cannot.
"""

from __future__ import annotations

from collections.abc import Callable

from ...models import LengthwiseForCausalLM
from ..claim import Claim
from .compiling import Made, compile_machine, consolidate_run, made_of
from .continuous import consolidate

Way = Callable[[LengthwiseForCausalLM, Claim, float], LengthwiseForCausalLM | str]

CONSOLIDATIONS: tuple[Way, ...] = (consolidate,)

__all__ = ["CONSOLIDATIONS", "Made", "Way", "compile_machine", "consolidate", "consolidate_run", "made_of"]
