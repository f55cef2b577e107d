"""Language models trained further: after conversions such as YaRN, on the same text in windows of another length.

    (base,) = plan_language_models("stdlib", "transformer position=rope", train_length=128)
    plan_continued([base], [{"name": "yarn", "factor": 16, "trained": trained_places(base)}], train_length=512, …)

An experiment that goes on holds the whole experiment before it, which is run first unless it has finished.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import torch

from .. import convert
from ..errors import Error
from ..evaluate.text import check_lengths
from ..limits import BATCH_TOKENS
from ..options import arguments, at_least
from ..positions import Multilevel
from . import texts
from .experiment import AnswersSpec, Experiment, LengthTests, ModelSpec, TextSpec
from .grid import Settings, parse, settings_of
from .language_models import training_of
from .new_models import build_language_model

NEARLY_ALL = 0.99
"""The share of training windows that have at most as many segments as `trained_places` says."""
LOOKED_AT = 4096
"""How many training windows their segments are counted in."""


def plan_continued(
    experiments: Sequence[Experiment],
    conversions: Sequence[str | convert.Conversion] = (),
    *,
    train_length: Annotated[int, at_least(2), "How many tokens a window of the further training has."],
    test_lengths: Sequence[int],
    settings: Settings = (),
) -> list[Experiment]:
    """An experiment that goes on from each of these language models from scratch, after the conversions.

    Perplexity is measured before the further training and after it. `settings` are those of `training.`; what a setting
    leaves open is as in `plan_language_models`, and no setting of the first training is taken over.
    """
    [train_length] = arguments(plan_continued, train_length=train_length)
    given = parse(settings)
    if wrong := next((key for key in given if not key.startswith("training.")), None):
        raise Error(f"plan_continued takes settings of training. alone, got {wrong!r}: the rest is as it was.")
    training = training_of(settings_of(given, "training"))
    BATCH_TOKENS.check(train_length * training.batch, f"training.batch={training.batch}, length {train_length:,}")
    return [
        _continued(each, conversions, train_length, tuple(sorted({*test_lengths})), training) for each in experiments
    ]


def _continued(
    base: Experiment, given: Sequence[str | convert.Conversion], block: int, lengths: tuple[int, ...], training: Any
) -> Experiment:
    spec = _text_of(base)
    tokens = None if spec.test_blocks is None else max(spec.test_blocks * spec.block, *lengths)
    longer = replace(spec, block=block, test_blocks=None if tokens is None else -(-tokens // block))
    read = texts.read(longer, 1)
    check_lengths(len(read.test), lengths)
    # Tried on weights drawn at random, so that a conversion that does not fit is refused before anything runs.
    conversions = texts.conversions_of(given, read.tokenizer)
    convert.apply(build_language_model(base.model, read.tokenizer, 0).inner, conversions)
    name = "-".join(["continued", base.model.name.split("/")[-1], *(each["name"] for each in conversions)])
    options = {"conversions": conversions} if conversions else {}
    tests: LengthTests = replace(base.tests, lengths=lengths)
    return Experiment(longer, ModelSpec(name, options), training, tests, base.seed, base.objective, continues=base)


def trained_places(experiment: Experiment) -> int:
    """How many places the windows have that a language model is trained on, which YaRN has to know.

    Tokens; where its rotary positions count segments, as many segments as 99% of the windows have at most.
    """
    spec = _text_of(experiment)
    read = texts.read(spec, 1)
    position = getattr(build_language_model(experiment.model, read.tokenizer, 0).inner, "position", None)
    if not isinstance(position, Multilevel):
        return spec.block
    *_, coarsest = position.ends
    if isinstance(coarsest, int):
        return math.ceil(spec.block / coarsest)
    ended = torch.isin(read.train[:LOOKED_AT, :-1].long(), torch.tensor(coarsest))
    return int(torch.quantile((1 + ended.sum(1)).float(), NEARLY_ALL, interpolation="higher"))


def _text_of(experiment: Experiment) -> TextSpec:
    spec = experiment.data
    if not isinstance(spec, TextSpec) or isinstance(spec, AnswersSpec) or experiment.from_checkpoint:
        raise Error(
            f"{experiment.model.name}: what goes on must be a language model from scratch, on text, got "
            f"{experiment.data.name}. Give experiments of plan_language_models."
        )
    return spec
