"""A certificate: one JSON that says what is proved, of which weights, and all that a checker needs to see it.

    {"format": 1, "claim": …, "words": …, "kind": …, "inference": "raw" | "snapped", "made": …, "kept": …,
     "arithmetic": …, "model": {"config": …, "weights": {name: sha256}}, "proof": {…}, "margin": …, "versions": …,
     "commit": …, "digest": sha256 of all the rest}

site/certificate.md says what each field is. Numbers are written in the shortest way that is read back as they were,
to the last bit.
"""

from __future__ import annotations

import json
import platform
from typing import Any, TypeVar

import numpy as np
import torch

from .. import __version__
from ..lab.provenance import code_version
from ..models import LengthwiseForCausalLM
from .checker import DEFAULTS, Rejected, check, digest, in_words, seal
from .checker.check import FORMAT
from .checker.fields import fields
from .checker.network import Network
from .checker.weights import CONFIG
from .claim import Claim

NetworkT = TypeVar("NetworkT", bound=Network)


def network_of(model: LengthwiseForCausalLM, kind: type[NetworkT], arithmetic: str) -> NetworkT | str:
    """Returns the model as the checker reads it from its config and weights, or why the checker cannot take it."""
    config = json.loads(json.dumps(deciding(model)))
    try:
        fields("its config", config, {name: value for name, (value, _) in CONFIG.items()})
        return kind(config, weights(model), arithmetic)
    except Rejected as reason:
        return str(reason).removesuffix(".")


def accepted(
    model: LengthwiseForCausalLM,
    claim: Claim,
    proof: dict[str, Any],
    made: str = "given",
    share: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns the certificate of a proposed proof, with the checker's own margin. Raises `Rejected` if it is none."""
    certificate = make(model, claim, proof, made, share)
    certificate["margin"] = check(certificate, weights(model)).margin
    return {**certificate, "digest": seal(certificate)}


def make(
    model: LengthwiseForCausalLM,
    claim: Claim,
    proof: dict[str, Any],
    made: str = "given",
    share: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The certificate of a model, from what a method of `verify.prove` says. `share`: as `KeptShare.to_json` has it."""
    certificate = {
        "format": FORMAT,
        "claim": claim.to_json(),
        "kind": proof["kind"],
        "inference": proof["inference"],
        "made": made,
        **({} if share is None else {"kept": share}),
        "model": {"config": deciding(model), "weights": {name: digest(x) for name, x in weights(model).items()}},
        "arithmetic": proof["arithmetic"],
        "proof": proof["proof"],
        "margin": float(proof["margin"]),
        "versions": {
            "lengthwise": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "commit": code_version()["commit"],
    }
    certificate = json.loads(json.dumps(certificate, allow_nan=False))
    certificate["words"] = in_words(certificate)
    return {**certificate, "digest": seal(certificate)}


def weights(model: LengthwiseForCausalLM) -> dict[str, np.ndarray]:
    """By name, as a saved model has them: a tied head is the embeddings, where it is tied indeed."""
    tensors = {name: x.detach().cpu().numpy() for name, x in model.state_dict().items()}
    if model.config.tie_word_embeddings and digest(tensors["head.weight"]) == digest(tensors["embedding.weight"]):
        tensors.pop("head.weight")
    return tensors


def deciding(model: LengthwiseForCausalLM) -> dict[str, Any]:
    """The part of the config that decides which function the model is."""
    return {name: getattr(model.config, name) for name in DEFAULTS}
