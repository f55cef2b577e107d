"""What is known of the networks that a run leads to, kept beside the run, so that the same question is asked once.

learned         the run's own, as training left it
settled         where it is asked for and that is not proved: a copy that was taught the machine extracted from it
consolidated    where none is proved, and learned its machine: a copy that was taught its algebra; "compiled", where
                the copy kept nothing of its own
compiled        where it is asked for: a network that saw no string

All but the first are in folders of these names in the run's own.

`proof.json` holds what was found. A proof has its certificate beside it, which `lengthwise certify --check` reads; the
verdict on the run's own network is its `verdict.json`. Where it takes snapped nodes, it is `snapped-certificate.json`.
"""

from __future__ import annotations

import json
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from torch import nn

from ... import verify
from ...errors import Error
from ...evaluate import score_strings
from ...files import read_json, write_text
from ...lab import Run, load_model, load_task
from ...models import LengthwiseForCausalLM, pretrained
from ...report import TableCell, sign_of
from ...tasks import Task
from ...verify import Claim, Refuted, Verdict
from ...verify.certificate import weights
from ...verify.certification import consolidated
from ...verify.checker import check
from ...verify.consolidate.gate import share_right
from ...verify.falsification.search import shortened
from ...verify.subject import LENGTHS as TRAINED
from ...verify.subject import KeptShare, Subject, subject_of
from ...verify.verdict_files import WEIGHTS, keep
from ..papers.regulargpt.table_1 import thinned
from .long_words import wrong_among, wrong_words
from .scales import Budget, StringCounts

FILE, SNAPPED = "proof.json", "snapped-certificate.json"
FORMAT = 2
HowMade = Literal["learned", "settled", "consolidated", "compiled"]
Word = Literal["proved", "refuted", "unknown", "refused"]
"""refused: no such network was made, as the one that was trained has not learned its machine."""


@dataclass
class ProofNetwork:
    """One network and what was found of it."""

    made: HowMade
    raw: Word = "unknown"
    """Of the network as it is."""
    snapped: Word | None = None
    """Of the network with its nodes snapped; None where it has none to snap."""
    parts: int | None = None
    """The elements of a tree, the sets or states of a recurrence, that the proof goes through: of either proof."""
    conditions: int | None = None
    """How many sets, nodes, steps and answers the checker evaluated."""
    arithmetic: str | None = None
    """In which the proof is about its evaluation."""
    certificate: str | None = None
    """The digest of that of the proof: of the network as it is, or else with its nodes snapped."""
    kept: dict[str, Any] | None = None
    """What of its own a network that was taught kept, as its certificate says it."""
    short: float | None = None
    """The share of right answers at every length from 1 to 40, odd ones too, of each right answer as many."""
    wrong: int | None = None
    """The length of the shortest word found that it gets wrong."""
    why: str = ""
    """What a proof lacked."""
    near: float | None = None
    """The share of right answers over lengths up to 500."""
    far: dict[str, float] = field(default_factory=dict)
    """That at much greater lengths, where all were right before."""
    seconds: float = 0.0
    """To make it, after training, and to decide about it; not to test it."""


def verdict_cell(verdicts: Sequence[str], notes: Sequence[tuple[str, str]] = ()) -> TableCell:
    """Returns a cell of a matrix: the commonest verdict on its networks, how many have it, and the other verdicts."""
    (commonest, count), *others = Counter(verdicts).most_common()
    mark = f"{sign_of(commonest)} {commonest}" + (f" {count} of {len(verdicts)}" if len(verdicts) > 1 else "")
    besides = [("besides", ", ".join(f"{n} {verdict}" for verdict, n in others))] if others else []
    return TableCell("", (*besides, *notes), mark)


class NetworkQuestion(NamedTuple):
    budget: Budget
    asked: StringCounts | None
    """None: no strings but those of the search for a wrong one."""
    settle: bool = False
    consolidate: bool = False
    compile: bool = False


