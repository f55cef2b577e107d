"""Plan experiments on text: language models from scratch, checkpoints trained further, and either after conversions;
and models that answer the questions of SCROLLS.

    plan_further("./my-llama", ["novels/"], ["yarn factor=4"], train_length=2048)
    (base,) = plan_language_models(["stdlib"], ["transformer position=rope"], train_length=128, test_lengths="128,1024")
    plan_continued([base], [{"name": "yarn", "factor": 16, "trained": trained_places(base)}], train_length=512, …)
    plan_answers("scrolls/", "qasper", "runs/pile-bipe-s0-0123456789abcdef", window=8192)

A model's own options may stand behind its name. Where segments end (`ends` of BiPE and of positions in levels) is named
by a rule, such as "sentence", of which the tokenizer makes token ids. An experiment that goes on holds the whole
experiment before it, which is run first unless it has finished.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch

from .. import convert, models
from ..errors import Error
from ..evaluate.answer_scores import check_metric
from ..evaluate.text import Way, check_lengths
from ..limits import BATCH_TOKENS, EXPERIMENTS
from ..models import pretrained
from ..options import above, apart, at_least, checked, schema, take
from ..own_code import is_class, of_parts, settings_of
from ..positions import Multilevel
from ..text import corpora, scrolls, tokenizers, tokens_of
from ..text.corpora import Corpus
from ..text.prompts import Prompts
from ..train.objectives import check_state_passing
from ..train.settings import Training, setting_places, training_options
from . import texts
from .experiment import AnswersSpec, Experiment, LengthTests, ModelSpec, ObjectiveSpec, TextSpec
from .grid import Architectures, models_of, options_of_models, seeds_of, several
from .measurements import PUBLISHED_WINDOW, Budget, Most, run_at
from .new_models import build_language_model, check_on_text
from .records import model_folder
from .sweeps import Settings, parse, settings_of_part
from .tested_lengths import read_lengths
from .text_material import digests
from .texts import digests_of, ends_of, halves

Answering = str | Path | tuple[str, Mapping[str, Any]] | Experiment
"""A checkpoint; a language model from scratch, by its experiment; or a preset, whose options stand behind its name."""
USUAL = Training.of(
    batch=32,
    optimizer="adamw",
    betas=(0.9, 0.95),
    weight_decay=0.1,
    validation_samples=64,
    checkpoint_every=100,
    sample_every=250,
)
ANSWERED = Training.of(batch=64, optimizer="adamw", lr=1e-5, weight_decay=0.01, steps=5000)
WARMUP = 200
"""Steps of warm-up, but at most a tenth of all."""
START = {"bipe": 0.02, "transformer": 0.02}
"""The `initializer_range` of these models on text, where bipe and RoPE learn slowly from the default."""
NEARLY_ALL = 0.99
"""The share of training windows that have at most as many segments as `trained_places` says."""
LOOKED_AT = 4096
"""How many training windows their segments are counted in."""
DOUBLINGS = 4
"""How often the test length doubles from the training length on, unless lengths are named."""


@dataclass(frozen=True)
class TextSettings:
    """The `text.` settings."""

    held_out: Annotated[float, above(0, below=1), "The share of documents to validate and to test on."] = 0.05
    test_tokens: Annotated[int | None, at_least(2), "Windows: how many tokens are tested at most."] = 65_536


@checked
def plan_language_models(
    corpus: str | Path | Sequence[str | Path],
    architectures: Architectures,
    *,
    train_length: Annotated[int, at_least(2), "How many tokens a training window has."] = 128,
    test_lengths: str | Sequence[int] | None = None,
    way: Way = "windows",
    seeds: int | Sequence[int] = 1,
    tokenizer: str | Path | None = None,
    vocabulary: Annotated[int, at_least(2), "How many tokens the tokenizer has that is trained on the corpus."] = 4096,
    settings: Settings = (),
    store: str | Path = "runs/text",
    tokenizing: Callable[[int, int], None] | None = None,
) -> list[Experiment]:
    """An experiment for each model and seed, all that can be wrong checked before any run.

    `corpus`: "stdlib", paths of files and folders, "hf:NAME" for a dataset. `tokenizer`: the folder of one, or None to
    train byte-level BPE on the corpus. Tokens and a tokenizer that is trained are kept in `store`.
    `seeds` is how many runs each model has, or a list of their seeds.
    `settings` belong to `model.` (every one), a model's own name (that one), `training.`, `tests.`, `text.` or
    `objective.`. `way`: what is measured at a length, "windows" or "last-token" (see `evaluate/text.py`).
    The default test lengths are the training length and its doublings to 16 times it.

    Warnings say what is likely to disappoint, such as test lengths beyond what a position can encode, and which models
    lack a setting `model.` that is used for the others.
    `tokenizing` hears how many characters of the corpus are tokenized, and how many there are.
    """
    fixed = parse(settings)
    seeds = seeds_of(seeds)
    asked = models_of(architectures)
    parts = {"model", "training", "tests", "text", "objective", *(name for name, _ in asked)}
    fixed = of_parts(fixed, parts)
    EXPERIMENTS.check(len(asked) * len(seeds), "plan")
    training = _training(settings_of(fixed, "training"), train_length)
    objective = _objective(fixed)

    names = (corpus,) if isinstance(corpus, (str, Path)) else tuple(corpus)
    of_text = take(schema(TextSettings), settings_of(fixed, "text"), "text", "text.")
    opened = corpora.open(names, held_out=TextSettings(**of_text).held_out)
    folder = Path(tokenizer) if tokenizer else tokenizers.train(opened, vocabulary, root=store)
    read = tokenizers.load(folder)
    tokens = tokens_of(opened, read, root=store, progress=tokenizing)
    _, tested = halves(tokens.test)
    held_out = int(tokens.test.documents.diff()[tested].sum())
    if test_lengths is None:
        doubled = (train_length << k for k in range(DOUBLINGS + 1))
        test_lengths = [n for n in doubled if n <= held_out] or [train_length]
    tests = _tests(settings_of(fixed, "tests"), way, tuple(sorted({*read_lengths(test_lengths), train_length})))
    check_lengths(held_out, tests.lengths)
    tokens.train.blocks(train_length)
    most = of_text.get("test_tokens", TextSettings.test_tokens if way == "windows" else None)
    spec = TextSpec(
        ", ".join(map(_called, names)),
        digests_of(tokens),
        train_length,
        None if most is None else -(-max(most, *tests.lengths) // train_length),
        tokens.tokenizer,
        tokenizer_folder=str(folder),
        store=str(store),
        files=tuple(map(str, names)),
        held_out=opened.held_out,
    )
    experiments = []
    for model in model_specs(asked, fixed, read):
        check_on_text(model, read, train_length, tests.lengths)
        if objective.state_passing:
            check_state_passing(build_language_model(model, read, 0), objective.state_passing, training.batch)
        experiments += [Experiment(spec, model, training, tests, seed, objective) for seed in seeds]
    return experiments


def checkpoint_spec(
    source: pretrained.Checkpoint, conversions: list[dict[str, Any]], reach: int, own: int, what: str, remedy: str
) -> ModelSpec:
    """A checkpoint after its conversions; refused where it has no places for so many tokens, more than its `own`."""
    if conversions or reach > own:
        rows = pretrained.position_rows(convert.load(source, conversions))
        if rows is not None and rows < reach:
            raise Error(f"{source.name}: it has places for {rows:,} tokens, got {what} {reach:,}. {remedy}")
    return _converted("pretrained", conversions, source=source.digest, folder=str(source.folder))


@checked
def plan_continued(
    experiments: Sequence[Experiment],
    conversions: Sequence[str | convert.Conversion] = (),
    *,
    train_length: Annotated[int, at_least(2), "How many tokens a window of the further training has."],
    test_lengths: str | Sequence[int],
    settings: Settings = (),
) -> list[Experiment]:
    """An experiment that goes on from each of these language models from scratch, after the conversions.

    Perplexity is measured before the further training and after it. `settings` are those of `training.` and
    `objective.`; what a setting leaves open is as in `plan_language_models`, and no setting of the first training is
    taken over.
    """
    fixed = parse(settings)
    if wrong := next((key for key in fixed if not key.startswith(("training.", "objective."))), None):
        raise Error(
            f"plan_continued takes settings of training. and objective. alone, got {wrong!r}: the rest is as it was."
        )
    training, objective = _training(settings_of(fixed, "training"), train_length), _objective(fixed)
    lengths = tuple(sorted({*read_lengths(test_lengths)}))
    planned = []
    for base in experiments:
        spec = _text_of(base)
        tokens = None if spec.test_blocks is None else max(spec.test_blocks * spec.block, *lengths)
        longer = replace(spec, block=train_length, test_blocks=None if tokens is None else -(-tokens // train_length))
        read = texts.read(longer)
        check_lengths(len(read.test), lengths)
        # Tried on weights drawn at random, so that a conversion that does not fit is refused before anything runs.
        each = texts.conversions_of(conversions, read.tokenizer)
        tried = convert.apply(build_language_model(base.model, read.tokenizer, 0).inner, each)
        if objective.state_passing:
            check_state_passing(
                pretrained.as_classifier(tried, base.model.name), objective.state_passing, training.batch
            )
        model = _converted("-".join(["continued", base.model.name.split("/")[-1]]), each)
        tests = replace(base.tests, lengths=lengths)
        asked = objective if objective != ObjectiveSpec("next-token") else base.objective
        planned.append(Experiment(longer, model, training, tests, base.seed, asked, continues=base))
    return planned


@checked
def plan_further(
    origin: str | Path,
    text: Sequence[str | Path] = (),
    conversions: Sequence[str | convert.Conversion] = (),
    *,
    train_length: Annotated[int | None, at_least(2), "How many tokens a window has; None: as many as before."] = None,
    test_lengths: str | Sequence[int] | None = None,
    way: Way = "windows",
    test: Sequence[str | Path] = (),
    test_blocks: Annotated[int | None, at_least(1), "How many windows are tested at most; None: all."] = None,
    training: Training | None = None,
    seed: int = 0,
    settings: Settings = (),
) -> list[Experiment]:
    """An experiment that goes on from a run of `plan_language_models`, on its text, or from a checkpoint, on this one.

    Perplexity is measured before and after. `test_lengths`: None: those of the run, or a checkpoint's `train_length`.
    `settings` are those of `training.` and `objective.`, and of a checkpoint of `tests.` and `text.held_out` besides.
    Of a checkpoint alone: `test`, documents to test on instead of a share of the text; `test_blocks`; `seed`; and
    `training`, in place of what is usual. What is wrong with text, tokenizer or conversions is said before any run.
    """
    run = run_at(Path(origin).expanduser())
    if run and not text:
        if test or test_blocks or training or seed:
            raise Error(
                "test, test_blocks, training and seed are for a checkpoint on another text: name the text, too."
            )
        block = train_length or run.experiment.text.block
        tested = run.experiment.tests.lengths if test_lengths is None else test_lengths
        return plan_continued([run.experiment], conversions, train_length=block, test_lengths=tested, settings=settings)
    if not text or train_length is None:
        raise Error(f"{origin}: to go on from a checkpoint, name a corpus and --train-length.")
    fixed = of_parts(parse(settings), {"training", "objective", "text", "tests"})
    objective, training = _objective(fixed), _training(settings_of(fixed, "training"), train_length, training)
    of_text = take(schema(TextSettings, without=("test_tokens",)), settings_of(fixed, "text"), "text", "text.")
    files, test_files, held_out = tuple(map(str, text)), tuple(map(str, test)), TextSettings(**of_text).held_out
    source = pretrained.find(str((run and model_folder(run)) or origin))
    spec = TextSpec("text", {}, train_length, test_blocks, files=files, test_files=test_files, held_out=held_out)
    read = texts.read(spec, checkpoint=source)
    spec = replace(spec, digests=read.digests)
    lengths = (train_length,) if test_lengths is None else read_lengths(test_lengths)
    tests = _tests(settings_of(fixed, "tests"), way, lengths)
    check_lengths(len(read.test), tests.lengths)
    each = texts.conversions_of(conversions, read.tokenizer)
    model = checkpoint_spec(source, each, max(tests.lengths), train_length, "test length", "Test shorter lengths.")
    if objective.state_passing:
        tried = pretrained.as_classifier(convert.load(source, each), source.name)
        check_state_passing(tried, objective.state_passing, training.batch)
    return [Experiment(spec, model, training, tests, seed, objective)]


def _objective(fixed: dict[str, Any]) -> ObjectiveSpec:
    known, settings = schema(ObjectiveSpec, without=("kind",)), settings_of(fixed, "objective")
    return ObjectiveSpec("next-token", **take(known, settings, "objective", "objective."))


def _converted(name: str, conversions: Sequence[Mapping[str, Any]], **known: Any) -> ModelSpec:
    """A model after its conversions, by which it is called."""
    called = "-".join([name, *(each["name"] for each in conversions)])
    return ModelSpec(called, {"conversions": conversions} if conversions else {}, **known)


@checked
def plan_answers(
    source: str | Path,
    task: str,
    model: Answering | Sequence[Answering],
    *,
    window: Annotated[int, at_least(2), "How many tokens a prompt has at most with its answer."] = PUBLISHED_WINDOW,
    budget: Budget = None,
    trained: Annotated[int | None, at_least(1), "At most so many rows are trained on; None: all."] = None,
    questions: Most = None,
    conversions: Sequence[str | convert.Conversion] = (),
    training: Training = ANSWERED,
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
    tests, objective = LengthTests((window,)), ObjectiveSpec("answers", tokens_at_once)
    experiments = []
    for each in several(model):
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
            check_on_text(meant, read, window, (window,))
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


def _checkpoint(name: str, spec: AnswersSpec, wanted: Sequence[str | convert.Conversion]) -> ModelSpec:
    run = run_at(Path(name).expanduser())
    checkpoint = pretrained.find(str(model_folder(run)) if run else name)
    tokenizer = tokenizers.load(checkpoint.folder, name)
    Prompts(tokenizer, spec.block, spec.budget)
    checkpoint.check(tokenizer, spec.block, "window")
    conversions = texts.conversions_of(wanted, tokenizer)
    return checkpoint_spec(checkpoint, conversions, spec.block, spec.block, "window", "Lower window.")


def _further(base: Experiment, spec: AnswersSpec) -> tuple[AnswersSpec, ModelSpec]:
    """Returns what goes on from the model of an experiment on text."""
    text = base.data
    if not isinstance(text, TextSpec) or text.tokenizer_folder is None:
        raise Error(f"{base.model.name}: what goes on must be a language model from scratch, on text.")
    data, read = _in_tokens(spec, text.tokenizer_folder)
    first = base
    while first.continues is not None:
        first = first.continues
    check_on_text(first.model, read, spec.block, (spec.block,))
    return data, ModelSpec(f"continued-{base.model.name.removeprefix('continued-')}")


def trained_places(experiment: Experiment) -> int:
    """Returns how many places the windows have that a language model is trained on, which YaRN has to know.

    Tokens; where its rotary positions count segments, as many segments as 99% of the windows have at most.
    """
    spec = _text_of(experiment)
    read = texts.read(spec)
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


def check_precision(training: Training) -> None:
    if training.precision == "fp64":
        raise Error("training.precision of text is one of fp32, bf16, got 'fp64'.")


def _called(corpus: str | Path) -> str:
    """Returns the last name of a path, so that the same text is the same experiment wherever it lies."""
    path = Path(corpus).expanduser()
    return Path(os.path.abspath(path)).name or str(corpus) if path.exists() else str(corpus)


def _training(options: dict[str, Any], length: int, usual: Training | None = None) -> Training:
    """The training of a language model, as these settings say and as `usual` where they say nothing."""
    for name, (part, _) in setting_places().items():
        if name in options and (part in ("curriculum", "steady") or name in ("go_back", "spans")):
            why = "a text has no answers, and its windows all have one length, train_length"
            raise Error(f"training.{name} is for tasks: {why}. Leave it out.")
    trained = take(training_options(), options, "training", "training.")
    usual = usual or USUAL.but(warmup=min(WARMUP, trained.get("steps", USUAL.steps) // 10))
    training = usual.but(**trained)
    check_precision(training)
    BATCH_TOKENS.check(length * training.batch, f"training.batch={training.batch}, length {length:,}")
    return training


def _tests(options: dict[str, Any], way: Way, lengths: tuple[int, ...]) -> LengthTests:
    if way == "windows" and options:
        raise Error(
            f"tests.{next(iter(options))} is for way='last-token', which draws tokens at random; windows follow one "
            "another through the text. text.test_tokens says how much of it is tested."
        )
    return LengthTests(lengths, way=way, **take(settings_of_part("tests"), options, "tests", "tests."))


def model_specs(asked: list[tuple[str, dict[str, Any]]], fixed: dict[str, Any], tokenizer: Any) -> list[ModelSpec]:
    """The models as data, each once; ends of segments that are named by a rule become token ids."""
    specs = []
    for name, meant in options_of_models(fixed, asked):
        if name == "bipe":
            meant.setdefault("ends", "sentence")
        if name in START:
            meant.setdefault("initializer_range", START[name])
        if "ends" in meant:
            meant["ends"] = None if meant["ends"] in ("none", "null") else ends_of(meant["ends"], tokenizer)
        options = take(models.options(name), meant, name, "model.")
        if options.get("initializer_range", 0) is None:
            del options["initializer_range"]  # the preset's own, which records leave out
        if name.startswith("hf:"):
            options.setdefault("vocab_size", len(tokenizer))
        if isinstance(placed := options.get("position_options"), dict):
            named = {"ends": ends_of(placed["ends"], tokenizer)} if "ends" in placed else {}
            if isinstance(rules := placed.get("level_ends"), list):
                named["level_ends"] = [ends_of(rule, tokenizer) for rule in rules]
            options["position_options"] = placed | named
        specs.append(ModelSpec(name, options, models.source(name)))
    return list({repr(spec): spec for spec in specs}.values())
