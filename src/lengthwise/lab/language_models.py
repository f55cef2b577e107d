"""Plan language models trained from scratch on a corpus and tested at many lengths: models × seeds.

    plan_language_models(["stdlib"], ["bipe", "transformer position=rope"], train_length=128, test_lengths="128,1024")

A model's own options may stand behind its name. Where segments end (`ends` of BiPE and of positions in levels) is named
by a rule, such as "sentence", of which the tokenizer makes token ids.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from torch import nn

from .. import convert, models
from ..errors import Error
from ..evaluate.text import Way, check_lengths
from ..limits import BATCH_TOKENS, EXPERIMENTS
from ..models import pretrained
from ..options import Schema, above, arguments, at_least, schema, take, word_of
from ..text import corpora, documents, segment_ends, tokenizers, tokens_of
from ..train.settings import Training, training_options
from . import texts
from .experiment import Experiment, LengthTests, ModelSpec, Objective, TextSpec
from .grid import Settings, name_of, of_parts, parse, seeds_of, settings_of
from .model_checks import check_on_text
from .tested_lengths import lengths
from .texts import digests_of, ends_of, halves

OneModel = str | type[nn.Module] | tuple[str | type[nn.Module], Mapping[str, Any]]
"""A model by name, with its options behind it ("transformer position=alibi") or beside it, or by its class."""
STRINGS_ALONE = ("curriculum", "lengths", "grow_from", "grow_at", "shrink_at")
"""Settings of a training that mean nothing for text, whose windows all have one length."""
USUAL = Training.of(
    batch=32,
    optimizer="adamw",
    betas=(0.9, 0.95),
    weight_decay=0.1,
    validation_samples=64,
    checkpoint_every=100,
    sample_every=250,
)
WARMUP = 200
"""Steps of warm-up, but at most a tenth of all."""
START = {"bipe": 0.02, "transformer": 0.02}
"""The `initializer_range` of these models on text, where bipe and RoPE learn slowly from the default."""
DOUBLINGS = 4
"""How often the test length doubles from the training length on, unless lengths are named."""


def text_settings(
    *,
    held_out: Annotated[
        float, above(0, below=1), "The share of the documents that is kept to validate on and to test on."
    ] = 0.05,
    test_tokens: Annotated[
        int | None, at_least(2), "Windows: how many tokens are tested at most, at every length; None: all."
    ] = 65_536,
) -> None:
    """The `text.` settings."""


def plan_language_models(
    corpus: str | Path | Sequence[str | Path],
    architectures: Sequence[OneModel] | OneModel,
    *,
    train_length: Annotated[int, at_least(2), "How many tokens a training window has."] = 128,
    test_lengths: str | Sequence[int] | None = None,
    way: Way = "windows",
    seeds: int | Sequence[int] = 1,
    tokenizer: str | Path | None = None,
    vocabulary: Annotated[int, at_least(2), "How many tokens the tokenizer has that is trained on the corpus."] = 4096,
    settings: Settings = (),
    store: str | Path = "runs/text",
    unused: Callable[[str, list[str]], None] | None = None,
    warn: Callable[[str], None] | None = None,
    tokenizing: Callable[[int, int], None] | None = None,
) -> list[Experiment]:
    """An experiment for each model and seed, all that can be wrong checked before any run.

    `corpus`: "stdlib", paths of files and folders, "hf:NAME" for a dataset. `tokenizer`: the folder of one, or None to
    train byte-level BPE on the corpus. Tokens and a tokenizer that is trained are kept in `store`.
    `seeds` is how many runs each model has, or a list of their seeds.
    `settings` belong to `model.` (every one), a model's own name (that one), `training.`, `tests.`, `text.` or
    `objective.`. `way`: what is measured at a length, "windows" or "last-token" (see `evaluate/text.py`).
    The default test lengths are the training length and its doublings to 16 times it.

    `warn` hears what is likely to disappoint, such as test lengths beyond what a position can encode; None: Python's
    warnings do. A setting `model.` that some of the models do not have is an error, or `unused` hears of it.
    `tokenizing` hears how many characters of the corpus are tokenized, and how many there are.
    """
    given = parse(settings)
    train_length, vocabulary = arguments(plan_language_models, train_length=train_length, vocabulary=vocabulary)
    seeds = seeds_of(seeds)
    asked = _models(architectures)
    parts = {"model", "training", "tests", "text", "objective", *(name for name, _ in asked)}
    given = of_parts(given, parts)
    EXPERIMENTS.check(len(asked) * len(seeds), "plan")
    training = training_of(settings_of(given, "training"))
    BATCH_TOKENS.check(train_length * training.batch, f"training.batch={training.batch}, length {train_length:,}")
    objective = Objective("next-token", **take(_OBJECTIVE, settings_of(given, "objective"), "objective", "objective."))

    names = (corpus,) if isinstance(corpus, (str, Path)) else tuple(corpus)
    of_text = take(_TEXT, settings_of(given, "text"), "text", "text.")
    opened = corpora.open(names, held_out=of_text.get("held_out", _TEXT["held_out"].default))
    _check_documents(opened)
    folder = Path(tokenizer) if tokenizer else tokenizers.train(opened, vocabulary, root=store)
    read = tokenizers.load(folder)
    tokens = tokens_of(opened, read, root=store, progress=tokenizing)
    _, tested = halves(tokens.test)
    held_out = int(tokens.test.documents.diff()[tested].sum())
    tests = _tests(settings_of(given, "tests"), way, train_length, test_lengths, held_out)
    check_lengths(held_out, tests.lengths)
    tokens.train.blocks(train_length)
    most = of_text.get("test_tokens", _TEXT["test_tokens"].default if way == "windows" else None)
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
    for model in model_specs(asked, given, read, unused):
        check_on_text(model, read, train_length, tests.lengths, warn or _warn)
        experiments += [Experiment(spec, model, training, tests, seed, objective) for seed in seeds]
    return experiments


def plan_text(
    checkpoint: str,
    text: Sequence[str],
    *,
    test: Sequence[str] = (),
    held_out: float = 0.05,
    conversions: Sequence[Sequence[str | convert.Conversion]] = ((),),
    block: int = 512,
    test_blocks: int | None = None,
    training: Training | None = None,
    tokens_at_once: int = 4096,
    seed: int = 0,
    test_lengths: Sequence[int] | None = None,
    way: Way = "windows",
    samples: int = 512,
) -> list[Experiment]:
    """An experiment for each list of `conversions`: the checkpoint after them, trained on this text.

    `test_lengths`: where perplexity is measured, before and after; None: at `block`. `way` and, for last tokens,
    `samples` say how (see `evaluate/text.py`).
    Text, tokenizer and conversions are tried here, so that a wrong one is refused before anything runs.
    """
    training = training or Training()
    check_precision(training)
    source = pretrained.find(checkpoint)
    files, test_files = tuple(map(str, text)), tuple(map(str, test))
    spec = TextSpec("text", {}, block, test_blocks, files=files, test_files=test_files, held_out=held_out)
    read = texts.read_for(source, spec)
    spec = replace(spec, digests=read.digests)
    tests = LengthTests((block,) if test_lengths is None else tuple(test_lengths), way=way)
    tests = replace(tests, samples=samples) if way == "last-token" else tests
    check_lengths(len(read.test), tests.lengths)
    experiments = []
    for each in (texts.conversions_of(some, read.tokenizer) for some in conversions):
        if each or max(tests.lengths) > block:
            rows = pretrained.position_rows(convert.load(source, each))
            if rows is not None and rows < max(tests.lengths):
                raise Error(
                    f"{checkpoint}: it has places for {rows:,} tokens, got test length {max(tests.lengths):,}. Test "
                    "shorter lengths."
                )
        experiments.append(
            Experiment(
                spec,
                ModelSpec(
                    "-".join(["pretrained", *(conversion["name"] for conversion in each)]),
                    {"conversions": each} if each else {},
                    source.digest,
                    folder=str(source.folder),
                ),
                training,
                tests,
                seed,
                Objective("next-token", tokens_at_once),
            )
        )
    return experiments


def check_precision(training: Training) -> None:
    if training.precision == "fp64":
        raise Error("training.precision of text is one of fp32, bf16, got 'fp64'.")


def _called(corpus: str | Path) -> str:
    """Of a path the last name alone, so that the same text is the same experiment wherever it lies."""
    path = Path(corpus).expanduser()
    return Path(os.path.abspath(path)).name or str(corpus) if path.exists() else str(corpus)


def _check_documents(corpus: corpora.Corpus) -> None:
    """Refuse a text of which nothing can be held out, in the words of this call."""
    different: set[bytes] = set()
    for text in corpus.documents():
        different.add(documents.digest_of(text))
        if len(different) > 1:
            return
    raise Error(
        f"{corpus.name}: the text must be two documents or more, so that whole ones can be held out to validate and to "
        f"test on, got 1. Name more files, or part the text with lines of {documents.END}."
    )


_TEXT = schema(text_settings, keyword_only=True)
_OBJECTIVE = schema(Objective, without=("kind",))


def settings_of_text(part: str) -> Schema:
    """What `training.`, `tests.`, `text.` or `objective.` settings there are for text."""
    if part == "training":
        return {name: option for name, option in training_options().items() if name not in STRINGS_ALONE}
    if part == "tests":
        return schema(LengthTests, without=("lengths", "way"))
    return _TEXT if part == "text" else _OBJECTIVE


def training_of(given: dict[str, Any]) -> Training:
    """The training of a language model, as these settings say and as usual where they say nothing."""
    if wrong := next((name for name in STRINGS_ALONE if name in given), None):
        raise Error(f"training.{wrong} is for strings: windows of text all have one length. Use train_length.")
    trained = take(settings_of_text("training"), given, "training", "training.")
    steps = trained.get("steps", USUAL.steps)
    training = USUAL.but(**{"warmup": min(WARMUP, steps // 10), **trained})
    check_precision(training)
    return training


def _tests(
    given: dict[str, Any], way: Way, trained: int, wanted: str | Sequence[int] | None, held_out: int
) -> LengthTests:
    if way == "windows" and given:
        raise Error(
            f"tests.{next(iter(given))} is for way='last-token', which draws tokens at random; windows follow one "
            "another through the text. text.test_tokens says how much of it is tested."
        )
    if wanted is None:
        wanted = [n for n in (trained << k for k in range(DOUBLINGS + 1)) if n <= held_out] or [trained]
    tested = lengths(wanted) if isinstance(wanted, str) else tuple(wanted)
    return LengthTests(
        tuple(sorted({*tested, trained})), way=way, **take(settings_of_text("tests"), given, "tests", "tests.")
    )


def _models(architectures: Any) -> list[tuple[str, dict[str, Any]]]:
    """The models' names and their own options."""
    several = architectures if isinstance(architectures, list) else [architectures]
    found = []
    for each in several:
        name, options = each if isinstance(each, tuple) else (each, {})
        if isinstance(name, str):
            name, typed = apart(name)
            options = {**typed, **options}
        found.append((name_of(name), dict(options)))
    if not found:
        raise Error(f"Name at least one model. Known: {', '.join(models.available())}.")
    return found


