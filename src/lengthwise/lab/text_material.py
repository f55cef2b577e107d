"""An experiment on text: a language model from scratch, or one that was trained before, converted or not, to predict
text or to write answers behind prompts of SCROLLS.

Text, tokenizer and checkpoint are known by digests. Where they lie on this machine stands in the record too, and
whoever runs the experiment reads them from there.

    model/              the trained model and its tokenizer, as transformers loads them, beside the usual files of a run
    best/               the same of the best validation, where the text is validated on and an earlier step was better
    predictions.json    of answers {id: answer}, the form in which SCROLLS's own evaluator reads them

For answers prompts are read with their answers, whose tokens alone are learned. The weights of the best validation loss
then write an answer to each question of the validation split, whose score is the result.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import convert
from ..errors import Error, NonFiniteError
from ..evaluate import Loss, losses_by_length
from ..evaluate.answer_scores import score
from ..evaluate.written_answers import write_texts
from ..files import Tensors, naming, write_text
from ..models import TokenClassifier, pretrained
from ..models.pretrained import quiet
from ..text import scrolls, tokenizers
from ..text.prompts import AnsweredPrompt, Prompts
from ..text.scrolls import Question
from ..train import AnswerTokens, Directory, NextToken, PromptsAndAnswers, Stop, TextBlocks, TrainState
from ..train.answers import AnswerBatch, total_loss
from ..train.state import load_weights
from . import texts
from .experiment import AnswersSpec, Experiment, LengthTests, ModelSpec
from .material import Material, Scoring
from .new_models import build_language_model
from .records import RunDirectory, model_folder, read_run

PROMPT = 8
"""Tokens with which samples begin."""
PREDICTIONS = "predictions.json"


class TextMaterial(Material):
    """Windows of text."""

    kind = "next-token"

    def __init__(self, experiment: Experiment, device: torch.device, share: int = 1):
        super().__init__(experiment, device, share)
        spec, self.checkpoint = self.spec, checkpoint_of(experiment.model)
        self.text = texts.read(spec, experiment.training.checkpointing.validation_samples, self.checkpoint)
        if self.text.digests != spec.digests:
            raise Error(f"{', '.join(spec.files)}: the text changed since the experiment was planned. Plan it again.")
        self.tokenizer, validation = self.text.tokenizer, self.text.validation
        self.data = TextBlocks(self.text.train, experiment.training, validation)
        prompt = (self.text.train if validation is None else validation)[0][:PROMPT]
        asked = experiment.objective
        self.objective = NextToken(asked.tokens_at_once, self.tokenizer, prompt, asked.state_passing)

    def model(self, experiment: Experiment, directory: Directory | None) -> TokenClassifier:
        begun = self.checkpoint
        if experiment.continues is not None:
            begun = _trained(experiment.continues, directory)
        if begun is None:
            model = build_language_model(experiment.model, self.tokenizer, experiment.seed)
        else:
            inner = convert.load(begun, experiment.model.options.get("conversions", []))
            model = pretrained.as_classifier(inner, begun.name)
        return model.to(self.device)

    def test_before(self, experiment: Experiment, state: TrainState, stop: Stop) -> None:
        known = self.checkpoint is not None or experiment.continues is not None
        if known and "before" not in state.scores:
            state.scores["before"] = self._scores(self._losses(experiment, state, stop), experiment, state)

    def test_after(self, experiment: Experiment, scoring: Scoring) -> tuple[dict[str, Tensors], dict[str, Any]]:
        state, total = scoring.state, len(experiment.tests.lengths)

        def after(losses: dict[int, Loss]) -> None:
            record = {str(n): list(loss) for n, loss in losses.items()}
            scoring.after("test last", "so far", record, len(losses), total)

        known = {int(n): Loss(*loss) for n, loss in state.scores.get("so far", {}).items()}
        # At a single length a test that is stopped begins anew, so there is nothing to keep meanwhile.
        losses = self._losses(experiment, state, scoring.stop, after=after if total > 1 else None, known=known)
        result: dict[str, Any] = {
            "checkpoints": checkpoints(state, self._scores(losses, experiment, state)),
            "documents": self.text.counts,
            "test_tokens": losses[min(losses)].tokens,
            "epochs": state.step * state.training.batch / len(self.text.train),
        }
        return self._kept(scoring, result), result

    def _losses(self, experiment: Experiment, state: TrainState, stop: Stop, **more: Any) -> dict[int, Loss]:
        """At every test length; `more` may be what `losses_by_length` knows already, and whom it tells each length."""
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
            before=stop.check,
            **more,
        )

    def _scores(self, losses: Mapping[int, Loss], experiment: Experiment, state: TrainState) -> dict[str, Any]:
        """Returns what a checkpoint is worth. Beyond the trained length a loss that is not finite is a finding."""
        block = self.spec.block
        for length, loss in losses.items():
            if loss.mean is None and length <= block:
                name = self.checkpoint.name if self.checkpoint else experiment.model.name
                remedy = "Lower training.lr." if state.step else f"The weights of {name} may be damaged."
                raise NonFiniteError(
                    f"The loss on the test text is not finite at length {length:,}. It was measured after {state.step} "
                    f"steps of training. {remedy}"
                )
        if self.checkpoint is not None and experiment.tests == LengthTests((block,)):
            return {"perplexity": losses[block].perplexity}
        return {
            "losses": {str(n): loss.mean for n, loss in losses.items()},
            "predicted": {str(n): loss.tokens for n, loss in losses.items()},
        }

    def _kept(self, scoring: Scoring, result: dict[str, Any]) -> dict[str, Tensors]:
        """Writes the model, and that of the best validation, as transformers loads them; or returns their weights."""
        state = scoring.state
        better = bool(state.best["step"]) and state.best["step"] != state.step
        every = {"model": scoring.last, **({"best": state.best_weights} if better else {})}
        if not hasattr(state.core, "save_pretrained"):
            return every
        if state.directory:
            state.directory.check_held()
            for name, weights in reversed(every.items()):
                load_weights(state.core, weights)
                self._write(state.core, state.directory.path, name)
            if self.checkpoint is None:
                result["folders"] = {name: pretrained.folder_digest(state.directory.path / name) for name in every}
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
    """Returns the entry of each checkpoint that was scored: before training, the last, the best in validation."""
    scored = {"before": {"step": 0, **state.scores["before"]}} if "before" in state.scores else {}
    scored["last"] = {"step": state.step, **last}
    if state.best["step"]:
        scored["best"] = {"step": state.best["step"], "validation": {"loss": state.best["loss"]}}
    return scored


def checkpoint_of(model: ModelSpec) -> pretrained.Checkpoint | None:
    """The pretrained checkpoint that a model is, unchanged since it was planned; None of one from scratch."""
    if model.folder is None:
        return None
    checkpoint = pretrained.find(model.folder)
    if checkpoint.digest != model.source:
        raise Error(f"{model.folder}: its files changed since the experiment was planned. Plan it again.")
    return checkpoint


def _trained(experiment: Experiment, directory: Directory | None) -> pretrained.Checkpoint:
    """The trained model of an earlier experiment, whose run stands beside this directory."""
    if directory is None:
        raise Error(f"{experiment.model.name}: what an earlier run trained lies beside its own. Use lab.run.")
    run = read_run(RunDirectory(directory.path.parent, experiment).path)
    folder = model_folder(run)
    if folder is None:
        raise Error(f"{run.path}: its model is none that transformers loads, so that nothing can go on from it.")
    return pretrained.find(str(folder))


Answers = tuple[Sequence[AnsweredPrompt], Sequence[AnsweredPrompt], Sequence[Question]]
"""What is trained on; what is validated, a row for each reference of a question; and the questions, whose inputs are
prompts (P,)."""


def digests(source: str, task: str) -> dict[str, str]:
    """Returns the digests of the rows that are trained on and of those that are tested."""
    splits = {"train": "train", "test": "validation"}
    return {side: scrolls.digest(scrolls.rows(source, task, split)) for side, split in splits.items()}  # pyright: ignore[reportArgumentType]


def questions_of(rows: Iterable[scrolls.Row], prompts: Prompts, most: int | None) -> list[Question]:
    """The first questions of these rows, with their prompts; the rows of all others are read too."""
    prompt_of: dict[str, Tensor] = {}
    chosen: list[tuple[str, Tensor, str | None]] = []
    for id, text, output in rows:
        if id not in prompt_of and (most is None or len(prompt_of) < most):
            prompt_of[id] = prompts.prompt(text)
        if id in prompt_of:
            chosen.append((id, prompt_of[id], output))
    return scrolls.grouped(chosen)


_last_read: dict[str, Answers] = {}
"""The rows that were read last, by their spec and tokenizer: experiments on one task share them."""


def answers_of(spec: AnswersSpec, tokenizer_folder: Path | str) -> Answers:
    """The rows of a spec in the tokens of a tokenizer."""
    key, (source,) = f"{spec} {tokenizer_folder}", spec.files
    if key not in _last_read:
        prompts = Prompts(tokenizers.load(tokenizer_folder), spec.block, spec.budget)
        whole = {side: hashlib.sha256() for side in ("train", "test")}
        train = []
        for row in scrolls.digested(scrolls.rows(source, spec.task, "train"), whole["train"]):
            if spec.trained is None or len(train) < spec.trained:
                train.append(prompts.answered(row.input, row.output or ""))
        rows = scrolls.digested(scrolls.rows(source, spec.task, "validation"), whole["test"])
        questions = questions_of(rows, prompts, spec.questions)
        validation = [prompts.behind(each.input, output) for each in questions for output in each.outputs]
        if {side: each.hexdigest() for side, each in whole.items()} != spec.digests:
            raise Error(f"{source}: {spec.task} changed since the experiment was planned. Plan it again.")
        _last_read.clear()
        _last_read[key] = train, validation, questions
    return _last_read[key]


class AnswerMaterial(TextMaterial):
    """Prompts with their answers."""

    kind = "answers"

    def __init__(self, experiment: Experiment, device: torch.device, share: int = 1):
        Material.__init__(self, experiment, device, share)
        spec, self.checkpoint = self.spec, checkpoint_of(experiment.model)
        folder = self.checkpoint.folder if self.checkpoint else Path(spec.tokenizer_folder or "")
        self.tokenizer = tokenizers.load(folder)
        if spec.tokenizer is not None and tokenizers.digest(self.tokenizer) != spec.tokenizer:
            raise Error(f"{folder}: the tokenizer changed since the experiment was planned. Plan it again.")
        self.rows, self.validation, self.questions = answers_of(spec, folder)
        validated = self.validation[: experiment.training.checkpointing.validation_samples]
        self.data = PromptsAndAnswers(self.rows, experiment.training, spec.block, validated)
        self.objective = AnswerTokens(experiment.objective.tokens_at_once)

    def test_after(self, experiment: Experiment, scoring: Scoring) -> tuple[dict[str, Tensors], dict[str, Any]]:
        """The loss of the last weights, and what those of the best validation write."""
        state, questions = scoring.state, self.questions
        if "last" not in state.scores:
            losses = self._losses(experiment, state, scoring.stop)
            state.scores["last"] = self._scores(losses, experiment, state)
        load_weights(state.core, state.best_weights or scoring.last)
        written = write_texts(
            state.core,
            self.tokenizer,
            {each.id: each.input for each in questions},
            self.spec.budget,
            autocast=state.training.precision,
            tokens_at_once=experiment.objective.tokens_at_once,
            known=state.scores.get("answers"),
            before=scoring.stop.check,
            after=lambda texts: scoring.after("test best", "answers", dict(texts), len(texts), len(questions)),
        )
        if state.directory:
            state.directory.check_held()
            write_text(state.directory.path / PREDICTIONS, json.dumps(written, indent=0))
        metric = scrolls.TASKS[self.spec.task].metric
        result: dict[str, Any] = {
            "checkpoints": checkpoints(state, state.scores["last"]),
            "answers": {
                "step": state.best["step"] or state.step,
                "metric": metric,
                "questions": len(questions),
                **score(metric, [*written.values()], [q.outputs for q in questions]),
            },
            "rows": len(self.rows),
            "epochs": state.step * state.training.batch / len(self.rows),
        }
        return self._kept(scoring, result), result

    def _losses(self, experiment: Experiment, state: TrainState, stop: Stop, **more: Any) -> dict[int, Loss]:
        batches = [AnswerBatch.of([row]) for row in self.validation]
        state.model.eval()
        total, predicted = total_loss(
            state.model,
            batches,
            experiment.objective.tokens_at_once,
            device=self.device,
            autocast=state.training.precision,
            before=stop.check,
        )
        mean = total / predicted
        return {self.spec.block: Loss(mean if math.isfinite(mean) else None, predicted)}
