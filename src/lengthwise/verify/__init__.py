"""What can be decided about a trained model: `certify` answers Proved, Refuted or Unknown.

verdict = verify.certify(lab.load("runs/parity-regular-gpt-s0-…")[0])
print(verdict)
raise SystemExit(verdict.exit_code)  # 0 for Proved, 1 for the others
"""

from .certification import certify
from .verdict import Proved, Refuted, Unknown, Verdict
from .verdict import from_json as verdict_from_json

__all__ = ["Proved", "Refuted", "Unknown", "Verdict", "certify", "verdict_from_json"]
