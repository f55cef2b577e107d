"""Figure 3: which encoding of positions lets a small Transformer learn arithmetic with its steps written down?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

from .... import tasks
from ....insight import ChainScores, add_chains, score_chains
from ....lab import Experiment, Run, load_task, plan
from ....lab.statistics import summary
from ....report import Panel, line_chart, record_table
from ....report.formatting import count, duration, percent
from ....tasks.arithmetic_steps import ArithmeticSteps
from ...base import Recipe, Scale
from ...common.curves import curves, ended
from ...common.grid import Cell, Grid, Model, loaded
from ...common.rules import Rule, described, differences_from_paper, rules_of, settings_of

TASK = "arithmetic-steps"
ENCODINGS = {
    "sinusoidal": Model("transformer", {"model.position": "sinusoidal"}),
    "rope": Model("transformer", {"model.position": "rope"}),
    "xpos": Model("transformer", {"model.position": "xpos"}),
    "alibi": Model("transformer", {"model.position": "alibi"}),
    "bipe-rope": Model("bipe", {"model.position": "rope"}),
    "bipe-alibi": Model("bipe", {"model.position": "alibi"}),
}
PUBLISHED = {("bipe-alibi", 48): "97", ("bipe-rope", 48): "95"}
"""What the text says of the figure; of the others that they are below 70 at width 48."""
AROUND = (-2, -1, 0, 1, 2)
"""Operators fewer or more than in training with which chains are looked at too."""
CHAINS = 1024
"""Chains that the checker reads, at most, of each seed and length."""
ByLength = Mapping[int, ChainScores]

RULES = rules_of(__name__)


class WidthKey(NamedTuple):
    encoding: str
    width: int


def recipe(
    scale: Scale, *, modulus: Annotated[int | None, "Count modulo this, not as the scale does."] = None
) -> Recipe:
    """Arithmetic with its steps written down: BiPE-RoPE and BiPE-ALiBi beside four encodings, at small widths."""
    rules = [*RULES[scale], *([] if modulus is None else [Rule("*", "*", {"task.modulus": modulus})])]
    settings = settings_of(rules, TASK, "*")

    def report(finished: Mapping[WidthKey, list[Run]], device: str) -> list[Panel]:
        chains = {key: chain_scores(runs, settings, device) for key, runs in finished.items()}
        panels = [_table(finished, chains, settings), _holding(chains, settings["operators"]), _lengths(chains)]
        for width in dict.fromkeys(key.width for key in finished):
            mine = {key.encoding: runs for key, runs in finished.items() if key.width == width}
            caption = "Share of next tokens that are right, with the right ones before them, on validation strings."
            panels.append(curves(f"Learning at width {width}", caption, mine))
        same = "The form of the task, layers, heads, optimiser and weight decay are as published."
        return [*panels, *differences_from_paper(RULES, scale, [TASK], list(ENCODINGS), same, rules)]

    keys = [WidthKey(encoding, width) for width in settings["widths"] for encoding in ENCODINGS]
    return Recipe(
        title="BiPE, Figure 3: arithmetic with every step written down",
        description=described(__name__, operators=settings["operators"]),
        grid=Grid([Cell(key, partial(planned, rules, key), label=key.encoding) for key in keys]),
        report=report,
    )


def planned(rules: Sequence[Rule], key: WidthKey) -> list[Experiment]:
    """The runs of one encoding at one width."""
    settings = {**settings_of(rules, TASK, key.encoding), "model.width": key.width}
    operators, seeds = settings.pop("operators"), settings.pop("seeds")
    del settings["widths"]
    task = tasks.get(TASK, modulus=settings.pop("task.modulus"))
    assert isinstance(task, ArithmeticSteps)
    preset, own = ENCODINGS[key.encoding]
    if preset == "bipe":
        # As many rows as the longest problem that is looked at has symbols, with the "=" behind it.
        own = {**own, "model.ends": [task.equals], "model.max_length": 4 * (operators + max(AROUND))}
    settings |= {**own, "training.lengths": (operators, operators)}
    return plan(task, [preset], seeds=seeds, test_lengths=[operators], settings=settings)


def chain_scores(runs: list[Run], settings: Mapping[str, Any], device: str) -> dict[int, ChainScores]:
    """What became of the chains of all seeds, by the number of operators: those of training, fewer and more."""
    task = load_task(runs[0])
    assert isinstance(task, ArithmeticSteps)
    models = loaded(runs, device)
    strings, trained = min(CHAINS, settings["tests.samples"]), settings["operators"]
    lengths = sorted({max(1, trained + more) for more in AROUND})
    return {n: add_chains(score_chains(model, task, n, strings) for model in models) for n in lengths}


def _table(
    finished: Mapping[WidthKey, list[Run]], chains: Mapping[WidthKey, ByLength], settings: Mapping[str, Any]
) -> Panel:
    records = [
        {
            **key._asdict(),
            **ended(runs),
            **chains[key][settings["operators"]].to_json(),
            "published": PUBLISHED.get(key, "below 70" if key.width == 48 else "–"),
        }
        for key, runs in finished.items()
    ]
    columns = {
        "encoding, width": lambda row: f"{row['encoding']}, {row['width']}",
        "size": lambda row: count(row["parameters"]),
        "runs": lambda row: str(row["seeds"]),
        "right, max / mean ± std": lambda row: row["words"],
        "valid": lambda row: percent(row["valid"] / row["chains"]),
        "wrong at step 1": lambda row: percent(row["first_wrong"].get("1", 0) / row["chains"]),
        "published": lambda row: row["published"],
        "training": lambda row: duration(row["train_seconds"]),
    }
    published_of = settings_of(RULES["paper"], TASK, "*")
    caption = (
        "Right: test problems whose last number is right, in %, written by greedy decoding from the problem alone. "
        "Valid: those whose every line follows from the one before it by one reduction. A constant answer is right in "
        f"{percent(1 / settings['task.modulus'])}%. Published: with {published_of['operators']} operators modulo "
        f"{published_of['task.modulus']}, as far as the paper's text names the numbers of its figure."
    )
    return record_table("Measured beside published", caption, records, columns, finding=order(finished, settings))


def order(finished: Mapping[WidthKey, list[Run]], settings: Mapping[str, Any]) -> str:
    """Whether both kinds of BiPE are above all others at the smallest width, as in the paper, and on how many seeds."""
    width = min(settings["widths"])
    mine = {key.encoding: runs for key, runs in finished.items() if key.width == width}
    means = {encoding: summary(runs, [settings["operators"]]).mean for encoding, runs in mine.items()}
    two = {name: mean for name, mean in means.items() if name.startswith("bipe")}
    others = {name: mean for name, mean in means.items() if name not in two}
    if len(means) < len(ENCODINGS):
        return f"{len(means)} of {len(ENCODINGS)} encodings are finished at width {width}."
    least, best = min(two, key=two.__getitem__), max(others, key=others.__getitem__)
    sentence = f"{least} is right in {percent(two[least])}% and {best} in {percent(others[best])}%"
    if min(map(len, mine.values())) == 1:
        sentence += "; one seed settles no order"
    which = "both" if two[least] > others[best] else "not both"
    return f"At width {width} {which} kinds of BiPE are above the others, as they are in the paper: {sentence}."


def _holding(chains: Mapping[WidthKey, ByLength], operators: int) -> Panel:
    steps = list(range(operators + 1))
    trained = {f"{key.encoding}, {key.width}": by_length[operators] for key, by_length in chains.items()}
    return line_chart(
        "Where chains go wrong",
        "Share of chains in which every step so far is right.",
        "step",
        "chains without a wrong step",
        {label: (steps, [read.holding(n) for n in steps]) for label, read in trained.items()},
        percent=True,
    )


def _lengths(chains: Mapping[WidthKey, ByLength]) -> Panel:
    """What the paper does not ask: problems of other lengths than those of training."""
    series = {f"{key.encoding}, {key.width}": by_length for key, by_length in chains.items()}
    return line_chart(
        "Shorter and longer problems",
        "Share of chains that are valid to their end, by the number of operators; training had one number alone.",
        "operators",
        "valid chains",
        {label: (list(of), [read.valid / read.chains for read in of.values()]) for label, of in series.items()},
        percent=True,
    )
