"""Files beside a run, for as long as its weights are the same: what certify decided of it, and what was extracted.

keep(run, verdict, claim);         recorded_verdict(run).verdict                     verdict.json
keep_extracted(run, extracted);    extracted_of(run)["said"]             extracted.json
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..automata import Semiautomaton
from ..errors import Error
from ..files import read_json, write_text
from ..own_code import is_class
from .checker import Rejected, check, is_about
from .checker.claim import StatedClaim, difference
from .checker.weights import read_safetensors
from .verdict import Proved, Refuted, Unknown, Verdict, from_json

FILE, EXTRACTED = "verdict.json", "extracted.json"
FORMAT = 1
LARGE = 64
"""The table of an algebra of more elements is not kept."""
QUICK = 4096
"""A proof of no more conditions is checked again wherever it is shown, which takes a few seconds."""
READ = 10_000
"""A wrong word of no more tokens is read again wherever it is shown."""
WEIGHTS = {"last": "model.safetensors", "best": "best.safetensors"}


@dataclass(frozen=True)
class RecordedVerdict:
    verdict: Verdict
    claim: dict[str, Any]
    """What the model was held against, as in a certificate."""
    checkpoint: str
    checked: bool = True
    """Whether the checker accepted a proof just now, or the model was wrong after the word just now."""
    of_task: bool = True
    """Whether the claim is the task's. What a task of one's own says is not known where its code may not run."""


def keep(run: Any, verdict: Verdict, claim: dict[str, Any], checkpoint: str = "last") -> Path:
    """Write what was found of a run into its directory. `claim`: `Claim.to_json()`.

    What was decided of the same weights and claim stays, where now nothing is known.
    """
    before = recorded_verdict(run) if isinstance(verdict, Unknown) else None
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


def recorded_verdict(run: Any) -> RecordedVerdict | None:
    """Returns what is on record of a run; None where nothing is, or of other weights, or where it cannot be read.

    A proof is shown only where the checker accepts its certificate, of the run's model and the weights that lie in its
    directory now.
    """
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
        verdict = from_json(content)
        if isinstance(verdict, Unknown):
            return RecordedVerdict(verdict, claim, checkpoint)
        which = checkpoint if (Path(run.path) / WEIGHTS[checkpoint]).is_file() else "last"
        file = Path(run.path) / WEIGHTS[which]
        right = _right(run)
        if right is not None and difference(StatedClaim(claim), StatedClaim(right.to_json())) is not None:
            return None
        if isinstance(verdict, Refuted):
            now, read = _read_again(run, verdict, which, file)
            return RecordedVerdict(now, claim, checkpoint, read, right is not None)
        certificate = verdict.certificate
        stated = StatedClaim(certificate["claim"])
        if difference(stated, StatedClaim(claim)) is not None or not is_about(certificate, file):
            return None
        checked = _is_quick(certificate)
        if checked and not _accepted(run, json.dumps(certificate), file):
            return None
        return RecordedVerdict(verdict, claim, checkpoint, checked, right is not None)
    except (Error, KeyError, TypeError, ValueError, OSError):
        return None


def _right(run: Any) -> Any:
    """The claim of a run's task; None where its code may not run here, or it has no machine."""
    from ..lab import load_task
    from .claim import claim_of

    try:
        return claim_of(load_task(run))
    except Error:
        return None


def _read_again(run: Any, refuted: Refuted, which: str, weights: Path) -> tuple[Verdict, bool]:
    """Returns what a word that was kept says of the run's model now, and whether it was read."""
    if len(refuted.word) > READ:
        return refuted, False
    try:
        now = _wrong(Path(run.path), which, weights.stat().st_mtime_ns, refuted.word)
    except (Error, OSError):  # a model or a task whose code may not run here, or nothing to be read
        return refuted, False
    if now is None:
        return Unknown(f"the wrong word that was kept, of {len(refuted.word):,} tokens, is answered right"), True
    return now, True


@lru_cache(maxsize=64)
def _wrong(folder: Path, which: str, written: int, word: tuple[int, ...]) -> Refuted | None:
    """Returns what is wrong after a word; remembered while the weights stay as they were `written`."""
    from ..lab import load, load_model, load_task
    from .claim import claim_of
    from .falsification.reading import Reader

    run = load(folder)[0]
    with Reader(load_model(run, which), claim_of(load_task(run))) as reader:
        return reader.alone(np.array(word))