def apart(word: str) -> tuple[str, dict[str, Any]]:
    """`transformer position=alibi layers=2` as a name and options; a path may hold spaces itself."""
    words = word.split()
    first = next((i for i, each in enumerate(words) if i and "=" in each), len(words))
    name = " ".join(words[:first]) if first < len(words) else word.strip()
    return name, dict(word_of(each, "model.width=64") for each in words[first:])


def model_specs(
    asked: list[tuple[str, dict[str, Any]]],
    given: dict[str, Any],
    tokenizer: Any,
    unused: Callable[[str, list[str]], None] | None = None,
) -> list[ModelSpec]:
    """The models as data, each once; ends of segments that are named by a rule become token ids."""
    for_all = settings_of(given, "model")
    names = list(dict.fromkeys(name for name, _ in asked))
    without = {key: [name for name in names if key not in models.options(name)] for key in for_all}
    lacking = {key: lack for key, lack in without.items() if unused and 0 < len(lack) < len(names)}
    for key, lack in lacking.items():
        if unused:
            unused(f"model.{key}", lack)
    specs = []
    for name, own in asked:
        meant = {key: value for key, value in for_all.items() if name not in lacking.get(key, ())}
        meant = {**meant, **settings_of(given, name), **own}
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
            options["position_options"] = _with_ends(placed, tokenizer)
        specs.append(ModelSpec(name, options, models.source(name)))
    return list({repr(spec): spec for spec in specs}.values())


def _with_ends(placed: dict[str, Any], tokenizer: Any) -> dict[str, Any]:
    """A position's options, with token ids for rules that say where segments end."""
    found = dict(placed)
    if isinstance(rule := placed.get("ends"), str):
        found["ends"] = segment_ends(tokenizer, rule)
    if isinstance(rules := placed.get("level_ends"), list):
        found["level_ends"] = [segment_ends(tokenizer, rule) if isinstance(rule, str) else rule for rule in rules]
    return found


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=3)
