"""An experiment on text: a pretrained checkpoint, converted or not, trained on, its perplexity before and after.

Text and checkpoint are known by digests. Where they lie on this machine stands in the record too, and whoever runs the
experiment reads them from there.

    model/      the trained model and its tokenizer, as transformers loads them, beside the usual files of a run
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch

from .. import convert
from ..errors import Error, NonFiniteError
from ..evaluate import perplexity
from ..files import Tensors, naming
from ..models import pretrained
from ..models.pretrained import Checkpoint, quiet
from ..text import PackedText, documents, pack_train_and_test, tokenizers
from ..train import Directory, NextToken, Progress, TextBlocks, Training, TrainState
from .experiment import Experiment, LengthTests, ModelSpec, Objective, TextSpec


def plan_text(
    checkpoint: str,
    text: Sequence[str],
    *,
    test: Sequence[str] = (),
    held_out: float = 0.05,
    conversions: Sequence[Sequence[Mapping[str, Any]]] = ((),),
    block: int = 512,
    test_blocks: int | None = None,
    training: Training | None = None,
    tokens_at_once: int = 4096,
    seed: int = 0,
) -> list[Experiment]:
    """An experiment for each list of `conversions`: the checkpoint after them, trained on this text.

    Text, tokenizer and conversions are tried here, so that a wrong one is refused before anything runs.
    """
    training = training or Training()
    if training.precision == "fp64":
        raise Error("training.precision of text is one of fp32, bf16, got 'fp64'.")
    source = pretrained.find(checkpoint)
    files, test_files = tuple(map(str, text)), tuple(map(str, test))
    digests = _packed(source, files, test_files, held_out, block, test_blocks).digests
    spec = TextSpec("text", digests, block, test_blocks, files, test_files, held_out)
    experiments = []
    for each in conversions:
        if each:
            convert.load(source, each)
        experiments.append(
            Experiment(
                spec,
                ModelSpec(
                    "-".join(["pretrained", *(conversion["name"] for conversion in each)]),
                    {"conversions": [dict(conversion) for conversion in each]} if each else {},
                    source.digest,
                    folder=str(source.folder),
                ),
                training,
                LengthTests(lengths=(block,)),
                seed,
                Objective("next-token", tokens_at_once),
            )
        )
    return experiments


@lru_cache(maxsize=1)
def _packed(
    checkpoint: Checkpoint,
    files: tuple[str, ...],
    test_files: tuple[str, ...],
    held_out: float,
    block: int,
    test_blocks: int | None,
) -> PackedText:
    """The blocks to train on and to test on; the experiments of one study share them."""
    tokenizer = tokenizers.load(checkpoint.folder, checkpoint.name)
    checkpoint.check(tokenizer, block)
    train, test = documents.read(files), documents.read(test_files) if test_files else []
    if not test:
        train, test = documents.split(train, held_out)
    return pack_train_and_test(train, test, tokenizer, block, test_blocks)


class OnText:
    """The text is read once, and a model for each state."""

    def __init__(self, experiment: Experiment, device: torch.device, share: int = 1):
        spec, model = experiment.data, experiment.model
        if not isinstance(spec, TextSpec) or experiment.objective.kind != "next-token" or model.folder is None:
            raise Error(
                "Text is trained on with the objective next-token, by a pretrained checkpoint in a folder; "
                f"got {experiment.objective.kind} and {model.name}."
            )
        self.device, self.checkpoint = device, pretrained.find(model.folder)
        if self.checkpoint.digest != model.source:
            raise Error(f"{model.folder}: its files changed since the experiment was planned. Plan it again.")
        self.text = _packed(self.checkpoint, spec.files, spec.test_files, spec.held_out, spec.block, spec.test_blocks)
        if self.text.digests != spec.digests:
            raise Error(f"{', '.join(spec.files)}: the text changed since the experiment was planned. Plan it again.")
        self.data = TextBlocks(self.text, experiment.training)
        self.objective = NextToken(experiment.objective.tokens_at_once)

    def state(self, experiment: Experiment, directory: Directory | None = None) -> TrainState:
        conversions = experiment.model.options.get("conversions", [])
        model = convert.load(self.checkpoint, conversions).to(self.device)  # pyright: ignore[reportArgumentType]
        return TrainState(
            model,
            experiment.training,
            self.data.lengths,
            seed=experiment.seed,
            name=experiment.hash,
            device=self.device,
            directory=directory,
        )

    def test_before(self, experiment: Experiment, state: TrainState, check: Callable[[], None]) -> None:
        """The perplexity of the checkpoint as it is."""
        if "before" not in state.scores:
            state.scores["before"] = {"perplexity": self._perplexity(experiment, state, check)}

    def test_after(
        self,
        experiment: Experiment,
        state: TrainState,
        hear: Callable[[Progress], None],
        keep: Callable[[Tensors], None],
        check: Callable[[], None],
    ) -> tuple[dict[str, Tensors], dict[str, Any]]:
        """Test the trained model and write it as transformers loads it; what the result says."""
        began = time.perf_counter() - state.test_seconds
        # A test that is stopped begins anew, so there is nothing to keep meanwhile.
        state.scores["last"] = {"perplexity": self._perplexity(experiment, state, check)}
        state.test_seconds = time.perf_counter() - began
        if state.directory:
            self._write_model(state, state.directory)
        said = {
            "checkpoints": {
                "before": {"step": 0, **state.scores["before"]},
                "last": {"step": state.step, **state.scores["last"]},
            },
            "documents": self.text.counts,
            "test_tokens": self.text.test[:, 1:].numel(),
            "epochs": state.step * state.training.batch / len(self.text.train),
        }
        return {}, said

    def _perplexity(self, experiment: Experiment, state: TrainState, check: Callable[[], None]) -> float:
        try:
            return perplexity(
                state.model,
                self.text.test,
                device=self.device,
                autocast=state.training.precision,
                tokens_at_once=experiment.objective.tokens_at_once,
                before=check,
            )
        except NonFiniteError as error:
            remedy = "Lower training.lr." if state.step else f"The weights of {self.checkpoint.name} may be damaged."
            raise NonFiniteError(f"{error} It was measured after {state.step} steps of training. {remedy}") from error

    def _write_model(self, state: TrainState, directory: Directory) -> None:
        folder, beside = directory.path / "model", directory.path / ".model-unfinished"
        for left in (folder, beside):
            shutil.rmtree(left, ignore_errors=True)
        with naming(beside), quiet():
            state.model.save_pretrained(beside)  # pyright: ignore[reportCallIssue]
            tokenizers.load(self.checkpoint.folder, self.checkpoint.name).save_pretrained(beside)
            beside.rename(folder)
