"""Chain attention (ChaCAL): attention read as a weighted graph, and all its paths summed by one solve.

    A = softmax(q k^T · scale + bias)                          causal: row t reads the keys up to t
    Y = (1-γ) (I + γÃ + (γÃ)² + …) A V, that is  B Y = (1-γ) A V  with  B = I - γÃ

Ã is A without its diagonal, or A itself. Row by row this is attention over z, the values of rows already solved:

    y_t = Σ_{j<t} A_tj z_j + (1-γ) A_tt v_t,      z_j = (1-γ) v_j + γ y_j

(with the diagonal: divided by 1 - γ A_tt). So keys and z are all that is needed to go on with further tokens.

Shapes: B batch, H heads, T queries, S keys, d head width.
"""

from __future__ import annotations

from torch import Tensor

from ..checks import without_autocast
from ..kernels import Kernel, Op
from .call import HIDDEN, NAME, ChainCall, check, numbered, rates
from .eager import by_torch
from .reference import oracle

OP: Op[ChainCall] = Op(NAME, [Kernel("torch", by_torch, priority=1), Kernel("reference", oracle)])


def chain_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gamma: float | Tensor = 0.9,
    *,
    exclude_diagonal: bool = True,
    bias: Tensor | None = None,
    key_bias: Tensor | None = None,
    scale: float | None = None,
    cu_seqlens: Tensor | None = None,
    sequences: Tensor | None = None,
    solved: Tensor | None = None,
    causal: bool = True,
    backend: str = "auto",
) -> Tensor:
    """y (B,H,T,d) of q and v (B,H,T,d) and k (B,H,S,d): the queries are the last T of the S keys.

    gamma: a number in [0, 1), or one a head (H,); 0 is softmax attention.
    exclude_diagonal: leave each token's attention to itself out of the paths (the paper's practice; A keeps it).
    bias: added to the logits, broadcastable to (B,H,T,S). key_bias: the same for all queries, (H,S) or (B,H,S).
    For keys that nobody may read use HIDDEN, not -inf: a row of padding stays finite.
    cu_seqlens: [0, n1, n1+n2, …, T]: one row (B = 1) of sequences end to end, none of which reads another.
    sequences: the same for any batch, (B,S): the number of the sequence each key belongs to.
    solved: (B,H,S-T,d) the z of the first S-T keys, to go on from; see `solved_values`.
    causal: False for encoders, where every row reads every key: a general solve of the whole T×T matrix.

    >>> import torch
    >>> same = torch.zeros(1, 1, 3, 1)  # equal logits: A averages over the tokens so far
    >>> v = torch.tensor([4.0, 0.0, 0.0]).view(1, 1, 3, 1)
    >>> chain_attention(same, same, v, 0.5).flatten().tolist()  # (1-γ) 4; then 1/2 z_0 = 1/2 (2 + 1); …
    [2.0, 1.5, 1.25]
    """
    with without_autocast(q):
        check(q, k, v, gamma, bias, key_bias, cu_seqlens, sequences, solved, causal)
        if key_bias is not None:
            for_keys = key_bias.unsqueeze(-2)
            bias = for_keys if bias is None else bias + for_keys
        sequences = sequences if cu_seqlens is None else numbered(cu_seqlens, q)
        rate, solved = rates(gamma, q), v[:, :, :0] if solved is None else solved
        wide, factor = rate.dtype, q.shape[-1] ** -0.5 if scale is None else scale
        bias = None if bias is None else bias.reshape((1,) * (4 - bias.dim()) + bias.shape).to(wide)
        call = ChainCall(
            q.to(wide), k.to(wide), v.to(wide), rate, bias, sequences, not exclude_diagonal, factor, solved.to(wide),
            causal,
        )  # fmt: skip
        return OP.run(call, backend).to(q.dtype)


def solved_values(v: Tensor, y: Tensor, gamma: float | Tensor) -> Tensor:
    """z = (1-γ) v + γ y (B,H,T,d): what later tokens read of these, which are solved."""
    if type(gamma) is float and v.dtype == y.dtype and v.dtype.itemsize >= 4:
        return v.lerp(y, gamma)
    rate = rates(gamma, v)
    return v.to(rate.dtype).lerp(y.to(rate.dtype), rate).to(v.dtype)


__all__ = ["HIDDEN", "OP", "chain_attention", "solved_values"]
