"""`verdict.json` beside a run: what certify found of it, for as long as its weights are the same.

keep(run, verdict, claim);    kept(run).verdict
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..automata import Semiautomaton
from ..errors import Error
from ..files import read_json, write_text
from .verdict import Unknown, Verdict, from_json

FILE = "verdict.json"
FORMAT = 1
WEIGHTS = {"last": "model.safetensors", "best": "best.safetensors"}


@dataclass(frozen=True)
class Kept:
    verdict: Verdict
    claim: dict[str, Any]
    """What the model was held against, as in a certificate."""
    checkpoint: str


def keep(run: Any, verdict: Verdict, claim: dict[str, Any], checkpoint: str = "last") -> Path:
    """Write what was found of a run into its directory. `claim`: `Claim.to_json()`.

    What was decided of the same weights and claim stays, where now nothing is known.
    """
    before = kept(run) if isinstance(verdict, Unknown) else None
    if before and not isinstance(before.verdict, Unknown) and (before.claim, before.checkpoint) == (claim, checkpoint):
        return Path(run.path) / FILE
    content = {
        "format": FORMAT,
        "weights": _digest(run, checkpoint),
        "checkpoint": checkpoint,
        "claim": claim,
        **verdict.to_json(),
    }
    return write_text(Path(run.path) / FILE, json.dumps(content, indent=1) + "\n")


def kept(run: Any) -> Kept | None:
    """What was found of a run; None where nothing was, or of other weights, or where the file cannot be read."""
    path = Path(run.path) / FILE
    if not path.is_file():
        return None
    try:
        content = dict(read_json(path))
        if content.pop("format") != FORMAT:
            return None
        weights, checkpoint, claim = (content.pop(name) for name in ("weights", "checkpoint", "claim"))
        if weights is None or weights != _digest(run, checkpoint):
            return None
        Semiautomaton(claim["delta"], claim["start"], symbols=claim["symbols"])
        if not len(claim["answers"]) == len(claim["asked"]) == len(claim["delta"]):
            return None
        return Kept(from_json(content), claim, checkpoint)
    except (Error, KeyError, TypeError, ValueError, OSError):
        return None


def _digest(run: Any, checkpoint: str) -> str | None:
    """Of the weights, as the run's record has it; where no step was better than the last, the best are the last."""
    files = run.result.get("files", {})
    return files.get(WEIGHTS[checkpoint]) or files.get(WEIGHTS["last"])
