"""Grids of language models trained from scratch on one text, and what their recipes say beside the curves by length.

The rules of such a recipe speak of columns alone (`Rule("*", column, …)`), and beside settings as `lengthwise train`
takes them there are

    train_length     how many tokens a window of training has
    test_lengths     at which lengths the models are tested
    vocabulary       how many tokens the tokenizer has that is trained on the text
    seeds            how many runs of each model

and what a recipe looks up itself, by names without a dot.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from ...evaluate import Loss, Way
from ...evaluate.long_context import BREAKS, HOLDS, standing
from ...files import finite
from ...lab import Experiment, Run, measure_far_tokens, measure_perplexity, plan_language_models
from ...lab.experiment import TextSpec
from ...lab.language_models import START
from ...options import OptionsOf
from ...report import Chart, Panel, Table, far_tokens_compared, line_chart, record_table
from ...report.text_runs import by_seed, digits, middle
from ..base import Scale
from .curves import curve
from .grid import Cell, Grid, Model
from .rules import Rule, settings_of

STANDARD_LIBRARY = "stdlib"
Text = Annotated[Sequence[str], "A corpus to train on: stdlib, a path, or hf:NAME; repeat it."]
STORE = "runs/text"
NAMED = ("train_length", "test_lengths", "vocabulary", "seeds")
"""What stands in rules beside settings."""


@dataclass(frozen=True)
class TextSource:
    """The text that language models are trained on, and how it is cut: options of all recipes on text."""

    text: Text = (STANDARD_LIBRARY,)
    ends: Annotated[str | None, "The rule of segments: sentence, line, …; None: lines of code, else sentences."] = None
    tokenizer: Annotated[str | None, "A folder; None: one is trained on the text."] = None
    store: Annotated[str, "Where tokens and a tokenizer that is trained are kept."] = STORE

    @property
    def rule(self) -> str:
        """The rule of segments: without one, lines of code and sentences of anything else."""
        return self.ends or ("line" if list(self.text) == [STANDARD_LIBRARY] else "sentence")

    def at(self, scale: Scale) -> list[str]:
        """What is read: what was named, or the standard library; of it a package for a try of seconds."""
        if list(self.text) != [STANDARD_LIBRARY] or scale != "smoke":
            return list(self.text)
        import asyncio

        return [str(Path(asyncio.__file__).parent)]


CutOptions = Annotated[Any, OptionsOf(TextSource, "ends tokenizer store")]
"""Those of a recipe with a `text` of its own."""
TextOptions = Annotated[Any, OptionsOf(TextSource, "text tokenizer store")]
SegmentOptions = Annotated[Any, OptionsOf(TextSource)]
"""The same and the rule of segments."""


def language_models(
    rules: Sequence[Rule],
    scale: Scale,
    source: TextSource,
    columns: Mapping[str, Model],
    *,
    way: Way = "windows",
) -> Grid[str]:
    """A cell for each column, all trained on the same tokens; a column of other settings is planned by itself."""

    @cache
    def planned(column: str) -> list[Experiment]:
        settings = settings_of(rules, "*", column)
        named = {name: settings.pop(name) for name in NAMED}
        common = {key.removeprefix("model."): settings.pop(key) for key in list(settings) if key.startswith("model.")}
        settings = {key: value for key, value in settings.items() if "." in key}  # others are not of the runs
        preset, own = columns[column]
        start = {"initializer_range": None} if preset in START else {}  # as the recorded runs began
        with warnings.catch_warnings(action="ignore"):  # that encodings fail beyond what they know is what is asked
            return plan_language_models(
                source.at(scale),
                [(preset, {**start, **common, **own})],
                **named,
                way=way,
                tokenizer=source.tokenizer,
                settings=settings,
                store=source.store,
            )

    return Grid([Cell(column, lambda column=column: planned(column), label=column) for column in columns])


def growth(finished: Mapping[str, Sequence[Run]]) -> Panel:
    """How many times its perplexity at the trained length each model has at longer ones; the mean of the seeds."""
    trained = _trained(finished)
    by_column = {column: means(runs) for column, runs in finished.items()}
    times = {
        column: {n: mean / means[trained] for n, mean in means.items() if n > trained}
        for column, means in by_column.items()
    }
    beyond = sorted({n for of in times.values() for n in of})
    records = [
        {
            "model": column,
            "trained": trained,
            "perplexity": by_column[column][trained],
            "times": {str(n): by for n, by in of.items()},
        }
        for column, of in times.items()
    ]
    columns = {
        "": lambda row: row["model"],
        f"perplexity at {trained:,}": lambda row: f"{row['perplexity']:.4g}",
        **{f"{n:,}": lambda row, n=str(n): digits(row["times"][n]) if n in row["times"] else "–" for n in beyond},
    }
    caption = (
        f"Perplexity at each length over that at {trained:,} tokens, the trained length: below 1 more text before a "
        f"token helps. A model holds where it is at most {HOLDS:g} times that, and is broken from {BREAKS:g} times on. "
        "–: a length for which its encoding has no places."
    )
    finding = _verdict(times, beyond[-1]) if beyond else ""
    return record_table("Beyond the trained length", caption, records, columns, finding=finding)


def _verdict(times: Mapping[str, Mapping[int, float]], longest: int) -> str:
    """Which models hold at the longest length, and which are broken."""
    grown = {column: of[longest] for column, of in times.items() if longest in of}
    groups = {"hold": "holds", "are broken": "broken", "are between": "between"}
    who = {be: [column for column, by in grown.items() if standing(by) == kind] for be, kind in groups.items()}
    return f"At {longest:,} tokens " + "; ".join(f"{', '.join(some)} {be}" for be, some in who.items() if some) + "."


def learning(finished: Mapping[str, Sequence[Run]]) -> Panel:
    """Perplexity of validation windows of the trained length against the tokens trained on; of all seeds."""
    series = {}
    for column, runs in finished.items():
        steps, losses = curve(runs, "loss")
        tokens_a_step = runs[0].experiment.training.batch * _trained(finished)
        series[column] = ([step * tokens_a_step for step in steps], [Loss(loss, 0).perplexity for loss in losses])
    caption = "On validation windows of the trained length, by the mean loss of the seeds."
    return line_chart("Perplexity by tokens of training", caption, "tokens", "perplexity", series, log_y=True)


def far_tokens(
    finished: Mapping[str, Sequence[Run]], device: str, lengths: Sequence[int], samples: int, depths: Sequence[float]
) -> list[Panel]:
    """What the model of each column's first seed finds in held-out text, by length, with its perplexity beside it.

    A model whose encoding has no places for any of the lengths is left out; without others there is no panel.
    """
    scores = {}
    for column, (run, *_) in finished.items():
        # Those of these lengths that the model was tested up to, which its encoding has places for.
        if reached := [n for n in lengths if n <= max(run.experiment.tests.lengths)]:
            retrieval = measure_far_tokens(run.path, (), reached, depths=depths, samples=samples, device=device)
            scores[column] = retrieval.scores
    known = {column: means(finished[column]) for column in scores}
    return [far_tokens_compared(scores, known, _trained(finished))] if scores else []


def other_texts(finished: Mapping[str, Sequence[Run]], device: str, texts: Sequence[str], store: str) -> list[Panel]:
    """Perplexity by length on texts that no model was trained on, one panel each; of the first seed."""
    marks = {"trained": _trained(finished)}
    caption = "On a text that neither the models nor their tokenizer were trained on."
    return [
        perplexity_chart(
            f"Perplexity by length: {Path(name).name}",
            caption,
            {column: _on_text(runs[0], name, store, device) for column, runs in finished.items()},
            marks,
        )
        for name in texts
    ]


def perplexity_chart(
    title: str, caption: str, by_model: Mapping[str, Mapping[int, float]], marks: Mapping[str, float]
) -> Chart:
    """Returns curves and a table of perplexities by length; a model has a dash where it was not tested."""
    lengths = sorted({n for of in by_model.values() for n in of})
    rows = [[name, *(digits(of[n]) if n in of else "–" for n in lengths)] for name, of in by_model.items()]
    data = {name: finite({str(n): p for n, p in of.items()}) for name, of in by_model.items()}
    table = Table(title, "", ["", *(f"{n:,}" for n in lengths)], rows, data=data)
    curves = {name: (list(of), list(of.values())) for name, of in by_model.items()}
    axes = ("tokens", "perplexity")
    return line_chart(title, caption, *axes, curves, log_x=True, log_y=True, marks=marks, table=table)


def _on_text(run: Run, name: str, store: str, device: str) -> dict[int, float]:
    """As the run itself was tested: on as many tokens, in the same precision."""
    spec, tests = run.experiment.data, run.experiment.tests
    assert isinstance(spec, TextSpec)
    perplexity = measure_perplexity(
        run.path,
        [name],
        tests.lengths,
        way=tests.way,
        tokens=None if spec.test_blocks is None else spec.test_blocks * spec.block,
        samples=tests.samples,
        seed=tests.seed,
        precision=run.experiment.training.precision,  # pyright: ignore[reportArgumentType]
        store=store,
        device=device,
    )
    return {n: loss.perplexity for n, loss in perplexity.losses.items()}


def _trained(finished: Mapping[str, Sequence[Run]]) -> int:
    spec = next(iter(finished.values()))[0].experiment.data
    assert isinstance(spec, TextSpec)
    return spec.block


def means(runs: Sequence[Run], which: str = "last") -> dict[int, float]:
    """The mean perplexity of the seeds at every length; `which`: "last", or "before" a further training."""
    return {n: middle(values) for n, values in by_seed(runs, which).items()}
