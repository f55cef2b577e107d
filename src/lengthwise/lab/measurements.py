"""What a run's model, or any Hugging Face checkpoint, is worth on any text, far back in it, and on questions.

measure_perplexity("runs/pile-bipe-s0-0123456789abcdef", "book.txt", "512,1024")
measure_answers("./my-llama", "scrolls/", ["qasper"])
"""

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
from ..evaluate.answer_scores import check_metric, score
from ..evaluate.written_answers import write_texts
from ..files import finite
from ..limits import SAMPLES
from ..models import TokenClassifier, pretrained
from ..options import at_least, checked, schema
from ..text import corpora, scrolls, tokenizers, tokens_of
from ..text.prompts import Prompts
from ..text.scrolls import HUB, Metric
from . import texts
from .experiment import AnswersSpec
from .launch import Loading
from .loading import load_model, load_tokenizer, model_folder
from .records import Run, load
from .tested_lengths import read_lengths
from .text_material import questions_of

PUBLISHED_WINDOW = 8192
Budget = Annotated[int | None, at_least(1), "How many tokens an answer has at most; None: as its task says."]
Most = Annotated[int | None, at_least(1), "At most so many questions are answered; None: all."]

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


@checked
def measure_perplexity(
    model: str | Path,
    corpus: str | Path | Sequence[str | Path] = (),
    lengths: str | Sequence[int] | None = None,
    *,
    way: Annotated[Way, "What is measured at a length."] = "windows",
    tokens: Annotated[int | None, at_least(2), "Windows are cut from so many tokens at most; None: from all."] = 65_536,
    samples: Annotated[int, at_least(1, at_most=SAMPLES), "How many last tokens are drawn."] = 1000,
    seed: Annotated[int, "Another one draws other tokens."] = 0,
    tokens_at_once: Annotated[int, at_least(1), "About how many tokens are read in one part."] = 4096,
    store: str | Path = "runs/text",
    after: Callable[[dict[int, Loss]], None] | None = None,
    **loading: Any,
) -> Measured:
    """Returns the perplexity of a run directory, or of a checkpoint's folder or hub name.

    `corpus`: "stdlib", paths of files and folders, "hf:NAME" for a dataset, all of it tested on; without one the text
    that a run was tested on. `tokens`: windows are cut from so many tokens at most, or from one window if it is longer.
    `samples` and `seed` are for last tokens. `loading` are the fields of `Loading`: `conversions` change a checkpoint
    first, as in `convert.load`, and `trust` is as in `load_model`.
    """
    how = Loading(**loading)
    opened = open_model(model, lengths, how)
    wanted = opened.lengths
    name, text, seen = text_of(opened.run, corpus, opened.tokenizer, store)
    text = text[: max(tokens, *wanted)] if way == "windows" and tokens else text
    losses = losses_by_length(
        opened.classifier.to(how.device),
        text,
        wanted,
        device=torch.device(how.device),
        way=way,
        samples=samples,
        seed=seed,
        autocast=how.precision,
        tokens_at_once=tokens_at_once,
        after=after,
    )
    return Measured(str(model), name, way, losses, seen)


@dataclass(frozen=True)
class MeasuredFarTokens:
    """The facts that a model found far back in its prompts."""

    model: str
    text: str
    scores: FarScores

    def to_json(self) -> dict[str, Any]:
        return {"model": self.model, "text": self.text, **self.scores.to_json()}


