"""A model held against a claim: what it says after words, and by what margin that is right.

    margin = (logit of the right output) - (largest other)          one answer
    margin = least over outputs e of (logit_e if e is right else -logit_e)      several answers at once

Words are read many at a time, as many as fit the memory. A recurrence reads a long word piece by piece, its state kept.

Shapes: B words, T tokens, E outputs, Q states, S symbols.
"""

from __future__ import annotations

import inspect
import time
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ...automata import Semiautomaton
from ...errors import ForeignError, LengthError, NonFiniteError, OutOfMemory, ShapeError
from ...foreign_code import blaming
from ...limits import memory_free
from ...models import LengthwiseForCausalLM
from ...models.depth import Fixed
from ...models.pretrained import as_classifier
from ...models.token_classifier import PresetClassifier, TokenClassifier, equal_tokens, evaluating
from ...train.counting import batch_size, ran_out
from ..claim import Claim
from ..subject import own_model
from ..verdict import Refuted

PIECE = 1 << 16
"""Tokens of a word that a recurrence reads at once."""
STRIDE = 1024
"""Tokens of a long word whose effect on every state is worked out at once."""


class Said(NamedTuple):
    """The answers to the words that were read, in order: those beyond the time or the model's reach are missing."""

    margins: np.ndarray
    """(B,); 0 where a logit is not finite."""
    wrong: np.ndarray
    """(B,) booleans."""