def _is_quick(certificate: dict[str, Any]) -> bool:
    """A tree's nodes are tuples of sets or symbols; every other set is led on by each symbol."""
    proof, symbols = certificate["proof"], len(certificate["claim"]["symbols"])
    lists = [part for name, part in proof.items() if isinstance(part, list) and name != "states"]
    sets = max(map(len, [*lists, *proof.get("states", ())]))
    if not certificate["kind"].startswith("tree"):
        return sets * symbols <= QUICK
    chunk = certificate["model"]["config"]["depth"]["chunk"]
    return max(sets, symbols) ** min(chunk, QUICK) <= QUICK


def _accepted(run: Any, certificate: str, weights: Path) -> bool:
    """True if the checker accepts a proof of these weights, and the run's model has the config that it is about."""
    return _passes(certificate, weights, weights.stat().st_mtime_ns) and config_is(
        run, json.loads(certificate)["model"]["config"]
    )


@lru_cache(maxsize=64)
def _passes(certificate: str, weights: Path, written: int) -> bool:
    """Remembered while the file of weights stays as it was `written`: a page and its table ask alike."""
    try:
        check(json.loads(certificate), read_safetensors(weights))
    except Rejected:
        return False
    return True


def config_is(run: Any, config: dict[str, Any]) -> bool:
    """True if a run's model, as its record builds it, has this config; False where that cannot be known.

    The sizes of vocabulary and answers are the config's own: the weights say them, and so the task is not needed.
    """
    try:
        import torch

        from .. import models
        from .certificate import deciding
        from .subject import own_model
    except ImportError:  # the checker needs no torch
        return False
    spec, model = run.experiment.model, None
    if not is_class(spec.name):
        sizes = {"vocab_size": config["vocab_size"], "num_outputs": config["num_outputs"]}
        with torch.device("meta"):
            model = own_model(models.build(spec.name, **sizes, settings=spec.options, source=spec.source))
    if model is None:
        raise Rejected(f"{run.path}: its model is not this library's own, and the certificate is of one that is.")
    own = deciding(model)
    if other := [name for name in config if config[name] != own[name]]:
        raise Rejected(
            f"{run.path}: its model has another config than the certificate says: {', '.join(other)} differ."
        )
    return True


def keep_extracted(run: Any, extracted: Any, checkpoint: str = "last") -> Path:
    """Write what was extracted of a run's model (`Extracted`) into its directory."""
    data = extracted.to_json()
    if data["algebra"] and data["algebra"]["elements"] > LARGE:
        data["algebra"]["table"] = []
    content = {"format": FORMAT, "weights": _digest(run, checkpoint), "checkpoint": checkpoint}
    return write_text(Path(run.path) / EXTRACTED, json.dumps({**content, "said": str(extracted), "found": data}) + "\n")


def extracted_of(run: Any) -> dict[str, Any] | None:
    """`said`, a sentence, `found`, as `Extracted.to_json` has it, and the checkpoint; None as in `recorded_verdict`."""
    path = Path(run.path) / EXTRACTED
    if not path.is_file():
        return None
    try:
        content = dict(read_json(path))
        same = content["weights"] is not None and content["weights"] == _digest(run, content["checkpoint"])
        sound = isinstance(content["said"], str) and content["found"].keys() >= {"algebra", "machine", "regexes"}
    except (Error, AttributeError, KeyError, TypeError, ValueError, OSError):
        return None
    return content if same and sound and content.get("format") == FORMAT else None


def extract_for_page(run: Any, model: Any, claim: Any, seconds: float, checkpoint: str = "last") -> bool:
    """Extract what a run's model computes, for its page, and keep it, if that takes no longer than so many seconds.

    Whether it is kept now. What others than trees and recurrences compute takes long to learn: of them nothing is kept.
    """
    from .extraction import extract
    from .extraction.states import no_recurrence
    from .prove.node import no_tree

    if (before := extracted_of(run)) and before["checkpoint"] == checkpoint:
        return True
    inner = getattr(model, "inner", model)
    if no_tree(inner) is not None and no_recurrence(inner) is not None:
        return False
    here = recorded_verdict(run)
    proved = here is not None and isinstance(here.verdict, Proved) and here.checkpoint == checkpoint
    try:
        extracted = extract(model, claim, seconds=seconds)
        if proved and not extracted.equal:  # so it is not what the model computes
            return False
        keep_extracted(run, extracted, checkpoint)
    except (Error, OSError):
        return False
    return True


def _digest(run: Any, checkpoint: str) -> str | None:
    """Returns that of the weights, by the run's record; where no step was better than the last, of the last."""
    files = run.result.get("files", {})
    return files.get(WEIGHTS[checkpoint]) or files.get(WEIGHTS["last"])
