"""The squares made differentiable: by a function of autograd, and for torch.compile by an operator.

Shapes: as in the package.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...errors import Error
from ..stacks import folded
from .call import NAME, KeyBiasedCall
from .squares import gradients, values

# The squares and their adjoint as two operators that torch.compile does not look into: a graph of all parts of a long
# text would be of no use.
#
# A gradient that is not needed is an empty tensor here.

_ATTENTION = "(Tensor q, Tensor k, Tensor v, Tensor bias, float scale) -> (Tensor, Tensor)"
_ADJOINT = (
    "(Tensor dy, Tensor q, Tensor k, Tensor v, Tensor bias, Tensor y, Tensor lse, float scale, bool with_bias) "
    "-> (Tensor, Tensor, Tensor, Tensor)"
)


@torch.library.custom_op("lengthwise::key_biased_attention", mutates_args=(), schema=_ATTENTION)
def attention(q, k, v, bias, scale):
    y, lse = values(q, k, v, bias, scale)
    return y.contiguous(), lse.contiguous()


@torch.library.custom_op("lengthwise::key_biased_attention_adjoint", mutates_args=(), schema=_ADJOINT)
def adjoint(dy, q, k, v, bias, y, lse, scale, with_bias):
    found = gradients(dy, q, k, v, bias, y, lse, scale, with_bias)
    return tuple(q.new_empty(0) if x is None else x.contiguous() for x in found)


@attention.register_fake
def _(q, k, v, bias, scale):
    return q.new_empty(q.shape), bias.new_empty(q.shape[:3])


@adjoint.register_fake
def _(dy, q, k, v, bias, y, lse, scale, with_bias):
    dbias = bias.new_empty(bias.shape) if with_bias else q.new_empty(0)
    return *(x.new_empty(x.shape) for x in (q, k, v)), dbias


def _keep(ctx: Any, inputs, output) -> None:
    q, k, v, bias, ctx.scale = inputs
    ctx.save_for_backward(q, k, v, bias, *output)


def _backward(ctx: Any, dy: Tensor, _):
    with_bias = ctx.needs_input_grad[3]
    *found, dbias = adjoint(dy, *ctx.saved_tensors, ctx.scale, with_bias)
    return *found, dbias if with_bias else None, None


attention.register_autograd(_backward, setup_context=_keep)


def supports(call: KeyBiasedCall) -> str | None:
    """Why this kernel cannot take the call, if it cannot."""
    if call.q.device.type != "cpu":
        return f"q is on {call.q.device.type}, and it is the CPU's fused attention that says its logsumexp"
    if call.dropout:
        return "fused attention on a CPU drops no weights"
    return None


def by_squares(call: KeyBiasedCall) -> Tensor:
    """As `oracle`."""
    # Unpacked here: autograd and torch.compile see tensors only where each is an argument.
    given = call.q, call.k, call.v, call.bias, call.scale
    return (attention if torch.compiler.is_compiling() else Squares.apply)(*given)[0]


class Squares(torch.autograd.Function):
    @staticmethod
    def forward(q, k, v, bias, scale):
        return values(q, k, v, bias, scale)

    @staticmethod
    def setup_context(ctx: Any, inputs, output):
        q, k, v, bias, ctx.scale = inputs
        y, lse = output
        ctx.mark_non_differentiable(lse)
        ctx.save_for_backward(q, k, v, bias, y, lse)

    @staticmethod
    def backward(ctx: Any, *grad_outputs):  # pyright: ignore[reportIncompatibleMethodOverride]
        return *SquaresAdjoint.apply(grad_outputs[0], *ctx.saved_tensors, ctx.scale, ctx.needs_input_grad[3]), None

    @staticmethod
    def vmap(info, in_dims, *inputs):
        return folded(Squares, info, in_dims, inputs)


class SquaresAdjoint(torch.autograd.Function):
    """A function of its own, so that it can be mapped by itself, as in vmap of grad."""

    @staticmethod
    def forward(dy, q, k, v, bias, y, lse, scale, with_bias):
        return gradients(dy, q, k, v, bias, y, lse, scale, with_bias)

    @staticmethod
    def setup_context(ctx: Any, inputs, output):
        pass

    @staticmethod
    def backward(ctx: Any, *grad_outputs):
        raise Error(f"{NAME}: by squares it is differentiable once, and was asked for more. Use backend='reference'.")

    @staticmethod
    def vmap(info, in_dims, *inputs):
        return folded(SquaresAdjoint, info, in_dims, inputs)
