"""The loss that makes a RegularGPT of discrete nodes an algebra: every product of codes is the code of the product.

    node(older, own) = code(older · own)      for all pairs of elements, of leaves, of pad and element
    head(code(m))    = the answer after m     wherever there is one

With C > 2 the pairs are tuples. Once all of these hold, every node of every word's tree has the code of its element, by
induction from the leaves, and so every answer is right, at every length.

Half of each batch is drawn from the conditions that were not wide when all were looked at last, every `LOOK` steps.

Shapes: N elements, M conditions, C chunk, B batch, G groups and K choices of a code, S outputs, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import Error
from ...mixers import Layout, Level
from ...models import LengthwiseForCausalLM
from ...models.depth import Adaptive
from ...models.discrete_nodes import DiscreteNodes
from ...models.layers import Layer
from ...seeds import generator
from ...train import Progress, Stop, Trainer, Training, TrainState
from ...train.objectives import Measure, Tensors
from ...train.trainer import Interrupted
from ..algebra import Conditions, MachineAlgebra

LOOK = 100
WIDE = 2.0
"""The least gap between the chosen logit and the next at which descending ends. Rounding hardly moves a logit by 1e-4,
but its proven bound is 1.5 at width 128."""
BLOCK = 1 << 13
"""Conditions looked at together."""


def refusal(model: nn.Module) -> str | None:
    """Why the closure of this model's nodes cannot be looked at; None where it can."""
    if not isinstance(model, LengthwiseForCausalLM) or (model.config.depth or {}).get("name") != "adaptive":
        return "it is no RegularGPT"
    if getattr(model.depth.layers[-1], "nodes", None) is None:
        return 'its nodes are continuous. Train one with nodes="discrete"'
    if not model.depth.shares_subtrees or not isinstance(model.depth, Adaptive):
        return "its groups are not one layer of one chunk, so a node is no function of its children alone"
    if model.pad is None:
        return "it leaves out what stands before the first token, or keeps a vector for each layer"
    return None


def node_parts(model: LengthwiseForCausalLM) -> tuple[Layer, DiscreteNodes]:
    """The layer that every group is, and what makes its output discrete."""
    if why := refusal(model):
        raise Error(f"closure: this model has no codes: {why}.")
    layer = model.depth.layers[0]
    assert isinstance(layer, Layer)
    assert layer.nodes is not None
    return layer, layer.nodes


class ClosureNetwork(nn.Module):
    """A model's nodes and head as functions of the codes of elements."""

    def __init__(self, model: LengthwiseForCausalLM, codes: Tensor):
        super().__init__()
        self.model = model
        # In a tuple, and so no part of the module tree a second time.
        self._parts = node_parts(model)
        self.codes = codes
        """(N,G)"""

    def table(self) -> Tensor:
        """What a node may read: the pad, the leaves, the elements; as `algebra.Conditions` numbers them."""
        model = self.model
        assert model.pad is not None
        leaves = model.embedding.weight * model.config.embedding_scale
        return torch.cat([model.pad[None], leaves, self.elements()])

    def elements(self) -> Tensor:
        return self._parts[1].vectors(self.codes)

    def forward(self, taps: Tensor, asked: Tensor) -> tuple[Tensor, Tensor]:
        """(B,G,K) logits of the choices of nodes that read these rows (B,C), and (n,S) of the elements `asked` (n,)."""
        return self.nodes(taps), self.answers(asked)

    def nodes(self, taps: Tensor) -> Tensor:
        return self.logits(self.table()[taps])

    def logits(self, x: Tensor) -> Tensor:
        """(B,G,K) of the choices of nodes that read these vectors (B,C,D)."""
        layout, level = Layout.of(x), Level(pad=self.model.pad)
        return self._parts[0].choice_logits(x, layout, level, stride=x.shape[1])[:, 0]

    def choices(self, x: Tensor) -> Tensor:
        """(B,G)"""
        return self.logits(x).argmax(-1)

    @property
    def groups(self) -> int:
        return self.codes.shape[1]

    def answers(self, elements: Tensor) -> Tensor:
        model = self.model
        x = model.norm(self.elements()[elements])
        return model.head(x if model.hidden is None else F.relu(model.hidden(x)))


@dataclass(frozen=True)
class Looked:
    """How all conditions were found."""

    gap: np.ndarray
    """(M + n,) of every condition, those of the head after those of the nodes: between the right logit and the next."""

    @property
    def wrong(self) -> np.ndarray:
        """Which conditions fail, by their numbers."""
        return self.below(0.0)

    def below(self, wide: float) -> np.ndarray:
        """Which conditions have no gap above this."""
        return np.flatnonzero(~(self.gap > wide))

    @property
    def conditions(self) -> int:
        return len(self.gap)

    @property
    def margin(self) -> float:
        """The least gap; below 0 where a condition fails."""
        return float(self.gap.min())

    @property
    def closed(self) -> bool:
        return len(self.wrong) == 0


