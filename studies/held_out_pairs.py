"""The words of S3×S3 with pairs of neighbouring generators held out: who puts together what was never side by side?

The question is that of arXiv 2606.07254: trained on words of at most 8 generators, in none of which certain ordered
pairs are side by side, and tested on words that all have one, up to a million long. There the state is projected on
the group by hand, and 250 of 250 words are right at each length, over 5 seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial

from hundred_thousand_tokens import LengthScore, to_json

from lengthwise import lab, tasks, verify
from lengthwise.lab import Experiment, Run
from lengthwise.recipes import Cell, Grid, Model, Recipe, Scale, loaded
from lengthwise.report import Panel, Table, percent

PAIRS = [[0, 2], [3, 1], [4, 5]]
"""Of the six generators of S3×S3 (a swap, a turn, in either factor, and the turns back)."""
MODELS: dict[str, Model] = {
    "automaton": Model("block-lrnn", {"model.variant": "automaton", "model.width": 24, "model.block": 8}),
    "pd-ssm": Model("pd-ssm", {"model.layers": 1}),
    "delta-product": Model("delta-product", {}),
    "lstm": Model("lstm", {}),
}
SEEDS: dict[Scale, int] = {"smoke": 1, "laptop": 3, "paper": 5}
STEPS: dict[Scale, int] = {"smoke": 4, "laptop": 2000, "paper": 10_000}
STRINGS: dict[Scale, dict[int, int]] = {
    "smoke": {8: 4, 32: 4},
    "laptop": {8: 250, 1024: 250, 65_536: 16},
    "paper": {8: 250, 1024: 250, 65_536: 250, 1_000_000: 250},
}
"""How many words of each length, of every seed."""
BUDGETS: dict[Scale, float] = {"smoke": 1.0, "laptop": 20.0, "paper": 300.0}
CAPTION = (
    "Right words in %, over all seeds: each word has a pair that no training word has. verdicts: of the networks as "
    "training left them, after {seconds:g} s each; proved is right at every length."
)


def recipe(scale: Scale) -> Recipe:
    """S3×S3 from words of 8 generators to a million, with pairs of neighbours held out of training."""

    def report(finished: Mapping[str, list[Run]], device: str) -> list[Panel]:
        rows, data = [], {}
        for model, runs in finished.items():
            networks = loaded(runs, device)
            scores = {n: LengthScore.of(networks, task(), n, count, device) for n, count in STRINGS[scale].items()}
            verdicts = [
                verify.certify(network, verify.claim_of(task()), BUDGETS[scale]).to_json() for network in networks
            ]
            words = Counter(verdict["verdict"] for verdict in verdicts)
            shares = [percent(score.mean) for score in scores.values()]
            rows.append([model, *shares, ", ".join(f"{count} {word}" for word, count in words.items())])
            data[model] = {"scores": to_json(scores), "verdicts": [verdict["verdict"] for verdict in verdicts]}
        head = ["model", *(f"{n:,}" for n in STRINGS[scale]), "verdicts"]
        return [Table("Words of S3×S3", CAPTION.format(seconds=BUDGETS[scale]), head, rows, data=data)]

    return Recipe(
        title="S3×S3 with pairs held out",
        description=__doc__ or "",
        grid=Grid([Cell(model, partial(planned, scale, model), label=model) for model in MODELS]),
        report=report,
    )


def task() -> tasks.Task:
    return tasks.get("word-problem", group="S3xS3", generators="inverses", supervision="prefix", held_out_pairs=PAIRS)


def planned(scale: Scale, model: str) -> list[Experiment]:
    small = {"training.batch": 8, "training.validation_samples": 16, "tests.samples": 4} if scale == "smoke" else {}
    training = {"training.lengths": [2, 8], "training.steps": STEPS[scale], "training.lr": 0.004}
    return lab.plan(
        task(),
        [MODELS[model].preset],
        seeds=SEEDS[scale],
        test_lengths=[8],
        settings={**training, **small, **MODELS[model].settings},
    )
