"""Two settings compared pair by pair: runs that differ in what is compared, and in their seed and all else do not.

Of each pair of runs d = accuracy of the second - accuracy of the first. Runs of one seed share their test strings and,
where lengths and batch are alike, their training strings, so that d varies less than the accuracies do. The interval is
Student's, mean(d) ± t s(d)/√n over n pairs, which is exact for few pairs as for many where d is normally distributed.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..errors import Error, UnknownName
from ..lab.statistics import mean_interval, ranges, score
from .formatting import length_range, percent
from .long_form import as_word, settings_in_full
from .panel import Panel
from .sections import list_of_runs, task_name
from .table_panels import text_table

if TYPE_CHECKING:
    from ..lab import Run

    Settings = dict[str, Any]
    Chosen = tuple[Run, Settings]
NAMED = 6
"""So many runs without a partner are named in the caption; all of them in the data."""


@dataclass(frozen=True)
class Difference:
    """The second accuracy less the first, over some lengths, as the mean of the pairs."""

    task: str
    lengths: tuple[int, ...]
    first: float
    second: float
    difference: float
    low: float | None
    """The 95% interval of the difference; None for a single pair."""
    high: float | None
    pairs: int
    better: int
    """In how many pairs the second is better."""
    worse: int


def paired(first: Iterable[Run], second: Iterable[Run]) -> Panel:
    """How much better `second` is than `first`, by length, with an interval over pairs of runs.

    What is compared is what all of `first` have in common and all of `second` have otherwise. Two runs are a pair when
    their seed and all other settings are equal; runs without a partner are named.
    """
    sides = [{run.experiment.hash: (run, _settings(run)) for run in list_of_runs(side)} for side in (first, second)]
    a, b = ([*side.values()] for side in sides)
    if not (a and b):
        raise Error(f"paired: needs runs on both sides, got {len(a)} and {len(b)}.")
    compared = _constant(a, b)
    if not compared:
        raise Error(
            "paired: there is no setting that all runs of one side share and all of the other have otherwise. "
            "Give the runs of one value on each side, such as those of two learning rates."
        )
    return _panel(a, b, compared)


def compare(runs: Iterable[Run], setting: str) -> list[Panel]:
    """Each value of a setting paired with the first: the lowest number, or what comes first among these runs.

    `setting` is a dotted name such as training.lr, or `model`, with which the model's own options change.
    """
    chosen = {run.experiment.hash: (run, _settings(run)) for run in list_of_runs(runs) if not run.experiment.on_text}
    named = [(run, settings) for run, settings in chosen.values() if setting in settings]
    if not named:
        raise UnknownName("setting of these runs", setting, [name for _, known in chosen.values() for name in known])
    sides: dict[str, list[Chosen]] = {}
    for each in named:
        sides.setdefault(repr(each[1][setting]), []).append(each)
    order = sorted(sides.values(), key=lambda side: _number(side[0][1][setting]))
    if len(order) < 2 or setting == "seed":
        said = "runs are paired by it" if setting == "seed" else f"all {len(named)} runs have {named[0][1][setting]}"
        raise Error(f"There is nothing to compare in {setting}: {said}. Name a setting in which these runs differ.")
    return [_panel(order[0], side, _with_own_options(setting, order[0], side)) for side in order[1:]]


def _with_own_options(setting: str, a: Sequence[Chosen], b: Sequence[Chosen]) -> list[str]:
    """A model goes with its options: those that all its runs share are compared with it."""
    own = [name for name in _constant(a, b) if name.startswith("model.")] if setting == "model" else []
    return [setting, *own]


def _constant(a: Sequence[Chosen], b: Sequence[Chosen]) -> list[str]:
    """The settings that all runs of one side share, and all of the other have otherwise."""
    names = dict.fromkeys(name for _, settings in (*a, *b) for name in settings if name != "seed")
    values = {name: [{repr(settings.get(name, ...)) for _, settings in side} for side in (a, b)] for name in names}
    return [name for name, (x, y) in values.items() if len(x) == len(y) == 1 and x != y]


def _number(value: Any) -> float:
    return value if isinstance(value, (int, float)) else 0.0


def _settings(run: Run) -> Settings:
    e = run.experiment
    if e.on_text:
        raise Error(f"{run.path.name} is on text: pairs are compared by accuracy, and text has none. Leave it out.")
    full = {**settings_in_full(e), "tests.lengths": e.tests.lengths}
    return {"task": e.data.name, "model": e.model.name, "seed": e.seed} | {k: as_word(v) for k, v in full.items()}


def _panel(a: Sequence[Chosen], b: Sequence[Chosen], compared: Sequence[str]) -> Panel:
    first, second = (_by_partner(side, compared) for side in (a, b))
    pairs = [(run, second[key][0]) for key, (run, _) in first.items() if key in second]
    alone = [x[key][0] for x, y in ((first, second), (second, first)) for key in x if key not in y]
    was, now = next(((first[key][1], second[key][1]) for key in first if key in second), (a[0][1], b[0][1]))
    changed = {name: [was.get(name), now.get(name)] for name in compared if was.get(name) != now.get(name)}
    # An option that only one of two models has is no change of that option.
    both = {name: values for name, values in changed.items() if "model" not in changed or None not in values}
    title = "; ".join(f"{name}: {_word(y)} instead of {_word(x)}" for name, (x, y) in both.items())
    if not pairs:
        raise Error(
            f"No two of these runs are a pair ({title}): their seed and all other settings must be equal. "
            f"For example {a[0][0].path.name} has no partner."
        )
    questions: dict[tuple[str, tuple[int, int]], list[tuple[Run, Run]]] = {}
    for x, y in pairs:
        question = (task_name(x.experiment.task), x.experiment.training.curriculum.lengths)
        questions.setdefault(question, []).append((x, y))
    together = [_difference(name, r.lengths, few) for (name, train), few in questions.items() for r in _ranges(few)]
    by_length = [
        _difference(name, (n,), few)
        for (name, _), few in questions.items()
        for n in sorted({n for x, _ in few for n in x.experiment.tests.lengths})
    ]
    several = len(questions) > 1
    rows = [_row(each, several) for each in together]
    head = ["lengths", _named(changed, 0), _named(changed, 1), "difference", "95% interval", "pairs", "better", "worse"]
    data = {
        "compared": changed,
        "pairs": [{"seed": x.experiment.seed, "first": x.path.name, "second": y.path.name} for x, y in pairs],
        "unpaired": [run.path.name for run in alone],
        "ranges": [asdict(each) for each in together],
        "lengths": [asdict(each) for each in by_length],
    }
    return text_table(title, _caption(together, alone), head, rows, data)


def _by_partner(side: Sequence[Chosen], compared: Sequence[str]) -> dict[str, Chosen]:
    """The runs of one side by what a partner must have in common with them."""
    found: dict[str, Chosen] = {}
    for run, settings in side:
        key = repr(sorted((name, repr(value)) for name, value in settings.items() if name not in compared))
        if key in found:
            raise Error(
                f"{found[key][0].path.name} and {run.path.name} differ in nothing but what is compared: a partner "
                "would fit both. Give one of them."
            )
        found[key] = run, settings
    return found


def _ranges(pairs: Sequence[tuple[Run, Run]]):
    first = pairs[0][0].experiment
    return ranges(first.training.curriculum.lengths, (n for x, _ in pairs for n in x.experiment.tests.lengths))


def _difference(task: str, lengths: tuple[int, ...], pairs: Sequence[tuple[Run, Run]]) -> Difference:
    """Over the pairs that were tested at all these lengths."""
    tested = [
        (score(x, lengths), score(y, lengths))
        for x, y in pairs
        if {*lengths} <= {*x.experiment.tests.lengths} & {*y.experiment.tests.lengths}
    ]
    gains = [y - x for x, y in tested]
    low, high = mean_interval(gains) or (None, None)
    first, second = (statistics.fmean(side) for side in zip(*tested, strict=True))
    better, worse = sum(d > 0 for d in gains), sum(d < 0 for d in gains)
    return Difference(task, lengths, first, second, statistics.fmean(gains), low, high, len(gains), better, worse)


def _row(d: Difference, several: bool) -> list[str]:
    at = length_range((d.lengths[0], d.lengths[-1])).split()[-1]
    interval = "–" if d.low is None or d.high is None else f"{_points(d.low)} to {_points(d.high)}"
    return [
        f"{d.task} {at}" if several else at,
        percent(d.first),
        percent(d.second),
        _points(d.difference),
        interval,
        *map(str, (d.pairs, d.better, d.worse)),
    ]


def _points(share: float) -> str:
    return f"{100 * share:+.1f}"


def _word(value: Any) -> str:
    return "nothing" if value is None else str(value)


def _named(changed: dict[str, list[Any]], side: int) -> str:
    """A column's head: the value that is compared, where there is one only."""
    told = changed.get("model") or (next(iter(changed.values())) if len(changed) == 1 else ["first", "second"])
    return _word(told[side])


def _caption(together: Sequence[Difference], alone: Sequence[Run]) -> str:
    said = [
        "Accuracy in % at the last step, the mean over pairs of runs whose seed and other settings are equal; the "
        "difference is the second less the first, in points. 95% interval: Student's t over the pairs."
    ]
    if any(each.pairs == 1 for each in together):
        said.append("One pair has no interval.")
    if any(each.low is not None and each.high is not None and each.high - each.low < 1e-9 for each in together):
        said.append("Where all pairs differ by the same, the interval has no width and says nothing of the next seed.")
    if alone:
        names = ", ".join(run.path.name for run in alone[:NAMED]) + (", …" if len(alone) > NAMED else "")
        said.append(f"Without a partner, and left out: {names}.")
    return " ".join(said)
