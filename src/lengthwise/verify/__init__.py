"""What can be decided about a trained model: `certify` answers Proved, Refuted or Unknown.

verdict = verify.certify(lab.load("runs/parity-regular-gpt-s0-…")[0])
print(verdict)
raise SystemExit(verdict.exit_code)  # 0 for Proved, 1 for the others

`falsify` only searches for a word that the model gets wrong, and `extract` finds the finite machine that it is. Names
load when first used: who checks a certificate needs no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .certification import certify
    from .claim import Claim, claim_of
    from .consolidate import Made, compile_machine, consolidate_run, kept_of, made_of
    from .extraction import Extracted, extract
    from .falsification.search import Search, falsify
    from .verdict import Proof, Proved, Refuted, Unknown, Verdict
    from .verdict import from_json as verdict_from_json

WHERE = {
    "certify": ("certification", "certify"),
    "Claim": ("claim", "Claim"),
    "claim_of": ("claim", "claim_of"),
    "Extracted": ("extraction", "Extracted"),
    "extract": ("extraction", "extract"),
    "Made": ("consolidate", "Made"),
    "compile_machine": ("consolidate", "compile_machine"),
    "consolidate_run": ("consolidate", "consolidate_run"),
    "kept_of": ("consolidate", "kept_of"),
    "made_of": ("consolidate", "made_of"),
    "Search": ("falsification.search", "Search"),
    "falsify": ("falsification.search", "falsify"),
    "Proof": ("verdict", "Proof"),
    "Proved": ("verdict", "Proved"),
    "Refuted": ("verdict", "Refuted"),
    "Unknown": ("verdict", "Unknown"),
    "Verdict": ("verdict", "Verdict"),
    "verdict_from_json": ("verdict", "from_json"),
}
"""The file of each public name, and what it is called there."""


def __getattr__(name: str):
    if name not in WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    file, own = WHERE[name]
    return getattr(importlib.import_module(f".{file}", __name__), own)


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
