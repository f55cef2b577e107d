"""What a change of the house must not change: final weights and scores of small experiments, and logits, bit for bit.

    python -m benchmarks.reference record before.json      before a line is moved
    python -m benchmarks.reference compare before.json     after it, on the same machine

The experiments cover every preset, task family, curriculum, precision and way to resume, and one checkpoint trained on
as it is and with chain attention. Weights are compared as a set of tensors, so that a module may be renamed; everything
else is compared as it is. Digests of floats hold on one machine alone, so no such file is kept in the repository.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from lengthwise import lab, models, recipes

SMALL = {
    "training.steps": 12,
    "training.batch": 8,
    "training.validate_every": 5,
    "training.validation_samples": 32,
    "training.checkpoint_every": 4,
    "tests.samples": 16,
}
GROWING = {"training.curriculum": "growing", "training.grow_from": 3, "training.grow_at": 0.5}

# fmt: off
# ruff: noqa: E501
EXPERIMENTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "regular-gpt": ("parity", "regular-gpt", {}),
    "regular-gpt growing": ("parity", "regular-gpt", {**GROWING, "training.shrink_at": 0.4}),
    "regular-gpt by position, prefixes": ("modular-sum", "regular-gpt", {"model.depth": "position", "task.supervision": "prefix"}),
    "regular-gpt official": ("cycle-navigation", "regular-gpt", {"model.variant": "official"}),
    "regular-gpt fp64": ("even-pairs", "regular-gpt", {"model.chunk": 3, "training.precision": "fp64"}),
    "regular-gpt thick, dropout": ("tomita-5", "regular-gpt", {"model.thickness": 2, "model.dropout": 0.1}),
    "transformer": ("parity", "transformer", {"model.layers": 2}),
    "transformer bf16": ("even-pairs", "transformer", {"model.layers": 2, "training.precision": "bf16"}),
    "transformer learned, adamw": ("regex:(ab|ba)*", "transformer", {"model.layers": 2, "model.position": "learned", "training.optimizer": "adamw", "training.weight_decay": 0.1}),
    "transformer log-uniform": ("word-problem", "transformer", {"model.layers": 1, "task.group": "S3", "training.curriculum": "log-uniform"}),
    "transformer-xl": ("d-2", "transformer-xl", {"model.layers": 2}),
    "transformer-xl bf16": ("d-2", "transformer-xl", {"model.layers": 2, "training.precision": "bf16"}),
    "chacal": ("reference-chains", "chacal", {}),
    "chacal learned gamma": ("boxes", "chacal", {"model.learn_gamma": True, "model.position": "transformer-xl"}),
    "block-lrnn": ("modular-sum", "block-lrnn", {"training.clip": None, "training.schedule": "constant"}),
    "block-lrnn automaton, patience": ("modular-sum", "block-lrnn", {"model.variant": "automaton", "task.supervision": "prefix", "training.patience": 1}),
    "block-lrnn official, two layers": ("modular-arithmetic", "block-lrnn", {"model.variant": "official", "model.layers": 2, "training.warmup": 4}),
    "s4": ("modular-sum", "s4", {}),
    "s4d": ("modular-sum", "s4d", {"model.initial": "legs"}),
    "liquid-s4": ("even-pairs", "liquid-s4", {}),
    "lru": ("parity", "lru", {}),
    "diagonal-lrnn": ("parity", "diagonal-lrnn", {"training.precision": "fp64"}),
    "rnn": ("parity", "rnn", {}),
    "lstm": ("parity", "lstm", {"training.precision": "bf16"}),
    "a machine's states": ("machine", "rnn", {"task.delta": [[0, 1, 0], [1, 1, 0]]}),
    "gru": ("tomita-3", "gru", {"model.layers": 2}),
    "next symbols": ("regex:(ab|ba)*", "lstm", {"task.protocol": "next"}),
}
# fmt: on
LENGTHS = {"modular-arithmetic": (9, "13,17"), "reference-chains": (16, "24,32"), "boxes": (4, "6")}
STOPPED = {"regular-gpt": 7, "regular-gpt growing": 9, "transformer bf16": 3, "block-lrnn": 8, "chacal": 13, "lstm": 15}
"""Experiments run once more, stopped after so many reports of progress (training, then testing) and resumed."""


def digest(tensors: Iterable[Tensor]) -> str:
    """Of the tensors' contents, in whatever order and under whatever names they are kept."""
    one = (hashlib.sha256(f"{x.dtype} {list(x.shape)}".encode() + _bytes(x)).hexdigest() for x in tensors)
    return hashlib.sha256("".join(sorted(one)).encode()).hexdigest()[:16]


def _bytes(x: Tensor) -> bytes:
    return x.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes() if x.numel() else b""


class Interrupt:
    """Progress that presses Ctrl-C after so many reports."""

    def __init__(self, reports: int):
        self.left = reports

    def begin(self, *about: Any) -> None: ...

    def waiting(self, *about: Any) -> None: ...

    def end(self, *about: Any) -> None: ...

    def advance(self, *about: Any) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)


