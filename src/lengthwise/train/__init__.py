"""One trainer: `Trainer(state, data, objective, strategy).run()` trains strings and text, one model or a population."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from .answers import AnswerTokens, PromptsAndAnswers
    from .data import Data, TaskStrings, TextBlocks
    from .directory import Directory, SavedState
    from .objectives import NextToken, Objective, StringObjective
    from .sequence_pieces import sequence_parallel
    from .settings import Training
    from .state import TrainState
    from .strategies import Single, Stacked
    from .trainer import Interrupted, Progress, Stop, Trainer

__all__ = [
    "AnswerTokens", "Data", "Directory", "Interrupted", "NextToken", "Objective", "Progress", "PromptsAndAnswers",
    "SavedState", "Single", "Stacked", "Stop", "StringObjective", "TaskStrings", "TextBlocks", "TrainState", "Trainer",
    "Training", "sequence_parallel",
]  # fmt: skip  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__)
