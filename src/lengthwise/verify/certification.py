"""Certify a model: search for a word that it gets wrong, then for a proof that there is none, and say what is known.

falsify        a wrong word: Refuted
prove          a method finds a proof, and the checker, which imports none of them, accepts its certificate
again          both once more, with more time
else           Unknown, with what was read and why each method fell short

A copy that was consolidated is certified as it is.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import nn

from ..automata import Semiautomaton
from ..errors import OutOfMemory, TooLarge
from ..files import digest, pack, read_json
from ..lab import Run
from ..models.depth import Adaptive
from ..models.token_classifier import evaluating
from ..tasks import Task
from . import certificate as certificates
from .checker import Rejected
from .claim import Claim, minimal
from .consolidate.compiling import FILE, kept_of, made_of, new_folder, saved_before
from .consolidate.compiling import save as save_made
from .consolidate.gate import checked_to_have_learned
from .consolidate.teaching import CannotBeTaught
from .extraction import extract
from .extraction.states import no_recurrence
from .falsification.hunt import Stage, Watcher
from .falsification.reading import Reader, carries_state
from .falsification.search import Search, search
from .families import Method, ProofFamily, family_of
from .subject import KeptShare, Subject, checked_seconds, subject_of
from .verdict import Proved, Refuted, Unknown, Verdict

BUDGET = 60.0
"""Seconds."""
ROUNDS = ((0.02, 0.1), (0.28, 0.6))
"""How much of the budget search and proof have, in each round. Most of what is wrong is so on a short word, and most
proofs take less than a second, so that the first decides most networks. Where no method can take the model, the search
has all of it."""
LEAST_SHARE = 0.05
"""How much of a round's time every method has at least."""
CONSOLIDATE_SHARE = 0.8
"""How much of the budget teaching a copy may take."""
HowMade = Literal["learned", "settled", "consolidated", "compiled", "built", "given"]


def certify(
    model_or_run: nn.Module | Run,
    machine_or_task: Semiautomaton | Task | Claim | None = None,
    budget: float = BUDGET,
    *,
    made: HowMade | None = None,
    kept: KeptShare | None = None,
    watch: Watcher | None = None,
) -> Verdict:
    """Returns whether the model is right on every word of every length: proved, refuted or unknown.

    `machine_or_task` says what is right; None: the task of the run. `budget`: seconds after which it gives up.
    `made`: how the model came about, which a certificate states; None: "learned" for a run, else "given". `kept`: what
    of its own a consolidated one kept.

    >>> from lengthwise import automata, tasks, theory
    >>> model = theory.regular_gpt(tasks.get("parity").machine)
    >>> print(certify(model, automata.Semiautomaton([[0, 1], [0, 1]]), budget=5))
    refuted: after the word 1 1 the model says 0, and 1 is right
    """
    seconds = checked_seconds("certify", budget, "budget")
    subject = subject_of("certify", model_or_run, machine_or_task)
    if made is not None:
        subject = subject._replace(made=made, kept=kept)
    return decide(subject, seconds, watch).verdict


class Decision(NamedTuple):
    verdict: Verdict
    search: Search
    """What was read before a proof was tried."""
    made: str
    cut_short: float | None = None
    """After how many seconds a copy was taught no longer, where all the time for it was used up."""
    kept: KeptShare | None = None
    """What of its own a copy that was taught kept."""


def decide(
    subject: Subject, seconds: float, watch: Watcher | None = None, *, save: Path | None = None, settle: bool = False
) -> Decision:
    """The verdict, and how it came about. `save`: a copy is taught first, certified instead, and kept there.

    `settle`: it is taught its own machine, not that of the claim.
    """
    began, tell, cut_short = time.monotonic(), watch or (lambda stage: None), None
    if save is not None:
        tell(Stage("settling" if settle else "consolidation", 0.0))
        most = seconds * CONSOLIDATE_SHARE
        subject = consolidated(subject, most, save, settle)
        spent = time.monotonic() - began
        cut_short = spent if spent >= most else None
        began, seconds = time.monotonic(), max(seconds - spent, 1.0)
    family = decidable(subject)

    def of_all(stage: Stage) -> None:
        """Tells a stage with the share of the whole time that is over."""
        tell(stage._replace(share=min(1.0, (time.monotonic() - began) / seconds)))

    if isinstance(family, str):
        reading = search(subject.model, subject.claim, seconds, watch=of_all)
        verdict = reading.refuted or unknown(reading, [Unknown(family)])
        return Decision(verdict, reading, subject.made, cut_short, subject.kept)
    ends, rounds = began, list(ROUNDS)
    while True:
        searching, proving = rounds.pop(0)
        reading = search(subject.model, subject.claim, seconds * searching, watch=of_all)
        ends += seconds * (searching + proving)
        verdict = reading.refuted or _proved(subject, reading, family, seconds * proving, ends, of_all)
        if not isinstance(verdict, Unknown) or not rounds:
            return Decision(verdict, reading, subject.made, cut_short, subject.kept)


def _proved(
    subject: Subject, reading: Search, family: ProofFamily, seconds: float, ends: float, tell: Watcher
) -> Verdict:
    shortcomings: list[Unknown] = []
    # A copy that was compiled has one code for words that the smallest machine does not tell apart; a network whose
    # weights were written down from this machine has one for each of its states.
    smallest = minimal(subject.claim)
    subjects = [subject] if smallest is subject.claim else [subject, subject._replace(claim=smallest)]
    last = list(family.methods)[-1:]
    for (name, method), each in product(family.methods.items(), subjects):
        # One may find at once that it has the proof, so each is asked, however long the others took.
        left = max(ends - time.monotonic(), LEAST_SHARE * seconds)
        tell(Stage(f"proof by {name}", 0.0))
        attempt = _attempt(name, method, each, left if [name] == last else left / 2)
        if not isinstance(attempt, Unknown):
            return attempt
        shortcomings.append(attempt)
    return unknown(reading, shortcomings)


