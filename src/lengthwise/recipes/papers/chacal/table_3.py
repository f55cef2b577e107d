"""Table 3: perplexity of a pre-trained GPT-2: as it is, trained on, and trained on with chain attention throughout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

from ....lab import Experiment, Run, Training, plan_further
from ....options import above, at_least
from ....report import Panel, Table, line_chart
from ...base import Recipe, Scale
from ...common.grid import Cell, Grid
from ...common.rules import table_of_differences

GAMMA = 0.9
CHAIN = {"name": "chain", "gamma": GAMMA}
"""Chain attention in every layer."""
PUBLISHED = {"as it is": 23.78, "trained on": 20.15, "ChaCAL, trained on": 21.46}
"""GPT-2 (124M) on a subset of OpenWebText, one run each."""
PAPER = Training.of(
    steps=10_000,
    batch=256,
    optimizer="adamw",
    lr=5e-5,
    betas=(0.9, 0.98),
    weight_decay=0.1,
    warmup=2_000,
    schedule="constant",
    fused=False,
    checkpoint_every=100,
)
"""As published, but for what the paper leaves open: block, clip, schedule after the warm-up, precision."""
PAPER_BLOCK = 512
"""Tokens. With it the published steps read the published text slightly more than twice, as the paper says."""
TOLD = ("steps", "batch", "block", "lr", "betas", "weight_decay", "warmup", "clip", "precision")
"""The settings in which a run is compared with the paper's."""


class TuningSetting(NamedTuple):
    training: Training
    block: int
    held_out: float
    """The share of documents that is tested on; published: 1,100 of 551,100."""
    test_blocks: int | None


SETTINGS: dict[Scale, TuningSetting] = {
    "smoke": TuningSetting(PAPER.but(steps=4, batch=4, warmup=0, checkpoint_every=2), 16, 0.1, 8),
    "laptop": TuningSetting(PAPER.but(steps=100, batch=8, warmup=0, checkpoint_every=20), 128, 0.05, 64),
    "paper": TuningSetting(PAPER, PAPER_BLOCK, 0.002, None),
}


def recipe(
    scale: Scale,
    *,
    checkpoint: Annotated[str, "A folder, or a name on the Hugging Face hub."],
    text: Annotated[Sequence[str], "A file or folder to train on; repeat it for more."],
    test: Annotated[Sequence[str], "A file or folder to test on, instead of a share of the text."] = (),
    steps: Annotated[int | None, at_least(1), "How many steps are trained; None: as the scale says."] = None,
    batch: Annotated[int | None, at_least(1), "How many blocks a step has; None: as the scale says."] = None,
    block: Annotated[int | None, at_least(2), "How many tokens a block has; None: as the scale says."] = None,
    lr: Annotated[float | None, above(0), "The learning rate; None: the published one."] = None,
    precision: Annotated[Literal["fp32", "bf16"] | None, "The number format; None: the published one."] = None,
    tokens_at_once: Annotated[int, at_least(1), "How many tokens are in memory at a time."] = 4096,
    threads: Annotated[int, at_least(1), "Threads of torch, for each of the two runs."] = 1,
) -> Recipe:
    """Perplexity of a GPT-2 checkpoint, with its own attention and with ChaCAL: --set checkpoint=… --set text=….

    The options that are None are as the scale says. Without `test` a share of the text is held out for the test.
    """
    setting = SETTINGS[scale]
    overrides = {"steps": steps, "batch": batch, "lr": lr, "precision": precision, "threads": threads}
    changed = {name: value for name, value in overrides.items() if value is not None}
    # The published warm-up is a fifth of the steps.
    warmup = changed.get("steps", setting.training.steps) // 5
    training = setting.training.but(**changed, warmup=max(0, warmup))
    setting = setting._replace(training=training, block=setting.block if block is None else block)

    def planned() -> list[Experiment]:
        return [
            experiment
            for conversions in ([], [CHAIN])
            for experiment in plan_further(
                checkpoint,
                text,
                conversions,
                train_length=setting.block,
                test=test,
                test_blocks=setting.test_blocks,
                training=setting.training,
                settings={"text.held_out": setting.held_out, "objective.tokens_at_once": tokens_at_once},
            )
        ]

    return Recipe(
        title="ChaCAL, Table 3: a pre-trained GPT-2 on natural text",
        description=(
            "Chain attention replaces the attention in every layer of a pre-trained model. Both models are then "
            "trained further for a while. How close does the changed model come to the other on ordinary text, though "
            "its weights were learned with another attention? The published numbers are those of GPT-2 (124M "
            "parameters) on OpenWebText. The measured numbers belong to the checkpoint and the text that were given."
        ),
        grid=Grid([Cell("both", planned)]),
        report=lambda finished, device: panels(checkpoint, setting, finished["both"]),
    )


