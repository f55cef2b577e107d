"""Options of several calls, as data: where runs go and what each takes, and how a model is loaded that is measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, runtime_checkable

from ..options import above, at_least, check_fields, schema, take

if TYPE_CHECKING:
    from .experiment import Experiment
    from .job import Job, Outcome


@runtime_checkable
class Engine(Protocol):
    """Runs groups of experiments; one group's failure is not another's."""

    def run(self, groups: Sequence[Sequence[Experiment]], job: Job) -> Iterator[Outcome]: ...


@dataclass(frozen=True)
class Launch:
    launch: Annotated[
        str | Engine | None,
        "here, pool, ray or slurm, options behind the name, as in 'ray address=auto'; by default here, or pool where "
        "there are several runs.",
    ] = None
    workers: Annotated[int | None, at_least(1), "How many runs go on at a time; by default one a core."] = None
    device: Annotated[str, "auto, cpu, cuda or cuda:N."] = "auto"
    strategy: Annotated[
        str | None,
        "How the processes of torchrun share one run: ddp, all with the whole model, or fsdp, each with pieces.",
    ] = None
    cpus_per_run: Annotated[float | None, above(0), "Cores that a run takes; by default one."] = None
    gpus_per_run: Annotated[float | None, above(0), "GPUs that a run takes; with 0.25 four runs share one."] = None
    log: Annotated[str | Sequence[str], "Send the runs to tensorboard, wandb or trackio too; repeat for more."] = ()

    def __post_init__(self):
        check_fields(self)

    def launched(self) -> dict[str, Any]:
        """The arguments of `run` that say the same."""
        return {name: getattr(self, name) for name in schema(Launch)}

    @staticmethod
    def of(options: Mapping[str, Any], owner: str) -> Launch:
        """The launch that these fields say; None leaves one as it is."""
        return Launch(**take(schema(Launch), {k: v for k, v in options.items() if v is not None}, owner))


@dataclass(frozen=True)
class Loading:
    """The arguments of `measure_perplexity`, `measure_far_tokens` and `measure_answers` that say which model it is."""

    which: Annotated[Literal["last", "best"], "Of a run: the weights at the end, or those of the best validation."] = (
        "last"
    )
    conversions: Annotated[
        Sequence[Any],
        "Convert a checkpoint first, as in --convert 'yarn factor=4' or 'bipe ends=sentence'; repeat it.",
    ] = ()
    tokenizer: Annotated[str | Path | None, "The folder of a tokenizer; by default the model's own."] = None
    precision: Annotated[Literal["fp32", "bf16"], "The number format: fp32 or bf16."] = "fp32"
    trust: Annotated[bool, "Run the run's own model and task, Python from outside this library."] = False
    device: Annotated[str, "auto, cpu, cuda or cuda:N."] = "cpu"

    def __post_init__(self):
        check_fields(self)