def experiments(root: Path) -> Iterator[tuple[str, Any]]:
    for name, (task, model, settings) in EXPERIMENTS.items():
        few = {"model.heads": 2} if "heads" in models.options(model) else {}
        length, tested = LENGTHS.get(task, (8, "12,16"))
        planned = lab.plan(
            task,
            [model],
            train_length=length,
            test_lengths=tested,
            settings={**SMALL, "model.width": 16, **few, **settings},
        )
        yield name, outcome(planned, root / "once")
        if name in STOPPED:
            try:
                lab.run(planned, root / "stopped", workers=1, device="cpu", progress=Interrupt(STOPPED[name]))
                yield f"{name}, stopped", "was not stopped"
            except lab.Interrupted:
                yield f"{name}, stopped", outcome(planned, root / "stopped")


def outcome(planned: list[Any], root: Path) -> dict[str, Any]:
    (done,) = lab.run(planned, root, workers=1, device="cpu")
    if done.run is None:
        raise SystemExit(f"{planned[0].model.name}: {done.error}")
    result = done.run.result
    return {
        "weights": digest(done.run.tensors("model").values()),
        "best": digest(done.run.tensors("best").values()),
        "checkpoints": result["checkpoints"],
        "steps": [result["steps"], result["stopped"]],
        "losses": [[row["step"], row["loss"]] for row in done.run.metrics],
    }


def logits() -> Iterator[tuple[str, Any]]:
    """Of every preset, untrained: at every place, and at the last alone."""
    tokens = torch.randint(0, 5, (3, 21), generator=torch.Generator().manual_seed(0))
    for name in models.available():
        torch.manual_seed(0)
        model = models.build(name, vocab_size=5, num_outputs=3, width=16).eval()
        with torch.no_grad():
            yield name, [digest([model(tokens)]), digest([model(tokens, last=True)]), digest([model(tokens[:, :1])])]


def generated() -> Iterator[tuple[str, Any]]:
    """What presets that keep a cache generate, rows of unequal length among them, and the last logits."""
    tokens = torch.randint(1, 7, (3, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(tokens)
    mask[1, :4] = 0
    for name in models.available():
        options = {"depth": "position"} if name == "regular-gpt" else {}
        torch.manual_seed(0)
        model = models.build(name, vocab_size=7, num_outputs=7, width=16, **options).inner.eval()
        found = model.generate(
            tokens, attention_mask=mask, max_new_tokens=12, do_sample=False, output_logits=True,
            return_dict_in_generate=True, pad_token_id=0,
        )  # fmt: skip
        yield name, [found.sequences.tolist(), digest([found.logits[-1]])]


def trained_on(folder: Path) -> dict[str, Any]:
    """A tiny GPT-2 trained on, as it is and with chain attention: the recipe that does it, by its published name."""
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers import models as kinds
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    words = ["<|endoftext|>", *(f"w{i}" for i in range(30))]
    tokenizer = Tokenizer(kinds.WordLevel({word: i for i, word in enumerate(words)}, unk_token=words[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=words[0]).save_pretrained(folder / "gpt2")
    torch.manual_seed(0)
    GPT2LMHeadModel(
        GPT2Config(vocab_size=31, n_embd=16, n_layer=2, n_head=2, n_positions=32, bos_token_id=0, eos_token_id=0)
    ).save_pretrained(folder / "gpt2")
    draw = torch.Generator().manual_seed(0)
    texts = [" ".join(f"w{int(i)}" for i in torch.randint(0, 30, (40,), generator=draw)) for _ in range(12)]
    (folder / "text.txt").write_text("\n<|endoftext|>\n".join(texts))
    settings = [f"checkpoint={folder / 'gpt2'}", f"text={folder / 'text.txt'}", "steps=6", "batch=4", "block=16"]
    recipe = recipes.get("chacal", "table-3", "smoke", settings)
    trained = {}
    for done in lab.run(recipe.experiments, folder / "runs", workers=1, device="cpu"):
        if done.run is None:
            raise SystemExit(f"{done.experiment.model.name}: {done.error}")
        with safe_open(done.run.path / "model" / "model.safetensors", "pt") as file:
            weights = digest(file.get_tensor(name) for name in file.keys())  # noqa: SIM118
        before, after = (done.run.result["checkpoints"][which]["perplexity"] for which in ("before", "last"))
        kind = "chain" if "chain" in done.experiment.model.name else "standard"
        trained[kind] = {"before": before, "after": after, "weights": weights}
    return trained


def everything(root: Path) -> dict[str, Any]:
    return {
        "logits": dict(logits()),
        "generated": dict(generated()),
        "experiments": dict(experiments(root)),
        "trained on": trained_on(root),
    }


@contextmanager
def alone() -> Iterator[Path]:
    """One thread, and a folder that is gone afterwards."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            yield from differences(before.get(key), after.get(key), f"{path} / {key}" if path else key)
    elif before != after:
        yield f"{path}: {str(before)[:100]} -> {str(after)[:100]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    asked = parser.parse_args()
    machine = {"torch": torch.__version__, "machine": platform.processor() or platform.machine()}
    with alone() as root:
        found = json.loads(json.dumps({"machine": machine, **everything(root)}))
    if asked.verb == "record":
        asked.file.write_text(json.dumps(found, indent=1, sort_keys=True))
        print(f"{len(found['experiments'])} experiments, {len(found['logits'])} presets: {asked.file}")
        return 0
    odd = sorted(differences(json.loads(asked.file.read_text()), found))
    print("\n".join(odd) or f"The same, bit for bit: {len(found['experiments'])} experiments.")
    return 1 if odd else 0


if __name__ == "__main__":
    sys.exit(main())
