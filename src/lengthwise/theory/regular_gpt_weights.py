"""A RegularGPT that is a given machine: its weights are written down, not trained, and it is right at every length.

For n states, a token's state is [Flat(A), 0] of width D = 2n², A the n × n transition matrix of the tokens it covers:
row q is one-hot at the state they lead to from q. One group of layers (C = 2, K = 1, post-norm, ReLU) makes of the
older token's matrix and its own the matrix of both (§7.2 of the paper):

    attention       [Flat(A), 0] -> [Flat(A_older), Flat(A_own)]      one head copies lag 0, one lag 1
    feed-forward    [Flat(A_older), Flat(A_own)] -> [Flat(A_older A_own), 0]      Lemma 1, hardened
    head            [Flat(A), 0] -> the answer in the state of row q_0

Before the first token stands [Flat(I), 0]. Each matrix has exactly n ones, so mean and variance in a layer norm are
constants, which its weight and bias undo.

Hardened: Lemma 1's ReLU(a + b - 1) hands on every rounding error; clip(2(a + b) - 5/2, 0, 1), two ReLUs, is exactly 0
or 1 wherever a and b are within 1/8 of 0 or 1. By the bounds of rounding.py errors stay below that at any depth. The
old content leaves through ReLU(x + 1/2) - 1/2, which is x there. That is 2n³ + 2n² = (n + 1) D units: an expansion of
n + 1, and none unused.

Lemma 1: two layers of ReLU units multiply two binary matrices.

    ReLU([Flat(A), Flat(B)] W1 - 1) W2 = Flat(AB)          ReLU(a + b - 1) = ab  for a, b in {0, 1}

W1 in {0,1}^(2n² × n³) gives unit (i, j, k) the entries A_ik and B_kj; W2 = I_{n²} ⊗ 1_n sums over k.
Flat writes a matrix row after row.
"""

from __future__ import annotations

from math import sqrt
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..automata import Semiautomaton
from ..errors import Error
from ..models import LengthwiseForCausalLM, presets
from .rounding import EPS, MOST_STATES
from .state_labels import CONFIDENCE, Labels, check_size, label_table

SHUT = -1000.0
"""Logit of the tap a head does not read: exp(-1000) is 0 even in fp64, and unlike -inf it leaves finite gradients."""


def regular_gpt(
    machine: Semiautomaton,
    labels: Labels = None,
    *,
    depth: Literal["sequence", "position"] = "sequence",
) -> LengthwiseForCausalLM:
    """The RegularGPT that runs `machine`; its logits say, after every token, the label of the state it is in.

    `labels`: for each state a class, a boolean (`machine.accepts_state`: 1 accept, 0 reject), or a row of booleans,
    one for each output; None: the state itself. A logit is above 0 where its output is right and below 0 elsewhere.
    `depth`: both are right at every position; "position" decodes with a cache.

    >>> from lengthwise import automata
    >>> machine = automata.from_regex("(ab|ba)*")
    >>> model = regular_gpt(machine, machine.accepts_state)
    >>> words = torch.tensor([machine.encode("abba" * 100), machine.encode("abab" * 99 + "abaa")])
    >>> model(words, logits_to_keep=1).logits[:, -1].argmax(-1).tolist()
    [1, 0]
    """
    table = label_table("regular_gpt", machine, labels)
    n = machine.num_states
    _check_size(n)
    config = presets.regular_gpt(
        vocab_size=machine.num_symbols,
        num_outputs=table.shape[1],
        width=2 * n**2,
        heads=2,
        chunk=2,
        thickness=1,
        depth=depth,
        variant="lengthwise",
        missing="learned-pad",
        norm="post",
        activation="relu",
        biases=False,
        embedding_scale=1.0,
        expansion=n + 1,
        dropout=0.0,
        tie_word_embeddings=False,
    )
    weights = _embedding(machine) | _attention(n) | _feed_forward(n) | _norms(n) | _head(machine, table)
    with torch.device("meta"):  # so that no weight is drawn first
        model = LengthwiseForCausalLM(config)
    model.load_state_dict(weights, assign=True)
    return model


