"""Extract what a model computes: the finite algebra of a tree, the machine of a recurrence, or of any model.

found = verify.extract(lab.load("runs/parity-regular-gpt-s0-…")[0])
print(found)  # an algebra of 2 elements; the model says the same of 1,662 words; the two machines are equal …
found.algebra.table, found.difference

Nothing is labelled by the machine of the task, which only judges what was found. That what was extracted equals the
machine at every length is decided; that the model equals what was extracted is not: it was seen on words.
A proof of that is `certify`'s.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import nn

from ...automata import Semiautomaton
from ...errors import Error, UnknownName
from ...lab import Run
from ...tasks import Task
from ..claim import Claim
from ..falsification.reading import Reader
from ..prove.node import no_tree
from ..subject import checked_seconds, subject_of
from .active_learning import learn
from .agreement import Sample
from .algebra import Algebra
from .answers import Difference, said_by
from .extracted import Extracted
from .moore import Moore
from .states import find_states, no_recurrence
from .tree import find_algebra

__all__ = ["Algebra", "Difference", "Extracted", "Moore", "extract"]

METHODS = ("auto", "tree", "states", "learned")


def extract(
    model_or_run: nn.Module | Run,
    machine: Semiautomaton | Task | Claim | None = None,
    *,
    method: Literal["auto", "tree", "states", "learned"] = "auto",
    seed: int = 0,
    seconds: float | None = None,
) -> Extracted:
    """The finite algebra or machine that a trained model is, and how it compares with `machine`.

    `machine`: what is right, and after which words something is asked; None: the task of the run, and for a model
    nothing to compare with. `method`: "tree" for a RegularGPT of one layer a group, "states" for recurrent models,
    "learned" for any other (automata learning with the model as the teacher); "auto" takes the first that fits.
    `seconds`: after these it is given up, with an Error.

    >>> from lengthwise import tasks, theory
    >>> parity = tasks.get("parity")
    >>> found = extract(theory.exact_classifier(parity), parity)
    >>> print(found)
    an algebra of 2 elements; the model says the same of 1,662 words; the two machines are equal at every length
    >>> found.algebra.leaf(1), found.algebra.product(1, 1)
    (1, 0)
    """
    if method not in METHODS:
        raise UnknownName("method of extract", method, METHODS)
    if machine is None and isinstance(model_or_run, nn.Module):
        classifier, claim = model_or_run, None
    else:
        subject = subject_of("extract", model_or_run, machine)
        classifier, claim = subject.model, subject.claim
    inner = getattr(classifier, "inner", classifier)
    told = claim or _nothing_asked(inner)
    why = {"tree": no_tree(inner), "states": no_recurrence(inner), "learned": None}
    chosen = method if method != "auto" else next(name for name, reason in why.items() if reason is None)
    if reason := why[chosen]:
        raise Error(f"extract: method {chosen!r} cannot take this model: {reason}. Use method='auto'.")
    until = math.inf if seconds is None else time.monotonic() + checked_seconds("extract", seconds)
    with Reader(classifier, told) as reader:
        sample = Sample(reader, seed)
        if chosen == "learned":
            extracted = learn(reader, sample, classifier, until)
        else:
            find = find_algebra if chosen == "tree" else find_states
            extracted = find(classifier, told, sample, until)
        if claim is None:
            return extracted
        difference = extracted.finite.difference(claim)
        raw = None
        if difference is not None and difference.word is not None:
            raw = said_by(reader, torch.tensor([difference.word]))[0] != difference.right
    return replace(extracted, claim=claim, difference=difference, raw=raw)


def _nothing_asked(inner: nn.Module) -> Claim:
    """Returns the claim of a model alone: every word counts, and nothing is right."""
    vocabulary = getattr(getattr(inner, "config", None), "vocab_size", None)
    if vocabulary is None:
        raise Error("extract: this model does not say how many tokens it reads. Pass machine=.")
    machine = Semiautomaton([[0] * vocabulary])
    return Claim(machine, np.zeros(1, dtype=np.int64), np.ones(1, dtype=bool))