def panels(checkpoint: str, setting: TuningSetting, runs: Sequence[Run]) -> list[Panel]:
    """The table, the curves, and what is not as published; nothing while one of the two runs is missing."""
    by_conversion = {bool(run.experiment.model.options): run for run in runs}
    if len(by_conversion) < 2:
        return []
    standard, chain = by_conversion[False], by_conversion[True]
    perplexities = {
        "as it is": _perplexity(standard, "before"),
        "trained on": _perplexity(standard, "last"),
        "ChaCAL, not trained on": _perplexity(chain, "before"),
        "ChaCAL, trained on": _perplexity(chain, "last"),
    }
    data = {
        name: {
            "published": PUBLISHED.get(name),
            "measured": value,
            "published_ratio": PUBLISHED[name] / PUBLISHED["trained on"] if name in PUBLISHED else None,
            "measured_ratio": value / perplexities["trained on"],
        }
        for name, value in perplexities.items()
    }
    rows = [[name, *(_number(number) for number in row.values())] for name, row in data.items()]
    result, model, text = standard.result, standard.experiment.model, standard.experiment.data
    counts = " and ".join(f"{result['documents'][side]:,} to {side} on" for side in ("train", "test"))
    table = Table(
        "Perplexity on held-out text",
        f"Of the checkpoint {checkpoint} ({result['parameters']:,} parameters, digest {str(model.source)[:12]}), "
        f"on {result['test_tokens']:,} tokens of documents held out whole: {counts}. Training read its text "
        f"{result['epochs']:.3g} times. The published numbers are of OpenAI's GPT-2 on OpenWebText. Unless these are "
        "what was given, compare the ratios (× the model trained on as it is), not the numbers. "
        f"γ = {GAMMA} in every layer. The trained models: {standard.path / 'model'} and {chain.path / 'model'}.",
        ["", "published", "measured", "× published", "× measured"],
        rows,
        data={"rows": data, "checkpoint": model.source, "text": getattr(text, "digests", {})},
    )
    curves = line_chart(
        "Loss on the training text",
        "Chain attention starts from weights that were learned with softmax attention.",
        "step",
        "loss",
        {
            name: ([row["step"] for row in run.metrics], [row["loss"] for row in run.metrics])
            for name, run in (("as it is", standard), ("ChaCAL", chain))
        },
    )
    return [table, curves, *_differences(setting)]


def _perplexity(run: Run, checkpoint: str) -> float:
    return run.result["checkpoints"][checkpoint]["perplexity"]


def _differences(setting: TuningSetting) -> list[Panel]:
    """What differs from the published settings, or nothing."""
    published = {**PAPER.settings(), "block": PAPER_BLOCK}
    used = {**setting.training.settings(), "block": setting.block}
    rows = [{"setting": name, "published": published[name], "here": used[name]} for name in TOLD]
    return table_of_differences(
        "What is not as published",
        "The paper does not state the block (512 tokens fit its number of epochs), the learning rate after the "
        "warm-up (here it stays the same), or clipping (here at norm 1). It mentions dropout; here there is none, "
        "because chain attention has no dropout on its weights.",
        [row for row in rows if row["published"] != row["here"]],
    )


def _number(number: float | None) -> str:
    return "–" if number is None else f"{number:.4g}"