def networks(run: Run, question: NetworkQuestion, device: str) -> list[ProofNetwork]:
    """What is known of the run's networks; what the same question found earlier is not asked again."""
    about = {
        "format": FORMAT,
        "weights": run.result.get("files", {}).get(WEIGHTS["last"]),
        "question": json.loads(json.dumps(question)),
    }
    file = run.path / FILE
    if (known := _earlier(file, about)) is not None:
        return known
    try:
        results = _decided(run, question, device)
    except Exception as problem:  # A table of hours is not lost by one of its lines.
        warnings.warn(f"{run.path}: {problem!r}. The same call tries it again.", stacklevel=2)
        return [ProofNetwork("learned", why=f"nothing was decided: {problem!r}")]
    write_text(file, json.dumps({**about, "networks": [asdict(each) for each in results]}, indent=1) + "\n")
    return results


def _decided(run: Run, question: NetworkQuestion, device: str) -> list[ProofNetwork]:
    task = load_task(run)
    claim = verify.claim_of(task)
    results = [_learned(run, task, claim, question, device)]
    for made, asked in (("settled", question.settle), ("consolidated", question.consolidate)):
        if asked and results[-1].raw != "proved":
            make = partial(_taught, run, question.budget.consolidate, made == "settled")
            results += _made(run, cast(HowMade, made), make, task, claim, question, device)
    if question.compile:
        results += _made(
            run, "compiled", partial(_compiled, task, question.budget.compile), task, claim, question, device
        )
    return results


def _earlier(file: Path, about: dict[str, Any]) -> list[ProofNetwork] | None:
    if not file.is_file():
        return None
    try:
        content = dict(read_json(file))
        rows = content.pop("networks")
        return [ProofNetwork(**row) for row in rows] if content == about else None
    except (Error, KeyError, TypeError, ValueError):
        return None


def _learned(run: Run, task: Task, claim: Claim, question: NetworkQuestion, device: str) -> ProofNetwork:
    network, model = ProofNetwork("learned"), load_model(run).to(device)
    verdict = _decide(network, model, claim, question.budget, run.path)
    refuted = _test(network, model, task, claim, question, device)
    keep(run, refuted or verdict, claim.to_json())
    return network


Make = Callable[[Path], Subject]
"""Makes a network and saves it in a folder that does not exist yet."""


def _taught(run: Run, seconds: float, settle: bool, folder: Path) -> Subject:
    return consolidated(subject_of("proof", run, None), seconds, folder, settle)


def _compiled(task: Task, seconds: float, folder: Path) -> Subject:
    made = verify.compile_machine(task, seconds=seconds)
    made.save(folder)
    return Subject(made.model, made.claim, made.made)


def _made(
    run: Run, made: HowMade, make: Make, task: Task, claim: Claim, question: NetworkQuestion, device: str
) -> list[ProofNetwork]:
    """The network that was made of the run or of its task; where it is refused, a line that says why."""
    network, began = ProofNetwork(made), time.monotonic()
    folder = run.path / made
    for file in folder.iterdir() if folder.is_dir() else ():  # what an earlier question left
        file.unlink()
    try:
        subject = make(folder)
    except Error as refused:
        network.raw, network.why = "refused", str(refused)
        return [network]
    network.made = cast(HowMade, subject.made)
    network.kept = subject.kept and subject.kept.to_json()
    inner = getattr(subject.model, "inner", subject.model)
    classifier = pretrained.as_classifier(cast(LengthwiseForCausalLM, inner), made).eval().to(device)
    network.seconds = time.monotonic() - began
    verdict = _decide(network, classifier, claim, question.budget, folder)
    if isinstance(verdict, verify.Proved):
        write_text(folder / "certificate.json", json.dumps(verdict.certificate, indent=1) + "\n")
    _test(network, classifier, task, claim, question, device)
    return [network]


def _decide(network: ProofNetwork, model: nn.Module, claim: Claim, budget: Budget, beside: Path) -> Verdict:
    """Fills in the verdicts. `beside`: the folder of the network, where the certificate of its snapped copy goes."""
    began = time.monotonic()
    verdict = verify.certify(
        model, claim, budget.certify, made=network.made, kept=KeptShare(**network.kept) if network.kept else None
    )
    network.raw = _word(verdict)
    _note(network, verdict, model)
    if _snaps(model):
        network.snapped = _snapped(network, model, claim, budget, beside)
    network.seconds = round(network.seconds + time.monotonic() - began, 1)
    return verdict


