"""The task and the model of an experiment before the first step, and what is refused of a model before anything runs.

A model is initialised by the seed alone, and the global random state is left as it was.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from .. import models, tasks
from ..errors import Error, ForeignError, LengthError
from ..limits import need_memory
from ..models import TokenClassifier, pretrained
from ..positions import Multilevel
from ..seeds import derive
from ..train.counting import one_place
from ..train.state import untouched_random, weights
from .experiment import Experiment, ModelSpec


def new_model(experiment: Experiment) -> TokenClassifier:
    """The model of an experiment before its first step, on the CPU."""
    spec = experiment.task
    return build_classifier(experiment, tasks.rebuild(spec.name, spec.params, spec.source), torch.device("cpu"))


def build_classifier(experiment: Experiment, task: tasks.Task, device: torch.device) -> TokenClassifier:
    """The model of an experiment on strings."""
    classifier = _build(experiment.model, len(task.vocabulary), experiment.seed, task.logits, device)
    return classifier.to(device, torch.float64 if experiment.training.precision == "fp64" else torch.float32)


def build_language_model(spec: ModelSpec, tokenizer: Any, seed: int) -> TokenClassifier:
    """A model for the tokens of this tokenizer."""
    model = _build(spec, len(tokenizer), seed)
    for config in (getattr(model.inner, "config", None), getattr(model.inner, "generation_config", None)):
        if config is not None:
            config.eos_token_id = tokenizer.eos_token_id
    return model


def _build(
    spec: ModelSpec, size: int, seed: int, outputs: int | None = None, device: torch.device | None = None
) -> TokenClassifier:
    with untouched_random(device or torch.device("cpu")):
        torch.manual_seed(derive("init", seed))
        return models.build(spec.name, vocab_size=size, num_outputs=outputs, settings=spec.options, source=spec.source)


def check(model: ModelSpec, task: tasks.Task, length: int, longest: int) -> None:
    """Raises for a model that cannot be built, or not for this task or for its `longest` strings.

    A preset has the right shape by construction, so it is built once for its options, whatever the task. A model from
    outside is also run: on every token, and on strings of `length`.
    """
    options, run = json.dumps(model.options, sort_keys=True), ()
    shapes = (len(task.vocabulary), task.logits)
    if ":" in model.name:
        batch = task.test_set(length, 2)
        run = (batch.tokens.shape[1], one_place(task, batch) and task.supervision == "last")
    elif not model.options.get("tie_word_embeddings"):
        shapes = (2, 2)
    reach = _tried(model.name, model.source, options, *shapes, *run)
    if reach is not None:
        _check_reach(model.name, reach, task.test_set(longest, 1).tokens.shape[1])


def check_on_text(spec: ModelSpec, tokenizer: Any, trained: int, tested: Sequence[int]) -> None:
    """Raises for a model that cannot be built or read windows, and warns of lengths its position cannot encode."""
    model = _shape(spec.name, lambda: build_language_model(spec, tokenizer, 0)).eval()
    _check_reach(spec.name, _reach(model), max(trained, *tested))
    levels = [module for module in model.modules() if isinstance(module, Multilevel)]
    listed = [token for each in levels for ends in each.ends if isinstance(ends, list) for token in ends]
    if beyond := [token for token in listed if token >= len(tokenizer)]:
        # A mistyped id would make the whole text one segment.
        raise Error(
            f"{spec.name}: ends must be ids of tokens, below the {len(tokenizer):,} that the tokenizer has, got "
            f"{beyond[0]:,}. text.segment_ends finds them by a rule."
        )
    longest = getattr(getattr(model.inner, "position", None), "longest", None)
    called = " ".join([spec.name, *(f"{k}={v}" for k, v in spec.options.items() if k in ("position", "max_length"))])
    if longest is not None and trained > longest:
        raise Error(
            f"{called}: windows of {trained:,} tokens are longer than its {longest:,} positions. Lower the training "
            "length, or raise the model's max_length."
        )
    if ":" in spec.name:
        _try(model, torch.full((1, trained), len(tokenizer) - 1))
    if longest is not None and (beyond := [n for n in tested if n > longest]):
        warnings.warn(
            f"{called}: it has {longest:,} positions, and at test lengths {', '.join(f'{n:,}' for n in beyond)} all "
            "tokens beyond share the last one. Raise max_length for places of their own, which training never meets.",
            stacklevel=2,
        )


def _reach(model: TokenClassifier) -> int | None:
    places = getattr(getattr(model.inner, "position", None), "at_most", None)
    return pretrained.position_rows(model.inner) if places is None else places


def _check_reach(name: str, most: int | None, tokens: int) -> None:
    if most is not None and tokens > most:
        setting = "config max_position_embeddings" if name.startswith("hf:") else "position a longest"
        raise LengthError(
            f"{name}: its positions reach {most:,} tokens, and it would be trained or tested with {tokens:,}. Give the "
            f"{setting} of at least {tokens:,}, or ask for shorter texts."
        )


def _shape(name: str, make: Callable[[], TokenClassifier]) -> TokenClassifier:
    """A preset without its weights, which are made when it is trained; of a model from outside only all of it tells."""
    if ":" in name:
        return make()
    with torch.device("meta"):
        made = make()
    need_memory(sum(weight.nbytes for weight in made.parameters()), f"{name}: its weights", "Build a smaller model.")
    return made


@lru_cache(maxsize=1024)
def _tried(
    name: str, source: str | None, options: str, size: int, outputs: int, tokens: int = 0, last: bool = False
) -> int | None:
    """Returns how many tokens a model that is built reads, None: any number.

    One from outside, whose code has the digest `source`, is run on rows of so many `tokens`.
    """
    spec = ModelSpec(name, json.loads(options))
    classifier = _shape(name, lambda: _build(spec, size, 0, outputs)).eval()
    weights(classifier.inner)
    if tokens:
        every = torch.arange(size)
        _try(classifier, every[:, None])
        _try(classifier, every.repeat(2 * tokens)[: 2 * tokens].view(2, tokens), last=last)
        if not any(weight.requires_grad for weight in classifier.parameters()):
            raise Error(
                f"{name}: a model must have weights that can be trained, and this one has none, or all are frozen."
            )
    return _reach(classifier)


def _try(model: nn.Module, rows: Tensor, **how: bool) -> None:
    """Raises what a model from outside raises as a mistake of the call, for nothing has run yet."""
    with torch.no_grad(), untouched_random(torch.device("cpu")):
        try:
            model(rows, **how)
        except ForeignError as error:
            raise Error(str(error)) from error.__cause__
