"""What the state-space layers share: a skip, an output map, and convolution and recurrence as two forms of one thing.

    y = out(SSM(u) + D ∘ u),    out(s) = GLU(W gelu(s)),  W gelu(s)  or  s

Whole sequences are convolved; a token after a state is a step. Padded or packed rows are taken apart first, each
sequence to the right end of a row of its own, since a zero before it leaves a state of zero; after a state they go
step by step. A diagonal recurrence that all channels share is scanned.

Arithmetic is never in half precision: a^t would forget or explode.

Shapes: B batch, T tokens, D channels, n complex entries of a channel's state.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Annotated, Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from ...errors import Error, ShapeError, UnknownName
from ...ops import diagonal_scan
from ...positions import Layout
from ..base import Mixer, Traits
from ..unpacked_rows import UnpackedRows
from .system import System, transposed

Output = Annotated[Literal["glu", "linear", "none"], "The map behind the recurrence: gated, linear, or none."]


class SpaceState(NamedTuple):
    croppable = False
    x: Tensor
    """(B,D,n) or (B,n)"""
    recent: Tensor | None = None
    """(B,D,P-1) the inputs before the next one, the newest last, where a layer multiplies up to P of them."""

    def map(self, change: Callable[..., Tensor], *others: SpaceState) -> SpaceState:
        """`change` of every part, beside those of states of the same layer."""
        recents = [o.recent for o in others if o.recent is not None]
        recent = None if self.recent is None else change(self.recent, *recents)
        return SpaceState(change(self.x, *(o.x for o in others)), recent)

    def select(self, rows: Tensor) -> SpaceState:
        """These rows, in this order."""
        return self.map(lambda part: part[rows])

    def swapped(self) -> SpaceState:
        """With the channels before the rows, or back."""
        return self.map(lambda part: part.transpose(0, 1))


class StateSpace(Mixer):
    """A subclass gives `mix`: u (B,T,D) -> SSM(u) and, if it `ends`, the state after it."""

    name: str

    def __init__(self, width: int, output: Output):
        super().__init__()
        self.skip = nn.Parameter(torch.randn(width))
        self.output = _output(self.name, output, width)

    @property
    def kind(self) -> torch.dtype:
        """The precision of the recurrence."""
        return torch.promote_types(self.skip.dtype, torch.float32)

    def forward(self, x: Tensor, *, layout: Layout, state: Any = None, ends: bool = True) -> tuple[Tensor, Any]:
        if x.shape[1] == 0 and layout.piece is None:
            raise Error(f"{self.name}: there must be at least one token, got T = 0.")
        with torch.autocast(x.device.type, enabled=False):
            u = x.to(self.kind)
            y, end = self.mix(u, layout, state, ends)
            y = y + self.skip * u
        return self.output(y.to(x.dtype)), end

    def mix(self, u: Tensor, layout: Layout, state: SpaceState | None, ends: bool) -> tuple[Tensor, Any]:
        raise NotImplementedError

    def _check_state(self, state: SpaceState, like: SpaceState) -> None:
        wanted, actual = ([None if part is None else list(part.shape) for part in s] for s in (like, state))
        for part, must, has in zip(SpaceState._fields, wanted, actual, strict=True):
            if must != has:
                raise ShapeError(
                    f"{self.name}: {part} of the state must be {must}, got {has}. "
                    "Go on with the rows and the layer it came from."
                )


class Convolutional(StateSpace):
    """One `System` a channel. A subclass gives `discretise`, and may widen `whole` and `advance`."""

    traits = Traits(takes_ends=True)
    convolves = True
    """Whether whole sequences can be convolved."""

    def __init__(
        self,
        width: int,
        starts: Callable[[int], tuple[Tensor, ...]],
        *,
        state: Annotated[int, "How many numbers each state has, an even number."],
        step_min: Annotated[float, "The smallest step size a channel starts with; it remembers about 1/step tokens."],
        step_max: Annotated[float, "The largest step size a channel starts with."],
        output: Output,
    ):
        """`starts`: of the state Λ, the P of a rank-one part if there is one, and B, (n,) each."""
        super().__init__(width, output)
        if state < 2 or state % 2:
            raise Error(
                f"{self.name}: state must be even and at least 2 (its entries are conjugate pairs), got {state}. "
                f"Use {max(2, state + state % 2)}."
            )
        if not 0 < step_min <= step_max:
            raise Error(f"{self.name}: step sizes must be 0 < step_min <= step_max, got {step_min} and {step_max}.")
        Λ, *P, B = (z.expand(width, state // 2) for z in starts(state))
        self.decay = nn.Parameter((-Λ.real).log().to(torch.get_default_dtype()))
        self.frequency = nn.Parameter(Λ.imag.to(torch.get_default_dtype()).contiguous())
        if P:
            self.P = complex_parameter(P[0])
        self.B = complex_parameter(B)
        self.C = complex_parameter(complex_normal(*B.shape))
        self.log_step = nn.Parameter(torch.rand(width) * log(step_max / step_min) + log(step_min))
        """Uniform between the logarithms of the smallest and the largest step."""

    def continuous(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns Λ, B and C, (D,n) each, and Δ (D,1)."""
        kind = self.kind
        Λ = torch.complex(-self.decay.to(kind).exp(), self.frequency.to(kind))
        B, C = (torch.view_as_complex(part.to(kind)) for part in (self.B, self.C))
        return Λ, B, C, self.log_step.to(kind).exp()[:, None]

    def discretise(self) -> System:
        raise NotImplementedError

    def whole(self, system: System, u: Tensor, state: SpaceState | None, ends: bool) -> tuple[Tensor, Any]:
        """y and u (D,B,T); both states with the channels first, too."""
        y, end = system.run(u, state and state.x, ends=ends)
        return y, None if end is None else SpaceState(end)

    def advance(self, system: System, u: Tensor, state: SpaceState) -> tuple[Tensor, SpaceState]:
        """y and u (B,D)."""
        y, x = system.step(u, state.x)
        return y, SpaceState(x)

    def fresh(self, system: System, u: Tensor) -> SpaceState:
        """The state before the first token, for the rows of u."""
        return SpaceState(system.a.new_zeros(len(u), *system.a.shape))

    def mix(self, u: Tensor, layout: Layout, state: SpaceState | None, ends: bool) -> tuple[Tensor, Any]:
        system = self.discretise()
        if state is not None:
            self._check_state(state, self.fresh(system, u))
        if not self.convolves or (state is not None and (u.shape[1] == 1 or not layout.plain)):
            return self._by_steps(system, u, layout, self.fresh(system, u) if state is None else state)
        return self._by_channel(system, u, state, ends) if layout.plain else self._by_sequence(system, u, layout)

    def _by_channel(self, system: System, u: Tensor, state: SpaceState | None, ends: bool) -> tuple[Tensor, Any]:
        rows = u.shape[:2]
        y, end = self.whole(system, transposed(u.flatten(0, 1)).unflatten(1, rows), state and state.swapped(), ends)
        return transposed(y.flatten(1)).unflatten(0, rows), end and end.swapped()

    def _by_sequence(self, system: System, u: Tensor, layout: Layout) -> tuple[Tensor, SpaceState]:
        unpacked, state = UnpackedRows(layout), self.fresh(system, u)
        if len(unpacked) == 0:
            return torch.zeros_like(u), state
        y, ended = self._by_channel(system, unpacked.take_apart(u, to_the_right=True), None, True)
        owner = unpacked.owner[unpacked.closes]
        state = state.map(lambda old, end: old.index_copy(0, owner, end[unpacked.closes]), ended)
        return unpacked.put_together(y, to_the_right=True), state

    def _by_steps(self, system: System, u: Tensor, layout: Layout, state: SpaceState) -> tuple[Tensor, SpaceState]:
        fresh, outputs = self.fresh(system, u), []
        for t, u_t in enumerate(u.unbind(1)):
            real = None if layout.real is None else layout.real[:, t]
            before = state if layout.sequences is None else _choose(layout.positions[:, t] == 0, fresh, state)
            y, after = self.advance(system, u_t, before)
            state = after if real is None else _choose(real, after, state)
            outputs.append(y)
        return torch.stack(outputs, 1), state


