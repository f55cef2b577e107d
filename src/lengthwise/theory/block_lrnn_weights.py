"""A block-diagonal linear RNN that is a given machine: its weights are written down, not trained, and it is exact.

One block, as wide as the machine has states: the state x_t is one-hot at the machine's, and

    A(σ)_{pq} = 1 where δ(q, σ) = p, else 0;    v = 0;    x_0 = e_{q_0}

Every column of A is one-hot, so its p-norm is exactly 1 and the paper's bound (eq. 6) leaves it alone, whatever p. All
that is ever added and multiplied are 0s and a single 1, which no floating-point format rounds, in whatever order and
however transitions are composed first. So there is no error that length could add up.

Several blocks: a partition of the states that every symbol respects (states of one class go to states of one class) is
a smaller machine, and a block of its own. Partitions that tell all states apart together are as good as one wide block,
and cost Σ b² instead of n² a token. Such are the points a permutation group moves: where i goes, for each i.

Network: embeddings are one-hot, transitions linear in them, and no layer norm stands between ("bare").

    one block          logits = 8 L x - 4                                 L (S, n) the labels
    several            logits = 8 L ReLU(R x - (h - 1)) - 4               R x counts, for every state, its classes in x
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..automata import Semiautomaton
from ..errors import Error, ShapeError
from ..models import LengthwiseForCausalLM, presets
from .state_labels import CONFIDENCE, Labels, check_size, label_table


def block_lrnn(
    machine: Semiautomaton, labels: Labels = None, *, parts: Sequence[Sequence[int] | np.ndarray] | None = None
) -> LengthwiseForCausalLM:
    """The block-diagonal LRNN that runs `machine`; its logits say, after every token, the label of the state it is in.

    `labels`: as for `regular_gpt`. `parts`: for each block the class of every state; None: one block, all states.

    >>> from lengthwise import tasks
    >>> machine = tasks.get("modular-arithmetic").machine
    >>> model, tokens = block_lrnn(machine), torch.tensor([machine.encode("1+2-3*4")])
    >>> bool((model(tokens).logits.argmax(-1) == machine.run(tokens)).all())
    True
    >>> clock = Semiautomaton([[(q + 1) % 6] for q in range(6)])
    >>> model = block_lrnn(clock, parts=[[q % 2 for q in range(6)], [q % 3 for q in range(6)]])
    >>> model(torch.zeros(1, 8, dtype=torch.long)).logits.argmax(-1).tolist()
    [[1, 2, 3, 4, 5, 0, 1, 2]]
    """
    table = label_table("block_lrnn", machine, labels)
    classes = _classes(machine, parts)
    h, b = classes.shape[0], int(classes.max()) + 1
    outputs = table.shape[1]
    units = outputs if h == 1 else machine.num_states
    width = max(machine.num_symbols, units)
    instead = "Give parts, or a smaller machine (automata.minimise)."
    check_size(f"block_lrnn: {machine.num_states} states make", width * h * b**2, instead)
    config = presets.block_lrnn(
        vocab_size=machine.num_symbols,
        num_outputs=outputs,
        width=width,
        blocks=h,
        block=b,
        variant="paper",
        p=1.0,
        learned_initial=True,
        head="linear" if h == 1 else "two-layer",
    )
    cover = F.one_hot(classes, b).to(torch.get_default_dtype())  # (h,n,b)
    weights = {
        "embedding.weight": torch.eye(machine.num_symbols, width),
        **_recurrence(machine, classes, cover, width),
        **(_one_block(table, width) if h == 1 else _several(table, cover, width)),
    }
    with torch.device("meta"):  # so that no weight is drawn first
        model = LengthwiseForCausalLM(config)
    model.load_state_dict(weights, assign=True)
    return model


def _classes(machine: Semiautomaton, parts: Sequence[Sequence[int] | np.ndarray] | None) -> Tensor:
    """(h,n) the class of each state in each block."""
    n = machine.num_states
    if parts is None:
        return torch.arange(n)[None]
    labels = torch.as_tensor(np.asarray(parts))
    if labels.dim() != 2 or 0 in labels.shape or labels.shape[1] != n or labels.is_floating_point():
        raise ShapeError(
            f"block_lrnn: parts must be (blocks, {n}), for each block a class for each of the {n} states, got "
            f"{labels.dtype} of shape {tuple(labels.shape)}."
        )
    if labels.min() < 0 or labels.max() >= n:
        raise Error(f"block_lrnn: classes are 0..{n - 1}, got {int(labels.min())}..{int(labels.max())}.")
    for i, part in enumerate(labels):
        _check_respected(machine, i, part)
    if len(labels.T.unique(dim=0)) < n:
        raise Error(
            "block_lrnn: parts must tell all states apart together, and two states have the same class in each. "
            "Add a part, or merge the states first (automata.minimise)."
        )
    return labels.long()


def _check_respected(machine: Semiautomaton, i: int, part: Tensor) -> None:
    after = part[torch.from_numpy(machine.delta.astype(np.int64))]
    first = {int(c): q for q, c in reversed(list(enumerate(part)))}
    for q, c in enumerate(part.tolist()):
        for s in (after[q] != after[first[c]]).nonzero().flatten().tolist():
            raise Error(
                f"block_lrnn: symbols must respect parts, but in part {i} states {first[c]} and {q} are of one class "
                f"and symbol {machine.symbols[s]} takes them to classes {int(after[first[c], s])} and "
                f"{int(after[q, s])}. Separate the two, or use one block."
            )


def _recurrence(machine: Semiautomaton, classes: Tensor, cover: Tensor, width: int) -> dict[str, Tensor]:
    """Column c of a block's A(σ) is one-hot at the class to which σ takes those of class c."""
    (h, _, b), S = cover.shape, machine.num_symbols
    A = torch.zeros(S, h, b, b)
    block, symbol = torch.arange(h)[:, None, None], torch.arange(S)[None, None]
    after = classes[:, torch.from_numpy(machine.delta.astype(np.int64))]  # (h,n,S)
    A[symbol, block, after, classes[:, :, None]] = 1
    transition = torch.zeros(h * b * b, width)
    transition[:, :S] = A.flatten(1).T
    return {
        "depth.layers.0.mixer.transition.weight": transition,
        "depth.layers.0.mixer.transition.bias": torch.zeros(h * b * b),
        "depth.layers.0.mixer.inputs.weight": torch.zeros(h * b, width),
        "depth.layers.0.mixer.initial": cover[:, machine.start].clone(),
    }


