"""Which tokens each head of attention reads: the weights A and, of chain attention, the weights of whole paths.

    A = softmax(q_t · k_s / sqrt(d) + bias_ts)
    Y = M V,    M = (1-γ) (I - γÃ)^-1 A     (chain; with paths "sum" without the factor; softmax: M = A)

A says which tokens a token links to, M what reaches it over links of links. Both are computed a second time, from what
each mixer was given while the model ran and by the mixer's own maps, so the model runs as it always does.

Shapes: T tokens, H heads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import Error, NonFiniteError, ShapeError
from ..limits import LINKS, need_memory
from ..mixers import Chain, Forgetting, Layout, Mixer, Softmax
from ..mixers.attention import own_position, queries_keys_values, rotated, scored
from ..mixers.softmax import visible
from ..models import TokenClassifier
from ..ops.chain.reference import system
from ..positions import Placed
from ..tasks import Task
from .probing import beside, listening

STRONGEST = 3
"""So many links of a token and head are kept in JSON."""


@dataclass(frozen=True)
class Attention:
    """One layer, while it read one string."""

    name: str
    mixer: str
    """"softmax" or "chain"."""
    gamma: tuple[float, ...] | None
    """One a head; None for softmax."""
    weights: Tensor
    """(H, T, T) A, on the CPU: row t is what token t reads."""
    paths: Tensor
    """(H, T, T) M, on the CPU: the layer gives Y = M V."""

    @property
    def heads(self) -> int:
        return len(self.weights)

    def to_json(self) -> dict[str, Any]:
        """For every token and head the strongest links, as [token, weight], in place of the T² weights."""
        top = self.weights.topk(min(STRONGEST, self.weights.shape[-1]), -1)
        links = [
            [
                [[j, round(w, 4)] for j, w in zip(places, weights, strict=True) if w > 0]
                for places, weights in zip(head_places, head_weights, strict=True)
            ]
            for head_places, head_weights in zip(top.indices.tolist(), top.values.tolist(), strict=True)
        ]
        return {"name": self.name, "mixer": self.mixer, "gamma": self.gamma, "strongest": links}


def read_attention(
    classifier: TokenClassifier, tokens: Tensor, hear: Callable[[int, int], None] | None = None
) -> tuple[Attention, ...]:
    """Every layer's weights while `classifier` reads one string, `tokens` (T,); its layers must be softmax or chain.

    `hear` is told after each layer how many are read, and of how many.

    >>> from lengthwise import models
    >>> classifier = models.build("chacal", vocab_size=5, num_outputs=5, width=8, heads=2)
    >>> layers = read_attention(classifier, torch.tensor([3, 1, 4]))
    >>> [(layer.name, layer.mixer, tuple(layer.weights.shape)) for layer in layers]
    [('layer 0', 'softmax', (2, 3, 3)), ('layer 1', 'chain', (2, 3, 3))]
    """
    if tokens.dim() != 1 or not tokens.numel():
        raise ShapeError(f"read_attention: tokens must be one string, (T,) with T >= 1, got {list(tokens.shape)}.")
    mixers, T = _mixers(classifier), len(tokens)
    LINKS.check(T * T, f"{classifier.name}: the attention of {T:,} tokens")
    what = f"{classifier.name}: the attention weights of {T:,} tokens"
    need_memory(2 * 8 * T * T * sum(m.heads for m in mixers), what, "Use a shorter string.")
    layers: list[Attention] = []

    def note(mixer: Mixer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        layers.append(_layer(f"layer {len(layers)}", mixer, args[0], kwargs["layout"], kwargs.get("placed")))
        if hear:
            hear(len(layers), len(mixers))

    hooks = [m.register_forward_pre_hook(note, with_kwargs=True) for m in mixers]
    with listening(classifier, hooks), torch.no_grad():
        classifier(beside(classifier, tokens[None]))
    if not all(torch.isfinite(layer.paths).all() for layer in layers):
        raise NonFiniteError(f"{classifier.name}: its attention weights are not finite. Did its training diverge?")
    return tuple(layers)


def _mixers(classifier: TokenClassifier) -> list[Softmax | Chain]:
    mixers = [m for m in classifier.modules() if isinstance(m, Mixer)]
    foreign = next((type(m).__name__ for m in mixers if not isinstance(m, (Softmax, Chain))), None)
    if foreign or not mixers:
        raise Error(
            f"{classifier.name}: attention can be read where all layers are softmax or chain attention of this "
            f"library, got {foreign or 'no such layer'}. Use a model such as transformer or chacal."
        )
    return [m for m in mixers if isinstance(m, (Softmax, Chain))]


def _layer(name: str, mixer: Mixer, x: Tensor, layout: Layout, placed: Placed | None) -> Attention:
    assert isinstance(mixer, (Softmax, Chain))
    A = _weights(mixer, x, layout, placed)
    if isinstance(mixer, Softmax):
        return Attention(
            name, "forgetting" if isinstance(mixer, Forgetting) else "softmax", None, A[0].cpu(), A[0].cpu()
        )
    gamma = torch.as_tensor(mixer.gamma(x), dtype=A.dtype).expand(mixer.heads)
    rate = gamma.view(-1, 1, 1)
    B = system(A, rate, not mixer.exclude_diagonal)
    M = torch.linalg.solve_triangular(B, A, upper=False) if mixer.causal else torch.linalg.solve(B, A)
    if mixer.paths == "mean":
        M = M * (1 - rate)
    return Attention(name, "chain", tuple(gamma.tolist()), A[0].cpu(), M[0].cpu())


def _weights(mixer: Softmax | Chain, x: Tensor, layout: Layout, placed: Placed | None) -> Tensor:
    """(1, H, T, T) A in double precision, of the mixer's own queries and keys."""
    if isinstance(mixer, Softmax):
        q, seen, bias = mixer.compared(x, layout, None, placed)
        k, mask = seen.k, mixer.mask(q.double(), seen, layout, bias)
    else:
        q, k, _ = queries_keys_values(mixer.qkv(x), mixer.heads)
        acting = placed if mixer.position is None else own_position(mixer.position, placed, layout)
        bare, bias = q, None
        if acting is not None:
            q, k = rotated(q, k, acting)
            q, bias = scored(q, bare, k, acting, acting.places)
        readable = visible(layout, layout) if mixer.causal else torch.tensor(True, device=x.device)
        mask = readable if bias is None else bias.dense().masked_fill(~readable, -torch.inf)
    logits = q.double() @ k.double().mT * q.shape[-1] ** -0.5
    logits = logits.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else logits + mask
    return logits.softmax(-1)


