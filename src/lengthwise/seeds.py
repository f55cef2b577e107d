"""Seeds as a function of what they are for: `derive("train", seed, step)` is the same number everywhere, always.

Nothing in the library keeps a generator alive between steps. A run resumed at step 700 draws the batch of step 700
because the batch is a function of (seed, step), and a test string is a function of (task, length, seed).
"""

from __future__ import annotations

import hashlib
import json

import torch


def derive(*parts: object) -> int:
    """A 63-bit seed from any JSON-like parts.

    >>> derive("train", 0, 1) == derive("train", 0, 1), derive("train", 0, 1) == derive("train", 1, 0)
    (True, False)
    """
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(*parts: object) -> torch.Generator:
    """A fresh CPU generator seeded by `derive(*parts)`."""
    return torch.Generator().manual_seed(derive(*parts))
