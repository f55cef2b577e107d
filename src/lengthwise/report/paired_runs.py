"""Two settings compared pair by pair: runs that differ in what is compared, and in their seed and all else do not.

Of each pair of runs d = accuracy of the second - accuracy of the first. Runs of one seed share their test strings and,
where lengths and batch are alike, their training strings, so that d varies less than the accuracies do. The interval is
Student's, mean(d) ± t s(d)/√n over n seeds, which is exact for few as for many where d is normally distributed; where a
seed has several pairs, d is their mean. Of fewer than three seeds there is none. Resampling seeds (a bootstrap) makes
intervals too narrow for so few.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any

from ..errors import Error, UnknownName
from ..lab.experiment import Experiment
from ..lab.records import Run
from ..lab.statistics import mean_interval, ranges, score
from ..options import value_of
from .chosen_settings import Swept, choices_of, chosen_of
from .formatting import counted, length_range, percent, some_of
from .long_form import as_word, settings_in_full
from .panel import Panel, Table
from .sections import list_of_runs, task_name

Settings = dict[str, Any]
Chosen = tuple[Run, Settings]
FEWEST = 3
"""So many seeds have an interval: two say next to nothing of how much seeds vary."""
NAMED = 6
"""So many runs without a partner are named in the caption; all of them in the data."""


@dataclass(frozen=True)
class PairedDifference:
    """The second accuracy less the first, over some lengths, as the mean of the pairs."""

    task: str
    lengths: tuple[int, ...]
    first: float
    second: float
    difference: float
    low: float | None
    """Student's 95% interval of the difference over the seeds; None for one or two."""
    high: float | None
    pairs: int
    seeds: int
    better: int
    """In how many seeds the second is better, in the mean over their pairs."""
    worse: int

    @property
    def interval(self) -> str:
        return "" if self.low is None or self.high is None else f"{_points(self.low)} to {_points(self.high)}"


def paired(first: Iterable[Run], second: Iterable[Run]) -> Panel:
    """How much better `second` is than `first`, by length, with an interval over pairs of runs.

    What is compared is what all of `first` have in common and all of `second` have otherwise. Two runs are a pair when
    their seed and all other settings are equal; runs without a partner are named.
    """
    a, b = (_with_settings(list_of_runs(side)) for side in (first, second))
    if not (a and b):
        raise Error(f"paired: needs runs on both sides, got {len(a)} and {len(b)}.")
    compared = _constant(a, b)
    if not compared:
        raise Error(
            "paired: there is no setting that all runs of one side share and all of the other have otherwise. "
            "Give the runs of one value on each side, such as those of two learning rates."
        )
    _check_strings(compared)
    return _panel(a, b, compared)


def compare(runs: Iterable[Run], setting: str, *, sweep: Swept = ()) -> list[Panel]:
    """Each value of a setting paired with the first: the lowest number, or what comes first among these runs.

    `setting` is a dotted name such as training.lr, or `model`, with which the model's own options change; as in
    `training.lr=1e-3,1e-4` the values can be named, and the first of them is what the others are compared with. Of what
    is named in `sweep` only the chosen settings are compared, unless `setting` is itself one of them.
    """
    runs, name = list_of_runs(runs), setting.partition("=")[0]
    choices = choices_of(runs, sweep)
    along = list(dict.fromkeys(each for choice in choices for each in choice.chosen.values))
    first, *others = _sides(runs if name in along else chosen_of(runs, choices), setting)
    return [_panel(first, side, [name, *_own_options(name, first, side), *along]) for side in others]


def _own_options(setting: str, a: Sequence[Chosen], b: Sequence[Chosen]) -> list[str]:
    """A model goes with its options: those that all its runs share are compared with it."""
    return [name for name in _constant(a, b) if name.startswith("model.")] if setting == "model" else []


def check_comparison(experiments: Iterable[Experiment], setting: str) -> None:
    """Refuse, before anything runs, a setting in which these do not differ."""
    _sides([SimpleNamespace(experiment=experiment) for experiment in experiments], setting)


