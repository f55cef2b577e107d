"""Key-biased attention: causal attention with a bias that depends on the key alone.

    y_t = Σ_{s <= t} softmax_s(scale q_t · k_s + b_s) v_s

Softmax ignores what is the same for all keys, so this is how ALiBi, -m (t - s), is computed without a number for each
pair: b_s = m s. A forgetting gate's Σ_{s < i <= t} log f_i is b_s = -Σ_{i <= s} log f_i. Such biases grow with the
text, while what matters is differences between keys of nearly the largest bias; these keep their digits.

Shapes: B batch, H heads, T queries, S keys, d head width.
"""

from __future__ import annotations

from torch import Tensor

from ..checks import without_autocast
from ..kernels import Kernel, Op
from .call import NAME, KeyBiasedCall, check, exact
from .columns import by_columns
from .reference import oracle
from .squares import by_squares, supports

OP: Op[KeyBiasedCall] = Op(
    NAME,
    [
        Kernel("squares", by_squares, supports, priority=2),
        Kernel("torch", by_columns, priority=1),
        Kernel("reference", oracle),
    ],
)


def key_biased_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_bias: Tensor,
    *,
    scale: float | None = None,
    dropout: float = 0.0,
    backend: str = "auto",
) -> Tensor:
    """y (B,H,T,d) of q (B,H,T,d) and k, v (B,H,S,d): the queries are the last T of the S keys.

    key_bias: (H,S) or (B,H,S), of any size and, best, in double precision; it has a gradient as q, k and v have. A
    key of -inf is never read, but by its own query where that has no other.
    scale: 1/sqrt(d) if it is None. dropout: the share of the weights that is dropped.

    >>> import torch
    >>> same = torch.zeros(1, 1, 3, 1)  # equal logits: the bias alone tells keys apart
    >>> v = torch.tensor([1.0, 0.0, 0.0]).view(1, 1, 3, 1)
    >>> weights = key_biased_attention(same, same, v, torch.tensor([[0.0, 1.0, 1.0]]).log1p())  # as 1 to 2 to 2
    >>> [round(y, 4) for y in weights.flatten().tolist()]
    [1.0, 0.3333, 0.2]
    """
    with without_autocast(q):
        check(q, k, v, key_bias, dropout)
        factor = q.shape[-1] ** -0.5 if scale is None else float(scale)
        if factor <= 0:  # Fused attention may want a positive scale, and gradients of biases are divided by it.
            q, factor = (-q, -factor) if factor else (q * 0, 1.0)
        return OP.run(KeyBiasedCall(q, k, v, exact(key_bias, k), factor, dropout), backend)


__all__ = ["OP", "key_biased_attention"]