class Reader:
    """Asks one model about words of one claim."""

    def __init__(self, model: nn.Module, claim: Claim):
        self.classifier = classifier_of(model)
        self.claim = claim
        parameter = next(iter(self.classifier.parameters()), None)
        self.device = torch.device("cpu") if parameter is None else parameter.device
        self.outputs = claim.outputs
        self.takes_last = "last" in inspect.signature(self.classifier.forward).parameters
        self.carries = carries_state(self.classifier)
        self.pace: dict[int, float] = {}
        """Seconds for a word of each length, as it was last measured."""

    def __enter__(self) -> Reader:
        self.looking = evaluating(self.classifier)
        self.looking.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.looking.__exit__(*error)

    def warm_up(self) -> None:
        """Reads once, so that what a model does but once, such as to compile its loops, takes no time of the search."""
        for rows, length in ((1, 1), (2, 2), (2, 64), (2, 64)):
            try:
                began = time.monotonic()
                with equal_tokens(self.classifier, reused=True):
                    self.logits(torch.zeros(rows, length, dtype=torch.long, device=self.device))
                self.pace[length] = (time.monotonic() - began) / rows
            except Exception as error:
                if length == 1 or not too_long(error):
                    raise

    def read(self, words: np.ndarray, until: float = np.inf) -> Said:
        """(B,T) words, each of which ends where something is asked; none is begun after the time `until`."""
        count, T = words.shape
        right = self.claim.answers[end_states(self.claim.machine, words)]
        size = batch_size(T, count, memory_free(self.device)) if not self.carries else max(1, min(count, PIECE // T))
        margins, wrong, at = [np.empty(0)], [np.empty(0, dtype=bool)], 0
        size = min(size, self.in_a_second(T))
        while at < count and time.monotonic() < until:
            began = time.monotonic()
            try:
                with equal_tokens(self.classifier, reused=True):
                    logits = self.logits(torch.from_numpy(words[at : at + size]).to(self.device))
            except (RuntimeError, OutOfMemory) as error:
                if not ran_out(error) or size == 1:
                    raise
                size = max(1, size // 2)
                continue
            judged = judge(logits.double().cpu().numpy(), right[at : at + size])
            self.pace[T] = (time.monotonic() - began) / len(logits)
            margins.append(judged.margins)
            wrong.append(judged.wrong)
            at += size
        return Said(np.concatenate(margins), np.concatenate(wrong))

    def expected(self, length: int) -> float:
        """Seconds that one word of this length will take, by those of shorter ones."""
        known = sorted(n for n in self.pace if n <= length)
        if not known:
            return 0.0
        near = known[-1]
        before = [n for n in known if n <= near / 2]
        pace = self.pace[near]
        if not before:
            return pace * (length / near)
        growth = np.log(max(pace / self.pace[before[-1]], 1e-9)) / np.log(near / before[-1])
        return float(pace * (length / near) ** np.clip(growth, 1, 2))

    def in_a_second(self, length: int) -> int:
        """Returns how many words of this length take about a second."""
        return int(max(1.0, min(1.0 / max(self.expected(length), 1e-9), 1e9)))

    def alone(self, word: np.ndarray) -> Refuted | None:
        """Returns what the model says after this one word, read by itself with no work shared, if it is wrong."""
        tokens = tuple(int(s) for s in word)
        right = self.claim.right(tokens)
        if right is None:
            return None
        with equal_tokens(self.classifier, reused=False):
            logits = self.logits(torch.tensor([tokens], device=self.device))[0].double().cpu().numpy()
        if self.claim.several:
            answer = tuple(np.flatnonzero(logits > 0).tolist())
        else:
            # Where a logit is not finite, the model names nothing.
            answer = int(logits.argmax()) if np.isfinite(logits).all() else ()
        return None if answer == right else Refuted(tokens, answer, right)

    @torch.no_grad()
    def logits(self, tokens: Tensor) -> Tensor:
        """(B,E) after the last token; NaN after a word at which the model itself refuses to go on."""
        try:
            logits = self._last(tokens)
        except NonFiniteError:
            if len(tokens) == 1:
                return torch.full((1, self.outputs), torch.nan)
            return torch.cat([self.logits(row[None])[:, : self.outputs].cpu() for row in tokens])
        if logits.shape[1] < self.outputs or (self.claim.several and logits.shape[1] != self.outputs):
            raise ShapeError(
                f"falsify: the claim has {self.outputs} outputs, and the model gives {logits.shape[1]}. Pass the task "
                "or machine that it was built or trained for."
            )
        return logits

    def _last(self, tokens: Tensor) -> Tensor:
        if self.carries and tokens.shape[1] > PIECE:
            logits = self._in_pieces(tokens)
        elif isinstance(self.classifier, TokenClassifier):
            logits = self.classifier(tokens, last=True)[:, -1]
        else:
            logits = self._foreign(tokens)
        return logits

    def _in_pieces(self, tokens: Tensor) -> Tensor:
        assert isinstance(self.classifier, PresetClassifier)
        inner, cache, logits = self.classifier.inner, None, None
        for piece in tokens.split(PIECE, dim=1):
            output = inner(piece, past_key_values=cache, use_cache=True, logits_to_keep=1)
            cache, logits = output.past_key_values, output.logits
        assert logits is not None
        return logits[:, -1]

    def _foreign(self, tokens: Tensor) -> Tensor:
        """A module that is only known to map (B,T) tokens to (B, T or 1, E) logits."""
        name = type(self.classifier).__name__
        with blaming(name, f"failed on tokens {list(tokens.shape)}", ForeignError):
            logits = self.classifier(tokens, last=True) if self.takes_last else self.classifier(tokens)
        if not isinstance(logits, Tensor) or logits.dim() != 3 or logits.shape[0] != len(tokens):
            got = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise ShapeError(f"{name}: must return logits (B, T or 1, E), got {got} for tokens {list(tokens.shape)}.")
        return logits[:, -1]


def classifier_of(model: nn.Module) -> nn.Module:
    """The model as a classifier of tokens; a Hugging Face model becomes one over its whole vocabulary."""
    if isinstance(model, LengthwiseForCausalLM):
        return PresetClassifier(model, model.config.outputs, type(model).__name__)
    return as_classifier(model, type(model).__name__) if isinstance(model, PreTrainedModel) else model


def carries_state(classifier: nn.Module) -> bool:
    """True if it is a recurrence, whose state after some tokens is all that it knows of them."""
    inner = own_model(classifier)
    if inner is None or not isinstance(inner.depth, Fixed):
        return False
    return inner.uncached is None and not inner.depth.keeps_keys


def judge(logits: np.ndarray, right: np.ndarray) -> Said:
    """(B,E) logits against (B,) right outputs, or (B,E) booleans."""
    finite = np.isfinite(logits).all(1)
    with np.errstate(invalid="ignore"):
        if right.ndim == 2:
            margins, wrong = np.where(right, logits, -logits).min(1), ((logits > 0) != right).any(1)
        else:
            rows = np.arange(len(logits))
            others = logits.copy()
            others[rows, right] = -np.inf
            margins, wrong = logits[rows, right] - others.max(1), logits.argmax(1) != right
            wrong |= ~finite
    return Said(np.where(finite, margins, 0.0), wrong)


def end_states(machine: Semiautomaton, words: np.ndarray) -> np.ndarray:
    """(B,) the state after each word; long words in strides side by side, each from every state.

    >>> parity = Semiautomaton([[0, 1], [1, 0]])
    >>> end_states(parity, np.ones((1, 5001), dtype=int)).tolist()
    [1]
    """
    (count, T), Q = words.shape, machine.num_states
    whole = T // STRIDE
    state = np.full(count, machine.start)
    if whole > 1 and count * whole * Q <= 1 << 24:
        strides = words[:, : whole * STRIDE].reshape(count * whole, STRIDE)
        maps = np.tile(np.arange(Q), (len(strides), 1))
        for t in range(STRIDE):
            maps = machine.delta[maps, strides[:, t, None]]
        maps = maps.reshape(count, whole, Q)
        for k in range(whole):
            state = maps[np.arange(count), k, state]
        words = words[:, whole * STRIDE :]
    for column in words.T:
        state = machine.delta[state, column]
    return state


def too_long(error: Exception) -> bool:
    """True if a model has refused a word for its length alone."""
    return isinstance(error, (LengthError, OutOfMemory)) or ran_out(error)
