"""The perplexity of a run's model, or of any Hugging Face checkpoint, and what it finds far back, in any text."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from .. import convert
from ..errors import Error
from ..evaluate import FarScores, Loss, Needle, Variables, Way, losses_by_length, score_far_tokens
from ..evaluate.far_tokens.scores import DEPTHS
from ..files import finite
from ..limits import SAMPLES
from ..models import TokenClassifier, pretrained
from ..options import Option, arguments, at_least
from ..text import corpora, tokenizers, tokens_of
from . import texts
from .experiment import AnswersSpec, TextSpec
from .loading import load_model, load_tokenizer, model_folder
from .records import Run, load
from .tested_lengths import lengths as written

Seen = Literal["held out", "trained on", "unknown"]
"""What is known of a text: no document of it was trained on, it was named for a training, or neither."""


@dataclass(frozen=True)
class Measured:
    model: str
    text: str
    way: Way
    losses: dict[int, Loss]
    seen: Seen = "unknown"

    def to_json(self) -> dict[str, Any]:
        lengths = {
            str(n): {"loss": loss.mean, "perplexity": finite(loss.perplexity), "predicted": loss.tokens}
            for n, loss in self.losses.items()
        }
        return {"model": self.model, "text": self.text, "seen": self.seen, "way": self.way, "lengths": lengths}


def measure_perplexity(
    model: str | Path,
    corpus: str | Path | Sequence[str | Path] = (),
    lengths: str | Sequence[int] | None = None,
    *,
    way: Annotated[Way, "What is measured at a length."] = "windows",
    tokens: Annotated[int | None, at_least(2), "Windows are cut from so many tokens at most; None: from all."] = 65_536,
    samples: Annotated[int, at_least(1, at_most=SAMPLES), "How many last tokens are drawn."] = 1000,
    seed: int = 0,
    which: str = "last",
    trust: bool = False,
    conversions: Sequence[str | convert.Conversion] = (),
    tokenizer: str | Path | None = None,
    precision: Literal["fp32", "bf16"] = "fp32",
    tokens_at_once: Annotated[int, at_least(1), "About how many tokens are read in one part."] = 4096,
    store: str | Path = "runs/text",
    device: str = "cpu",
    after: Callable[[dict[int, Loss]], None] | None = None,
) -> Measured:
    """Of a run directory, or of a checkpoint's folder or hub name.

    `corpus`: "stdlib", paths of files and folders, "hf:NAME" for a dataset, all of it tested on; without one the text
    that a run was tested on. `tokens`: windows are cut from so many tokens at most, or from one window if it is longer.
    `samples` and `seed` are for last tokens. `conversions` change a checkpoint first, as in `convert.load`.
    `trust` is as in `load_model`.
    """
    way, tokens, samples, seed, precision, tokens_at_once = arguments(
        measure_perplexity,
        way=way,
        tokens=tokens,
        samples=samples,
        seed=seed,
        precision=precision,
        tokens_at_once=tokens_at_once,
    )
    opened = open_model(model, lengths, which, conversions, tokenizer, trust)
    wanted = opened.lengths
    name, text, seen = _text(opened.run, corpus, opened.tokenizer, store)
    text = text[: max(tokens, *wanted)] if way == "windows" and tokens else text
    losses = losses_by_length(
        opened.classifier.to(device),
        text,
        wanted,
        device=torch.device(device),
        way=way,
        samples=samples,
        seed=seed,
        autocast=precision,
        tokens_at_once=tokens_at_once,
        after=after,
    )
    return Measured(str(model), name, way, losses, seen)


@dataclass(frozen=True)
class MeasuredFarTokens:
    """What a model found far back in its prompts."""

    model: str
    text: str
    scores: FarScores

    def to_json(self) -> dict[str, Any]:
        return {"model": self.model, "text": self.text, **self.scores.to_json()}


def measure_far_tokens(
    model: str | Path,
    corpus: str | Path | Sequence[str | Path] = (),
    lengths: str | Sequence[int] | None = None,
    question: Needle | Variables | None = None,
    *,
    depths: Sequence[float] = DEPTHS,
    scoring: Literal["ranking", "generation"] = "ranking",
    samples: int = 10,
    choices: int = 10,
    budget: int = 32,
    seed: int = 0,
    which: str = "last",
    trust: bool = False,
    conversions: Sequence[str | convert.Conversion] = (),
    tokenizer: str | Path | None = None,
    precision: Literal["fp32", "bf16"] = "fp32",
    tokens_at_once: Annotated[int, at_least(1), "About how many tokens are read in one part."] = 8192,
    device: str = "cpu",
    after: Callable[[int, int], None] | None = None,
) -> MeasuredFarTokens:
    """Of a run directory, or of a checkpoint's folder or hub name, as `measure_perplexity` takes them.

    `question`: a needle unless it says otherwise. It is hidden in the corpus's documents; without a corpus in the text
    that a run was tested on. A haystack that is no text needs neither. The rest is as in `evaluate.score_far_tokens`.
    """
    precision, tokens_at_once = arguments(measure_far_tokens, precision=precision, tokens_at_once=tokens_at_once)
    opened = open_model(model, lengths, which, conversions, tokenizer, trust)
    names = (corpus,) if isinstance(corpus, (str, Path)) else tuple(corpus)
    question = question or Needle()
    if not question.reads_text:
        name, text = "no text", ()
    elif names:
        read = corpora.open(names, held_out=0)
        name, text = read.name, read.documents()
    else:
        name, text, _ = _text(opened.run, (), opened.tokenizer, "")
    scores = score_far_tokens(
        opened.prompted.to(device),
        opened.tokenizer,
        text,
        question,
        lengths=opened.lengths,
        depths=depths,
        samples=samples,
        scoring=scoring,
        choices=choices,
        budget=budget,
        seed=seed,
        autocast=precision,
        tokens_at_once=tokens_at_once,
        after=after,
    )
    return MeasuredFarTokens(str(model), name, scores)


class Opened(NamedTuple):
    run: Run | None
    classifier: TokenClassifier
    tokenizer: Any
    lengths: tuple[int, ...]

    @property
    def prompted(self) -> Any:
        """The model, if prompts can be put to it as to one of transformers."""
        inner = self.classifier.inner
        if not isinstance(inner, PreTrainedModel):
            raise Error(f"{type(inner).__name__}: prompts are for models of transformers. Measure its perplexity.")
        return inner


_LENGTHS = Option("lengths", tuple[int, ...], bounds=at_least(2))


def open_model(
    model: str | Path,
    lengths: str | Sequence[int] | None,
    which: str,
    conversions: Sequence[str | convert.Conversion],
    tokenizer: str | Path | None,
    trust: bool = False,
) -> Opened:
    """What is measured, once it is known that it can read so much text of this tokenizer."""
    run = run_at(Path(model).expanduser())
    if lengths is None:
        if run is None:
            raise Error(f"{model}: it was tested at no lengths yet. Name some, such as --lengths 512,1024.")
        lengths = run.experiment.tests.lengths
    wanted = written(lengths) if isinstance(lengths, str) else _LENGTHS.read(lengths, "lengths")
    if not wanted:
        raise Error("lengths is empty: name at least one, such as 512.")
    given = tokenizers.load(tokenizer) if tokenizer else None
    classifier, read = _model(str(model), run, which, conversions, given, trust)
    if run and given and tokenizers.digest(given) != tokenizers.digest(load_tokenizer(run)):
        raise Error(
            f"{tokenizer}: another tokenizer than that of {model}, whose model knows the tokens of its own alone. "
            "Leave it out."
        )
    if len(read) > classifier.num_outputs:
        raise Error(
            f"{model}: its model knows {classifier.num_outputs:,} tokens and the tokenizer has {len(read):,}. They are "
            "not of one model: give the tokenizer that the model was trained with."
        )
    rows = pretrained.position_rows(classifier.inner)
    if rows is not None and max(wanted) > rows:
        raise Error(f"{model}: it has places for {rows:,} tokens, got length {max(wanted):,}. Test shorter lengths.")
    made_for = getattr(getattr(classifier.inner, "config", None), "max_position_embeddings", None)
    if isinstance(made_for, int) and max(wanted) > made_for:
        warnings.warn(f"{model}: it was made for {made_for:,} tokens, and length {max(wanted):,} is beyond.")
    return Opened(run, classifier, read, wanted)


def run_at(path: Path) -> Run | None:
    if not (path / "metrics.jsonl").exists() and not (path / "result.json").exists():
        return None
    (run,) = load(path)
    if not run.experiment.on_text:
        raise Error(f"{path}: a run on strings, which has no perplexity. Give a run of `lengthwise train`.")
    return run


def _model(
    name: str, run: Run | None, which: str, conversions: Sequence[str | convert.Conversion], given: Any, trust: bool
) -> tuple[TokenClassifier, Any]:
    """The model, converted, and its tokenizer: the one given, or its own."""
    if run is not None and not conversions:
        return load_model(run, which, trust=trust), given or load_tokenizer(run)  # pyright: ignore[reportReturnType]
    folder = model_folder(run, which) if run else name
    if folder is None:
        raise Error(f"{name}: a conversion needs a model that transformers loads, and this is none. Leave it out.")
    checkpoint = pretrained.find(str(folder))
    read = given or tokenizers.load(checkpoint.folder, name)
    converted = convert.load(checkpoint, texts.conversions_of(conversions, read)).eval()
    return pretrained.as_classifier(converted, name), read


def _text(run: Run | None, corpus: Any, tokenizer: Any, store: str | Path) -> tuple[str, Tensor, Seen]:
    """What the text is called, its tokens, and whether they were trained on."""
    names = (corpus,) if isinstance(corpus, (str, Path)) else tuple(corpus)
    if names:
        opened = corpora.open(names, held_out=0)
        trained = {_place(file) for file in getattr(run and run.experiment.data, "files", ())}
        seen: Seen = "trained on" if trained & {_place(each) for each in names} else "unknown"
        return opened.name, tokens_of(opened, tokenizer, root=store).train.tokens, seen
    if run is None:
        raise Error("A checkpoint needs a text to be tested on. Give a corpus, such as --corpus book.txt.")
    spec, model = run.experiment.data, run.experiment.model
    if isinstance(spec, AnswersSpec):
        raise Error(f"{run.path}: it was trained to answer {spec.task}. Give a corpus, such as --corpus book.txt.")
    assert isinstance(spec, TextSpec)
    found = texts.read(spec, 1) if model.folder is None else texts.read_for(pretrained.find(model.folder), spec)
    if found.digests != spec.digests:
        raise Error(f"{', '.join(spec.files)}: the text changed since the run. Name a corpus, such as --corpus PATH.")
    return f"{spec.name} (held out)", found.test, "held out"


def _place(file: str | Path) -> str:
    """One name for a file or folder, however it is written; names of corpora stay as they are."""
    path = Path(file).expanduser()
    return str(path.resolve()) if path.exists() else str(file)
