"""What a position encoding may do: add to the input, turn queries and keys, or bias the logits. Every hook is optional.

Shapes: B batch, T queries, S keys, H heads, d head width, D model width.
"""

from __future__ import annotations

from torch import Tensor, nn


class Position(nn.Module):
    """A position encoding; this one does nothing, and subclasses override the hooks they need.

    Ids are integers (B, T), from 0 inside each sequence, negative on left padding, where the result is never read but
    must be finite. A class whose `embed` acts has `at_input`, and the model holds one; a class that acts on attention
    has `at_attention`, and every layer holds its own.
    """

    at_input = False
    at_attention = False

    def embed(self, ids: Tensor) -> Tensor | None:
        """(B,T,D) to add to the token embeddings."""
        return None

    def rotate(self, q: Tensor, k: Tensor, q_ids: Tensor, k_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Queries (B,H,T,d) and keys (B,H,S,d) as attention is to compare them."""
        return q, k

    def bias(self, q: Tensor, q_ids: Tensor, k_ids: Tensor) -> Tensor | None:
        """(B,H,T,S) to add to the scaled logits; `q` is the query before `rotate`."""
        return None
