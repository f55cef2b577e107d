"""Nodes of a tree that are words of choices: after a group of layers a vector becomes one of finitely many.

    z = W x + c                       G groups of M logits
    a_g = argmax_m z_gm               the node's code, G choices
    y = Σ_g E_g[a_g]                  E the codebook, a learned vector for every choice

The gradient of a choice is that of a softmax (`mixers.transitions.choice`). So a node is one of M^G vectors, however
many tokens lie under it, and rounding does not grow from group to group: what is right at all the codes that words
reach is right at every length.

Shapes: … any, D model width, G groups, M choices of a group.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..errors import Error
from ..mixers.transitions import choice


class DiscreteNodes(nn.Module):
    """From (…,D) to one of M^G vectors (…,D)."""

    def __init__(self, width: int, groups: int, codes: int):
        super().__init__()
        if groups < 1 or codes < 2:
            raise Error(f"discrete nodes: groups must be at least 1 and codes at least 2, got {groups} and {codes}.")
        self.groups, self.codes = groups, codes
        self.choose = nn.Linear(width, groups * codes)
        # One vector of every group is added up, and their sum has unit variance.
        self.codebook = nn.Parameter(torch.randn(groups * codes, width) * groups**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.chosen(self.logits(x))

    def logits(self, x: Tensor) -> Tensor:
        """(…,G,M)"""
        return self.choose(x).unflatten(-1, (self.groups, self.codes))

    def chosen(self, logits: Tensor) -> Tensor:
        """(…,D) the nodes that are chosen by these, (…,G,M)."""
        return choice(logits.mT).mT.flatten(-2) @ self.codebook

    def vectors(self, chosen: Tensor) -> Tensor:
        """(…,D) the nodes whose choices these are, (…,G)."""
        first = torch.arange(0, self.groups * self.codes, self.codes, device=chosen.device)
        return self.codebook[chosen + first].sum(-2)
