"""Training a language model: our trainer's step against a plain loop around Hugging Face's GPT-2 of the same size.

Ours read windows of text, keep metrics of nothing, and are clipped and updated as in any run. The plain loop is what a
user writes by hand: loss, backward pass, clipping, AdamW. All take steps in turn; ratios are medians over rounds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
from rich.table import Table
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from lengthwise import lab
from lengthwise.lab.text_material import TextMaterial
from lengthwise.text import corpora, tokenizers
from lengthwise.train import Trainer

from .sliding_dilated import in_turn

THREADS, LAYERS, WIDTH, HEADS, LENGTH, BATCH, VOCABULARY = 2, 6, 384, 6, 512, 4, 4096
SPEED_AT_LEAST = 0.95
COMMON = f"width={WIDTH} heads={HEADS}"
OURS = {
    "transformer, learned places": f"transformer {COMMON} layers={LAYERS} position=learned max_length={LENGTH}",
    "transformer, RoPE": f"transformer {COMMON} layers={LAYERS} position=rope",
    "BiPE-RoPE": f"bipe {COMMON} layers={LAYERS} position=rope",
    "BiPE-ALiBi": f"bipe {COMMON} layers={LAYERS} position=alibi",
    f"RegularGPT, C=128, K={LAYERS}": f"regular-gpt {COMMON} chunk=128 thickness={LAYERS} depth=position",
}


def plain(text: torch.Tensor) -> Callable[[], None]:
    """A step of GPT-2 on these windows."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    model = GPT2LMHeadModel(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        model(text, labels=text).loss.backward()  # pyright: ignore[reportOptionalMemberAccess]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def ours(model: str, text: list[str], tokenizer: Path, store: Path) -> tuple[Callable[[], None], int]:
    """A step of our trainer, and how many weights the model has."""
    settings = {"training.batch": BATCH, "training.steps": 1_000_000, "training.threads": THREADS}
    (experiment,) = lab.plan_language_models(
        text, [model], train_length=LENGTH, test_lengths=[LENGTH], tokenizer=str(tokenizer),
        settings=settings, store=store, warn=lambda warning: None,
    )  # fmt: skip
    setting = TextMaterial(experiment, torch.device("cpu"))
    state = setting.state(experiment)
    trainer = Trainer(state, setting.data, setting.objective)
    state.model.train()
    return lambda: trainer.take_step([state]), sum(p.numel() for p in state.model.parameters())


def table() -> Table:
    torch.set_num_threads(THREADS)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    found = Table(
        title=f"Training on text, fp32: {LAYERS} layers, {WIDTH} wide, T={LENGTH}, {BATCH} windows, {THREADS} threads"
    )
    for name in ("model", "M weights", "tokens/s", "times of GPT-2", "at least"):
        found.add_column(name)
    with TemporaryDirectory() as folder:
        root = Path(folder)
        text = [str(Path(os.__file__).parent / name) for name in ("asyncio", "email", "multiprocessing")]
        tokenizer = tokenizers.train(corpora.open(text), VOCABULARY, root=root)
        windows = torch.randint(VOCABULARY, (BATCH, LENGTH), generator=torch.Generator().manual_seed(0))
        made = {name: ours(model, text, tokenizer, root) for name, model in OURS.items()}
        rounds = in_turn([plain(windows), *(step for step, _ in made.values())])
    tokens = BATCH * LENGTH
    found.add_row("GPT-2 of transformers", "", f"{tokens / median(turn[0] for turn in rounds):,.0f}", "1.00", "")
    for i, (name, (_, size)) in enumerate(made.items(), 1):
        speed = tokens / median(turn[i] for turn in rounds)
        ratio = median(turn[0] / turn[i] for turn in rounds)
        bound = "" if name.startswith("RegularGPT") else f"{SPEED_AT_LEAST}"
        found.add_row(name, f"{size / 1e6:.1f}", f"{speed:,.0f}", f"{ratio:.2f}", bound)
    return found
