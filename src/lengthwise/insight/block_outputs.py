"""The outputs of a model's blocks at every position, read by hooks while it runs.

In a `LengthwiseForCausalLM` the blocks are the layers under its depth policy; with adaptive depth the same ones are
read once a group. In any other model they are the members of a list of modules that each give one vector a token: the
longest `nn.ModuleList`, or else `nn.Sequential`, that is not inside another. Where there is none they are the model's
children that do so, embedding and head aside.

Shapes: B batch, T tokens, n of them kept, D model width.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..errors import Error
from ..models import LengthwiseForCausalLM, TokenClassifier
from ..models.depth import Fixed
from .probing import beside, listening


class BlockOutput(NamedTuple):
    """One pass through one block."""

    name: str
    output: Tensor
    """(B, n, D)."""
    positions: Tensor
    """(n,) where in the string the outputs stand."""
    reach: int | None
    """How many of the newest tokens an output can depend on; None: all."""


class _Call(NamedTuple):
    module: nn.Module
    output: Tensor


def read_blocks(classifier: TokenClassifier, tokens: Tensor) -> list[BlockOutput]:
    """Every pass through a block while `classifier` reads `tokens` (B,T), in order.

    >>> from lengthwise import models
    >>> classifier = models.build("regular-gpt", vocab_size=2, num_outputs=2, width=8, heads=2)
    >>> [(b.name, list(b.output.shape), b.reach) for b in read_blocks(classifier, torch.zeros(1, 7, dtype=torch.long))]
    [('group 0', [1, 7, 8], 2), ('group 1', [1, 7, 8], 4), ('group 2', [1, 7, 8], 8)]
    """
    if isinstance(classifier.inner, LengthwiseForCausalLM):
        return _own(classifier, classifier.inner, tokens)
    lists = _lists(classifier.inner)
    children = [m for m in classifier.inner.children() if not isinstance(m, nn.Embedding)]
    calls, logits = _run(classifier, tokens, {*children, *(block for list_ in lists for block in list_)})
    seen = {call.module for call in calls}
    if whole := [list_ for list_ in lists if seen.issuperset(list_)]:
        longest = set(max(whole, key=lambda list_: (isinstance(list_, nn.ModuleList), len(list_))))
        own = [call for call in calls if call.module in longest]
    else:
        head = logits.untyped_storage().data_ptr()
        own = [c for c in calls if c.module in children and c.output.untyped_storage().data_ptr() != head]
    if not own:
        raise Error(
            f"{classifier.name}: its blocks must be in an nn.ModuleList, or children of the model, and each must "
            "return (B,T,D) for (B,T) tokens; found none that does. Make them modules of their own."
        )
    positions = torch.arange(tokens.shape[1])
    return [BlockOutput(f"layer {i}", call.output, positions, None) for i, call in enumerate(own)]


def _lists(model: nn.Module) -> list[nn.ModuleList | nn.Sequential]:
    """The lists of modules in a model that are not inside one another: heads and experts are parts of blocks."""
    lists = [m for m in model.modules() if m is not model and isinstance(m, (nn.ModuleList, nn.Sequential)) and len(m)]
    inside = {part for list_ in lists for part in list_.modules() if part is not list_}
    return [list_ for list_ in lists if list_ not in inside]


def _own(classifier: TokenClassifier, inner: LengthwiseForCausalLM, tokens: Tensor) -> list[BlockOutput]:
    depth = inner.depth
    # The official reading of padding has an answer at the last position alone: the nodes are those of its tree.
    thinned = getattr(depth, "pad_tokens", False)
    calls, _ = _run(classifier, tokens, depth.layers, last=thinned)
    T, K, reach = tokens.shape[1], len(depth.layers), 1
    outputs = []
    for i, call in enumerate(calls):
        mixer: Any = call.module.mixer
        if isinstance(depth, Fixed):
            group, name, chunk = 0, f"layer {i}", getattr(mixer, "chunk", 0)
        else:
            group, layer = divmod(i, K)
            name, chunk = f"group {group}" + (f", layer {layer}" if K > 1 else ""), depth.chunk
        reach = reach + (chunk - 1) * chunk**group if reach and mixer.traits.dilates else None
        apart = chunk ** ((i + 1) // K) if thinned else 1
        positions = T - 1 - apart * torch.arange(call.output.shape[1] - 1, -1, -1)
        real = positions >= 0
        outputs.append(BlockOutput(name, call.output[:, real], positions[real], reach))
    return outputs


def _run(
    classifier: TokenClassifier, tokens: Tensor, modules: Iterable[nn.Module], last: bool = False
) -> tuple[list[_Call], Tensor]:
    """The calls of these modules that give one vector a token, in order, and the logits."""
    calls: list[_Call] = []

    def note(module: nn.Module, _: Any, output: Any) -> None:
        output = output[0] if isinstance(output, (tuple, list)) and output else output
        if not isinstance(output, Tensor) or output.dim() != 3 or len(output) != len(tokens):
            return
        if last or output.shape[1] == tokens.shape[1]:
            calls.append(_Call(module, output.detach()))

    hooks = [module.register_forward_hook(note) for module in modules]
    with listening(classifier, hooks), torch.no_grad():
        logits = classifier(beside(classifier, tokens), last=last)
    return calls, logits