class Scanned(StateSpace):
    """One diagonal recurrence that all channels share, x_t = a_t ∘ x_{t-1} + v_t, run by a scan.

    A sequence that begins in the middle of a row forgets (a = 0), padding keeps the state (a = 1, v = 0).
    """

    traits = Traits(splits=True)

    def transitions(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """a (B,T,n) or (1,T,n), and v (B,T,n), of u (B,T,D)."""
        raise NotImplementedError

    def read(self, x: Tensor) -> Tensor:
        """(B,T,n) -> (B,T,D)"""
        raise NotImplementedError

    def mix(self, u: Tensor, layout: Layout, state: SpaceState | None, ends: bool) -> tuple[Tensor, SpaceState]:
        a, v = self.transitions(u)
        if state is not None:
            self._check_state(state, SpaceState(v[:, 0]))
        if layout.sequences is not None:
            a = torch.where((layout.positions == 0)[..., None], 0, a)
        if layout.real is not None:
            real = layout.real[..., None]
            a, v = torch.where(real, a, 1), torch.where(real, v, 0)
        ranks = None if layout.piece is None else layout.piece.ranks
        x = diagonal_scan(a, v, None if state is None else state.x, ranks=ranks)
        return self.read(x), SpaceState(x[:, -1] if x.shape[1] else x.sum(1))


def _choose(rows: Tensor, a: SpaceState, b: SpaceState) -> SpaceState:
    """The state a in these rows, b in the others."""
    return a.map(lambda a, b: torch.where(rows[:, None, None], a, b), b)


def _output(name: str, kind: str, width: int) -> nn.Module:
    if kind not in ("glu", "linear", "none"):
        raise UnknownName(f"output of {name}", kind, ("glu", "linear", "none"))
    if kind == "none":
        return nn.Identity()
    if kind == "linear":
        return nn.Sequential(nn.GELU(), nn.Linear(width, width))
    return nn.Sequential(nn.GELU(), nn.Linear(width, 2 * width), nn.GLU())


def complex_parameter(z: Tensor) -> nn.Parameter:
    """Real and imaginary part as a last dimension of 2, which every file format and optimiser knows."""
    return nn.Parameter(torch.view_as_real(z.resolve_conj()).to(torch.get_default_dtype()).contiguous())


def as_complex(parameter: Tensor, kind: torch.dtype) -> Tensor:
    return torch.view_as_complex(parameter.to(kind))


def complex_normal(*shape: int) -> Tensor:
    """Draws complex numbers of unit variance."""
    return torch.randn(*shape, dtype=torch.complex64)
