"""A certificate as a theorem for Coq: these float32 weights answer every word, of every length, as the machine does.

    write_theorem(certificate, "model/", "proof/")        then, in proof/:  make

A family of networks is a module here, as its theorem is a file of `theorem/`.
"""

from __future__ import annotations

from .folder import refusal, write_theorem

__all__ = ["refusal", "write_theorem"]
