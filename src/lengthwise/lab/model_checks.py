"""What is refused of a model before anything runs: that it cannot be built, or not for this task or these lengths."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from .. import models, tasks
from ..errors import Error, ForeignError, LengthError
from ..limits import need_memory
from ..models import TokenClassifier, pretrained
from ..positions import Multilevel
from ..train.counting import one_place
from ..train.state import untouched_random, weights
from .experiment import ModelSpec
from .new_models import build_language_model


def check(model: ModelSpec, task: tasks.Task, length: int, longest: int) -> None:
    """Refuse a model that cannot be built, or not for this task, before anything runs.

    A preset has the right shape by construction, so it is built once for its options, whatever the task; one whose
    positions end must reach the `longest` strings. A model from outside is also run: on every token, and on strings of
    `length`.
    """
    options = json.dumps(model.options, sort_keys=True)
    if ":" in model.name:
        batch = task.test_set(length, 2)
        last = one_place(task, batch) and task.supervision == "last"
        shapes = (len(task.vocabulary), task.logits)
        most = _runs(model.name, model.source, options, *shapes, batch.tokens.shape[1], last)
        if most is not None:
            check_reach(model.name, most, task.test_set(longest, 1).tokens.shape[1])
        return
    shapes = (len(task.vocabulary), task.logits) if model.options.get("tie_word_embeddings") else (2, 2)
    mixes, most = _mixes_and_reads(model.name, options, *shapes)
    if most is not None:
        check_reach(model.name, most, task.test_set(longest, 1).tokens.shape[1])
    if mixes and (task.kind == "set" or task.questions > 1):
        raise Error(
            f"{model.name}: a choice of chunks mixes distributions over one answer, and {task.name} reads "
            "several answers at once. Leave largest_chunk out."
        )


def check_on_text(
    spec: ModelSpec, tokenizer: Any, trained: int, tested: Sequence[int], warn: Callable[[str], None]
) -> None:
    """Refuse a model that cannot be built or read windows, and name the lengths that its position cannot encode."""
    model = _shape(spec.name, lambda: build_language_model(spec, tokenizer, 0)).eval()
    check_reach(spec.name, reach(model), max(trained, *tested))
    _check_ends(spec.name, model, len(tokenizer))
    longest = longest_position(model)
    called = " ".join([spec.name, *(f"{k}={v}" for k, v in spec.options.items() if k in ("position", "max_length"))])
    if longest is not None and trained > longest:
        raise Error(
            f"{called}: windows of {trained:,} tokens are longer than its {longest:,} positions. Lower the training "
            "length, or raise the model's max_length."
        )
    if ":" in spec.name:
        rows = torch.full((1, trained), len(tokenizer) - 1)
        with torch.no_grad(), untouched_random(torch.device("cpu")):
            try:
                model(rows)
            except ForeignError as error:
                raise Error(str(error)) from error.__cause__
    if longest is not None and (beyond := [n for n in tested if n > longest]):
        warn(
            f"{called}: it has {longest:,} positions, and at test lengths {', '.join(f'{n:,}' for n in beyond)} all "
            "tokens beyond share the last one. Raise max_length for places of their own, which training never meets."
        )


def _check_ends(name: str, model: nn.Module, size: int) -> None:
    """Refuse ends of segments that are no tokens: a mistyped id would make the whole text one segment."""
    levels = [module for module in model.modules() if isinstance(module, Multilevel)]
    listed = [token for each in levels for ends in each.ends if isinstance(ends, list) for token in ends]
    if beyond := [token for token in listed if token >= size]:
        raise Error(
            f"{name}: ends must be ids of tokens, below the {size:,} that the tokenizer has, got {beyond[0]:,}. "
            "text.segment_ends finds them by a rule."
        )


def longest_position(model: TokenClassifier) -> int | None:
    """How many tokens the model's position can tell apart; None: any number, or nobody knows."""
    position = getattr(model.inner, "position", None)
    return getattr(position, "longest", None)


def reach(model: models.TokenClassifier) -> int | None:
    """How many tokens its positions let it read; None: any number, or nobody knows."""
    places = getattr(getattr(model.inner, "position", None), "at_most", None)
    return pretrained.position_rows(model.inner) if places is None else places


def check_reach(name: str, most: int | None, tokens: int) -> None:
    """Refuse a model that would be trained or tested with more tokens than it can read."""
    if most is not None and tokens > most:
        setting = "config max_position_embeddings" if name.startswith("hf:") else "position a longest"
        raise LengthError(
            f"{name}: its positions reach {most:,} tokens, and it would be trained or tested with {tokens:,}. Give the "
            f"{setting} of at least {tokens:,}, or ask for shorter texts."
        )


@lru_cache(maxsize=1024)
def _mixes_and_reads(name: str, options: str, vocab_size: int, num_outputs: int) -> tuple[bool, int | None]:
    """Whether a preset mixes distributions, and how many tokens it reads at most; raises where it cannot be built."""
    built = _shape(name, lambda: _built(name, options, vocab_size, num_outputs))
    return getattr(built, "mixes", False), reach(built)


def _shape(name: str, make: Callable[[], TokenClassifier]) -> TokenClassifier:
    """A preset without its weights, which are made when it is trained; of a model from outside only all of it tells."""
    if ":" in name:
        return make()
    with torch.device("meta"):
        made = make()
    need_memory(sum(weight.nbytes for weight in made.parameters()), f"{name}: its weights", "Build a smaller model.")
    return made


@lru_cache(maxsize=1024)
def _runs(
    name: str, source: str | None, options: str, vocab_size: int, num_outputs: int, tokens: int, last: bool
) -> int | None:
    """Run a model from outside, whose code has the digest `source`, on every token and on a row of `tokens`.

    How many tokens it reads at most is returned.
    """
    classifier = _built(name, options, vocab_size, num_outputs).eval()
    every = torch.arange(vocab_size)
    with torch.no_grad(), untouched_random(torch.device("cpu")):
        try:
            classifier(every[:, None])
            classifier(every.repeat(2 * tokens)[: 2 * tokens].view(2, tokens), last=last)
        except ForeignError as error:
            raise Error(str(error)) from error.__cause__  # nothing has run yet: the call is wrong
    if not any(weight.requires_grad for weight in classifier.parameters()):
        raise Error(f"{name}: a model must have weights that can be trained, and this one has none, or all are frozen.")
    return reach(classifier)


def _built(name: str, options: str, vocab_size: int, num_outputs: int) -> models.TokenClassifier:
    with untouched_random(torch.device("cpu")):
        built = models.build(name, vocab_size=vocab_size, num_outputs=num_outputs, settings=json.loads(options))
    weights(built.inner)
    return built
