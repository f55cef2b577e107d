"""How a language model's answers are scored: by what it holds likely among given answers, or by what it writes.

    ranking      the share of the right answers that are among the m likeliest of all C, where m are right
    generation   the share of the right answers that its greedy continuation contains, upper or lower case alike

Ranking asks nothing of a model but likelihoods, so that a small one that follows no instruction is scored too. Equal
likelihoods share their places, so a model that holds all alike scores m/C exactly.

Shapes: B prompts, P tokens of each, C answers to each, L tokens of an answer.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...train.counting import precision


@torch.no_grad()
def log_likelihoods(
    model: nn.Module, prompts: Tensor, answers: Tensor, *, autocast: str = "fp32", cached: bool = True
) -> Tensor:
    """(B, C) log p(answer | prompt), of prompts (B, P) and answers (B, C, L).

    `cached`: a prompt is read once, if the model keeps a cache that can be repeated for its answers, and else once for
    each of them.
    """
    B, C, L = answers.shape
    each = answers.flatten(0, 1)
    with precision(autocast, prompts.device):
        if cached and getattr(getattr(model, "generation_config", None), "use_cache", None) is not False:
            output = model(input_ids=prompts, use_cache=L > 1, **_last(model, 1))
            first = _picked(output.logits[:, -1:].expand(-1, C, -1), answers[:, :, 0])
            if L == 1:
                return first
            cache: Any = getattr(output, "past_key_values", None)
            if hasattr(cache, "batch_repeat_interleave"):
                cache.batch_repeat_interleave(C)
                output = model(input_ids=each[:, :-1], past_key_values=cache, use_cache=True)
                return first + _picked(output.logits, each[:, 1:]).sum(1).view(B, C)
        rows = torch.cat([prompts.repeat_interleave(C, 0), each], 1)
        output = model(input_ids=rows[:, :-1], use_cache=False, **_last(model, L))
        return _picked(output.logits[:, -L:], each).sum(1).view(B, C)


def _last(model: nn.Module, count: int) -> dict[str, Any]:
    """The logits of the last tokens alone, of a model that can leave out the others."""
    return {"logits_to_keep": count} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}


def _picked(logits: Tensor, tokens: Tensor) -> Tensor:
    """(B, L) log p of tokens (B, L) by logits (B, L, V), in single precision at least."""
    logits = logits if logits.dtype == torch.float64 else logits.float()
    return logits.log_softmax(-1).gather(-1, tokens[..., None])[..., 0]


def ranked(likelihoods: Sequence[float], right: int) -> float:
    """The share of the first `right` answers that are among as many likeliest; ties are counted as if drawn by lot.

    >>> ranked([-1.0, -9.0, -2.0, -3.0], 1), ranked([-2.0, -2.0, -2.0, -2.0], 1), ranked([-1.0, -3.0, -2.0], 2)
    (1.0, 0.25, 0.5)
    """
    scores = torch.tensor(list(likelihoods), dtype=torch.float64)
    if not bool(torch.isfinite(scores).all()):
        return 0.0
    mine = scores[:right, None]
    above, level = (scores > mine).sum(1), (scores == mine).sum(1)
    return float(((right - above).double() / level).clamp(0, 1).mean())


@torch.no_grad()
def written(
    model: Any, tokenizer: Any, prompts: Tensor, budget: int, *, autocast: str = "fp32", ends: bool = False
) -> list[str]:
    """Returns what the model writes after each prompt (B, P), greedily, in `budget` tokens at most.

    `ends`: it was trained to end with the tokenizer's end of text, whatever its config says.
    """
    end = tokenizer.eos_token_id
    ended = {"eos_token_id": end} if ends else {}
    with precision(autocast, prompts.device):
        tokens = model.generate(
            input_ids=prompts,
            attention_mask=torch.ones_like(prompts),
            max_new_tokens=budget,
            do_sample=False,
            pad_token_id=0 if end is None else end,
            **ended,
        )
    return tokenizer.batch_decode(tokens[:, prompts.shape[1] :], skip_special_tokens=True)
