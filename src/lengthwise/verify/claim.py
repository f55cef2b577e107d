"""What a model is held against: the right answer after every word, as the states of a machine say it.

    answer(w) = answers[δ(start, w)]      wherever asked[δ(start, w)]

A word has at least one symbol, and symbol s is the model's token s.

Shapes: Q states, S symbols, E outputs of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..automata import Semiautomaton, live_states, minimise, product
from ..errors import Error
from ..tasks import Task


@dataclass(frozen=True, eq=False)
class Claim:
    machine: Semiautomaton
    answers: np.ndarray
    """(Q,) the one right output of each state, or (Q,E) booleans: which outputs are to be named, each by itself."""
    asked: np.ndarray
    """(Q,) booleans: the states that have a question. After other words the model may say what it likes."""

    def __post_init__(self) -> None:
        Q = self.machine.num_states
        if self.answers.shape[:1] != (Q,) or self.asked.shape != (Q,):
            raise Error(
                f"Claim: needs an answer and a question for each of {Q} states, got {list(self.answers.shape)} answers "
                f"and {list(self.asked.shape)} questions."
            )

    @property
    def several(self) -> bool:
        """True if a model names any number of outputs at once, those whose logit is above 0."""
        return self.answers.ndim == 2

    @property
    def outputs(self) -> int:
        """Returns how many logits a model of this claim has, at least."""
        return self.answers.shape[1] if self.several else int(self.answers.max()) + 1

    @property
    def alive(self) -> np.ndarray:
        """(Q,) whether something is asked in the state, or in one that can follow it."""
        return live_states(self.machine.with_accepting(np.flatnonzero(self.asked).tolist()))

    @property
    def answer_numbers(self) -> np.ndarray:
        """(Q,) a number for each right answer."""
        if self.several:
            return np.unique(self.answers, axis=0, return_inverse=True)[1].reshape(-1)
        return self.answers.astype(np.int64)

    def right(self, word: str | Sequence[int]) -> int | tuple[int, ...] | None:
        """The right answer after a word; None where nothing is asked.

        >>> from lengthwise import tasks
        >>> claim_of(tasks.get("parity")).right([1, 0, 1, 1])
        1
        """
        q = self.machine.state_after(word)
        if not self.asked[q] or not len(word):
            return None
        return tuple(np.flatnonzero(self.answers[q]).tolist()) if self.several else int(self.answers[q])

    def to_json(self) -> dict[str, Any]:
        """As it stands in a certificate."""
        return {
            "symbols": list(self.machine.symbols),
            "delta": self.machine.delta.tolist(),
            "start": self.machine.start,
            "answers": self.answers.astype(int).tolist(),
            "asked": self.asked.astype(int).tolist(),
        }


def claim_of(source: Task | Semiautomaton) -> Claim:
    """The claim of a task; or of a machine: acceptance where it has accepting states, else the state itself."""
    if isinstance(source, Semiautomaton):
        Q = source.num_states
        answers = np.arange(Q) if source.accepting is None else source.accepts_state.astype(int)
        return Claim(source, answers, np.ones(Q, dtype=bool))
    if source.machine is not None and source.readout is None:
        raise Error(
            f"{source.name}: its machine has no answers. Set readout, a tensor with the answer in each of its "
            f"{source.machine.num_states} states."
        )
    if source.machine is None or source.readout is None:
        raise Error(
            f"{source.name}: only a task with a machine says what is right at every length, and this has none. Take a "
            "task of a regular language, such as parity, or regex:PATTERN."
        )
    if source.questions > 1 or source.scoring == "generated":
        raise Error(f"{source.name} {source.params}: a claim is about one answer after each word.")
    asked = np.ones(source.machine.num_states, dtype=bool) if source.answered is None else source.answered.numpy()
    return Claim(source.machine, source.readout.numpy(), asked)


def minimal(claim: Claim, each_round: Callable[[], None] | None = None) -> Claim:
    """The same claim about the smallest machine: states of equal answers after all words are one.

    `each_round` is called again and again, and may raise to give up.
    """
    machine = minimise(claim.machine, np.where(claim.asked, claim.answer_numbers, -1), each_round)
    if machine.num_states == claim.machine.num_states:
        return claim
    pairs: Any = product(claim.machine, machine).states or ()
    one = {merged: q for q, merged in pairs}
    own = [one[q] for q in range(machine.num_states)]
    return Claim(machine, claim.answers[own], claim.asked[own])


def without_start(claim: Claim) -> Claim:
    """A claim that asks for all of this and perhaps more, of fewer states: words begin in a state that others lead to.

    There must be one from which every word is answered as it is from the start. Then "* 1 + 2" and "+ 0 + 2" can be one
    element: they differ at the beginning of a word alone, where one of them cannot stand.
    """
    machine, right = claim.machine, np.where(claim.asked, claim.answer_numbers, -1)
    for q in np.unique(machine.delta).tolist():
        met = {(machine.start, q)}
        for pair in (walk := list(met)):  # grows while we walk it
            if pair[0] != pair[1]:
                after = set(zip(*(machine.delta[state].tolist() for state in pair), strict=True)) - met
                if any(right[a] not in (-1, right[b]) for a, b in after):
                    break
                met |= after
                walk.extend(after)
        else:
            return Claim(Semiautomaton(machine.delta, start=q, symbols=machine.symbols), claim.answers, claim.asked)
    return claim
