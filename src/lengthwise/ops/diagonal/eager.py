"""The diagonal scan by torch's operators in about 2 √T steps: pieces of √T tokens side by side, each from zero, then
what entered each.

    x_t = z_t + (a_t … a_s) x_{s-1}        s the piece's first token, z its states from zero

Shapes: B batch, T tokens, m pieces of c tokens, n entries of the state.
"""

from __future__ import annotations

from math import isqrt

import torch
import torch.nn.functional as F
from torch import Tensor

from .call import Call


def by_torch(call: Call) -> Tensor:
    """As `oracle`."""
    T = call.v.shape[1]
    c = isqrt(T - 1) + 1
    m = -(-T // c)
    # (B,m,c,n) apart along c; slices of one tensor would each give it a gradient of its full size.
    a, v = (F.pad(part, (0, 0, 0, m * c - T)).unflatten(1, (m, c)) for part in (call.a, call.v))
    passed, alone = [a[:, :, 0]], [v[:, :, 0]]
    for a_t, v_t in zip(a.unbind(2)[1:], v.unbind(2)[1:], strict=True):
        passed.append(a_t * passed[-1])
        alone.append(a_t * alone[-1] + v_t)
    entered = [call.initial]
    for A, z in zip(passed[-1].unbind(1)[:-1], alone[-1].unbind(1)[:-1], strict=True):
        entered.append(A * entered[-1] + z)
    x = torch.stack(alone, 2) + torch.stack(passed, 2) * torch.stack(entered, 1)[:, :, None]
    return x.flatten(1, 2)[:, :T]