def consolidated(subject: Subject, seconds: float, save: Path, settle: bool = False) -> Subject:
    """A copy of a network that learned its machine, taught its algebra: "compiled" if it kept nothing.

    `settle`: it is taught the machine that is extracted from it, so that no label is read. The same call again takes
    the copy that the folder holds. A copy is no nearer to strings than what it is a copy of, and keeps no more.
    """
    if isinstance(family := decidable(subject), str) or family.teach is None:
        raise CannotBeTaught(family if isinstance(family, str) else "its nodes are snapped already")
    assert subject.inner is not None
    of, ends = digest(pack(dict(subject.inner.state_dict()))), time.monotonic() + seconds
    there = saved_before(save, {"of": of, "claim": subject.claim.to_json()})
    if there is not None and (made_of(save) == "settled" or "taught" in read_json(save / FILE)) == settle:
        return subject._replace(model=there, made=made_of(save) or "consolidated", kept=kept_of(save))
    new_folder(save)
    goal = own_claim(subject, seconds) if settle else subject.claim
    right = checked_to_have_learned(subject.model, goal, subject.lengths)
    with evaluating(subject.inner):
        lesson = family.teach(subject.inner, goal, max(1.0, ends - time.monotonic()))
    own = 0 if subject.made in ("compiled", "built") else min(lesson.own, (subject.kept or lesson).own)
    share = KeptShare(own, lesson.all, lesson.of, round(right, 4))
    made = "compiled" if not own else "settled" if settle and subject.made != "consolidated" else "consolidated"
    subject = subject._replace(model=lesson.model.eval(), made=made, kept=share)
    about = {"of": of, **({"taught": "its own machine"} if settle else {}), "claim": subject.claim.to_json()}
    save_made(lesson.model, save, {"made": made, "kept": share.to_json(), **about})
    return subject


def own_claim(subject: Subject, seconds: float) -> Claim:
    """Returns what the model says after each word: the machine that is extracted from it, and no label of the claim."""
    mute = minimal(replace(subject.claim, answers=np.zeros_like(subject.claim.answers)))  # which words are asked about
    method = "states" if no_recurrence(subject.inner) is None else "learned"
    own = extract(subject.model, mute, method=method, seconds=seconds).moore
    assert own is not None
    outputs, asked = own.said, np.array([answer is not None for answer in own.said])
    answers = np.zeros((len(outputs), *mute.answers.shape[1:]), mute.answers.dtype)
    for q, answer in enumerate(outputs):
        if isinstance(answer, tuple):
            answers[q, list(answer)] = True
        elif answer is not None:
            answers[q] = answer
    return Claim(own.machine, answers, asked)


def _attempt(name: str, method: Method, subject: Subject, seconds: float) -> Verdict:
    """Returns what one method proves, once the checker has accepted its certificate; or a wrong word that it met."""
    assert subject.inner is not None
    try:
        with evaluating(subject.inner):
            proof = method(subject.inner, subject.claim, seconds)
    except (OutOfMemory, TooLarge) as limit:
        proof = str(limit).removesuffix(".")
    if isinstance(proof, Refuted):
        with Reader(subject.model, subject.claim) as reader:
            alone = reader.alone(np.array(proof.word))
        return alone or Unknown(f"{name}: it met a word that it calls wrong, and read alone it is right")
    if isinstance(proof, (str, Unknown)):
        why, short = (proof, None) if isinstance(proof, str) else (proof.why, proof.by_how_much)
        return Unknown(f"{name}: {why}", short)
    share = subject.kept and subject.kept.to_json()
    try:
        return Proved(certificates.accepted(subject.inner, subject.claim, proof, subject.made, share))
    except Rejected as reason:
        why = str(reason).removesuffix(".")
        return Unknown(f"a proof was found, and the checker does not accept it: {why}")


def unknown(reading: Search, shortcomings: list[Unknown]) -> Unknown:
    """Returns what was read, and of each method why it proves nothing."""
    short = [each.by_how_much for each in shortcomings if each.by_how_much is not None]
    why = "; ".join([str(reading), *(each.why for each in shortcomings)])
    return Unknown(why, min(short, default=None), reading.to_json())


def decidable(subject: Subject) -> ProofFamily | str:
    """The family of the model, or why none can take it, and what can be done instead."""
    model = subject.inner
    instead = "a longer budget searches more strings"
    if model is None:
        rule = "only this library's own trees and recurrences, as their config and weights say them, can be proved"
        return f"{rule}; of other models {instead}"
    if (kinds := {p.dtype for p in model.parameters()}) not in ({torch.float32}, {torch.float64}):
        dtypes = " and ".join(sorted(str(kind).removeprefix("torch.") for kind in kinds))
        return f"what is proved is float32 or float64, and its weights are {dtypes}. Give model.float()"
    if (isinstance(model.depth, Adaptive) and model.depth.shares_subtrees) or carries_state(subject.model):
        with evaluating(model):
            return family_of(model)
    return (
        "the model is neither a tree (regular-gpt with one layer a group) nor a recurrence (block-lrnn, rnn, gru, "
        f"lstm), so nothing bounds what it keeps at every length. Train one of these; of this one {instead}"
    )
