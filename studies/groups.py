"""Words of groups: S3×S3 with pairs of neighbouring generators held out of training, and A5 and S5 of two generators.

The question of S3×S3 is that of arXiv 2606.07254: trained on words of at most 8 generators, in none of which certain
ordered pairs are side by side, and tested on words that all have one, up to 2^20 long. There the state is
projected on the group by hand, and 250 of 250 words are right at each length, over 5 seeds. A5 and S5 are the smallest
groups that are not solvable; their words have up to 40 generators in training.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any, NamedTuple

from hundred_thousand_tokens import LengthScore, to_json

from lengthwise import lab, tasks
from lengthwise.lab import Experiment, Run
from lengthwise.recipes import Cell, Grid, Model, Recipe, Scale, loaded
from lengthwise.recipes.proof import networks, scales
from lengthwise.report import Panel, Table, percent

PAIRS = [[0, 2], [3, 1], [4, 5]]
"""Of the six generators of S3×S3 (a swap, a turn, in either factor, and the turns back)."""
FAST = ("automaton", "pd-ssm", "lstm")
"""The models of words of 40 generators too; delta-product takes six minutes of a core for a network there."""


class Group(NamedTuple):
    params: dict[str, Any]
    longest: int
    """The most generators of a word in training."""
    seeds: int
    """At laptop scale."""
    automaton: dict[str, Any]
    """Settings of the automaton's own: wide blocks have many functions that look right on the pairs that were seen."""
    models: tuple[str, ...]


GROUPS = {
    "S3×S3": Group(
        {"group": "S3xS3", "generators": "inverses", "held_out_pairs": PAIRS},
        8,
        5,
        {"model.width": 126, "model.block": 3},
        (*FAST, "delta-product"),
    ),
    "A5": Group({"group": "A5", "generators": "standard"}, 40, 3, {}, FAST),
    "S5": Group({"group": "S5", "generators": "standard"}, 40, 3, {}, FAST),
}
FIRST_SEED = 30
"""Of automata: others than those on which their settings were found."""
MODELS: dict[str, Model] = {
    "automaton": Model(
        "block-lrnn",
        {
            "model.variant": "automaton",
            "model.width": 128,
            "model.block": 8,
            "training.steady": "on",
            "training.lr": 0.003,
            "training.amsgrad": True,
        },
    ),
    "pd-ssm": Model("pd-ssm", {"model.layers": 1}),
    "delta-product": Model("delta-product", {}),
    "lstm": Model("lstm", {}),
}
CONSOLIDATED = "automaton"
"""The model of which a network that is not proved as it was learned is consolidated."""
STEPS: dict[Scale, int] = {"smoke": 4, "laptop": 4000, "paper": 10_000}
VARIED = 0.5
"""The share of training words that repeat some generators: on uniform ones a network may stay at short words of S5."""
STRINGS: dict[Scale, dict[int, int]] = {
    "smoke": {8: 4, 32: 4},
    "laptop": {8: 250, 1024: 250, 65_536: 16, 1_048_576: 1},
    "paper": {8: 250, 1024: 250, 65_536: 250, 1_048_576: 250},
}
"""How many words of each length, of every seed."""
GUESS = 0.1
"""Of models that are right on fewer words of a length no longer ones are asked."""
BUDGETS: dict[Scale, scales.Budget] = {
    "smoke": scales.Budget(1.0, 1.0),
    "laptop": scales.Budget(20.0, 60.0),
    "paper": scales.Budget(300.0, 900.0),
}
CAPTION = (
    "Right words in %, over all seeds; –: not asked, for fewer than a tenth of shorter ones are. Of S3×S3 each word "
    "has a pair that no training word has. learned: verdicts on networks as training left them, after {certify:g} s "
    "each; consolidated: on copies of automata that are not proved so, which were taught the algebra of their machine "
    "for at most {consolidate:g} s. Proved: right at every length."
)


def recipe(scale: Scale) -> Recipe:
    """Words of S3×S3 from 8 generators to 2^20, with pairs of neighbours held out of training; of A5 and S5."""

    def report(finished: Mapping[tuple[str, str], list[Run]], device: str) -> list[Panel]:
        rows, data = [], []
        for (group, model), runs in finished.items():
            scores = _scores(scale, group, runs, device)
            question = networks.NetworkQuestion(BUDGETS[scale], None, consolidate=model == CONSOLIDATED)
            found = [networks.networks(run, question, device) for run in runs]
            shares = [percent(scores[n].mean) if n in scores else "–" for n in STRINGS[scale]]
            rows.append([group, model, *shares, *_verdicts(found)])
            decided = [[asdict(each) for each in of_run] for of_run in found]
            data.append({"group": group, "model": model, "scores": to_json(scores), "networks": decided})
        head = ["group", "model", *(f"{n:,}" for n in STRINGS[scale]), "learned", "consolidated"]
        caption = CAPTION.format(**BUDGETS[scale]._asdict())
        return [Table("Words of groups", caption, head, rows, data=data, labels=2, finding=_finding(data))]

    return Recipe(
        title="Words of groups",
        description=__doc__ or "",
        grid=Grid(
            [
                Cell((group, model), partial(planned, scale, group, model), label=group)
                for group, of in GROUPS.items()
                for model in of.models
            ]
        ),
        report=report,
    )


def task(group: str) -> tasks.Task:
    return tasks.get("word-problem", supervision="prefix", **GROUPS[group].params)


def planned(scale: Scale, group: str, model: str) -> list[Experiment]:
    small = {"training.batch": 8, "training.validation_samples": 16, "tests.samples": 4} if scale == "smoke" else {}
    longest = GROUPS[group].longest
    training = {
        "training.lengths": [2, longest],
        "training.varied": VARIED,
        "training.steps": STEPS[scale],
        "training.lr": 0.004,
    }
    own = GROUPS[group].automaton if model == CONSOLIDATED else {}
    experiments = lab.plan(
        task(group),
        [MODELS[model].preset],
        seeds=1 if scale == "smoke" else max(5 if scale == "paper" else 0, GROUPS[group].seeds),
        test_lengths=[longest],
        settings={**training, **small, **MODELS[model].settings, **own},
    )
    return [replace(e, seed=e.seed + FIRST_SEED) for e in experiments] if model == CONSOLIDATED else experiments


def _scores(scale: Scale, group: str, runs: list[Run], device: str) -> dict[int, LengthScore]:
    """Returns how they did at every length, up to the first at which they hardly ever are right."""
    models, scores = loaded(runs, device), dict[int, LengthScore]()
    for n, count in STRINGS[scale].items():
        scores[n] = LengthScore.of(models, task(group), n, count, device)
        if scores[n].mean < GUESS:
            break
    return scores


def _finding(data: list[dict[str, Any]]) -> str:
    """Says of how many automata a proof was found, as learned or consolidated."""
    automata = [of_run for line in data if line["model"] == CONSOLIDATED for of_run in line["networks"]]
    proved = [of_run for of_run in automata if of_run[-1]["raw"] == "proved" and of_run[-1]["made"] != "compiled"]
    return f"Of {len(automata)} automata {len(proved)} are proved right at every length, learned or consolidated."


def _verdicts(found: list[list[networks.ProofNetwork]]) -> list[str]:
    """Returns how many have which verdict as they were learned, and how many once consolidated."""
    learned = Counter(first.raw for first, *_ in found)
    taught = Counter(
        each.raw if each.made == "consolidated" else f"{each.raw}, {each.made}"
        for _, *copies in found
        for each in copies
    )
    return [", ".join(f"{count} {word}" for word, count in words.items()) or "–" for words in (learned, taught)]
