"""What can be decided about a trained model: `certify` answers Proved, Refuted or Unknown.

verdict = verify.certify(lab.load("runs/parity-regular-gpt-s0-…")[0])
print(verdict)
raise SystemExit(verdict.exit_code)  # 0 for Proved, 1 for the others

`falsify` only searches for a word that the model gets wrong, and `extract` finds the finite machine that it is. Names
load when first used: who checks a certificate needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from .certification import certify
    from .claim import Claim, claim_of
    from .consolidate import Made, compile_machine, consolidate_run, kept_of, made_of
    from .extraction import Extracted, extract
    from .falsification.search import Search, falsify
    from .verdict import Proof, Proved, Refuted, Unknown, Verdict
    from .verdict import from_json as verdict_from_json

__all__ = [
    "Claim",
    "Extracted",
    "Made",
    "Proof",
    "Proved",
    "Refuted",
    "Search",
    "Unknown",
    "Verdict",
    "certify",
    "claim_of",
    "compile_machine",
    "consolidate_run",
    "extract",
    "falsify",
    "kept_of",
    "made_of",
    "verdict_from_json",
]

__getattr__, __dir__ = lazy_names(__name__)
