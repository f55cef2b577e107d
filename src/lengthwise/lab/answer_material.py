"""An experiment on answers: a checkpoint trained on, or a model from scratch, to write behind prompts of SCROLLS.

Training reads prompts with their answers and learns the answers' tokens alone. The weights of the best validation loss
then write an answer to each question of the validation split, whose score is the result.

    predictions.json    {id: answer}, the form in which SCROLLS's own evaluator reads them

Beside it lies what every run on text leaves, model/ and best/ among it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import Error
from ..evaluate import Loss
from ..evaluate.answer_scores import score
from ..evaluate.written_answers import write_texts
from ..files import Tensors, write_text
from ..text import scrolls, tokenizers
from ..text.prompts import AnsweredPrompt, Prompts
from ..text.scrolls import Question
from ..train import AnswerTokens, PromptsAndAnswers, Stop, TrainState
from ..train.answers import AnswerBatch, total_loss
from ..train.state import load_weights
from .experiment import AnswersSpec, Experiment
from .material import Scoring
from .text_material import TextMaterial, checkpoint_of, checkpoints

PREDICTIONS = "predictions.json"


@dataclass(frozen=True)
class Answers:
    """What an experiment reads, as tokens."""

    train: Sequence[AnsweredPrompt]
    validation: Sequence[AnsweredPrompt]
    """A row for each reference of the questions that are tested."""
    questions: Sequence[Question]
    """Their inputs are prompts (P,)."""


def digests(source: str, task: str) -> dict[str, str]:
    """Of the rows that are trained on and of those that are tested."""
    splits = {"train": "train", "test": "validation"}
    return {side: scrolls.digest(scrolls.rows(source, task, split)) for side, split in splits.items()}  # pyright: ignore[reportArgumentType]


def questions_of(rows: Iterable[scrolls.Row], prompts: Prompts, most: int | None) -> list[Question]:
    """The first questions of these rows, with their prompts; the rows of all others are read too."""
    ids: set[str] = set()
    prompt_of: dict[str, Tensor] = {}
    chosen: list[tuple[str, Tensor, str | None]] = []
    for id, text, output in rows:
        if most is None or len(ids) < most or id in ids:
            ids.add(id)
            if id not in prompt_of:
                prompt_of[id] = prompts.prompt(text)
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
        _last_read[key] = Answers(train, validation, questions)
    return _last_read[key]


class AnswerMaterial(TextMaterial):
    """Prompts with their answers."""

    def __init__(self, experiment: Experiment, device: torch.device, share: int = 1):
        spec = experiment.data
        if not isinstance(spec, AnswersSpec) or experiment.objective.kind != "answers":
            raise Error(f"Answers are trained on with the objective answers, got {experiment.objective.kind}.")
        self.device, self.spec, self.checkpoint = device, spec, checkpoint_of(experiment.model)
        folder = self.checkpoint.folder if self.checkpoint else Path(spec.tokenizer_folder or "")
        self.tokenizer = tokenizers.load(folder)
        if spec.tokenizer is not None and tokenizers.digest(self.tokenizer) != spec.tokenizer:
            raise Error(f"{folder}: the tokenizer changed since the experiment was planned. Plan it again.")
        self.answers = answers_of(spec, folder)
        validated = self.answers.validation[: experiment.training.checkpointing.validation_samples]
        self.data = PromptsAndAnswers(self.answers.train, experiment.training, spec.block, validated)
        self.objective = AnswerTokens(experiment.objective.tokens_at_once)

    def test_after(self, experiment: Experiment, scoring: Scoring) -> tuple[dict[str, Tensors], dict[str, Any]]:
        """The loss of the last weights, and what those of the best validation write."""
        state, questions = scoring.state, self.answers.questions
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
            "rows": len(self.answers.train),
            "epochs": state.step * state.training.batch / len(self.answers.train),
        }
        return self._kept(scoring, result), result

    def _losses(
        self,
        experiment: Experiment,
        state: TrainState,
        stop: Stop,
        after: Callable[[dict[int, Loss]], None] | None = None,
        known: Mapping[int, Loss] | None = None,
    ) -> dict[int, Loss]:
        batches = [AnswerBatch.of([row]) for row in self.answers.validation]
        state.model.eval()
        total, predicted = total_loss(
            state.model,
            batches,
            device=self.device,
            autocast=state.training.precision,
            tokens_at_once=experiment.objective.tokens_at_once,
            before=stop.check,
        )
        mean = total / predicted
        return {self.spec.block: Loss(mean if math.isfinite(mean) else None, predicted)}
