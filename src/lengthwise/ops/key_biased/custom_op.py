"""The squares and their adjoint as two operators that torch.compile does not look into: a graph of all parts of a long
text would be of no use.

A gradient that is not needed is an empty tensor here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .squares import gradients, values

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
