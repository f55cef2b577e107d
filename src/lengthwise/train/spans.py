"""Spans: a tree is asked for the answer of every node under which a string of the task lies, not of the last alone.

    loss = mean over groups l of the mean, over those nodes, of ℓ(head(node), answer(the tokens under it))

Where a group is one layer, a node depends on the tokens under it alone, and is what the model makes of these as a
string. So a pass over T tokens has read some T/(C-1) strings, from short to long. Asked for the whole string alone, the
lowest nodes learn through log_C T groups from one answer; here most have an answer of their own.

A span is a string of the task where its machine, from its start on, comes to a state that has an answer. Spans are
counted from the end, as nodes are. Of one that begins before the first token the string is shorter, and is asked for
where the model has as many groups for it.

Shapes: B strings, T tokens, n nodes of a group, N nodes of all groups, S outputs.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import Error
from ..models.depth import Adaptive, groups
from ..tasks.base import Task


class Spans:
    """The spans under the nodes of a model's trees."""

    def __init__(self, model: nn.Module, task: Task):
        depth = getattr(getattr(model, "inner", None), "depth", None)
        if not isinstance(depth, Adaptive) or not depth.shares_subtrees:
            raise Error(
                "training.spans: only trees of one layer a group, such as regular-gpt's, have them. Leave it off."
            )
        if task.machine is None or task.padding is not None or task.kind != "class" or task.supervision != "last":
            raise Error(
                f"training.spans: {task.name} must be a task with a machine, asked for the answer of whole strings "
                "(supervision=last). Leave it off."
            )
        self.task, self.chunk = task, depth.chunk

    def loss(self, logits: Tensor, tokens: Tensor) -> Tensor:
        """`logits`: (B,N,S) of all nodes, group after group."""
        each = []
        for group in range(groups(tokens.shape[1], self.chunk)):
            answers, asked = self.answers(tokens, group)
            here, logits = logits.split([answers.shape[1], logits.shape[1] - answers.shape[1]], 1)
            if bool(asked.any()):
                each.append(F.cross_entropy(here[asked.to(here.device)], answers[asked].to(here.device)))
        return torch.stack(each).mean()

    def answers(self, tokens: Tensor, group: int) -> tuple[Tensor, Tensor]:
        """(B,n) the answers of the spans under the nodes of a group, and which of these are strings of the task."""
        width, machine = self.chunk ** (group + 1), self.task.machine
        assert machine is not None
        assert self.task.readout is not None
        first = (tokens.shape[1] - 1) % width + 1
        tokens = tokens.cpu()
        states = machine.run(tokens[:, :first])[:, -1:]
        if tokens.shape[1] > first:
            after = machine.run(tokens[:, first:].reshape(-1, width))[:, -1]
            states = torch.cat([states, after.view(len(tokens), -1)], 1)
        asked = torch.ones_like(states, dtype=torch.bool) if self.task.answered is None else self.task.answered[states]
        if group and first <= width // self.chunk:
            asked[:, 0] = False  # alone it has fewer groups
        return self.task.readout[states], asked
