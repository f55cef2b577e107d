"""Writes docs/reproduction.md: every table and figure of the four papers, what was published beside what came out here.

    python site/reproduction.py

Published numbers and settings are the recipes' own data, measured ones stand in results/, and no number is typed here.
A verdict is computed; where a number cannot settle it, `reproduction.toml` says why in words.
"""

from __future__ import annotations

import json
import statistics
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from math import exp
from pathlib import Path
from typing import Any, NamedTuple

from lengthwise import recipes, report
from lengthwise.recipes.common.comparison import MARKS, WITHIN
from lengthwise.recipes.common.rules import Rules, settings_of
from lengthwise.recipes.papers import bipe, chacal, lrnn, regulargpt
from lengthwise.report.formatting import percent

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reproduction.md"
WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
SCALES = ("overnight", "laptop")
"""Of which results are shown, the nearest to the published setting first."""
REPRODUCED, IN_PART, DIFFERENT = "reproduced", "in part", "different"
NOTHING, NO_NUMBER, NOT_RUN = "proves nothing yet", "no number to compare", "not run"
COUNTED = {
    REPRODUCED: "reproduced",
    IN_PART: "in part",
    DIFFERENT: "different",
    NOTHING: "prove nothing yet",
    NO_NUMBER: "have no number to compare",
    NOT_RUN: "were not run",
}
"""Every verdict, as it is said of several."""
JUMP = 5
"""Perplexity that rises by more than this factor from one length to the next jumps."""


COUNTS_NO_SEEDS = ("Linear RNN", "BiPE")
"""Papers that average several seeds, or do not say so, and name no number; the recipes have one of their own."""


class Finding(NamedTuple):
    """What came out at one scale."""

    verdict: str
    words: str
    """The figures behind the verdict, in a sentence."""
    table: str = ""
    """Cell by cell."""


class Item(NamedTuple):
    """A table or figure of a paper."""

    paper: str
    name: str
    recipe: str
    """As `lengthwise reproduce` takes it."""
    find: Callable[[dict[str, Any]], Finding] | None
    """What a folder's results.json says of it; None as long as there is none."""
    rules: Rules | None = None
    cell: tuple[str, str] = ("*", "*")
    """The row and column whose settings stand for the table's."""
    numbers: str = ""
    """What was published besides the setting."""
    parts: tuple[str, ...] = ()
    """What of the table was run by itself, and lies in folders with such a word in their names."""

    @property
    def title(self) -> str:
        return f"{self.paper}, {self.name}"

    @property
    def words(self) -> dict[str, str]:
        return WORDS[self.paper][self.name]

    @property
    def published(self) -> str:
        """The published setting and numbers."""
        settings = settings_of(self.rules["paper"], *self.cell) if self.rules else {}
        stated = {
            what: value for what, value in settings.items() if what != "seeds" or self.paper not in COUNTS_NO_SEEDS
        }
        return "; ".join(filter(None, [stated and budget(stated), self.numbers]))

    def folders(self, scale: str) -> list[Path]:
        """Those that are there: the whole table's, and its parts'."""
        recipe = self.recipe.replace(" ", "-")
        names = ["-".join(filter(None, [recipe, part, scale])) for part in ("", *self.parts)]
        return [folder for name in names if any((folder := ROOT / "results" / name).glob("results.json*"))]

    def results(self) -> dict[str, dict[str, Any]]:
        """By scale what was measured, the nearest to the published setting first."""
        folders = {scale: self.folders(scale) for scale in SCALES if self.find}
        return {scale: joined([report.recorded(each) for each in of]) for scale, of in folders.items() if of}

    def findings(self) -> dict[str, Finding]:
        """What each scale says of it."""
        return {scale: self.find(result) for scale, result in self.results().items() if self.find}

    def here(self, scale: str, result: Mapping[str, Any]) -> str:
        """What was trained, when and where."""
        had = trained(result) if result["tasks"] else ""
        if not had and self.rules:
            had = budget(settings_of(self.rules[scale], *self.cell))
        return "; ".join(filter(None, [had, machine(result)]))

    @property
    def command(self) -> str:
        needed = [name for name, option in recipes.options(*self.recipe.split()).items() if option.required]
        scale = next(iter(self.results()), "laptop")
        return " ".join(
            ["lengthwise reproduce", self.recipe, "--scale", scale, *(f"--set {name}=…" for name in needed)]
        )


