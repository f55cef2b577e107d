"""Runs sent to TensorBoard, Weights & Biases or Trackio while they train: `lab.bench(…, log=["tensorboard"])`.

What is sent are the lines of a run's metrics, in their order, and the tests when it has ended; `logged.json` in the
run's directory holds how many lines each logger has had. A run that is stopped and resumed therefore sends no step
twice, and one that began without a logger, or is finished already, sends what is missing. Loggers live in the process
that trains, so they work under any number of workers.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from ..errors import UnknownName, check_extra
from ..files import read_json, read_text, write_atomically
from ..train.state import learning_rate
from .experiment import Experiment
from .records import Run, RunDirectory
from .statistics import accuracy, perplexities

Values = dict[str, float]
PROJECT = "lengthwise"
SENT = "logged.json"


class Logger(Protocol):
    """Made of the experiment and its directory, when there is something to send."""

    def log(self, values: Values, step: int, /) -> None: ...

    def test(self, values: Values, length: int, /) -> None:
        """Receives what was measured at one test length, after training."""
        ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files in the run's directory: `tensorboard --logdir runs` shows every run."""

    def __init__(self, experiment: Experiment, path: Path):
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(path))
        self.close = self.writer.close

    def log(self, values: Values, step: int) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)
        # What `logged.json` says was sent must not be lost in a buffer.
        self.writer.flush()

    test = log


class Tracker:
    """A run of a tracker that has steps and an end, in the project `lengthwise` or the one that `variable` names."""

    variable: str

    def __init__(self, experiment: Experiment, path: Path):
        self.path = path
        self.run = self.begin(
            project=os.environ.get(self.variable, PROJECT),
            name=experiment.directory,
            group=experiment.data.name,
            config={**experiment.to_json(), "training": experiment.training.settings(), "hash": experiment.hash},
            resume="allow",
        )

    def begin(self, **about: Any) -> Any:
        raise NotImplementedError

    def log(self, values: Values, step: int) -> None:
        self.run.log(values, step=step)

    test = log

    def close(self) -> None:
        self.run.finish()


class WeightsAndBiases(Tracker):
    """A run whose id is the experiment's hash."""

    variable = "WANDB_PROJECT"

    def begin(self, **about: Any) -> Any:
        import wandb  # pyright: ignore[reportMissingImports]

        run = wandb.init(id=about["config"]["hash"], reinit="create_new", dir=str(self.path), **about)
        run.define_metric("test/*", step_metric="length")
        return run

    def test(self, values: Values, length: int) -> None:
        self.run.log({**values, "length": length})


class Trackio(Tracker):
    """`trackio show --project lengthwise` shows it."""

    variable = "TRACKIO_PROJECT"

    def begin(self, **about: Any) -> Any:
        import trackio  # pyright: ignore[reportMissingImports]

        return trackio.init(embed=False, auto_log_gpu=False, auto_log_cpu=False, **about)


LOGGERS: dict[str, Callable[[Experiment, Path], Logger]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "trackio": Trackio,
}
"""By name, which is the name of the module and of the extra that brings it, too."""


def check_loggers(names: str | Sequence[str]) -> tuple[str, ...]:
    """The names, each known and its module installed."""
    names = (names,) if isinstance(names, str) else tuple(dict.fromkeys(names))
    for name in names:
        if name not in LOGGERS:
            raise UnknownName("logger", name, LOGGERS)
        check_extra(name, name, f"Logging to {name}")
    return names


class Sender:
    """Sends the lines of one run's metrics to its loggers, then its tests, each once; a `with` block closes them."""

    def __init__(self, directory: RunDirectory, names: Sequence[str]):
        self.directory, self.path, self.names = directory, directory.path, list(names)
        self.open: dict[str, Logger] = {}
        self.lines: list[Callable[[Logger], None]] = []
        self.sent: dict[str, int] = {}
        """How many lines each logger has had."""

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.open):
            self._try([name], self.open.pop(name).close)

    def begin(self) -> None:
        """Send what the metrics hold already; call it when the directory is locked and its metrics are as they stay."""
        self._try(self.names, self._recall)
        self.directory.hear = lambda line: self._send([line])
        metrics = self.path / "metrics.jsonl"
        text = read_text(metrics) if self.names and metrics.exists() else ""
        self._send(map(json.loads, text.splitlines()))

    def end(self, run: Run) -> None:
        """Receives what the finished run was tested for."""
        self.lines.append(partial(_tell_tests, run))
        self._send()

    def _send(self, lines: Iterable[Mapping[str, Any]] = ()) -> None:
        """Sends each logger what it lacks, these lines of the metrics too."""
        self.lines += [partial(_tell, line, self.directory.experiment) for line in lines]
        before = dict(self.sent)
        for name in list(self.names):
            self._try([name], partial(self._send_to, name))
        if self.sent != before:
            # Where that cannot be written no more is sent, or it would be sent twice.
            self._try(self.names, lambda: write_atomically(self.path / SENT, json.dumps(self.sent).encode()))

    def _send_to(self, name: str) -> None:
        for tell in self.lines[self.sent.get(name, 0) :]:
            if name not in self.open:
                self.open[name] = LOGGERS[name](self.directory.experiment, self.path)
            tell(self.open[name])
            self.sent[name] = self.sent.get(name, 0) + 1

    def _recall(self) -> None:
        path, again = self.path / SENT, "Delete it to send every line again."
        self.sent = {name: int(lines) for name, lines in read_json(path, again).items()} if path.exists() else {}

    def _try(self, names: Sequence[str], act: Callable[[], None]) -> None:
        """Loggers for which something fails are left out from here on: training does not depend on them."""
        try:
            act()
        except Exception as error:
            self.names = [other for other in self.names if other not in names]
            warnings.warn(
                f"{', '.join(names)} failed and is left out of {self.path.name} from here on "
                f"({type(error).__name__}: {error}). The run goes on; the same call again sends what is missing.",
                stacklevel=2,
            )


def _tell(line: Mapping[str, Any], experiment: Experiment, logger: Logger) -> None:
    kind, step, training = line["kind"], line["step"], experiment.training
    names = ("loss", "accuracy", "length", "tokens_per_second")
    values = {f"{kind}/{name}": line[name] for name in names if name in line}
    if kind == "train":
        values["train/lr"] = learning_rate(training.optimizer, step - 1, training.steps)
    logger.log(values, step)


def _tell_tests(run: Run, logger: Logger) -> None:
    """Sends the accuracies of strings and the perplexities of text by length, those of a checkpoint by step."""
    checkpoints, e = run.result["checkpoints"], run.experiment
    if e.from_checkpoint:
        for which in ("before", "last"):
            (perplexity, *_) = perplexities(run, which).values()
            logger.log({"test/perplexity": perplexity}, checkpoints[which]["step"])
    elif e.on_text:
        for length, perplexity in perplexities(run).items():
            logger.test({"test/perplexity": perplexity}, length)
    else:
        for n in sorted(e.tests.lengths):
            logger.test({"test/accuracy": accuracy(run, n), "test/best_accuracy": accuracy(run, n, "best")}, n)
