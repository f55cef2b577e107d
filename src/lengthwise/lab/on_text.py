"""An experiment on text: a language model from scratch, or one that was trained before, converted or not, trained on:
a pretrained checkpoint, or what an earlier experiment made.

Text, tokenizer and checkpoint are known by digests. Where they lie on this machine stands in the record too, and
whoever runs the experiment reads them from there.

    model/      the trained model and its tokenizer, as transformers loads them, beside the usual files of a run
    best/       the same of the best validation, where the text is validated on and an earlier step was better
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from .. import convert, models
from ..errors import Error, NonFiniteError
from ..evaluate import Loss, Way, losses_by_length
from ..evaluate.text import check_lengths
from ..files import Tensors, naming
from ..models import TokenClassifier, pretrained
from ..models.pretrained import quiet
from ..seeds import derive
from ..text import tokenizers
from ..train import Data, Directory, NextToken, Progress, TextBlocks, Training, TrainState
from ..train import Objective as TrainObjective
from ..train.state import load_weights, untouched_random
from . import texts
from .experiment import Experiment, LengthTests, ModelSpec, Objective, TextSpec
from .records import RunDirectory, model_folder, read_run

PROMPT = 8
"""Tokens with which samples begin."""


def plan_text(
    checkpoint: str,
    text: Sequence[str],
    *,
    test: Sequence[str] = (),
    held_out: float = 0.05,
    conversions: Sequence[Sequence[str | convert.Conversion]] = ((),),
    block: int = 512,
    test_blocks: int | None = None,
    training: Training | None = None,
    tokens_at_once: int = 4096,
    seed: int = 0,
    test_lengths: Sequence[int] | None = None,
    way: Way = "windows",
    samples: int = 512,
) -> list[Experiment]:
    """An experiment for each list of `conversions`: the checkpoint after them, trained on this text.

    `test_lengths`: where perplexity is measured, before and after; None: at `block`. `way` and, for last tokens,
    `samples` say how (see `evaluate/text.py`).
    Text, tokenizer and conversions are tried here, so that a wrong one is refused before anything runs.
    """
    training = training or Training()
    check_precision(training)
    source = pretrained.find(checkpoint)
    files, test_files = tuple(map(str, text)), tuple(map(str, test))
    spec = TextSpec("text", {}, block, test_blocks, files=files, test_files=test_files, held_out=held_out)
    read = texts.read_for(source, spec)
    spec = replace(spec, digests=read.digests)
    tests = LengthTests((block,) if test_lengths is None else tuple(test_lengths), way=way)
    tests = replace(tests, samples=samples) if way == "last-token" else tests
    check_lengths(len(read.test), tests.lengths)
    experiments = []
    for each in (texts.conversions_of(some, read.tokenizer) for some in conversions):
        if each or max(tests.lengths) > block:
            rows = pretrained.position_rows(convert.load(source, each))
            if rows is not None and rows < max(tests.lengths):
                raise Error(
                    f"{checkpoint}: it has places for {rows:,} tokens, got test length {max(tests.lengths):,}. Test "
                    "shorter lengths."
                )
        experiments.append(
            Experiment(
                spec,
                ModelSpec(
                    "-".join(["pretrained", *(conversion["name"] for conversion in each)]),
                    {"conversions": each} if each else {},
                    source.digest,
                    folder=str(source.folder),
                ),
                training,
                tests,
                seed,
                Objective("next-token", tokens_at_once),
            )
        )
    return experiments


def check_precision(training: Training) -> None:
    if training.precision == "fp64":
        raise Error("training.precision of text is one of fp32, bf16, got 'fp64'.")


class OnText:
    """The text is read once, and a model for each state."""

    def __init__(self, experiment: Experiment, device: torch.device, share: int = 1):
        spec, model = experiment.data, experiment.model
        if not isinstance(spec, TextSpec) or experiment.objective.kind != "next-token":
            raise Error(f"Text is trained on with the objective next-token, got {experiment.objective.kind}.")
        self.device, self.checkpoint = device, None
        if model.folder is None:
            self.text = texts.read(spec, experiment.training.checkpointing.validation_samples)
        else:
            self.checkpoint = pretrained.find(model.folder)
            if self.checkpoint.digest != model.source:
                raise Error(f"{model.folder}: its files changed since the experiment was planned. Plan it again.")
            self.text = texts.read_for(self.checkpoint, spec)
        if self.text.digests != spec.digests:
            raise Error(f"{', '.join(spec.files)}: the text changed since the experiment was planned. Plan it again.")
        self.tokenizer = self.text.tokenizer
        self.data: Data = TextBlocks(self.text.train, experiment.training, self.text.validation)
        validation = self.text.validation
        prompt = (self.text.train if validation is None else validation)[0][:PROMPT]
        self.objective: TrainObjective = NextToken(experiment.objective.tokens_at_once, self.tokenizer, prompt)

    def state(self, experiment: Experiment, directory: Directory | None = None) -> TrainState:
        begun = self.checkpoint
        if experiment.continues is not None:
            begun = _trained(experiment.continues, directory)
        if begun is None:
            model = build_language_model(experiment.model, self.tokenizer, experiment.seed)
        else:
            inner = convert.load(begun, experiment.model.options.get("conversions", []))
            model = pretrained.as_classifier(inner, begun.name)
        model = model.to(self.device)
        return TrainState(
            model,
            experiment.training,
            self.data.lengths,
            seed=experiment.seed,
            name=experiment.hash,
            core=model.inner,
            device=self.device,
            directory=directory,
        )

    def test_before(self, experiment: Experiment, state: TrainState, check: Callable[[], None]) -> None:
        """The perplexity of a trained model as it is. Weights drawn at random are not tested."""
        known = self.checkpoint is not None or experiment.continues is not None
        if known and "before" not in state.scores:
            state.scores["before"] = self._said(self._losses(experiment, state, check), experiment, state)

    def test_after(
        self,
        experiment: Experiment,
        state: TrainState,
        hear: Callable[[Progress], None],
        keep: Callable[[Tensors], None],
        check: Callable[[], None],
    ) -> tuple[dict[str, Tensors], dict[str, Any]]:
        """Test the trained model and write it as transformers loads it; what the result says."""
        tests, began = experiment.tests, time.perf_counter() - state.test_seconds
        last = {name: tensor.clone() for name, tensor in state.weights().items()}

        def after(found: dict[int, Loss]) -> None:
            hear(Progress(state.name, len(found), len(tests.lengths), phase="test last"))
            state.scores["so far"] = {str(n): list(loss) for n, loss in found.items()}
            state.test_seconds = time.perf_counter() - began
            keep(last)

        known = {int(n): Loss(*loss) for n, loss in state.scores.get("so far", {}).items()}
        # At a single length a test that is stopped begins anew, so there is nothing to keep meanwhile.
        found = self._losses(experiment, state, check, after if len(tests.lengths) > 1 else None, known)
        said: dict[str, Any] = {
            "checkpoints": checkpoints(state, self._said(found, experiment, state)),
            "documents": self.text.counts,
            "test_tokens": found[min(found)].tokens,
            "epochs": state.step * state.training.batch / len(self.text.train),
        }
        state.test_seconds = time.perf_counter() - began
        return self._kept(state, last, said), said

    def _losses(
        self,
        experiment: Experiment,
        state: TrainState,
        check: Callable[[], None],
        after: Callable[[dict[int, Loss]], None] | None = None,
        known: Mapping[int, Loss] | None = None,
    ) -> dict[int, Loss]:
        tests = experiment.tests
        return losses_by_length(
            state.model,
            self.text.test,
            tests.lengths,
            device=self.device,
            way=tests.way,
            samples=tests.samples,
            seed=tests.seed,
            autocast=state.training.precision,
            tokens_at_once=experiment.objective.tokens_at_once,
            known=known,
            before=check,
            after=after,
        )

    def _said(self, found: Mapping[int, Loss], experiment: Experiment, state: TrainState) -> dict[str, Any]:
        """What a checkpoint is worth. Beyond the trained length a loss that is not finite is a finding."""
        block = getattr(experiment.data, "block", 0)
        for length, loss in found.items():
            if loss.mean is None and length <= block:
                name = self.checkpoint.name if self.checkpoint else experiment.model.name
                remedy = "Lower training.lr." if state.step else f"The weights of {name} may be damaged."
                raise NonFiniteError(
                    f"The loss on the test text is not finite at length {length:,}. It was measured after {state.step} "
                    f"steps of training. {remedy}"
                )
        if self.checkpoint is not None and experiment.tests == LengthTests((block,)):
            return {"perplexity": found[block].perplexity}
        return {
            "losses": {str(n): loss.mean for n, loss in found.items()},
            "predicted": {str(n): loss.tokens for n, loss in found.items()},
        }

    def _kept(self, state: TrainState, last: Tensors, said: dict[str, Any]) -> dict[str, Tensors]:
        """Write the model, and that of the best validation, as transformers loads them; or give their weights."""
        better = bool(state.best["step"]) and state.best["step"] != state.step
        every = {"model": last, **({"best": state.best_weights} if better else {})}
        if not hasattr(state.core, "save_pretrained"):
            return every
        if state.directory:
            state.directory.check_held()
            for name, weights in reversed(every.items()):
                load_weights(state.core, weights)
                self._write(state.core, state.directory.path, name)
            if self.checkpoint is None:
                said["folders"] = {name: pretrained.folder_digest(state.directory.path / name) for name in every}
        return {}

    def _write(self, model: Any, path: Path, name: str) -> None:
        folder, beside = path / name, path / f".{name}-unfinished"
        for left in (folder, beside):
            shutil.rmtree(left, ignore_errors=True)
        with naming(beside), quiet():
            model.save_pretrained(beside)
            tokenizers.to_generate(self.tokenizer).save_pretrained(beside)
            beside.rename(folder)


def checkpoints(state: TrainState, last: dict[str, Any]) -> dict[str, Any]:
    """What a result says of each checkpoint that was scored: before training, the last, the best in validation."""
    said = {"before": {"step": 0, **state.scores["before"]}} if "before" in state.scores else {}
    said["last"] = {"step": state.step, **last}
    if state.best["step"]:
        said["best"] = {"step": state.best["step"], "validation": {"loss": state.best["loss"]}}
    return said


def _trained(experiment: Experiment, directory: Directory | None) -> pretrained.Checkpoint:
    """The trained model of an earlier experiment, whose run stands beside this directory."""
    if directory is None:
        raise Error(f"{experiment.model.name}: what an earlier run trained lies beside its own. Use lab.run.")
    run = read_run(RunDirectory(directory.path.parent, experiment).path)
    folder = model_folder(run)
    if folder is None:
        raise Error(f"{run.path}: its model is none that transformers loads, so that nothing can go on from it.")
    return pretrained.find(str(folder))


def build_language_model(spec: ModelSpec, tokenizer: Any, seed: int) -> TokenClassifier:
    """A model for the tokens of this tokenizer, initialised by the seed alone."""
    with untouched_random(torch.device("cpu")):
        torch.manual_seed(derive("init", seed))
        model = models.build(spec.name, vocab_size=len(tokenizer), settings=spec.options, source=spec.source)
    for config in (getattr(model.inner, "config", None), getattr(model.inner, "generation_config", None)):
        if config is not None:
            config.eos_token_id = tokenizer.eos_token_id
    return model