@dataclass(frozen=True)
class Links:
    model: str
    task: str
    words: tuple[str, ...]
    layers: tuple[Attention, ...]

    def to_json(self) -> dict[str, Any]:
        layers = [layer.to_json() for layer in self.layers]
        return {"model": self.model, "task": self.task, "words": self.words, "layers": layers}


def find_links(
    classifier: TokenClassifier, task: Task, tokens: Tensor, hear: Callable[[int, int], None] | None = None
) -> Links:
    """The links of every head over the first of the strings `tokens` (B, T).

    `hear` is told how many layers are read, of how many.

    >>> from lengthwise import models, tasks
    >>> task = tasks.get("boxes", form="advanced", boxes=4, objects=20)
    >>> classifier = models.build("chacal", vocab_size=task.outputs, num_outputs=task.outputs, width=8, heads=2)
    >>> links = find_links(classifier, task, task.test_set(3, 1).tokens)
    >>> links.words[-1], [layer.name for layer in links.layers]
    ('.', ['layer 0', 'layer 1'])
    """
    if tokens.dim() != 2 or not tokens.numel():
        raise ShapeError(f"find_links: tokens must be (B,T) with at least one token, got {list(tokens.shape)}.")
    string = tokens[0] if task.padding is None else tokens[0][tokens[0] != task.padding]
    words = tuple(task.vocabulary[t] for t in string.tolist())
    return Links(classifier.name, task.name, words, read_attention(classifier, string, hear))
