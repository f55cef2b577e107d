"""Whether a certificate proves of a model what it claims: nothing in it is believed, all of it is derived again.

report = check(certificate, "model/")            # raises Rejected with the reason

The digest of the certificate, the digests of the weights and the config are compared first. Then the claim's machine is
read, and the proof's conditions are checked on the weights themselves (tree.py, recurrence.py, cascade.py).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .cascade import Cascade, check_cascade
from .claim import StatedClaim
from .fields import ABOVE_ZERO, OBJECT, TEXT, TEXTS, Rejected, exactly, fields, maybe, plain_json, real, same, whole
from .recurrence import Recurrence, check_recurrence
from .rounding import ARITHMETICS
from .tree import Tree, check_tree
from .weights import CONFIG, Tensors, digest, read_model, read_safetensors

FORMAT = 1
ALIKE = 1.01
"""Prover and checker bound a margin each in their own way: up to so many times the checked one may be stated."""
KEPT = {"own": whole(), "all": whole(), "right": real(), "of": exactly("codes", "sets", "neurons", "entries")}
"""What a network that was consolidated kept of its own, which nobody can check."""
KINDS = {
    "tree-codes": "every node of the tree has a code that is listed",
    "tree-boxes": "every node of the tree lies in a box that is listed",
    "recurrence-boxes": "every state lies in a box that is listed",
    "cascade": "every state that its automata reach is listed",
}
MADE = {
    "learned": "learned from strings",
    "settled": "learned from strings, then taught the machine that was extracted from it",
    "consolidated": "learned from strings, then taught the algebra of its machine",
    "compiled": "taught the algebra of its machine alone",
    "built": "written down from its machine",
    "given": "made in a way that nobody said",
}
FIELDS = {
    "format": exactly(FORMAT),
    "claim": OBJECT,
    "words": TEXT,
    "kind": exactly(*KINDS),
    "inference": exactly("raw", "snapped"),
    "made": exactly(*MADE),
    "model": OBJECT,
    "arithmetic": exactly(*ARITHMETICS),
    "proof": OBJECT,
    "margin": ABOVE_ZERO,
    "versions": TEXTS,
    "commit": maybe(TEXT),
    "digest": TEXT,
}


@dataclass(frozen=True)
class Report:
    """The result of a check that went through."""

    kind: str
    inference: str
    arithmetic: str
    made: str
    """How the weights came about, as the certificate states it: nobody can check that."""
    conditions: int
    """How many sets, nodes, steps and answers were evaluated."""
    margin: float
    """The least by which a choice or an answer is decided."""
    words: str
    """The claim and the way of its proof, both checked; and what the certificate states of `made`."""
    stated_margin: float
    """The margin that the certificate states, which proves nothing."""
    assumed: bool = field(default=False, compare=False)
    """Whether the model's config is the certificate's, because where the weights are none is written."""

    def __str__(self) -> str:
        beside = " No config is beside the weights: that of the certificate is assumed." if self.assumed else ""
        if self.stated_margin > self.margin * ALIKE:
            beside = f" It states a margin of {self.stated_margin:.3g}, which is not confirmed.{beside}"
        return f"accepted: {self.words} {self.conditions:,} conditions hold, the least by {self.margin:.3g}.{beside}"


def check(certificate: dict[str, Any], model: str | Path | Tensors) -> Report:
    """`model`: a folder with config.json and model.safetensors, a run's folder, or the weights by name.

    The config of weights alone, and of a run, is that of the certificate, to which they belong by their digests.
    """
    certificate = fields("a certificate", plain_json(certificate, "a certificate")[1], FIELDS, {"kept": OBJECT})
    if certificate["digest"] != seal(certificate):
        raise Rejected("the certificate was changed after it was made: its digest is of other content.")
    kind, inference = certificate["kind"], certificate["inference"]
    if "kept" in certificate:  # as old certificates have it not
        check_kept(certificate["kept"], certificate["made"])
    if inference == "snapped" and kind != "tree-boxes":
        raise Rejected(f"only tree-boxes can be snapped, got {kind}.")
    claim = StatedClaim(certificate["claim"])
    if certificate["words"] != (words := in_words(certificate)):
        raise Rejected(f"the claim in words must be {words!r}, got {certificate['words']!r}.")
    tensors, assumed = _model(certificate["model"], model)
    parts, proof = (certificate["model"]["config"], tensors, certificate["arithmetic"]), certificate["proof"]
    if kind == "recurrence-boxes":
        conditions, margin = check_recurrence(Recurrence(*parts), claim, proof)
    elif kind == "cascade":
        conditions, margin = check_cascade(Cascade(*parts), claim, proof)
    else:
        conditions, margin = check_tree(Tree(*parts), claim, kind, inference, proof)
    words = f"{_proved_in_words(certificate)}; {KINDS[kind]} ({made_in_words(certificate)})."
    stated = min(certificate["margin"], proof.get("gap", certificate["margin"]))  # gap: a cascade's
    arithmetic, how = certificate["arithmetic"], certificate["made"]
    return Report(kind, inference, arithmetic, how, conditions, margin, words, stated, assumed)


def seal(certificate: dict[str, Any]) -> str:
    """sha256 of all of a certificate but its digest."""
    content = {name: value for name, value in certificate.items() if name != "digest"}
    return hashlib.sha256(plain_json(content, "a certificate")[0].encode()).hexdigest()


def in_words(certificate: dict[str, Any]) -> str:
    """Returns what a certificate says of itself, the claim and how the weights came about, from its fields."""
    made = f"It was {MADE[certificate['made']]}{kept_in_words(certificate)}"
    return f"{_proved_in_words(certificate)}. {made}; {KINDS.get(certificate['kind'], 'for no known reason')}."


def _proved_in_words(certificate: dict[str, Any]) -> str:
    claim = certificate["claim"]
    symbols, states = len(claim["symbols"]), len(claim["delta"])
    asked = sum(claim["asked"])
    where = "after every word" if asked == states else f"after every word that leads to one of {asked} states"
    snapped = ", its nodes replaced by the nearest centre," if certificate["inference"] == "snapped" else ""
    return (
        f"Evaluated in {certificate['arithmetic']}, in any order of summation, the model{snapped} answers {where} over "
        f"{symbols} symbols, of any length from 1, what its machine of {states} states answers"
    )


def made_in_words(certificate: dict[str, Any]) -> str:
    """Returns how the weights came about, as the certificate's own statement: nobody can check it."""
    return f"made: {certificate['made']}{kept_in_words(certificate)}, says the certificate"


