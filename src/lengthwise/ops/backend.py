"""Which implementation of an op runs: one switch for every op, by call or for a block of code.

    sliding_dilated_attention(q, k, v, bias, chunk=2, level=0, backend="reference")
    with lengthwise.ops.backend("reference"):
        model(tokens)

`auto` takes the fastest implementation that runs where the tensors are, and so never fails for want of a GPU.
Naming one that cannot run raises and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from ..errors import Error, UnknownName

BACKENDS = ("auto", "reference", "torch", "numba", "triton")

# A plain global, not a ContextVar: torch.compile guards on the one and cannot see through the other.
_chosen = "auto"


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Within the block, every op called with `backend="auto"` uses `name`."""
    global _chosen
    _known(name)
    before, _chosen = _chosen, name
    try:
        yield
    finally:
        _chosen = before


def choose(asked: str, op: str, implementations: Mapping[str, Callable]) -> Callable:
    """The implementation to run: the call's own wish first, then the surrounding block's, then the fast one."""
    _known(asked)
    name = _chosen if asked == "auto" else asked
    if name == "auto" and "auto" not in implementations:
        name = "torch"
    if name not in implementations:
        have = " or ".join(repr(n) for n in implementations if n != "auto")
        # Within a block "auto" is what the block asked for.
        use = f"Use 'auto' or {have}." if asked != "auto" else f"Name {have} in the call, or leave the block."
        raise Error(f"{op}: backend {name!r} cannot run, for this op has no {name} kernel. {use}")
    return implementations[name]


def _known(name: str) -> None:
    if name not in BACKENDS:
        raise UnknownName("backend", name, BACKENDS)