@checked
def measure_far_tokens(
    model: str | Path,
    corpus: str | Path | Sequence[str | Path] = (),
    lengths: str | Sequence[int] | None = None,
    question: Needle | Variables | None = None,
    *,
    tokens_at_once: Annotated[int, at_least(1), "About how many tokens are read in one part."] = 8192,
    after: Callable[[int, int], None] | None = None,
    **more: Any,
) -> MeasuredFarTokens:
    """Returns what a run directory, or a checkpoint's folder or hub name, finds far back in prompts.

    `question`: a needle unless it says otherwise. It is hidden in the corpus's documents; without a corpus in the text
    that a run was tested on. A haystack that is no text needs neither. `more` are the fields of `Loading`, and the
    depths, scoring, samples, choices, budget and seed of `evaluate.score_far_tokens`.
    """
    how = Loading(**{name: more.pop(name) for name in schema(Loading) if name in more})
    opened = open_model(model, lengths, how)
    question = question or Needle()
    if not question.reads_text:
        name, text = "no text", ()
    elif corpus:
        read = corpora.open(corpus, held_out=0)
        name, text = read.name, read.documents()
    else:
        name, text, _ = text_of(opened.run, (), opened.tokenizer, "")
    scores = score_far_tokens(
        opened.prompted.to(how.device),
        opened.tokenizer,
        text,
        question,
        lengths=opened.lengths,
        autocast=how.precision,
        tokens_at_once=tokens_at_once,
        after=after,
        **more,
    )
    return MeasuredFarTokens(str(model), name, scores)


@dataclass(frozen=True)
class Answered:
    """One task as a model answered it."""

    metric: Metric
    scores: dict[str, float] | None
    """The "score" and what it is made of, in percent; None where the references are held by the site."""
    answers: dict[str, str]
    """By the ids of the questions."""


@dataclass(frozen=True)
class MeasuredAnswers:
    model: str
    source: str
    split: str
    window: int
    tasks: dict[str, Answered]

    def to_json(self) -> dict[str, Any]:
        tasks = {
            name: {"metric": each.metric, "questions": len(each.answers), **(each.scores or {"score": None})}
            for name, each in self.tasks.items()
        }
        record = {"model": self.model, "data": self.source, "split": self.split, "window": self.window}
        return {**record, "tasks": tasks, "average": self.average}

    @property
    def average(self) -> float | None:
        """The mean score of all seven tasks; None where one is missing."""
        scores = [answered.scores["score"] for answered in self.tasks.values() if answered.scores]
        return sum(scores) / len(scores) if len(scores) == len(scrolls.TASKS) else None


@checked
def measure_answers(
    model: str | Path,
    source: str | Path = HUB,
    tasks: Sequence[str] = (),
    *,
    split: Annotated[Literal["validation", "test"], "The questions that are answered."] = "validation",
    window: Annotated[
        int | None, at_least(2), "How many tokens a prompt has with its answer; None: a run's own, or 8192."
    ] = None,
    budget: Budget = None,
    questions: Most = None,
    tokens_at_once: Annotated[int, at_least(1), "About how many tokens are read in one part."] = 8192,
    after: Callable[[str, int, int], None] | None = None,
    after_task: Callable[[str, Answered], None] | None = None,
    **loading: Any,
) -> MeasuredAnswers:
    """Returns what a run's model, or a checkpoint's folder or hub name, answers to these tasks' questions; or to all.

    A run that was trained on one task answers that one unless others are named. Without `window` and `budget` they are
    those of the run; of a model with fewer places than 8,192 the window is as long as they reach. `after` each part it
    is called with the task, how many are answered, and how many there are; `after_task` with each task and its answers.
    """
    how = Loading(**{"which": "best", **loading})
    opened = open_model(model, (2 if window is None else window,), how)
    spec = opened.run.experiment.data if opened.run else None
    own = spec if isinstance(spec, AnswersSpec) else None
    named = scrolls.named(tasks or ([own.task] if own else []))
    for task in named:
        if split != "test":
            check_metric(scrolls.TASKS[task].metric)
    reach = own.block if own else min(PUBLISHED_WINDOW, pretrained.position_rows(opened.prompted) or PUBLISHED_WINDOW)
    window = window or reach
    answered = {}
    for task in named:
        kind = scrolls.TASKS[task]
        most = budget or (own.budget if own and own.task == task else kind.budget)
        asked = questions_of(scrolls.rows(source, task, split), Prompts(opened.tokenizer, window, most), questions)
        count = len(asked)
        written = write_texts(
            opened.prompted.to(how.device),
            opened.tokenizer,
            {each.id: each.input for each in asked},
            most,
            autocast=how.precision,
            tokens_at_once=tokens_at_once,
            after=(lambda answers, task=task, of=count: after(task, len(answers), of)) if after else None,
        )
        known = all(each.outputs for each in asked)
        scores = score(kind.metric, [*written.values()], [each.outputs for each in asked]) if known else None
        answered[task] = Answered(kind.metric, scores, written)
        if after_task:
            after_task(task, answered[task])
    return MeasuredAnswers(str(model), str(source), split, window, answered)


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