def _one_block(table: Tensor, width: int) -> dict[str, Tensor]:
    """L is the readout, the head scales it."""
    L = table.T.to(torch.get_default_dtype())
    return _readout(L, torch.zeros(len(L)), width) | _head(torch.eye(len(L)), width)


def _several(table: Tensor, cover: Tensor, width: int) -> dict[str, Tensor]:
    """A state has all its h classes in x, any other state at least one less."""
    h, n, _ = cover.shape
    counts = cover.transpose(0, 1).flatten(1)
    hidden = {"hidden.weight": torch.eye(width), "hidden.bias": torch.zeros(width)}
    return _readout(counts, torch.full((n,), 1.0 - h), width) | hidden | _head(table.T.to(counts), width)


def _readout(weight: Tensor, bias: Tensor, width: int) -> dict[str, Tensor]:
    more = width - len(weight)
    return {
        "depth.layers.0.mixer.readout.weight": F.pad(weight, (0, 0, 0, more)),
        "depth.layers.0.mixer.readout.bias": F.pad(bias, (0, more)),
    }


def _head(labels: Tensor, width: int) -> dict[str, Tensor]:
    weight = F.pad(2 * CONFIDENCE * labels, (0, width - labels.shape[1]))
    return {"head.weight": weight, "head.bias": torch.full((len(labels),), -CONFIDENCE)}
