"""The lab: train short, test long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from ..train import Interrupted, Progress, Training
    from ..train.team import follows
    from .choices import Choice, choose, chosen_runs
    from .cliff import Cliff, measure_cliff
    from .collection import zoo
    from .engines import InProcess, Processes
    from .experiment import AnswersSpec, Experiment, LengthTests, ModelSpec, TaskSpec, TextSpec
    from .grid import plan
    from .job import Job, Outcome
    from .language_models import plan_answers, plan_continued, plan_further, plan_language_models, trained_places
    from .launch import Engine, Launch
    from .loading import load_model, load_task, load_tokenizer
    from .measurements import (
        Answered,
        Measured,
        MeasuredAnswers,
        MeasuredFarTokens,
        measure_answers,
        measure_far_tokens,
        measure_perplexity,
    )
    from .new_models import new_model
    from .ray_tasks import RayTasks
    from .records import Found, Run, Runs, find, load
    from .running import LAUNCHES, Listener, bench, chosen_device, device_of, elsewhere, run
    from .slurm_jobs import SlurmJobs
    from .statistics import Summary, accuracy, overflowed, score, summary
    from .sweeps import settings_of_part
    from .tested_lengths import lengths
    from .under_torchrun import check_strategy, follow

__all__ = [
    "LAUNCHES", "Answered", "AnswersSpec", "Choice", "Cliff", "Engine", "Experiment", "Found", "InProcess",
    "Interrupted", "Job", "Launch", "LengthTests", "Listener", "Measured", "MeasuredAnswers", "MeasuredFarTokens",
    "ModelSpec", "Outcome", "Processes", "Progress", "RayTasks", "Run", "Runs", "SlurmJobs", "Summary", "TaskSpec",
    "TextSpec", "Training", "accuracy", "bench", "check_strategy", "choose", "chosen_device", "chosen_runs",
    "device_of", "elsewhere", "find", "follow", "follows", "lengths", "load", "load_model", "load_task",
    "load_tokenizer", "measure_answers", "measure_cliff", "measure_far_tokens", "measure_perplexity", "new_model",
    "overflowed", "plan", "plan_answers", "plan_continued", "plan_further", "plan_language_models", "run",
    "score", "settings_of_part", "summary", "trained_places", "zoo",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__)
