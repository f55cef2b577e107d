"""Train a pre-trained language model on, and measure its perplexity on held-out text before and after.

    perplexity = exp( mean over all but the first token of every block of -log p(token | those before it in the block) )

One directory per piece of work, named by checkpoint, model, settings and text: stopped work goes on from its last
checkpoint, finished work is found again. Batches are a function of (seed, step), and no dropout is drawn, so that a
resumed run is the very run that was stopped.

    finetuning-standard-1a2b…/
      config.json, metrics.jsonl, state/, lock     as in every record
      model/              the trained model and its tokenizer, as transformers loads them
      perplexity.json     what came out, with digests; written last
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ... import convert
from ...convert import Conversion
from ...errors import Error, NonFiniteError
from ...models.pretrained import Checkpoint, quiet
from ...text import PackedText, packing, tokenizers
from ..engines import interruptible
from ..files import canonical, digest, naming
from ..member import load_weights, untouched_random, weights
from ..records import Directory, State, read_result
from ..run import Interrupted, machine
from ..training import LOG_EVERY, Stop

Advance = Callable[[str, int, int, float], None]
"""Hears (name, step, steps, loss)."""


@dataclass(frozen=True)
class FineTuning:
    """How to train on; as published, but for what the paper leaves open: block, clip, precision."""

    steps: int = 10_000
    batch: int = 256
    block: int = 512
    """Tokens. At 512 the published steps read the published text slightly more than twice, as the paper says."""
    lr: float = 5e-5
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.1
    warmup: int = 2_000
    """Steps in which the rate rises to `lr`, where it stays."""
    clip: float = 1.0
    precision: Literal["fp32", "bf16"] = "fp32"
    seed: int = 0

    def __post_init__(self):
        for name in ("steps", "batch"):
            if getattr(self, name) < 1:
                raise Error(f"{name} must be at least 1, got {getattr(self, name)}.")
        if not (self.lr > 0 and math.isfinite(self.lr)):
            raise Error(f"lr must be above 0, got {self.lr}.")
        if self.precision not in ("fp32", "bf16"):
            raise Error(f"precision is fp32 or bf16, got {self.precision!r}.")


class FineTuned(NamedTuple):
    path: Path
    result: dict[str, Any]
    """`before` and `after`: perplexity."""
    metrics: list[dict[str, Any]]


class _Directory(Directory):
    result = "perplexity.json"


def fine_tune(
    checkpoint: Checkpoint,
    texts: PackedText,
    settings: FineTuning,
    *,
    conversions: Sequence[Conversion] = (),
    root: Path | str = "runs",
    device: str = "cpu",
    checkpoint_every: int = 100,
    tokens_at_once: int = 4096,
    advance: Advance | None = None,
) -> FineTuned:
    """The checkpoint trained on, as it is or after these conversions, whose names the directory bears.

    `tokens_at_once`: a batch is read in parts of about so many tokens, whose gradients are summed.
    """
    kind = "-".join(conversion["name"] for conversion in conversions) or "standard"
    config = {
        "checkpoint": checkpoint.digest,
        "conversions": [dict(conversion) for conversion in conversions],
        "settings": {**asdict(settings), "betas": list(settings.betas)},
        "text": {**texts.digests, "test_blocks": len(texts.test)},
    }
    name = f"finetuning-{kind}"
    directory = _Directory(Path(root) / f"{name}-{digest(canonical(config))[:16]}", config)
    stop = Stop()
    with interruptible(stop), directory.locked(lambda: _stopped(stop)):
        if not directory.finished():
            work = _Work(checkpoint, texts, settings, conversions, torch.device(device), tokens_at_once, directory)
            with untouched_random(work.device):
                work.go_on(checkpoint_every, stop, lambda t, loss: advance and advance(name, t, settings.steps, loss))
        directory.tidy()
    metrics = [json.loads(line) for line in (directory.path / "metrics.jsonl").read_text().splitlines()]
    return FineTuned(directory.path, read_result(directory.path, directory.result), metrics)


class _Work:
    """A model in training, and the directory where its state is kept."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        texts: PackedText,
        settings: FineTuning,
        conversions: Sequence[Conversion],
        device: torch.device,
        at_once: int,
        directory: Directory,
    ):
        self.checkpoint, self.texts, self.settings, self.device = checkpoint, texts, settings, device
        self.at_once, self.directory = at_once, directory
        self.state = directory.start()
        self.model = convert.load(checkpoint, conversions).to(device)  # pyright: ignore[reportArgumentType]
        self.parameters: dict[str, nn.Parameter] = dict(self.model.named_parameters())
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(), lr=settings.lr, betas=settings.betas, weight_decay=settings.weight_decay
        )
        self.step, self.before, self.seconds = 0, math.nan, 0.0

    def go_on(self, checkpoint_every: int, stop: Stop, advance: Callable[[int, float], Any]) -> None:
        """From where the work stands to its end."""
        if self.state:
            self.restore(self.state)
        else:
            self.before = self.perplexity(stop)
        settings = self.settings
        self.model.train()
        while self.step < settings.steps:
            began = time.perf_counter()
            loss = self.take_step()
            self.seconds += time.perf_counter() - began
            if self.step % LOG_EVERY == 0 or self.step in (1, settings.steps):
                self.directory.log({"kind": "train", "step": self.step, "loss": loss})
            advance(self.step, loss)
            if stop.asked or self.step % checkpoint_every == 0 or self.step == settings.steps:
                self.save()
            if stop.asked:
                _stopped(stop)
        self.finish(self.perplexity(stop))

    def take_step(self) -> float:
        """One step of the optimiser; the mean loss of its batch."""
        settings = self.settings
        blocks = packing.batch(self.texts.train, self.step, settings.batch, settings.seed)
        predicted = blocks[:, 1:].numel()
        loss = 0.0
        for part in packing.parts(blocks, self.at_once):
            share = self.loss(part) / predicted
            share.backward()
            loss += share.item()
        norm = nn.utils.clip_grad_norm_(self.parameters.values(), settings.clip).item()
        if not (math.isfinite(loss) and math.isfinite(norm)):
            self.save()
            raise NonFiniteError(
                f"The {'gradient' if math.isfinite(loss) else 'loss'} is not finite (loss {loss}) at step "
                f"{self.step + 1}. The last good state is kept in {self.directory.path}. "
                f"Lower lr (now {settings.lr:g})."
            )
        for group in self.optimizer.param_groups:
            group["lr"] = settings.lr * min(1.0, (self.step + 1) / max(1, settings.warmup))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return loss

    def loss(self, blocks: Tensor) -> Tensor:
        """-log p summed over all tokens but each block's first."""
        blocks = blocks.to(self.device).long()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.precision == "bf16"):
            logits = self.model(input_ids=blocks, use_cache=False).logits
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), blocks[:, 1:].flatten(), reduction="sum")

    @torch.no_grad()
    def perplexity(self, stop: Stop) -> float:
        """On the test blocks."""
        self.model.eval()
        total = 0.0
        for part in packing.parts(self.texts.test, self.at_once):
            _stopped(stop)
            total += self.loss(part).item()
        mean = total / self.texts.test[:, 1:].numel()
        if not math.isfinite(mean):
            raise NonFiniteError(
                f"The loss on the test text is not finite ({mean}) after {self.step} steps of training. "
                + ("Lower lr." if self.step else f"The weights of {self.checkpoint.name} may be damaged.")
            )
        return math.exp(mean)

    def save(self) -> None:
        tensors = {f"model.{name}": tensor for name, tensor in weights(self.model).items()}
        for name, parameter in self.parameters.items():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer.{key}.{name}"] = value
        self.directory.save_state(tensors, {"step": self.step, "before": self.before, "seconds": self.seconds})

    def restore(self, state: State) -> None:
        load_weights(self.model, {k[6:]: v for k, v in state.tensors.items() if k.startswith("model.")})
        for key, value in state.tensors.items():
            if key.startswith("optimizer."):
                _, kind, name = key.split(".", 2)
                # Adam keeps its step count on the CPU.
                value = value if kind == "step" else value.to(self.device)
                self.optimizer.state[self.parameters[name]][kind] = value
        self.step, self.before, self.seconds = (state.meta[key] for key in ("step", "before", "seconds"))

    def finish(self, after: float) -> None:
        folder, beside = self.directory.path / "model", self.directory.path / ".model-unfinished"
        for left in (folder, beside):
            shutil.rmtree(left, ignore_errors=True)
        with naming(beside), quiet():
            self.model.save_pretrained(beside)
            tokenizers.load(self.checkpoint.folder, self.checkpoint.name).save_pretrained(beside)
            beside.rename(folder)
        result = {
            "format": 1,
            "checkpoint": self.checkpoint.name,
            "steps": self.step,
            "before": self.before,
            "after": after,
            "parameters": sum(p.numel() for p in self.parameters.values()),
            "documents": self.texts.counts,
            "test_tokens": self.texts.test[:, 1:].numel(),
            "epochs": self.step * self.settings.batch / len(self.texts.train),
            "seconds": round(self.seconds, 3),
            "machine": machine(str(self.device)),
        }
        self.directory.finish({}, result)


def _stopped(stop: Stop) -> None:
    if stop.asked:
        raise Interrupted("Stopped; all state is kept. To go on, give the same call again.")
