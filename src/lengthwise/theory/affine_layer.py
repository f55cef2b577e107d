"""The first layer of a linear RNN as the affine maps it is made of, one for every token u:

    x -> A_u x + v_u

The maps are read off by running the mixer, in double precision, for one token after given states. A state is one vector
of N real numbers; a complex entry is two of them.

Shapes: B words, T tokens, N numbers of a state.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import Error
from ..mixers import KeyValues, Layout, Level, RecurrentState
from ..models import LengthwiseForCausalLM

ROUNDING = 1e-9
"""Relative differences below this are rounding, in double precision and over the few tokens looked at."""


class FirstLayer:
    """>>> from lengthwise.models import presets
    >>> layer = FirstLayer(LengthwiseForCausalLM(presets.diagonal_lrnn(3, width=4, state=2, numbers="real")))
    >>> A, v = layer.transition(1)
    >>> torch.allclose(layer.states([[0]]) @ A.T + v, layer.states([[0, 1]])), A[0, 1].item()
    (True, 0.0)
    """

    def __init__(self, model: nn.Module):
        inner = getattr(model, "inner", model)
        if not isinstance(inner, LengthwiseForCausalLM):
            raise Error(
                f"theory: transitions are read off a LengthwiseForCausalLM (or a classifier of one), got "
                f"{type(inner).__name__}. Build one from models.presets."
            )
        if inner.position.at_input:
            raise Error(
                "theory: a token's transition must be a function of the token alone, and this model adds a position "
                f"({inner.config.position}) to it. Take a preset without positions, such as s4 or block-lrnn."
            )
        copy = deepcopy(inner).double().eval()
        self.pad = copy.pad
        self.mixer = copy.mixers()[0]
        self.vectors = _vectors(copy)
        self.empty = self._state(torch.zeros(1, 1, dtype=torch.long))
        _check_linear(self)

    def states(self, words: Any) -> Tensor:
        """(B,T) tokens -> (B,N), the state after each word."""
        return _flat(self._state(torch.as_tensor(words)))

    def step(self, x: Tensor, tokens: Any) -> Tensor:
        """A_u x + v_u, of states (B,N) and tokens u (B,)."""
        return _flat(self._state(torch.as_tensor(tokens)[:, None], _unflat(x, self.empty)))

    def apply(self, x: Tensor, token: int) -> Tensor:
        """A_u x (B,N), of one token u."""
        x, tokens = torch.cat([x, torch.zeros_like(x[:1])]), torch.full((len(x) + 1,), token)
        after = self.step(x, tokens)
        return after[:-1] - after[-1]

    def transition(self, token: int) -> tuple[Tensor, Tensor]:
        """A_u (N,N) and v_u (N,)."""
        N = _flat(self.empty).shape[1]
        I = torch.eye(N, dtype=torch.float64)
        return self.apply(I, token).T, self.step(torch.zeros_like(I[:1]), [token])[0]

    def probes(self, count: int) -> Tensor:
        """(count,N) fixed random states, to tell linear maps apart on."""
        N = _flat(self.empty).shape[1]
        return torch.randn(count, N, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    @torch.no_grad()
    def _state(self, tokens: Tensor, state: Any = None) -> Any:
        options = {"level": Level(pad=self.pad)} if self.mixer.traits.takes_level else {}
        return self.mixer(self.vectors[tokens], layout=Layout.of(tokens), state=state, **options)[1]


@torch.no_grad()
def _vectors(model: LengthwiseForCausalLM) -> Tensor:
    """(V,D) what the first mixer reads of each token."""
    mixer, inputs = model.mixers()[0], []
    hook = mixer.register_forward_pre_hook(lambda module, args: inputs.append(args[0]))
    model(torch.arange(model.config.vocab_size)[:, None])
    hook.remove()
    return inputs[0][:, 0]


def _flat(state: Any) -> Tensor:
    parts = [part for part in state if part is not None]
    parts = [torch.view_as_real(part) if part.is_complex() else part for part in parts]
    return torch.cat([part.double().flatten(1) for part in parts], 1)


def _unflat(x: Tensor, like: Any) -> Any:
    """The state whose numbers are x (B,N), made as `like` is."""
    parts, rest = [], x
    for part in like:
        if part is None:
            parts.append(None)
            continue
        shape = torch.view_as_real(part).shape if part.is_complex() else part.shape
        numbers, rest = rest.split([shape[1:].numel(), rest.shape[1] - shape[1:].numel()], 1)
        numbers = numbers.reshape(len(x), *shape[1:])
        parts.append(torch.view_as_complex(numbers.contiguous()) if part.is_complex() else numbers)
    return type(like)(*parts)


def _check_linear(layer: FirstLayer) -> None:
    """Raises unless the mixer has a state of fixed size which goes through an affine map."""
    why, state = None, layer.empty
    if isinstance(state, RecurrentState):
        why = "its state goes through a tanh or gates"
    elif isinstance(state, KeyValues) or not isinstance(state, tuple) or not all(map(_is_numbers, state)):
        why = "it keeps what it read of every token, and no state of fixed size"
    else:
        z = layer.probes(2)
        for token in range(len(layer.vectors)):
            Az, Aw, both = layer.apply(torch.cat([z, z.sum(0, keepdim=True)]), token)
            if (both - Az - Aw).abs().max() > ROUNDING * both.abs().max().clamp(min=1):
                why = f"what token {token} does to its state is not affine"
                break
    if why is not None:
        raise Error(
            f"theory: the propositions are about states that are linear in the state before, and those of "
            f"{type(layer.mixer).__name__} are not: {why}. Take s4, s4d, lru, liquid-s4, diagonal-lrnn or block-lrnn."
        )


def _is_numbers(part: Any) -> bool:
    return part is None or isinstance(part, Tensor)