def joined(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Cells of one table, run at different times, as one record of it: of its panels those of rows with names."""
    whole, *others = results
    for other in others:
        whole["tasks"] += other["tasks"]
        for what, values in other["provenance"].items():
            whole["provenance"][what] += values
        for ours in whole["panels"]:
            theirs = next((p for p in other["panels"] if p["title"] == ours["title"]), None)
            if theirs and isinstance(ours["data"], list):
                rows = [*ours["data"], *theirs["data"]]
                ours["data"] = _rows(rows) if all("row" in line for line in rows) else ours["data"]
    return whole


def _rows(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of one name beside each other, and as one row where they have cells.

    >>> a, b, more = {"row": "a", "cells": {"x": 1}}, {"row": "b", "cells": {}}, {"row": "a", "cells": {"y": 2}}
    >>> _rows([a, b, more])
    [{'row': 'a', 'cells': {'x': 1, 'y': 2}}, {'row': 'b', 'cells': {}}]
    >>> _rows([{"row": "a", "n": 1}, {"row": "b", "n": 2}, {"row": "a", "n": 3}])
    [{'row': 'a', 'n': 1}, {'row': 'a', 'n': 3}, {'row': 'b', 'n': 2}]
    """
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        alike = by_name.setdefault(row["row"], [])
        if "cells" in row and alike:
            alike[0] = {**alike[0], "cells": alike[0]["cells"] | row["cells"]}
        else:
            alike.append(row)
    return [row for alike in by_name.values() for row in alike]


def panel(result: Mapping[str, Any], title: str) -> Any:
    """The data of the panel whose title begins so."""
    return next(p["data"] for p in result["panels"] if p["title"].startswith(title))


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def span(values: Iterable[Any]) -> str:
    """
    >>> span([64, 64, 128]), span([1500, 4000, 1000]), span([])
    ('64 or 128', '1,000 to 4,000', '')
    """
    different = sorted(set(values), key=lambda value: (isinstance(value, str), value))
    said = [f"{value:,}" if isinstance(value, int) else str(value) for value in different]
    if len(said) > 2 and not isinstance(different[0], str):
        return f"{said[0]} to {said[-1]}"
    return " or ".join(said)


def budget(settings: Mapping[str, Any]) -> str:
    """What a network has, by the rules of a recipe."""
    rates = settings.get("learning_rates", [settings["training.lr"]] if "training.lr" in settings else [])
    widths = settings.get("widths", [settings["model.width"]] if "model.width" in settings else [])
    said = {
        "width": span(widths),
        "layers": span([settings["model.layers"]] if "model.layers" in settings else []),
        "steps": f"{settings['training.steps']:,} of {settings['training.batch']}",
        "rate": span(rates),
        "seeds": span([settings["seeds"]] if "seeds" in settings else []),
    }
    return ", ".join(f"{name} {value}" for name, value in said.items() if value)


def trained(result: Mapping[str, Any]) -> str:
    """What the networks had that a record is about."""
    models = [model for task in result["tasks"] for model in task["models"]]
    variants = {f"{m['model']} `{m['options']['variant']}`" for m in models if "variant" in m["options"]}
    said = {
        "variant": span(variants),
        "width": span(m["options"]["width"] for m in models if "width" in m["options"]),
        "steps": f"{span(m['training']['steps'] for m in models)} of {span(m['training']['batch'] for m in models)}",
        "rate": span(m["training"]["lr"] for m in models),
        "seeds": span(len(m["seeds"]) for m in models),
    }
    return ", ".join(f"{name} {value}" for name, value in said.items() if value)


def machine(result: Mapping[str, Any]) -> str:
    """When and where it was run.

    >>> machine({"provenance": {"cpu": ["AMD EPYC; cores 2, Linux, on cpu"], "date": ["2026-11-20", "2026-11-20"]}})
    '2026-11-20, AMD EPYC of 2 cores'
    >>> machine({"provenance": {"cpu": ["Xeon; cores 16, Linux, on NVIDIA H100"], "date": ["2026-11-27"]}})
    '2026-11-27, Xeon of 16 cores with NVIDIA H100'
    """
    made = result["provenance"]
    named = set[str]()
    for said in made["cpu"]:
        name, _, rest = said.replace("not recorded", "a CPU").partition("; cores ")
        device = rest.rpartition(", on ")[2]
        of = f" of {rest.partition(',')[0]} cores" if rest else ""
        named.add(name + of + (f" with {device}" if device not in ("", "cpu") else ""))
    dates = sorted(set(made["date"]))
    return f"{' to '.join(dict.fromkeys([dates[0], dates[-1]]))}, {' or '.join(sorted(named))}"


# Each kind of table


def compared(title: str) -> Callable[[dict[str, Any]], Finding]:
    """Cells with a published and a measured number, which the recipe has judged."""

    def find(result: dict[str, Any]) -> Finding:
        rows = panel(result, title)
        columns = list(dict.fromkeys(name for row in rows for name in row["cells"]))
        counts = Counter(cell["verdict"] for row in rows for cell in row["cells"].values())
        cells = [[row["row"], _majority(row), *(_cell(row["cells"].get(name)) for name in columns)] for row in rows]
        agreed, differ = counts["agrees"], counts["differs"]
        idle = counts.total() - agreed - differ
        verdict = NOTHING if not agreed + differ else DIFFERENT if not agreed else IN_PART
        verdict = REPRODUCED if agreed == counts.total() else verdict
        said = f"Of {counts.total()} cells {agreed} agree, {differ} differ and {idle} prove nothing."
        return Finding(verdict, said, markdown(["published → here", "a constant answer", *columns], cells))

    return find


def _majority(row: Mapping[str, Any]) -> str:
    """
    >>> _majority({"majority": 0.5, "published_majority": 0.75})
    '75.0 → 50.0'
    >>> _majority({"majority": 0.2, "published_majority": 0.2})
    '20.0'
    """
    return " → ".join(dict.fromkeys(percent(row[which]) for which in ("published_majority", "majority")))


def _cell(cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return "–"
    there = [name for name in ("max", "mean") if cell["published"].get(name) is not None]
    published = " / ".join(percent(cell["published"][name]) for name in there)
    here = " / ".join(percent(cell["measured"][name]) for name in there)
    return f"{published} → {here} {MARKS[cell['verdict']].split()[0]}"


def checkpoints(result: dict[str, Any]) -> Finding:
    """LRNN's Table 2: the cells, and the last and the best checkpoint of every model that was published."""
    whole = compared("Measured")(result)
    rows = [row for row in panel(result, "Both checkpoints") if row["published"] is not None]
    shown = []
    for row in rows:
        short, far = sorted(row["majority"], key=int)
        numbers = [_seeds(row[f"{which} at {n}"]) for which in ("last", "best") for n in (short, far)]
        majority, published = percent(row["majority"][far]), percent(row["published"])
        shown.append([f"{row['row']}, {row['model']}", str(row["seeds"]), majority, published, *numbers])
    head = ["", "seeds", "majority", "published", "last, 40", "last, 500", "best, 40", "best, 500"]
    text = (
        "Max / mean ± deviation over seeds, in %, after the last step and at the step that was best on validation "
        "strings of the training length. The released code takes the best of all evaluations on the test strings."
    )
    own = "; ".join(
        f"{row['row']} {percent(row[f'last at {far}']['mean'])} ({percent(row[f'best at {far}']['mean'])}), published "
        f"{percent(row['published'])}"
        for row in rows
        if row["model"] == lrnn.table_2.PUBLISHED[0]
        for far in [max(row["majority"], key=int)]
    )
    said = f"{whole.words} The paper's model after the last step (at the step best on validation): {own}."
    return whole._replace(words=said, table=f"{text}\n\n{markdown(head, shown)}")


def _seeds(score: Mapping[str, float | None]) -> str:
    most, mean, std = score["max"], score["mean"], score["std"]
    return percent(mean) if std is None else f"{percent(most)} / {percent(mean)} ± {100 * std:.1f}"


def chains(result: dict[str, Any]) -> Finding:
    """ChaCAL's Table 1: rows with a published number beside them, and those on shorter texts."""
    rows = panel(result, "Measured")
    beside = [row for row in rows if row["published"]]
    near = [abs(row["mean"] - row["published"][1] / 100) <= WITHIN for row in beside]
    said = f"{sum(near)} of {len(beside)} rows of the published length are within {100 * WITHIN:.0f} points."
    missing = len(chacal.chains.TOY) - len(beside)
    if any(row["seeds"] == 1 for row in beside):
        verdict, said = NOTHING, f"{said} They have one seed."
    else:
        verdict = REPRODUCED if all(near) and not missing else IN_PART if any(near) else DIFFERENT
        verdict = verdict if len(beside) > 1 else NOTHING  # without another model beside it
        said += f" The other {missing} have not been run." if missing else ""
    head = ["model", "tokens", "seeds", "published accuracy", "here"]
    cells = [
        [
            row["model"],
            str(row["tokens"]),
            str(row["seeds"]),
            f"{row['published'][1]:.1f}" if row["published"] else "–",
            percent(row["mean"]),
        ]
        for row in rows
    ]
    return Finding(verdict, said, markdown(head, cells))


def boxes(result: dict[str, Any]) -> Finding:
    """ChaCAL's Table 2, whose test here has smaller stories: only the order of the models is compared.

    It is one where every seed of a model is above all of the next, and another than the published one where so much is
    true of any two models that are published the other way round.
    """
    rows = [row for row in panel(result, "Measured") if row["form"] == "advanced"]
    beside = [row for row in rows if row["published"]]
    ours, published = (
        sorted(beside, key=score, reverse=True)
        for score in (lambda row: statistics.fmean(_whole_stories(row)), lambda row: row["published"][1])
    )
    one = any(row["seeds"] == 1 for row in beside)

    def above(a: dict[str, Any], b: dict[str, Any]) -> bool:
        return min(_whole_stories(a)) > max(_whole_stories(b))

    apart = all(above(a, b) for a, b in pairwise(ours))
    turned = [(a["model"], b["model"]) for b, a in combinations(published, 2) if above(a, b)]
    same = "is the published one" if ours == published else f"is {', '.join(row['model'] for row in ours)}"
    why = ", by one seed each" if one else "" if apart else ", and seeds differ by more than neighbouring models"
    said = f"The order of the models {same}{why}; the test has smaller stories."
    if turned and not one:
        said += f" Unlike the published ones, {', '.join(f'{a} is above {b}' for a, b in turned)} in every seed."
    head = ["model", "seeds", "published exact match", "here, on smaller stories"]
    cells = [
        [
            row["model"],
            str(row["seeds"]),
            f"{row['published'][1]:.1f}" if row["published"] else "–",
            percent(statistics.fmean(_whole_stories(row))),
        ]
        for row in rows
    ]
    verdict = NOTHING if one else DIFFERENT if turned else REPRODUCED if apart else NOTHING
    return Finding(verdict, said, markdown(head, cells))


def boxes_of_both_forms(result: dict[str, Any]) -> Finding:
    """The advanced form, which is compared, and beside it the default form, one seed each."""
    finding = boxes(result)
    folders = (ROOT / "results" / f"chacal-table-2-{form}-overnight" for form in ("default", "default-sum"))
    rows = [row for folder in folders for row in panel(report.recorded(folder), "Measured")]
    shares = "; ".join(f"{row['model']} {percent(row['mean'])}" for row in rows)
    said = f"Of stories of the default form, by one seed each, are right in %: {shares}."
    head = ["default form", "published exact match", "here, on smaller stories", "boxes that are right"]
    cells = [
        [
            row["model"],
            f"{row['published'][1]:.1f}" if row["published"] else "–",
            percent(row["mean"]),
            percent(row["drawn_as_trained"][0]["boxes"]),
        ]
        for row in rows
    ]
    return finding._replace(words=f"{finding.words} {said}", table=f"{finding.table}\n\n{markdown(head, cells)}")


def _whole_stories(row: Mapping[str, Any]) -> list[float]:
    """By seed the share of stories that are right, drawn as the published test draws them."""
    return [each["stories"] for each in row["drawn_as_trained"]]


def tuned(result: dict[str, Any]) -> Finding:
    """ChaCAL's Table 3: of another checkpoint on another text, so only ratios of perplexities are compared."""
    rows = panel(result, "Perplexity on held-out text")["rows"]
    cells = [
        [name, *("–" if x is None else f"{x:.2f}" for x in (row["published"], row["measured"])), *_ratios(row)]
        for name, row in rows.items()
    ]
    chain = rows["ChaCAL, trained on"]
    said = (
        f"Chain attention throughout costs ×{chain['measured_ratio']:.3f} of the perplexity after further training, "
        f"published ×{chain['published_ratio']:.3f}: one run, of a small GPT-2 of our own."
    )
    return Finding(NOTHING, said, markdown(["", "published", "here", "published, times", "here, times"], cells))


def _ratios(row: Mapping[str, float | None]) -> list[str]:
    return ["–" if (x := row[name]) is None else f"×{x:.3f}" for name in ("published_ratio", "measured_ratio")]


def gammas(result: dict[str, Any]) -> Finding:
    rows = panel(result, "γ, accuracy")
    cells = [[f"{row['gamma']:g}", percent(row["mean"]), f"{row['first_at_99'] or '–'}"] for row in rows]
    whole = [f"{row['gamma']:g}" for row in rows if row["mean"] >= 0.99]
    seeds = max(row["seeds"] for row in rows)
    said = (
        f"At least 99% at γ = {', '.join(whole)}, by {'one seed' if seeds == 1 else f'the mean of {seeds} seeds'} each."
    )
    verdict = NOTHING if seeds == 1 else NO_NUMBER
    return Finding(verdict, said, markdown(["γ", "accuracy", "steps to 99%"], cells))


def clusters(result: dict[str, Any]) -> Finding:
    rows = panel(result, "Every seed")
    right = sum(row["clusters"] == row["expected"] for row in rows)
    verdict = REPRODUCED if right == len(rows) else IN_PART if right else DIFFERENT
    cells = [
        [
            row["task"],
            str(row["seed"]),
            str(row["expected"]),
            str(row["clusters"]),
            percent(row["accuracy_beyond_training"]),
        ]
        for row in rows
    ]
    head = ["task", "seed", "published clusters", "here", "accuracy beyond training"]
    return Finding(verdict, f"{right} of {len(rows)} runs have as many clusters.", markdown(head, cells))


def fields(result: dict[str, Any]) -> Finding:
    data = panel(result, "Every seed")
    cells = [
        [task, model, ", ".join(f"{100 * seed['bend']:.0f}" for seed in seeds)]
        for task, models in data.items()
        for model, seeds in models.items()
    ]
    said = "Points off the straight line on which all tokens matter alike, a number a seed."
    return Finding(NO_NUMBER, said, markdown(["task", "model", "points"], cells))


def breaks(result: dict[str, Any]) -> Finding:
    """RegularGPT's Table 3: by how much perplexity rises where more groups run than in training."""
    rows = [row for row in panel(result, "Where RegularGPT") if row["beyond"] is not None]
    rises = [row["beyond"] / row["inside"] for row in rows]
    jumps = {}
    for name, by_length in panel(result, "Published").items():
        jumps[name] = max(b / a for a, b in pairwise(by_length.values()))
    jumped = [f"×{factor:.0f} ({name})" for name, factor in jumps.items() if factor > JUMP]
    said = (
        f"Published jumps of {' and '.join(jumped)} where one more group runs; here rises of ×{min(rises):.1f} to "
        f"×{max(rises):.1f}."
    )
    cells = [[row["model"], f"{row['expected']:,}", f"×{rise:.2f}"] for row, rise in zip(rows, rises, strict=True)]
    head = ["C/K here", "tokens it should hold to", "least perplexity beyond / greatest within"]
    one = len({row["seed"] for row in result["rows"]}) == 1
    verdict = NOTHING if one else REPRODUCED if min(rises) > JUMP else DIFFERENT
    return Finding(verdict, said, f"{markdown(head, cells)}\n\n{perplexities(result).table}")


def widths(result: dict[str, Any]) -> Finding:
    rows = panel(result, "Measured")
    cells = [
        [row["encoding"], str(row["width"]), str(row["seeds"]), str(row["published"]), percent(row["mean"])]
        for row in rows
    ]
    order = sorted(rows, key=lambda row: -row["mean"])
    first, one = [row["encoding"] for row in order[:2]], min(row["seeds"] for row in rows) == 1
    said = (
        f"Best are {' and '.join(first)}, by {'one seed' if one else 'the mean of all seeds'} each, on an easier task."
    )
    verdict = NOTHING if one else IN_PART if all(name.startswith("bipe") for name in first) else DIFFERENT
    table = markdown(["encoding", "width", "seeds", "published", "here"], cells)
    return Finding(verdict, said, f"{table}\n\n{other_lengths(panel(result, 'Shorter and longer'))}")


def other_lengths(chart: Mapping[str, Any]) -> str:
    """Figure 3's networks on problems of fewer and of more operators than those of their training."""
    cells = [[name.partition(",")[0], *map(percent, line["y"])] for name, line in chart["series"].items()]
    operators = next(iter(chart["series"].values()))["x"]
    return markdown(["all steps right, by operators", *(f"{n:.0f}" for n in operators)], cells)


def of_both_moduli(result: dict[str, Any]) -> Finding:
    """Figure 3 of BiPE, and beside it its published modulus, one seed each."""
    finding = widths(result)
    rows = panel(report.recorded(ROOT / "results" / "bipe-figure-3-modulo-11-laptop"), "Measured")
    shares = ", ".join(f"{row['encoding']} {percent(row['mean'])}" for row in rows)
    words = f"{finding.words} Modulo 11, with seed 0 alone, are right in %: {shares}."
    cells = [
        [
            row["encoding"],
            str(row["published"]),
            percent(row["mean"]),
            percent(1 - row["first_wrong"].get("1", 0) / row["chains"]),
            percent(row["valid"] / row["chains"]),
        ]
        for row in rows
    ]
    head = ["modulo 11", "published", "here", "whose first step is right", "whose steps are all right"]
    return finding._replace(words=words, table=f"{finding.table}\n\n{markdown(head, cells)}")


def perplexities(result: dict[str, Any]) -> Finding:
    rows = panel(result, "Beyond the trained length")
    lengths = list(dict.fromkeys(n for row in rows for n in row["times"]))
    cells = [
        [
            row["model"],
            f"{row['perplexity']:.1f}",
            *(f"×{row['times'][n]:.2f}" if n in row["times"] else "–" for n in lengths),
        ]
        for row in rows
    ]
    held = [row["model"] for row in rows if round(max(row["times"].values()), 2) <= 1.1]
    rises = sorted((row["times"][lengths[-1]], row["model"]) for row in rows if lengths[-1] in row["times"])
    least, most = (f"×{times:.2f} ({model})" for times, model in (rises[0], rises[-1]))
    said = (
        f"Within a tenth of the perplexity at the trained length: {', '.join(held) or 'none'}. "
        f"At {int(lengths[-1]):,} tokens from {least} to {most}."
    )
    head = ["encoding", "at the trained length", *(f"{int(n):,}" for n in lengths)]
    return Finding(NOTHING, said, markdown(head, cells))


PAIRS = {"Python's library": "bipe-figure-4-pairs-laptop", "English": "bipe-figure-4-english-laptop"}
STEPS = (100, 200, 300, 400, 500)


def with_pairs(result: dict[str, Any]) -> Finding:
    """BiPE's Figure 4: every encoding once, and with more seeds the pairs that the paper compares, as they learned."""
    finding, said, rows, tokens = perplexities(result), [], [], []
    for corpus, name in PAIRS.items():
        grown = panel(report.recorded(ROOT / "results" / name), "Beyond the trained length")
        records = report.inside(ROOT / "results" / name / "index.html")["records"]
        last = max(grown[0]["times"], key=int)
        ends = []
        for row in grown:
            times, mine = row["times"][last], [each for each in records if encoding_of(each) == row["model"]]
            ends.append(f"{row['model']} {row['perplexity'] * times:.1f} (×{times:.2f})")
            rows.append([corpus, row["model"], str(len(mine)), *(f"{exp(mean_loss(mine, n)):.0f}" for n in STEPS)])
        said.append(f"On {corpus}, at {int(last):,} tokens: {', '.join(ends)}.")
        tokens = [f"{n * tokens_a_step(records[0]):,}" for n in STEPS]
    by = f"The pairs that the paper compares, by the mean of {rows[0][2]} seeds each."
    learned = markdown(["windows of training, after tokens", "encoding", "seeds", *tokens], rows)
    return Finding(finding.verdict, " ".join([finding.words, by, *said]), f"{finding.table}\n\n{learned}")


def encoding_of(record: Mapping[str, Any]) -> str:
    model = record["experiment"]["model"]
    return f"{'bipe-' if model['name'] == 'bipe' else ''}{model['options']['position']}"


def tokens_a_step(record: Mapping[str, Any]) -> int:
    experiment = record["experiment"]
    return experiment["training"]["batch"] * experiment["data"]["text"]["block"]


def mean_loss(records: Sequence[Mapping[str, Any]], step: int, over: int = 50) -> float:
    """Of the windows of training, in the steps before this one and in it.

    >>> losses = {50: 9.0, 60: 3.0, 100: 1.0, 110: 9.0}
    >>> mean_loss([{"metrics": [{"kind": "train", "step": n, "loss": loss} for n, loss in losses.items()]}], 100)
    2.0
    """
    return statistics.fmean(
        row["loss"]
        for record in records
        for row in record["metrics"]
        if row["kind"] == "train" and step - over < row["step"] <= step
    )


def stretched(result: dict[str, Any]) -> Finding:
    """BiPE's Figure 5: each network as trained first, with YaRN alone, and trained further with it."""
    by_name = panel(result, "Perplexity by length")
    lengths = list(dict.fromkeys(n for of in by_name.values() for n in of))
    cells = [[name, *(f"{of[n]:.1f}" if n in of else "–" for n in lengths)] for name, of in by_name.items()]
    rises = [f"×{of[lengths[-1]] / of[lengths[0]]:.2f} ({name})" for name, of in by_name.items() if lengths[-1] in of]
    first, last = int(lengths[0]), int(lengths[-1])
    said = f"At {last:,} tokens, {last // first} times the first length, {', '.join(rises)}."
    return Finding(NOTHING, said, markdown(["perplexity", *(f"{int(n):,}" for n in lengths)], cells))


def newest(result: dict[str, Any]) -> Finding:
    """RegularGPT's Figure 4b: how many of the newest tokens hold most of the gradient."""
    rows = panel(result, "How far back")
    cells = [[name, str(row["newest_90"]), str(row["newest_99"])] for name, row in rows.items()]
    said = "Of 512 tokens the newest that hold 90% of the last answer's gradient: "
    said += ", ".join(f"{row['newest_90']} ({name})" for name, row in rows.items()) + "."
    return Finding(NO_NUMBER, said, markdown(["network", "90%", "99%"], cells))


def corpora(result: dict[str, Any]) -> Finding:
    rows = [p["data"] for p in result["panels"] if p["title"].startswith("By length")]
    cells = [
        [f"{row['corpus']}", f"{row['tokens']:,}", f"{100 * row['change']:.1f}", f"{row['growth']:.2f}"] for row in rows
    ]
    worst = max(row["change"] for row in rows)
    said = (
        f"The shares of any set of lengths differ by at most {100 * worst:.1f} points between windows, "
        f"in {len(rows)} corpora."
    )
    head = ["corpus", "tokens", "change of the shares, points", "growth of the number of segments, 1: linear"]
    return Finding(NO_NUMBER, said, markdown(head, cells))


def pictured(result: dict[str, Any]) -> Finding:
    """A figure of curves, of which none has a number to compare: they are on the page of the table's runs."""
    return Finding(NO_NUMBER, "Its curves are on the page of the same runs.")


def elsewhere(find: Callable[[dict[str, Any]], Finding]) -> Callable[[dict[str, Any]], Finding]:
    """The same without its table, which stands at another item."""
    return lambda result: find(result)._replace(table="")


def said_of(numbers: Mapping[str, Any]) -> str:
    return ", ".join(f"{number} {name}" for name, number in numbers.items())


TUNED = chacal.table_3.PAPER.settings()
FIGURE_4 = ", ".join(f"{name} {p:g} at {n:,} tokens" for name, (n, p) in bipe.figure_4.PUBLISHED.items())
LENGTHS = {
    q.label: settings_of(lrnn.table_2.RULES["paper"], task, "block-lrnn") for task, q in lrnn.table_2.TASKS.items()
}
LETTERS = (regulargpt.table_1.RULES, ("parity", "regular-gpt C=2"))
"""RegularGPT's settings on regular languages."""
ITEMS = (
    Item("RegularGPT", "Table 1", "regulargpt table-1", compared("Measured"), *LETTERS, parts=("narrow",)),
    Item("RegularGPT", "Table 2", "regulargpt table-2", compared("Other shares"), *LETTERS),
    Item("RegularGPT", "Table 3", "regulargpt table-3", breaks, regulargpt.table_3.RULES),
    Item(
        "RegularGPT",
        "Figure 3",
        "regulargpt figure-3",
        clusters,
        *LETTERS,
        numbers=", ".join(f"{n} clusters on {task}" for task, n in regulargpt.figure_3.PUBLISHED.items()),
    ),
    Item("RegularGPT", "Figure 4a", "regulargpt figure-4", fields, *LETTERS, numbers="a picture"),
    Item("RegularGPT", "Figure 4b", "regulargpt figure-4b", newest, regulargpt.table_3.RULES, numbers="a picture"),
    Item(
        "Linear RNN",
        "Table 2",
        "lrnn table-2",
        checkpoints,
        lrnn.table_2.RULES,
        ("modular-sum", "block-lrnn"),
        numbers="steps, batch and rate by the released code; "
        + "; ".join(f"{name}: layers {s['model.layers']}, rate {s['training.lr']:g}" for name, s in LENGTHS.items()),
        parts=("s4", "expressions"),
    ),
    Item("ChaCAL", "Table 1", "chacal table-1", chains, chacal.chains.RULES),
    Item("ChaCAL", "Figure 3", "chacal table-1", pictured, numbers="curves of the runs of Table 1"),
    Item(
        "ChaCAL",
        "Table 2",
        "chacal table-2",
        boxes_of_both_forms,
        chacal.table_2.RULES,
        ("advanced", "*"),
        numbers=f"default form: seeds {settings_of(chacal.table_2.RULES['paper'], 'default', '*')['seeds']}",
    ),
    Item("ChaCAL", "Figure 4", "chacal table-2", pictured, numbers="curves of the advanced form of Table 2"),
    Item(
        "ChaCAL",
        "Table 3",
        "chacal table-3",
        tuned,
        numbers=f"steps {TUNED['steps']:,} of {TUNED['batch']}, rate {TUNED['lr']:g}, seeds 1; "
        f"perplexity {said_of(chacal.table_3.PUBLISHED)}",
    ),
    Item("ChaCAL", "Figure 5", "chacal figure-5", gammas, chacal.chains.RULES, numbers="a picture"),
    Item("BiPE", "Figure 1", "bipe figure-1", corpora, numbers="a picture, of PG19"),
    Item("BiPE", "Figure 3", "bipe figure-3", of_both_moduli, bipe.figure_3.RULES),
    Item(
        "BiPE", "Figure 4", "bipe figure-4", with_pairs, bipe.figure_4.RULES, numbers=f"perplexity of PG19: {FIGURE_4}"
    ),
    Item(
        "BiPE",
        "Figure 5",
        "bipe figure-5",
        stretched,
        bipe.figure_4.RULES,
        numbers="a picture, after more training with YaRN",
    ),
    Item("BiPE", "Figure 6", "bipe figure-6", perplexities, bipe.figure_4.RULES, numbers="a picture"),
    Item("BiPE", "Figures 7 and 8", "bipe figure-1", elsewhere(corpora), numbers="pictures, of arXiv and PRM800K"),
    Item("BiPE", "Figure 9", "bipe figure-9", perplexities, bipe.figure_4.RULES, numbers="a picture"),
    Item(
        "BiPE",
        "Table 1",
        "bipe table-1",
        None,
        bipe.table_1.RULES,
        numbers="average of seven tasks " + said_of({name: each[-1] for name, each in bipe.table_1.PUBLISHED.items()}),
    ),
    Item(
        "BiPE",
        "Table 2",
        "bipe table-2",
        None,
        numbers="RACE " + said_of({name: each[0] for name, each in bipe.table_2.PUBLISHED.items()}),
    ),
)


# The page


def overview() -> Iterator[list[str]]:
    for item in ITEMS:
        scale, finding = next(iter(item.findings().items()), ("–", Finding(NOT_RUN, item.words.get("why", ""))))
        link = f"[{item.title}](#{anchor(item.title)})"
        yield [link, item.words["shows"], f"**{finding.verdict}**", scale, finding.words]


def anchor(title: str) -> str:
    """
    >>> anchor("RegularGPT, Table 1")
    'regulargpt-table-1'
    """
    return title.lower().replace(",", "").replace(" ", "-")


def section(item: Item) -> str:
    results, findings = item.results(), item.findings()
    parts = [f"### {item.title}", f"{item.words['shows']}.", f"- Published: {item.published}."]
    for scale in findings:
        pages = " and ".join(
            f"[page and records](../results/{folder.name}/index.html)" for folder in item.folders(scale)
        )
        parts[-1] += f"\n- Here, `{scale}`: {item.here(scale, results[scale])}; {pages}."
    parts[-1] += f"\n- Run it: `{item.command}`"
    for scale in SCALES if item.find else ():
        if scale in findings:
            verdict, words, table = findings[scale]
            said = f"**{verdict.capitalize()}** (`{scale}`). {words} {item.words.get(scale, '')}"
            parts += [said.strip(), table]
            # A figure whose table stands at another item has its steps there too.
            parts += [by_steps(item.folders(scale)[0] / "by-steps.json")] if table else []
    parts += [] if findings else [f"**{NOT_RUN.capitalize()}.**"]
    return "\n\n".join(filter(None, [*parts, item.words.get("why")]))


def by_steps(file: Path) -> str:
    """Accuracy by training steps, of all seeds, where a folder has that."""
    if not file.exists():
        return ""
    found = json.loads(file.read_text(encoding="utf-8"))
    compared = [run for run in found["runs"] if "published" in run]
    best = [abs(max(run["accuracy"]) - run["published"]) <= WITHIN for run in compared]
    counted = compared and (
        f" Counted so, {sum(best)} of {len(best)} runs are within {100 * WITHIN:.0f} points of the published number."
    )
    steps = [step for step in found["steps"] if step in found["shown"]]
    rows = []
    for run in found["runs"]:
        at = dict(zip(found["steps"], run["accuracy"], strict=False))
        rows.append([run["name"], *(percent(at[n]) if n in at else "–" for n in steps), percent(max(run["accuracy"]))])
    head = [f"{found['what']} after steps", *(f"{n:,}" for n in steps), "best of these evaluations"]
    return f"{found['caption']}{counted or ''}\n\n{markdown(head, rows)}"


def text() -> str:
    verdicts = Counter(next(iter(item.findings().values()), Finding(NOT_RUN, "")).verdict for item in ITEMS)
    counts = ", ".join(f"{verdicts[verdict]} {words}" for verdict, words in COUNTED.items() if verdicts[verdict])
    head = markdown(["", "shows", "verdict", "scale", "what came out"], overview())
    parts = [WORDS["head"].strip().format(items=len(ITEMS), counts=counts), head]
    for paper in dict.fromkeys(item.paper for item in ITEMS):
        parts += [f"## {WORDS[paper]['title']}", *(section(item) for item in ITEMS if item.paper == paper)]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
