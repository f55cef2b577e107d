"""A computation with an adjoint of its own, differentiable once.

Eagerly it is a function of autograd and its adjoint is another, so that torch.func can map each by itself, as in vmap
of grad. torch.compile is given two operators which it does not look into, for a graph of all steps of a long text would
be of no use; a gradient that is not needed is an empty tensor there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..errors import Error

Gradients = tuple[Tensor | None, ...]


def folded(function, info, in_dims, inputs):
    """For torch.func.vmap, which then is one more batch dimension: what `function` gives for every one of the N stacked
    inputs, and where its stacked dimension is."""
    N = info.batch_size
    # For an argument that is not a tensor in_dims holds a structure of Nones.
    dims = [at if isinstance(x, Tensor) else None for x, at in zip(inputs, in_dims, strict=True)]
    moved = [x if at is None else x.movedim(at, 0) for x, at in zip(inputs, dims, strict=True)]
    B = moved[0].shape[0 if dims[0] is None else 1]
    outputs = function.apply(*(_fold(x, at is not None, N, B) for x, at in zip(moved, dims, strict=True)))
    unfolded = tuple(None if x is None else x.unflatten(0, (N, B)) for x in outputs)
    return unfolded, tuple(None if x is None else 0 for x in outputs)


def _fold(x, stacked: bool, N: int, B: int):
    """(N,B,…) or (B,…) -> (N·B,…); what a batch of several shares stays so if the stack shares it too."""
    if not isinstance(x, Tensor) or (not stacked and x.shape[0] == 1 and B > 1):
        return x
    x = x if stacked else x.expand(N, *x.shape)
    return torch.flatten(x.expand(N, B, *x.shape[2:]), 0, 1)


def with_adjoint(
    name: str,
    run: Callable[..., tuple[Tensor, Tensor]],
    adjoint: Callable[..., Gradients],
    keep: Callable[..., tuple[tuple[Tensor | None, ...], tuple[Any, ...]]],
    *,
    schemas: tuple[str, str],
    shapes: tuple[Callable, Callable],
    fold: Callable = folded,
) -> Callable[..., tuple[Tensor, Tensor]]:
    """Returns `run`, which gives an output and what else the adjoint needs, with gradients of the output.

    `adjoint`: of (gradient of the output, *tensors, *what `run` gave, *constants, needs) the gradients of the first
    inputs, each a tensor or None. `needs` says of every input whether its gradient is needed.
    `keep`: of the inputs those tensors and constants.
    `schemas`, `shapes`: what the two operators take, and their fakes. `fold`: how a stack of calls becomes one.
    """

    def save(ctx: Any, inputs, output) -> None:
        tensors, ctx.constants = keep(*inputs)
        ctx.save_for_backward(*tensors, *output)
        ctx.dtypes = [x.dtype if isinstance(x, Tensor) else None for x in inputs]

    def backward(ctx: Any, g: Tensor, by: Callable[..., Gradients]) -> Gradients:
        needs = list(ctx.needs_input_grad)
        gradients = by(g, *ctx.saved_tensors, *ctx.constants, needs)
        each = [x.to(ctx.dtypes[i]) if x is not None and needs[i] else None for i, x in enumerate(gradients)]
        return *each, *[None] * (len(needs) - len(each))

    class Forward(torch.autograd.Function):
        forward = staticmethod(run)

        @staticmethod
        def setup_context(ctx: Any, inputs, output):
            ctx.mark_non_differentiable(output[1])
            save(ctx, inputs, output)

        @staticmethod
        def backward(ctx: Any, *grad_outputs):  # pyright: ignore[reportIncompatibleMethodOverride]
            return backward(ctx, grad_outputs[0], Adjoint.apply)

        @staticmethod
        def vmap(info, in_dims, *inputs):
            return fold(Forward, info, in_dims, inputs)

    class Adjoint(torch.autograd.Function):
        forward = staticmethod(adjoint)

        @staticmethod
        def setup_context(ctx: Any, inputs, output):
            pass

        @staticmethod
        def backward(ctx: Any, *grad_outputs):
            raise Error(f"{name}: this kernel is differentiable once, and was asked for more. Use backend='reference'.")

        @staticmethod
        def vmap(info, in_dims, *inputs):
            return fold(Adjoint, info, in_dims, inputs)

    def run_alone(*inputs):
        return tuple(x.contiguous() for x in run(*inputs))

    def adjoint_alone(g, *saved):
        return tuple(g.new_empty(0) if x is None else x.contiguous() for x in adjoint(g, *saved))

    run_op, adjoint_op = (
        torch.library.custom_op(f"lengthwise::{name}{end}", function, mutates_args=(), schema=schema)
        for end, function, schema in zip(("", "_adjoint"), (run_alone, adjoint_alone), schemas, strict=True)
    )
    run_op.register_fake(shapes[0])
    adjoint_op.register_fake(shapes[1])
    run_op.register_autograd(lambda ctx, g, _: backward(ctx, g, adjoint_op), setup_context=save)
    return lambda *inputs: (run_op if torch.compiler.is_compiling() else Forward.apply)(*inputs)
