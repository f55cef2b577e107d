"""Table 3: perplexity of a pre-trained GPT-2: as it is, trained on, and trained on with chain attention throughout."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal, NamedTuple

from ... import convert
from ...lab.language import FineTuned, FineTuning, fine_tune
from ...models import pretrained
from ...models.pretrained import Checkpoint
from ...options import above, at_least
from ...report import Panel, line_chart, text_table
from ...text import PackedText, documents, pack_train_and_test, tokenizers
from ..base import Place, Recipe, Scale

GAMMA = 0.9
CHAIN = {"name": "chain", "gamma": GAMMA}
"""Chain attention in every layer."""
PUBLISHED = {"as it is": 23.78, "trained on": 20.15, "ChaCAL, trained on": 21.46}
"""GPT-2 (124M) on a subset of OpenWebText, one run each."""
PAPER = FineTuning()


class Setting(NamedTuple):
    training: FineTuning
    held_out: float
    """The share of documents that is tested on; published: 1,100 of 551,100."""
    test_blocks: int | None
    checkpoint_every: int


SETTINGS: dict[Scale, Setting] = {
    "smoke": Setting(dataclasses.replace(PAPER, steps=4, batch=4, block=16), 0.1, 8, 2),
    "laptop": Setting(dataclasses.replace(PAPER, steps=100, batch=8, block=128), 0.05, 64, 20),
    "paper": Setting(PAPER, 0.002, None, 100),
}


def table_3(
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
) -> Recipe:
    """Perplexity of a GPT-2 checkpoint and of the same with chain attention: --set checkpoint=… --set text=….

    `checkpoint`: a folder, or a name on the Hugging Face hub. `text`: files or folders. `test`: those to test on, where
    not a share of the text is to be held out. The rest: in place of the scale's own.
    """
    setting = SETTINGS[scale]
    asked = {"steps": steps, "batch": batch, "block": block, "lr": lr, "precision": precision}
    changed = {name: value for name, value in asked.items() if value is not None}
    training = dataclasses.replace(setting.training, **changed)
    # The published warm-up is a fifth of the steps.
    training = dataclasses.replace(training, warmup=training.steps // 5)
    setting = setting._replace(training=training)

    def work(place: Place) -> list[Panel]:
        found = pretrained.find(checkpoint)
        convert.load(found, [CHAIN])  # One that cannot be converted is refused before anything is trained.
        texts = _texts(found, setting, text, test)
        tune = partial(
            fine_tune,
            found,
            texts,
            training,
            root=place.root,
            device=place.device,
            checkpoint_every=setting.checkpoint_every,
            tokens_at_once=tokens_at_once,
            advance=place.advance,
        )
        return panels(found, texts, setting, tune(), tune(conversions=[CHAIN]))

    return Recipe(
        title="ChaCAL, Table 3: a pre-trained GPT-2 on natural text",
        description=(
            "Attention is replaced in every layer of a pre-trained model, which is then trained on for a while, as is "
            "the model itself. The question is how near the one comes to the other on ordinary text, though its "
            "weights were learned with another attention. The published numbers are GPT-2's (124M parameters) on "
            "OpenWebText; those measured here are of the checkpoint and the text that were given."
        ),
        experiments=[],
        work=work,
    )


def _texts(checkpoint: Checkpoint, setting: Setting, text: Sequence[str], test: Sequence[str]) -> PackedText:
    tokenizer, block = tokenizers.load(checkpoint.folder, checkpoint.name), setting.training.block
    checkpoint.check(tokenizer, block)
    train, held = documents.read(text), documents.read(test) if test else []
    if not held:
        train, held = documents.split(train, setting.held_out)
    return pack_train_and_test(train, held, tokenizer, block, setting.test_blocks)


def panels(
    checkpoint: Checkpoint, texts: PackedText, setting: Setting, standard: FineTuned, chain: FineTuned
) -> list[Panel]:
    """The table, the curves, and what is not as published."""
    measured = {
        "as it is": standard.result["before"],
        "trained on": standard.result["after"],
        "ChaCAL, not trained on": chain.result["before"],
        "ChaCAL, trained on": chain.result["after"],
    }
    data = {
        name: {
            "published": PUBLISHED.get(name),
            "measured": value,
            "published_ratio": PUBLISHED[name] / PUBLISHED["trained on"] if name in PUBLISHED else None,
            "measured_ratio": value / measured["trained on"],
        }
        for name, value in measured.items()
    }
    rows = [[name, *(_said(number) for number in row.values())] for name, row in data.items()]
    result = standard.result
    counts = " and ".join(f"{result['documents'][side]:,} to {side} on" for side in ("train", "test"))
    table = text_table(
        "Perplexity on held-out text",
        f"Of the checkpoint {checkpoint.name} ({result['parameters']:,} parameters, digest {checkpoint.digest[:12]}), "
        f"on {result['test_tokens']:,} tokens of documents held out whole: {counts}. Training read its text "
        f"{result['epochs']:.3g} times. The published numbers are of OpenAI's GPT-2 on OpenWebText. Unless these are "
        "what was given, compare the ratios (× the model trained on as it is), not the numbers. "
        f"γ = {GAMMA} in every layer. The trained models: {standard.path / 'model'} and {chain.path / 'model'}.",
        ["", "published", "measured", "× published", "× measured"],
        rows,
        {"rows": data, "checkpoint": checkpoint.digest, "text": texts.digests},
    )
    curves = line_chart(
        "Loss on the training text",
        "Chain attention starts from weights that were learned without it.",
        "step",
        "loss",
        {
            name: ([row["step"] for row in one.metrics], [row["loss"] for row in one.metrics])
            for name, one in (("as it is", standard), ("ChaCAL", chain))
        },
    )
    return [table, curves, *_shrunk(setting.training)]


def _shrunk(training: FineTuning) -> list[Panel]:
    """What differs from the published settings, or nothing."""
    differing = [
        (field.name, getattr(PAPER, field.name), getattr(training, field.name)) for field in dataclasses.fields(PAPER)
    ]
    rows = [[name, _plain(paper), _plain(here)] for name, paper, here in differing if paper != here]
    if not rows:
        return []
    return [
        text_table(
            "What is not as published",
            "The paper leaves open the block (512 tokens fit its count of epochs), what becomes of the rate after the "
            "warm-up (here: it stays) and clipping (here: at norm 1). It says that dropout was tried; here is none, "
            "as chain attention has none on its weights.",
            ["setting", "published", "here"],
            rows,
            [{"setting": name, "published": paper, "here": here} for name, paper, here in differing if paper != here],
        )
    ]


def _said(number: float | None) -> str:
    return "–" if number is None else f"{number:.4g}"


def _plain(value: int | float | str) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
