"""What a language model writes behind prompts of many lengths, greedily; and the file in which a site asks for it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import Error
from ..files import naming, open_text, write_text
from ..models.token_classifier import evaluating
from ..text.scrolls import TASKS
from .far_tokens.answers import written
from .text import memory_for

HEAD = ("Task", "ID", "Prediction")


def write_texts(
    model: nn.Module,
    tokenizer: Any,
    prompts: Mapping[str, Tensor],
    budget: int,
    *,
    autocast: str = "fp32",
    tokens_at_once: int = 8192,
    known: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
    after: Callable[[dict[str, str]], None] | None = None,
) -> dict[str, str]:
    """The text behind each prompt (P,), in `budget` tokens at most; `after` some it is called with all so far.

    Prompts of one length are read together, so that no answer depends on padding. Those `known` are not asked again.
    `before` each part is called and may raise.
    """
    if not hasattr(model, "generate"):
        raise Error(
            f"{type(model).__name__} cannot write: it has no generate(). Use a causal language model of transformers, "
            "or a preset."
        )
    device = next(model.parameters()).device
    answers = dict(known or {})
    by_length: dict[int, list[str]] = {}
    for id, prompt in prompts.items():
        if id not in answers:
            by_length.setdefault(len(prompt), []).append(id)
    with evaluating(model):
        for length, ids in sorted(by_length.items(), reverse=True):
            some = max(1, tokens_at_once // (length + budget))
            for part in (ids[i : i + some] for i in range(0, len(ids), some)):
                if before:
                    before()
                rows = torch.stack([prompts[id] for id in part]).to(device).long()
                what = f"prompts of {length:,} tokens with answers of {budget:,}"
                with memory_for(what, "Lower window, budget or tokens_at_once."):
                    texts = written(model, tokenizer, rows, budget, autocast=autocast, ends=True)
                answers |= dict(zip(part, map(str.strip, texts), strict=True))
                if after:
                    after(answers)
    return {id: answers[id] for id in prompts}


def write_submission(path: Path | str, answers: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The answers by task and id as the CSV that SCROLLS's site takes; which of its tasks are not in it yet.

    Tasks that a file at `path` has beside these are kept, so that each may be answered by a model of its own.
    """
    path = Path(path)
    every = {**(read_submission(path) if path.exists() else {}), **answers}
    lines = io.StringIO(newline="")
    rows = csv.writer(lines, lineterminator="\n")
    rows.writerow(HEAD)
    for task in (task for task in TASKS if task in every):
        # A site that reads bare carriage returns as ends of lines would find more rows than there are.
        rows.writerows((task, id, text.replace("\r", " ")) for id, text in every[task].items())
    write_text(path, lines.getvalue())
    return [task for task in TASKS if task not in every]


def read_submission(path: Path | str) -> dict[str, dict[str, str]]:
    """The inverse of `write_submission`."""
    path = Path(path)
    with naming(path), open_text(path, newline="") as lines:
        head, *rows = [*csv.reader(lines)] or [[]]
    if tuple(head) != HEAD or not all(len(row) == len(HEAD) and row[0] in TASKS for row in rows):
        raise Error(f"{path}: no submission to SCROLLS, whose columns are {', '.join(HEAD)}. Name another file.")
    answers: dict[str, dict[str, str]] = {}
    for task, id, text in rows:
        answers.setdefault(task, {})[id] = text
    return answers
