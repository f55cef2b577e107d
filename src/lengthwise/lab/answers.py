"""Plan models that answer the questions of SCROLLS.

plan_answers("scrolls/", "qasper", "runs/pile-bipe-s0-0123456789abcdef", window=8192)     trained further
plan_answers("scrolls/", "qasper", "bipe layers=2", window=512, vocabulary=1000)          trained from scratch
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from .. import convert, models
from ..errors import Error
from ..evaluate.answer_scores import check_metric
from ..limits import BATCH_TOKENS
from ..models import pretrained
from ..options import at_least, checked
from ..own_code import is_class
from ..text import scrolls, tokenizers
from ..text.corpora import Corpus
from ..text.prompts import Prompts
from ..train.settings import Training
from . import texts
from .experiment import AnswersSpec, Experiment, LengthTests, ModelSpec, Objective, TextSpec
from .language_models import apart, check_precision, checkpoint_spec, model_specs
from .loading import model_folder
from .measurements import PUBLISHED_WINDOW, Budget, Most, run_at
from .new_models import check_on_text
from .sweeps import Settings, parse
from .text_material import digests

OneModel = str | Path | tuple[str, Mapping[str, Any]] | Experiment
"""A checkpoint; a language model from scratch, by its experiment; or a preset, whose options stand behind its name."""
USUAL = Training.of(batch=64, optimizer="adamw", lr=1e-5, weight_decay=0.01, steps=5000)

Window = Annotated[int, at_least(2), "How many tokens a prompt has at most with its answer."]


@checked
def plan_answers(
    source: str | Path,
    task: str,
    model: OneModel | Sequence[OneModel],
    *,
    window: Window = PUBLISHED_WINDOW,
    budget: Budget = None,
    trained: Annotated[int | None, at_least(1), "At most so many rows are trained on; None: all."] = None,
    questions: Most = None,
    conversions: Sequence[str | convert.Conversion] = (),
    training: Training = USUAL,
    tokens_at_once: Annotated[int, at_least(1), "About how many tokens are read in one part."] = 8192,
    seeds: Annotated[int, at_least(1), "How many runs."] = 1,
    tokenizer: str | Path | None = None,
    vocabulary: Annotated[int, at_least(2), "How many tokens a tokenizer has that is trained here."] = 4096,
    settings: Settings = (),
    store: str | Path = "runs/text",
) -> list[Experiment]:
    """An experiment for each model and seed: to train on the rows of a task, then answer its validation split.

    `source`: a folder with a copy of SCROLLS, or "hf:NAME". `model`: a checkpoint, which is a run directory, a folder
    or a name on the hub, after these `conversions`; an experiment of `plan_language_models`, whose run is made first;
    or a preset with its options behind its name, trained from scratch by `tokenizer`, a folder, or by one that is
    trained on the task's inputs, with these `model.` `settings`.
    """
    kind = scrolls.check(task)
    check_metric(kind.metric)
    check_precision(training)
    BATCH_TOKENS.check(window * training.batch, f"training.batch={training.batch}, window {window:,}")
    source = str(source)
    spec = AnswersSpec(
        f"scrolls-{task}",
        digests(source, task),
        window,
        files=(source,),
        task=task,
        budget=kind.budget if budget is None else budget,
        trained=trained,
        questions=questions,
    )
    tests, objective = LengthTests((window,)), Objective("answers", tokens_at_once)
    experiments = []
    one = isinstance(model, (str, Path, Experiment)) or (len(model) == 2 and isinstance(model[1], Mapping))
    every: Sequence[Any] = [model] if one else model  # pyright: ignore[reportAssignmentType]
    for each in every:
        base = each if isinstance(each, Experiment) else None
        name, options = (base.model.name, {}) if base else each if isinstance(each, tuple) else apart(str(each))
        from_scratch = name in models.available() or name.startswith("hf:")
        if conversions and (base or from_scratch):
            raise Error(
                f"{name}: conversions are for checkpoints, got {len(conversions)}. Give the path of a finished run."
            )
        if base:
            data, meant = _further(base, spec)
        elif from_scratch:
            rows = lambda left_out: (row.input for row in scrolls.rows(source, task, "train"))  # noqa: E731
            folder = tokenizer or tokenizers.train(Corpus(f"{source}, {task}", [rows], 0), vocabulary, root=store)
            data, read = _in_tokens(spec, folder)
            (meant,) = model_specs([(name, dict(options))], parse(settings), read)
            check_on_text(meant, read, window, (window,), lambda warning: None)
        elif is_class(name) and not Path(name).expanduser().exists():
            raise Error(f"{name}: answers are written by generate(), which models of your own lack. Name a preset.")
        else:
            data, meant = spec, _checkpoint(name, spec, conversions)
        for seed in [base.seed] if base else range(seeds):
            experiments.append(Experiment(data, meant, training, tests, seed, objective, continues=base))
    return experiments


def _in_tokens(spec: AnswersSpec, folder: Path | str) -> tuple[AnswersSpec, Any]:
    """The data in the tokens of a folder's tokenizer, whose prompts fit the window, and the tokenizer."""
    read = tokenizers.load(folder)
    Prompts(read, spec.block, spec.budget)
    return replace(spec, tokenizer=tokenizers.digest(read), tokenizer_folder=str(folder)), read


def _checkpoint(name: str, spec: AnswersSpec, given: Sequence[str | convert.Conversion]) -> ModelSpec:
    run = run_at(Path(name).expanduser())
    checkpoint = pretrained.find(str(model_folder(run)) if run else name)
    tokenizer = tokenizers.load(checkpoint.folder, name)
    Prompts(tokenizer, spec.block, spec.budget)
    checkpoint.check(tokenizer, spec.block, "window")
    conversions = texts.conversions_of(given, tokenizer)
    return checkpoint_spec(checkpoint, conversions, spec.block, spec.block, "window", "Lower window.")


def _further(base: Experiment, spec: AnswersSpec) -> tuple[AnswersSpec, ModelSpec]:
    """What goes on from the model of an experiment on text."""
    text = base.data
    if not isinstance(text, TextSpec) or text.tokenizer_folder is None:
        raise Error(f"{base.model.name}: what goes on must be a language model from scratch, on text.")
    data, read = _in_tokens(spec, text.tokenizer_folder)
    first = base
    while first.continues is not None:
        first = first.continues
    check_on_text(first.model, read, spec.block, (spec.block,), lambda warning: None)
    return data, ModelSpec(f"continued-{base.model.name.removeprefix('continued-')}")