def open_model(model: str | Path, lengths: str | Sequence[int] | None, how: Loading) -> Opened:
    """Returns what is measured, once it is known that it can read so much text of this tokenizer."""
    run = run_at(Path(model).expanduser())
    if lengths is None:
        if run is None:
            raise Error(f"{model}: it was tested at no lengths yet. Name some, such as --lengths 512,1024.")
        lengths = run.experiment.tests.lengths
    wanted = read_lengths(lengths, "lengths", least=2)
    if not wanted:
        raise Error("lengths is empty: name at least one, such as 512.")
    tokenizer = tokenizers.load(how.tokenizer) if how.tokenizer else None
    classifier, read = _model(str(model), run, how, tokenizer)
    if run and tokenizer and tokenizers.digest(tokenizer) != tokenizers.digest(load_tokenizer(run)):
        raise Error(
            f"{how.tokenizer}: another tokenizer than that of {model}, whose model knows the tokens of its own alone. "
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


def _model(name: str, run: Run | None, how: Loading, tokenizer: Any) -> tuple[TokenClassifier, Any]:
    """The model, converted, and its tokenizer: the one given, or its own."""
    if run is not None and not how.conversions:
        return load_model(run, how.which, trust=how.trust), tokenizer or load_tokenizer(run)
    folder = model_folder(run, how.which) if run else name
    if folder is None:
        raise Error(f"{name}: a conversion needs a model that transformers loads, and this is none. Leave it out.")
    checkpoint = pretrained.find(str(folder))
    read = tokenizer or tokenizers.load(checkpoint.folder, name)
    converted = convert.load(checkpoint, texts.conversions_of(how.conversions, read)).eval()
    return pretrained.as_classifier(converted, name), read


def text_of(run: Run | None, corpus: Any, tokenizer: Any, store: str | Path) -> tuple[str, Tensor, Seen]:
    """Returns what the text is called, its tokens, and whether they were trained on."""
    names = (corpus,) if isinstance(corpus, (str, Path)) else tuple(corpus)
    if names:
        opened = corpora.open(names, held_out=0)
        trained = {_place(file) for file in (run.experiment.text.files if run else ())}
        seen: Seen = "trained on" if trained & {_place(each) for each in names} else "unknown"
        return opened.name, tokens_of(opened, tokenizer, root=store).train.tokens, seen
    if run is None:
        raise Error("A checkpoint needs a text to be tested on. Give a corpus, such as --corpus book.txt.")
    spec = run.experiment.text
    if isinstance(spec, AnswersSpec):
        raise Error(f"{run.path}: it was trained to answer {spec.task}. Give a corpus, such as --corpus book.txt.")
    folder = run.experiment.model.folder
    content = texts.read(spec, checkpoint=pretrained.find(folder) if folder else None)
    if content.digests != spec.digests:
        raise Error(f"{', '.join(spec.files)}: the text changed since the run. Name a corpus, such as --corpus PATH.")
    return f"{spec.name} (held out)", content.test, "held out"


def _place(file: str | Path) -> str:
    """One name for a file or folder, however it is written; names of corpora stay as they are."""
    path = Path(file).expanduser()
    return str(path.resolve()) if path.exists() else str(file)