def _note(network: ProofNetwork, verdict: Verdict, model: nn.Module) -> None:
    if isinstance(verdict, verify.Proved):
        certificate = verdict.certificate
        report = check(certificate, weights(cast(LengthwiseForCausalLM, getattr(model, "inner", model))))
        network.conditions, network.arithmetic = report.conditions, report.arithmetic
        network.certificate, proof = certificate["digest"], certificate["proof"]
        network.parts = len(next(proof[name] for name in ("elements", "sets", "pairs") if name in proof))
    elif isinstance(verdict, Refuted):
        network.wrong = len(verdict.word)
    else:
        network.why = verdict.why


def _snaps(model: nn.Module) -> bool:
    inner: Any = getattr(model, "inner", model)
    mixer = getattr(inner.config, "mixer", None)  # a list in a hybrid, and nothing in an `hf:` model
    return isinstance(mixer, dict) and mixer["name"] == "sliding-dilated" and not inner.config.depth.get("nodes")


def _snapped(network: ProofNetwork, model: nn.Module, claim: Claim, budget: Budget, beside: Path) -> Word:
    """Of the network whose nodes are replaced by the nearest of the centres that `extract` finds in it."""
    try:
        extraction = verify.extract(model, claim, seconds=budget.certify)
        if extraction.difference is not None:
            return "refuted" if extraction.difference.said is not None else "unknown"
        snapped = extraction.snap()
        verdict = verify.certify(
            snapped, claim, budget.certify, made=network.made, kept=KeptShare(**network.kept) if network.kept else None
        )
    except Error:
        return "unknown"
    if network.raw != "proved" and isinstance(verdict, verify.Proved):
        _note(network, verdict, snapped)
        write_text(beside / SNAPPED, json.dumps(verdict.certificate, indent=1) + "\n")
    return _word(verdict)


def _word(verdict: Verdict) -> Word:
    return cast(Word, verdict.to_json()["verdict"])


def _test(
    network: ProofNetwork, model: nn.Module, task: Task, claim: Claim, question: NetworkQuestion, device: str
) -> Refuted | None:
    """The strings: up to 500 the task's own; far beyond only where all of these, and all shorter ones, are right.

    A string that it gets wrong refutes a network of which nothing was known.
    """
    strings = question.asked
    if strings is None:
        return None
    lengths = thinned(task.lengths(1, strings.near), strings.lengths)
    scores = score_strings(model, task, tuple(lengths), strings.samples, 0, device=torch.device(device))
    network.short = share_right(model, claim, TRAINED)
    network.near = sum(scores.correct.values()) / (strings.samples * len(lengths))
    for length, right in zip(lengths, scores.correct.values(), strict=True):
        if right < strings.samples:
            words = task.test_set(length, strings.samples).tokens.numpy()
            return _refuted(network, model, claim, wrong_among(words, model, claim, device), question.budget.certify)
    inner: Any = getattr(model, "inner", model)
    stepwise = inner.config.mixer["name"] in ("rnn", "gru")
    so_far = network.near if network.short is None else min(network.near, network.short)
    for length, count in strings.far.items():
        if so_far < 1 or (stepwise and length > strings.stepwise):
            break
        wrong = wrong_words(model, claim, length, count, device)
        so_far = network.far[str(length)] = 1 - len(wrong) / count
        if len(wrong):
            return _refuted(network, model, claim, wrong, question.budget.certify)
    return None


def _refuted(
    network: ProofNetwork, model: nn.Module, claim: Claim, wrong: np.ndarray, seconds: float
) -> Refuted | None:
    if not len(wrong) or network.raw != "unknown":
        return None
    refuted = shortened(model, claim, wrong[0], seconds)
    if refuted is not None:
        network.raw, network.why = "refuted", ""
        _note(network, refuted, model)
    return refuted