@dataclass
class Closure:
    """The conditions as the trainer sees them: its data and its objective."""

    algebra: MachineAlgebra
    codes: Tensor
    """(N,G)"""
    conditions: Conditions
    batch_size: int = 1024
    hear: Callable[[str], None] | None = None
    wide: float = WIDE
    """The least gap at which descending ends."""
    stop: Stop = field(default_factory=Stop)
    logs_first_step = False
    has_accuracy = True

    def __post_init__(self) -> None:
        claim, states = self.algebra.claim, self.algebra.states
        self.taps, self.results = torch.from_numpy(self.conditions.taps), torch.from_numpy(self.conditions.results)
        asked = claim.asked[states]
        self.asked = torch.from_numpy(np.flatnonzero(asked))
        self.right = torch.from_numpy(np.ascontiguousarray(claim.answers[states[asked]]))
        self.lengths = [self.algebra.chunk]
        self.failing = np.empty(0, dtype=np.int64)
        self.looked: Looked | None = None

    # What the trainer asks of its data.
    def batch(self, seed: int, step: int, length: int) -> Tensor:
        draw, B = generator("closure", seed, step), self.batch_size
        if len(self.taps) <= B:
            drawn = torch.arange(len(self.taps))
        else:
            drawn = torch.randint(len(self.taps), (B,), generator=draw)
        if len(self.failing):
            failing = torch.from_numpy(self.failing)
            half = torch.randint(len(failing), (min(B, max(len(drawn) // 2, 1)),), generator=draw)
            drawn = torch.cat([drawn[: B - len(half)], failing[half]])
        return drawn

    def validation(self, seed: int) -> list[None]:
        return [None]

    # What the trainer asks of its objective.
    def prepare(self, state: TrainState, stacked: bool) -> None:
        """Nothing to set up."""

    def parts(self, batch: Tensor) -> Sequence[Tensors]:
        return [(batch,)]

    def align(self, batches: Sequence[Tensor]) -> Sequence[Tensors]:
        return [(batch,) for batch in batches]

    def measure(self, batches: Sequence[Tensor]) -> Measure:
        def measure(forward: Callable[..., tuple[Tensor, Tensor]], drawn: Tensor) -> tuple[Tensor, Tensor]:
            nodes, answers = forward(self.taps[drawn], self.asked)
            wanted = self.codes[self.results[drawn]]
            share = (nodes.argmax(-1) == wanted).all(-1).to(nodes.dtype).mean()
            loss = F.cross_entropy(nodes.flatten(0, 1), wanted.flatten(), reduction="sum") / len(drawn)
            return loss + self._answer_loss(answers), share

        return measure

    def _answer_loss(self, answers: Tensor) -> Tensor:
        if self.algebra.claim.several:
            return F.binary_cross_entropy_with_logits(answers, self.right.to(answers.dtype))
        return F.cross_entropy(answers, self.right)

    def validate(self, state: TrainState, batches: Sequence[None]) -> tuple[float, float]:
        assert isinstance(state.model, ClosureNetwork)
        self.looked = looked = self.look(state.model)
        short = looked.below(self.wide)
        self.failing = short[short < len(self.taps)]
        if self.hear:
            self.hear(
                f"step {state.step}: {len(looked.wrong)} of {looked.conditions} wrong, margin {looked.margin:.2f}"
            )
        self.stop.asked = len(short) == 0
        return 1 - len(looked.wrong) / looked.conditions, -looked.margin

    def split(self, batch: Tensor, rank: int, ranks: int) -> tuple[Tensor, float]:
        raise Error("closure: conditions are met by one process. Call it outside of a process group.")

    def tokens_per_second(self, state: TrainState) -> None:
        """No tokens are read."""

    def sample(self, state: TrainState) -> None:
        """Nothing is written."""

    @torch.no_grad()
    def look(self, network: ClosureNetwork) -> Looked:
        """All conditions, one after another."""
        gaps = [
            right_gap(network.nodes(self.taps[part]), self.codes[self.results[part]]).amin(-1)
            for part in torch.arange(len(self.taps)).split(BLOCK)
        ]
        answers = network.answers(self.asked)
        if self.algebra.claim.several:
            gaps.append(torch.where(self.right.bool(), answers, -answers).amin(-1))
        else:
            gaps.append(right_gap(answers, self.right))
        return Looked(torch.cat(gaps).numpy())


def right_gap(logits: Tensor, right: Tensor) -> Tensor:
    """By how much the right logit is ahead of the largest other one; (…,K) and (…) to (…)."""
    ahead = logits.gather(-1, right[..., None])[..., 0]
    others = logits.scatter(-1, right[..., None], -torch.inf).amax(-1)
    return ahead - others


def descend(
    model: LengthwiseForCausalLM,
    closure: Closure,
    *,
    rounds: Sequence[int],
    lr: float,
    seed: int = 0,
    seconds: float = float("inf"),
) -> Looked:
    """Train until all conditions hold with a wide margin, or the rounds or seconds are over.

    `rounds`: steps of each; the rate falls to zero in each.
    """
    network = ClosureNetwork(model, closure.codes)
    closure.stop.asked = False  # by an earlier descent, which was wide enough then
    began = [0.0]
    for number, steps in enumerate(rounds):
        training = Training.of(
            steps=steps,
            batch=closure.batch_size,
            lr=lr,
            lengths=(closure.algebra.chunk, closure.algebra.chunk),
            validate_every=LOOK,
            checkpoint_every=steps,
        )
        state = TrainState(network, training, closure.lengths, seed=seed + number, core=model)
        used = began

        def hear(progress: Progress, used: list[float] = used, state: TrainState = state) -> None:
            if used[0] + state.train_seconds > seconds:
                closure.stop.asked = True

        try:
            Trainer(state, closure, closure, hear=hear, stop=closure.stop).run()
        except Interrupted:
            break
        finally:
            began[0] += state.train_seconds
        if closure.stop.asked:
            break
    model.eval()
    closure.looked = closure.look(network)
    return closure.looked
