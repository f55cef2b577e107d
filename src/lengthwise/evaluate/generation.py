"""What a model writes by itself behind the prompts of a task, one most probable token after the other.

A model of this library decodes with its cache, its prompts padded on the left. Any other reads all there is again for
every token, prompts of one length together.

Shapes: B strings, T tokens, n tokens of the longest answer.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from ..models import LengthwiseForCausalLM
from ..models.token_classifier import equal_tokens, evaluating
from ..tasks.base import GeneratedAnswers
from ..train.counting import batch_size, memory_free, precision


@torch.no_grad()
def write_answers(
    classifier: nn.Module, task: GeneratedAnswers, tokens: Tensor, *, autocast: str = "fp32", share: int = 1
) -> Tensor:
    """(B, n) on the CPU, each answer up to its padding, which ends it; what follows the prompts is not looked at.

    An answer that is longer than any right one to its prompt is cut there.

    >>> from lengthwise import models, tasks
    >>> task = tasks.get("arithmetic-steps")
    >>> model = models.build("transformer", vocab_size=task.outputs, num_outputs=task.outputs, width=8, heads=2)
    >>> len(write_answers(model, task, task.test_set(2, 3).tokens))
    3
    """
    first = next(classifier.parameters(), None)
    device = torch.device("cpu") if first is None else first.device
    inner = getattr(classifier, "inner", None)
    written = []
    with evaluating(classifier), precision(autocast, device), equal_tokens(classifier, reused=False):
        longest = tokens.shape[1] + task.longest_answer(tokens)
        for rows in tokens.split(batch_size(longest, len(tokens), memory_free(device) // share)):
            if isinstance(inner, LengthwiseForCausalLM):
                written += continued(inner, task, rows.to(device)).cpu().unbind()
            else:
                written += reread(classifier, task, rows.to(device)).cpu().unbind()
    return torch.nn.utils.rnn.pad_sequence(written, batch_first=True, padding_value=task.padding)


def continued(model: LengthwiseForCausalLM, task: GeneratedAnswers, tokens: Tensor) -> Tensor:
    """By the model's own `generate`."""
    starts = task.prompts(tokens)
    T = int(starts.max())
    source = torch.arange(T, device=tokens.device) - (T - starts)[:, None]
    made = cast(Any, model).generate(
        inputs=tokens.gather(1, source.clamp(min=0)).masked_fill(source < 0, task.padding),
        attention_mask=(source >= 0).long(),
        do_sample=False,
        num_beams=1,
        max_new_tokens=task.longest_answer(tokens),
        eos_token_id=task.padding,
        pad_token_id=task.padding,
    )
    return _cut(task, tokens, made[:, T:])


def reread(classifier: nn.Module, task: GeneratedAnswers, tokens: Tensor) -> Tensor:
    """By reading every text again for each of its tokens."""
    starts = task.prompts(tokens)
    written = torch.full((len(tokens), task.longest_answer(tokens)), task.padding, device=tokens.device)
    for start in starts.unique().tolist():
        rows = (starts == start).nonzero()[:, 0]
        text = tokens[rows, :start]
        for t in range(written.shape[1]):
            token = classifier(text, last=True)[:, -1].argmax(-1)
            written[rows, t] = token
            going = token != task.padding
            rows, text = rows[going], torch.cat([text, token[:, None]], 1)[going]
            if not len(rows):
                break
    return _cut(task, tokens, written)


def _cut(task: GeneratedAnswers, tokens: Tensor, written: Tensor) -> Tensor:
    """Each answer as long as one to its own prompt may be: what else is in the batch depends on the memory."""
    longest = torch.tensor([task.longest_answer(row) for row in tokens.split(1)], device=written.device)
    return written.masked_fill(torch.arange(written.shape[1], device=written.device) >= longest[:, None], task.padding)