def _check_size(n: int) -> None:
    instead = "Use a smaller machine; automata.minimise merges states of equal answers."
    if n > MOST_STATES:
        harmless = f"rounding is proven harmless in fp32 up to {MOST_STATES} states"
        raise Error(f"regular_gpt: {harmless}, got {n}. {instead}")
    check_size(f"regular_gpt: {n} states make", 8 * n**4 * (n + 1), instead)


def _embedding(machine: Semiautomaton) -> dict[str, Tensor]:
    """Each symbol's matrix: row q is one-hot at δ(q, σ). Before the first token nothing has moved yet."""
    n = machine.num_states
    moves = F.one_hot(torch.from_numpy(machine.delta.T.astype(np.int64)), n).flatten(1)
    nothing = torch.zeros_like(moves)
    identity = torch.cat([torch.eye(n).flatten(), torch.zeros(n**2)])
    return {"embedding.weight": torch.cat([moves, nothing], 1).to(identity), "pad": identity}


def _attention(n: int) -> dict[str, Tensor]:
    """Queries and keys are 0, so the bias alone picks the tap. Head 0 brings Flat(own), head 1 Flat(older).

    The residual is [Flat(own), 0]; so what is added to it is [Flat(older) - Flat(own), Flat(own)].
    """
    one, none = torch.eye(n**2), torch.zeros(n**2, n**2)
    copy = torch.cat([one, none], 1)
    return {
        "depth.layers.0.mixer.qkv.weight": torch.cat([torch.zeros(4 * n**2, 2 * n**2), copy, copy]),
        "depth.layers.0.mixer.r": torch.tensor([[0.0, SHUT], [SHUT, 0.0]]),
        "depth.layers.0.mixer.out.weight": torch.cat([torch.cat([-one, one], 1), torch.cat([one, none], 1)]),
    }


def _binary_product(n: int) -> tuple[Tensor, Tensor]:
    """W1 (n³, 2n²) and W2 (n², n³) of Lemma 1, as torch keeps maps: the paper's matrices transposed."""
    i, j, k = torch.cartesian_prod(*[torch.arange(n)] * 3).T
    unit = (i * n + j) * n + k
    pairs = torch.zeros(n**3, 2 * n**2)
    pairs[unit, i * n + k] = 1
    pairs[unit, n**2 + k * n + j] = 1
    return pairs, torch.kron(torch.eye(n**2), torch.ones(1, n))


def _feed_forward(n: int) -> dict[str, Tensor]:
    """Lemma 1 with clip(2(a + b) - 5/2, 0, 1) = ReLU(2(a + b) - 5/2) - ReLU(2(a + b) - 7/2) for its units.

    Further units ReLU(x + 1/2) - 1/2 take away what the residual brings.
    """
    pairs, sums = _binary_product(n)
    old = torch.eye(2 * n**2)
    result = torch.cat([sums, torch.zeros_like(sums)])
    thresholds = torch.tensor([-5 / 2, -7 / 2, 1 / 2])
    return {
        "depth.layers.0.up.weight": torch.cat([2 * pairs, 2 * pairs, old]),
        "depth.layers.0.up.bias": thresholds.repeat_interleave(torch.tensor([n**3, n**3, 2 * n**2])),
        "depth.layers.0.down.weight": torch.cat([result, -result, -old], 1),
        "depth.layers.0.down.bias": torch.full((2 * n**2,), 1 / 2),
    }


def _norms(n: int) -> dict[str, Tensor]:
    """After attention the state holds 2n ones, after the feed-forward part n; both norms are undone."""
    D, weights = 2 * n**2, {}
    for name, ones in (("mixer_norm", 2 * n), ("feed_norm", n)):
        mean = ones / D
        weights[f"depth.layers.0.{name}.weight"] = torch.full((D,), sqrt(mean - mean**2 + EPS))
        weights[f"depth.layers.0.{name}.bias"] = torch.full((D,), mean)
    return weights


def _head(machine: Semiautomaton, table: Tensor) -> dict[str, Tensor]:
    """Row q_0 of the matrix is one-hot at the state reached; the logits say that state's labels."""
    n, outputs = machine.num_states, table.shape[1]
    weight = torch.zeros(outputs, 2 * n**2)
    weight[:, machine.start * n : (machine.start + 1) * n] = 2 * CONFIDENCE * table.T
    return {"head.weight": weight, "head.bias": torch.full((outputs,), -CONFIDENCE)}
