"""What runs on text are worth: perplexity before and after training and by length, and answers to questions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import finite
from ..lab.experiment import AnswersSpec, TextSpec
from ..lab.statistics import perplexities
from .formatting import count, short_names
from .panel import Panel, Table, line_chart, record_table
from .sections import groups_of, key_of

if TYPE_CHECKING:
    from ..lab import Measured, MeasuredAnswers, Run

WAYS = {
    "windows": "Windows of the length follow one another through the same text, and all but the first token of each "
    "are predicted.",
    "last-token": "Tokens of the text are drawn at random, and each is predicted from the length less one before it.",
}
SEEN = {
    "held out": "The text was held out from training.",
    "trained on": "The model was trained on this text, or on most of it.",
    "unknown": "Whether the model was trained on this text is not known.",
}
METRICS = (
    "rouge: the geometric mean of ROUGE-1, -2 and -L; f1: of words in common; exact match: of whole answers; each with "
    "the best of a question's references, in percent."
)


def before_and_after(runs: Sequence[Run]) -> Panel:
    """One row for each checkpoint that was trained on and each length at which it was tested."""
    records = [
        {
            "model": run.experiment.model.name,
            "text": run.experiment.data.name,
            "seed": run.experiment.seed,
            "steps": run.result["steps"],
            "length": length,
            **{which: perplexities(run, which)[length] for which in ("before", "last")},
            "path": str(run.path),
        }
        for run in runs
        for length in run.experiment.tests.lengths
    ]
    columns = {
        "": lambda row: f"{row['model']} seed {row['seed']}",
        "text": lambda row: row["text"],
        "steps": lambda row: f"{row['steps']:,}",
        "tokens": lambda row: f"{row['length']:,}",
        "before": lambda row: digits(row["before"]),
        "after": lambda row: digits(row["last"]),
    }
    caption = "Of held-out text: the checkpoint as it was, and after its training."
    return record_table("Perplexity", caption, records, columns)


def by_length(runs: Sequence[Run]) -> list[Panel]:
    """A panel for each text, tokenizer and way of testing: curves and a table of perplexity by length.

    A tokenizer of longer tokens has fewer to predict, each harder: perplexities of two tokenizers are no ranking.
    """
    questions: dict[str, list[Run]] = {}
    for run in runs:
        spec, tests = run.experiment.data, run.experiment.tests
        assert isinstance(spec, TextSpec)
        question = key_of(spec.digests, spec.block, spec.test_blocks, spec.tokenizer, asdict(tests))
        questions.setdefault(question, []).append(run)
    several = len({getattr(run.experiment.data, "tokenizer", None) for run in runs}) > 1
    return [_by_length(members, several) for members in questions.values()]


def _by_length(runs: Sequence[Run], several_tokenizers: bool) -> Panel:
    e = runs[0].experiment
    assert isinstance(e.data, TextSpec)
    groups = groups_of(runs, short_names(run.experiment.model.name for run in runs))
    several = max(len(group.runs) for group in groups) > 1
    by_model = {group.label: by_seed(group.runs) for group in groups}
    lengths = e.tests.lengths
    curves = {name: (lengths, [middle(values[n]) for n in lengths]) for name, values in by_model.items()}
    caption = (
        f"{WAYS[e.tests.way]} {SEEN['held out']} Trained on windows of {e.data.block:,} tokens"
        f"{'; mean ± standard deviation over seeds' if several else ''}. ∞: greater than any float, or no number."
    )
    title = f"Perplexity by length: {e.data.name}"
    if several_tokenizers and e.data.tokenizer_folder:
        title += f" (tokens of {Path(e.data.tokenizer_folder).name})"
    rows = [
        [
            group.label,
            count(group.first.result["parameters"]),
            *(digits(*by_model[group.label][n]) for n in lengths),
        ]
        for group in groups
    ]
    head = ["", "parameters", *(f"{n:,}" for n in lengths)]
    data = [
        {
            "model": group.label,
            "length": n,
            "way": e.tests.way,
            "trained": e.data.block,
            "perplexities": finite(by_model[group.label][n]),
        }
        for group in groups
        for n in lengths
    ]
    axes, marks = ("tokens", "perplexity"), {"trained": e.data.block}
    table = Table(title, "", head, rows, data=data)
    chart = line_chart(title, caption, *axes, curves, log_x=True, log_y=True, marks=marks, table=table)
    return replace(chart, finding=_finding(by_model, e.data.block, lengths))


def by_seed(runs: Sequence[Run], which: str = "last") -> dict[int, list[float]]:
    """Returns the perplexities of the seeds at every length; `which`: "last", or "before" a further training."""
    seeds = [perplexities(run, which) for run in runs]
    return {n: [each[n] for each in seeds] for n in seeds[0]}


def middle(values: Sequence[float]) -> float:
    """Returns their mean, or NaN where one of them is no number."""
    return statistics.fmean(values) if all(map(math.isfinite, values)) else math.nan


def digits(*values: float) -> str:
    """Returns a perplexity, or a ratio of two, for a table: of several seeds the mean ± standard deviation.

    >>> digits(12.3456), digits(12.0, 14.0), digits(math.inf)
    ('12.35', '13 ± 1.4', '∞')
    """
    if math.isnan(mean := middle(values)):
        return "∞"
    return f"{mean:.4g}" if len(values) < 2 else f"{mean:.4g} ± {statistics.stdev(values):.2g}"


def _finding(by_model: dict[str, dict[int, list[float]]], trained: int, lengths: Sequence[int]) -> str:
    if max(lengths) <= trained:
        return ""
    ends = {name: middle(values[max(lengths)]) for name, values in by_model.items()}
    order = sorted(ends, key=lambda name: (math.isnan(ends[name]), ends[name]))
    figures = ", ".join(f"{name} {digits(*by_model[name][max(lengths)])}" for name in order)
    return f"Perplexity at {max(lengths):,} tokens, {max(lengths) / trained:.3g} times the trained length: {figures}."


def measured_perplexity(result: Measured) -> Panel:
    """What `lab.measure_perplexity` found, a row for each length."""
    rows = [
        [
            f"{n:,}",
            digits(loss.perplexity),
            "–" if loss.mean is None else f"{loss.mean:.4f}",
            f"{loss.tokens:,}",
        ]
        for n, loss in result.losses.items()
    ]
    caption = f"Of {result.model}. {WAYS[result.way]} {SEEN[result.seen]} The loss is -log p of a token, in nats."
    title = f"Perplexity by length: {result.text}"
    return Table(title, caption, ["tokens", "perplexity", "loss", "predicted"], rows, data=result.to_json())


def panels_of_text(runs: Sequence[Run]) -> list[Panel]:
    """Returns what runs on text are worth, by the kind of what they were trained for."""
    answered = [run for run in runs if isinstance(run.experiment.data, AnswersSpec)]
    others = [run for run in runs if not isinstance(run.experiment.data, AnswersSpec)]
    tuned = [run for run in others if run.experiment.from_checkpoint]
    panels = [before_and_after(tuned)] if tuned else []
    panels += [answers_of_runs(answered)] if answered else []
    return panels + by_length([run for run in others if not run.experiment.from_checkpoint])


def answers_of_runs(runs: Sequence[Run]) -> Panel:
    """One row for each run that was trained to answer."""
    columns = {
        "task": lambda row: row["task"],
        "model": lambda row: f"{row['model']} seed {row['seed']}",
        "metric": lambda row: row["metric"],
        "score": lambda row: f"{row['score']:.2f}",
        "questions": lambda row: f"{row['questions']:,}",
        "perplexity before": lambda row: "–" if row["perplexity_before"] is None else digits(row["perplexity_before"]),
        "after": lambda row: digits(row["perplexity"]),
    }
    caption = (
        f"Of the validation split, by the weights of the best validation loss. {METRICS} Perplexity is that of the "
        "references' tokens, before training and after its last step."
    )
    return record_table("Answers", caption, map(_answered, runs), columns)


def _answered(run: Run) -> dict[str, Any]:
    e, scores = run.experiment, run.result["answers"]
    assert isinstance(e.data, AnswersSpec)
    before = perplexities(run, "before")[e.data.block] if "before" in run.result["checkpoints"] else None
    return {
        "task": e.data.task,
        "model": e.model.name,
        "seed": e.seed,
        **scores,
        "perplexity_before": before,
        "perplexity": perplexities(run)[e.data.block],
        "path": str(run.path),
    }


def measured_answers(result: MeasuredAnswers) -> Panel:
    """A row for each task, and the average where all seven are there."""
    rows = [
        [
            task,
            answers.metric,
            "–" if answers.scores is None else f"{answers.scores['score']:.2f}",
            f"{len(answers.answers):,}",
        ]
        for task, answers in result.tasks.items()
    ]
    if result.average is not None:
        rows.append(["average", "", f"{result.average:.2f}", ""])
    held = " The references of the test split are held by the benchmark's site." if result.split == "test" else ""
    caption = (
        f"Of {result.model}: {result.split} split of {result.source}, prompts of at most {result.window:,} "
        f"tokens with their answers. {METRICS}{held}"
    )
    return Table("SCROLLS", caption, ["task", "metric", "score", "questions"], rows, data=finite(result.to_json()))