def _sides(runs: Sequence[Any], setting: str) -> list[list[Chosen]]:
    """The runs by the values of a setting, in the order in which they are compared."""
    setting, _, words = setting.partition("=")
    chosen = _with_settings([run for run in runs if not run.experiment.on_text])
    named = [(run, settings) for run, settings in chosen if setting in settings]
    if not named:
        raise UnknownName("setting of these runs", setting, [name for _, known in chosen for name in known])
    sides: dict[str, list[Chosen]] = {}
    for each in named:
        sides.setdefault(repr(each[1][setting]), []).append(each)
    order = sorted(sides.values(), key=lambda side: _number(side[0][1][setting]))
    if words:
        order = [_side(word.strip(), order, setting) for word in dict.fromkeys(words.split(","))]
    if len(order) < 2 or setting == "seed":
        reason = "runs are paired by it" if setting == "seed" else f"all {len(named)} runs have {named[0][1][setting]}"
        raise Error(f"There is nothing to compare in {setting}: {reason}. Name a setting in which these runs differ.")
    _check_strings([setting])
    return order


def _side(word: str, sides: Sequence[list[Chosen]], setting: str) -> list[Chosen]:
    for side in sides:
        if side[0][1][setting] in (word, value_of(word)):
            return side
    raise UnknownName(f"value of {setting} in these runs", word, [str(side[0][1][setting]) for side in sides])


def _check_strings(compared: Iterable[str]) -> None:
    """Refuse what decides which strings are tested: then there are no pairs."""
    for name in compared:
        if name.split(".")[0] == "task" or name in ("tests.samples", "tests.seed"):
            raise Error(f"{name} decides which strings are tested, and a pair is tested on the same ones.")


def _constant(a: Sequence[Chosen], b: Sequence[Chosen]) -> list[str]:
    """The settings that all runs of one side share, and all of the other have otherwise."""
    names = dict.fromkeys(name for _, settings in (*a, *b) for name in settings if name != "seed")
    values = {name: [{repr(settings.get(name, ...)) for _, settings in side} for side in (a, b)] for name in names}
    return [name for name, (x, y) in values.items() if len(x) == len(y) == 1 and x != y]


def _number(value: Any) -> float:
    """Words are as large as one another, so that they stay in the order in which they came."""
    return value if isinstance(value, (int, float)) else 0.0


def _with_settings(runs: Iterable[Run]) -> list[Chosen]:
    """Each run once, with its settings."""
    return list({run.experiment.hash: (run, _settings(run.experiment)) for run in runs}.values())


def _settings(e: Experiment) -> Settings:
    if e.on_text:
        raise Error(f"{e.directory} is on text: pairs are compared by accuracy, and text has none. Leave it out.")
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
    together = [
        _difference(name, r.lengths, few)
        for (name, train), few in questions.items()
        for r in ranges(train, _common(few))
    ]
    by_length = [_difference(name, (n,), few) for (name, _), few in questions.items() for n in _common(few)]
    overall = [_difference(name, _common(few), few) for (name, _), few in questions.items()]
    several = len(questions) > 1
    called = _named(changed, 0), _named(changed, 1)
    sentences = " ".join(_sentence(each, *called, several) for each in overall)
    rows = [_row(each, several) for each in together]
    head = ["lengths", *called, "difference", "95% interval", "seeds", "better", "worse"]
    data = {
        "compared": changed,
        "pairs": [{"seed": x.experiment.seed, "first": x.path.name, "second": y.path.name} for x, y in pairs],
        "unpaired": [run.path.name for run in alone],
        "overall": [asdict(each) for each in overall],
        "ranges": [asdict(each) for each in together],
        "lengths": [asdict(each) for each in by_length],
    }
    return Table(title, f"{sentences} {_caption(together, alone)}", head, rows, data=data, finding=sentences)


