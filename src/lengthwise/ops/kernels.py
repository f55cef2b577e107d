"""Kernels: every op has several, each says whether it can take this very call, and one switch chooses among them.

    sliding_dilated_attention(q, k, v, bias, chunk=2, level=0, backend="reference")
    with lengthwise.ops.backend("reference"):
        model(tokens)

A backend is the name of a kernel, or "auto": the kernel of highest priority of those that support the call, which
therefore never fails for want of a GPU. Naming a kernel that cannot take the call is an error that says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ..errors import Error, UnknownName

BACKENDS = ("auto", "reference", "torch", "numba", "triton")
"""The names that mean the same in every op. An op may have further kernels, which a call can name."""

C = TypeVar("C")

# A plain global, not a ContextVar: torch.compile guards on the one and cannot see through the other.
_surrounding = "auto"


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Within the block, every op called with `backend="auto"` uses the kernel of this name."""
    global _surrounding
    if name not in BACKENDS:
        raise UnknownName("backend", name, BACKENDS)
    before, _surrounding = _surrounding, name
    try:
        yield
    finally:
        _surrounding = before


def every_call(call: Any) -> None:
    """The `supports` of a kernel that takes every call."""


@dataclass(frozen=True)
class Kernel(Generic[C]):
    """One way to compute an op."""

    name: str
    run: Callable[[C], Any]
    supports: Callable[[C], str | None] = every_call
    """Why the kernel cannot take this call, as the end of a sentence; None where it can."""
    priority: int = 0
    """Among the kernels that support a call, "auto" takes the one of highest priority."""
    worthwhile: Callable[[C], bool] | None = None
    """Whether "auto" should consider the kernel for this call: a small call may not be worth its start. None: it always
    should. A kernel that is named runs all the same."""


class Op(Generic[C]):
    """An operation and its kernels, the one of highest priority first."""

    def __init__(self, name: str, kernels: Iterable[Kernel[C]]):
        self.name = name
        self.kernels: tuple[Kernel[C], ...] = ()
        for kernel in kernels:
            self.register(kernel)

    def register(self, kernel: Kernel[C]) -> None:
        """Let calls use this kernel from now on."""
        if any(kernel.name == other.name for other in self.kernels) or kernel.name == "auto":
            raise Error(f"{self.name}: a kernel cannot be named {kernel.name!r}, for that name is taken.")
        self.kernels = tuple(sorted((*self.kernels, kernel), key=lambda k: -k.priority))

    def run(self, call: C, backend: str = "auto") -> Any:
        """The call computed by the kernel that `choose` chooses."""
        best = self.kernels[0]
        # Without asking, which counts where one token is decoded.
        if backend == "auto" and _surrounding == "auto" and best.supports is every_call and best.worthwhile is None:
            return best.run(call)
        return self.choose(call, backend).run(call)

    def choose(self, call: C, backend: str = "auto") -> Kernel[C]:
        """The kernel the call names; else the one the surrounding block names; else the best that supports the call."""
        name = _surrounding if backend == "auto" else backend
        if name == "auto":
            for kernel in self.kernels:
                worth = kernel.worthwhile is None or kernel.worthwhile(call)
                if worth and kernel.supports(call) is None:
                    return kernel
            raise Error(f"{self.name}: no kernel can run. {self._reasons(call)}")
        for kernel in self.kernels:
            if kernel.name == name:
                reason = kernel.supports(call)
                if reason is None:
                    return kernel
                raise Error(f"{self.name}: kernel {name!r} cannot run: {reason}. {self._remedy(call, backend)}")
        known = {*BACKENDS, *(kernel.name for kernel in self.kernels)}
        if name not in known:
            raise UnknownName("backend", name, known)
        raise Error(
            f"{self.name}: kernel {name!r} cannot run: this op has no {name} kernel. {self._remedy(call, backend)}"
        )

    def _remedy(self, call: C, backend: str) -> str:
        other = next((repr(k.name) for k in self.kernels if k.supports(call) is None), None)
        if backend == "auto":  # the surrounding block asked for the kernel
            return f"Name {other} in the call, or leave the block." if other else "Leave the block."
        return f"Use 'auto' or {other}." if other else "Use 'auto'."

    def _reasons(self, call: C) -> str:
        return " ".join(f"{kernel.name!r}: {kernel.supports(call)}." for kernel in self.kernels)