def kept_in_words(certificate: dict[str, Any]) -> str:
    """Returns what a network kept of its own when it was taught, as the rest of a sentence, or nothing."""
    if (share := certificate.get("kept")) is None:
        return ""
    return f", keeping {share['own'] or 'none'} of its own {share['all']:,} {share['of']}"


def check_kept(share: Any, made: str) -> None:
    """Nobody can check where a network came from; but what is said of it must make sense."""
    fields("what a network kept", share, KEPT)
    if share["own"] > share["all"] or share["right"] > 1:
        raise Rejected("a network keeps no more of its own than there are, and is right on no more than all.")
    if made not in (("consolidated", "settled") if share["own"] else ("compiled",)):
        raise Rejected(f"a network that keeps {share['own']} {share['of']} of its own is not {made}.")


def _model(described: Any, model: str | Path | Tensors) -> tuple[Tensors, bool]:
    """The weights, which are those of the certificate; and whether a folder did not say its config."""
    fields("the certificate's model", described, {"config": OBJECT, "weights": TEXTS})
    config = described["config"]
    fields("the certificate's config", config, {name: kind for name, (kind, _) in CONFIG.items()})
    own, tensors = read_model(Path(model)) if isinstance(model, (str, Path)) else (config, dict(model))
    if own is not None and (other := [name for name in config if not same(config[name], own[name])]):
        raise Rejected(f"the model has another config than the certificate says: {', '.join(other)} differ.")
    return _same(config, described["weights"], tensors), own is None


def _same(config: dict[str, Any], digests: dict[str, str], tensors: Tensors) -> Tensors:
    """The weights, if they are those of the digests."""
    if config["tie_word_embeddings"] and "head.weight" in tensors:
        head = tensors.pop("head.weight")  # whether another one would be loaded is up to the version of transformers
        if "embedding.weight" not in tensors or digest(head) != digest(tensors["embedding.weight"]):
            raise Rejected("the head must be the embeddings, to which the config ties it.")
    if digests.keys() != tensors.keys():
        raise Rejected("the model has other weights than the certificate names.")
    for name, x in tensors.items():
        if digest(x) != digests[name]:
            raise Rejected(f"the weight {name} is not the one that the certificate is about.")
    return tensors


def is_about(certificate: dict[str, Any], weights: Path) -> bool:
    """True if a certificate is whole, and of the weights in this file. Nothing else of it is checked."""
    try:
        described, made = certificate["model"], certificate["digest"]
        _same(described["config"], described["weights"], read_safetensors(weights))
        return made == seal(certificate)
    except (Rejected, AttributeError, KeyError, TypeError):
        return False