def _by_partner(side: Sequence[Chosen], compared: Sequence[str]) -> dict[str, Chosen]:
    """The runs of one side by what a partner must have in common with them."""
    partners: dict[str, Chosen] = {}
    for run, settings in side:
        key = repr(sorted((name, repr(value)) for name, value in settings.items() if name not in compared))
        if key in partners:
            raise Error(
                f"{partners[key][0].path.name} and {run.path.name} differ in nothing but what is compared: a partner "
                "would fit both. Give one of them."
            )
        partners[key] = run, settings
    return partners


def _common(pairs: Sequence[tuple[Run, Run]]) -> tuple[int, ...]:
    """The lengths at which all of them were tested."""
    lengths = set.intersection(*({*run.experiment.tests.lengths} for pair in pairs for run in pair))
    if not lengths:
        raise Error("There is no length at which all these runs were tested. Compare runs with common test lengths.")
    return tuple(sorted(lengths))


def _difference(task: str, lengths: tuple[int, ...], pairs: Sequence[tuple[Run, Run]]) -> PairedDifference:
    by_seed: dict[int, list[tuple[float, float]]] = {}
    for x, y in pairs:
        by_seed.setdefault(x.experiment.seed, []).append((score(x, lengths), score(y, lengths)))
    # Pairs of one seed share their strings, so that they are no more than one observation of how seeds vary.
    means = [tuple(map(statistics.fmean, zip(*each, strict=True))) for each in by_seed.values()]
    first, second = (statistics.fmean(side) for side in zip(*means, strict=True))
    gains = [y - x for x, y in means]
    low, high = (mean_interval(gains) if len(gains) >= FEWEST else None) or (None, None)
    better, worse = sum(d > 0 for d in gains), sum(d < 0 for d in gains)
    difference = statistics.fmean(gains)
    return PairedDifference(task, lengths, first, second, difference, low, high, len(pairs), len(gains), better, worse)


def _row(d: PairedDifference, several: bool) -> list[str]:
    at = length_range((d.lengths[0], d.lengths[-1])).split()[-1]
    return [
        f"{d.task} {at}" if several else at,
        percent(d.first),
        percent(d.second),
        _points(d.difference),
        d.interval or "–",
        *map(str, (d.seeds, d.better, d.worse)),
    ]


def _sentence(d: PairedDifference, first: str, second: str, several: bool) -> str:
    where = f"On {d.task} over" if several else "Over"
    interval = f", 95% interval {d.interval}" if d.interval else ""
    return (
        f"{where} all {counted(len(d.lengths), 'length')} {second} less {first} is {_points(d.difference)} "
        f"points{interval}; better in {d.better} of {counted(d.seeds, 'seed')}, worse in {d.worse}."
    )


def _points(share: float) -> str:
    return f"{100 * share:+.1f}"


def _word(value: Any) -> str:
    return "nothing" if value is None else str(value)


def _named(changed: dict[str, list[Any]], side: int) -> str:
    """A column's head: the value that is compared, where there is one only."""
    values = changed.get("model") or (next(iter(changed.values())) if len(changed) == 1 else ["first", "second"])
    return _word(values[side])


def _caption(together: Sequence[PairedDifference], alone: Sequence[Run]) -> str:
    sentences = [
        "Accuracy in % at the last step, the mean over pairs of runs whose seed and other settings are equal; the "
        "difference is the second less the first, in points. 95% interval: Student's t over the seeds."
    ]
    few = sorted({each.seeds for each in together if each.seeds < FEWEST})
    sentences += [f"{'One pair has' if n == 1 else 'Two seeds have'} no interval: run {FEWEST} seeds." for n in few]
    if any(each.low is not None and each.high is not None and each.high - each.low < 1e-9 for each in together):
        sentences.append(
            "Where all seeds differ by the same, the interval has no width and says nothing of the next seed."
        )
    if alone:
        sentences.append(f"Without a partner, and left out: {some_of([run.path.name for run in alone], NAMED)}.")
    return " ".join(sentences)
