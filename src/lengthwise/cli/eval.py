"""`lengthwise eval`: measure a trained language model on text, at any lengths, or by the answers it writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..lab.launch import Loading
from ..options import at_least, schema
from . import console
from .train import HowMeasured
from .typed import SET, Checkpoint, read_place
from .verb import Typed, Verb, Verbs, verb
from .work import Device, Output

if TYPE_CHECKING:
    from ..evaluate import Loss, Needle, Variables
    from ..lab import Answered

LINES = schema(Loading)


Model = Annotated[
    str,
    "A run directory, or a Hugging Face checkpoint: its folder or hub name.",
    Typed("MODEL", argument=True, read=read_place),
]


@dataclass(frozen=True)
class Loaded(Loading):
    """Options of loading a model."""

    which: Checkpoint = "last"
    conversions: Annotated[Sequence[Any], LINES["conversions"].line, Typed("NAME", flag="--convert")] = ()
    device: Device = "auto"

    def arguments(self) -> dict[str, Any]:
        """Returns what `lab.measure_perplexity` and its like take of these."""
        from .. import lab

        how = {name: getattr(self, name) for name in LINES}
        return {**how, "conversions": self.conversions or (), "device": lab.chosen_device(self.device)}


@dataclass(frozen=True)
class OnText(Loaded):
    """A model, the text on which it is measured, and how that is read for its perplexity."""

    corpus: Annotated[
        list[str] | None,
        "stdlib, a file or folder of text, or hf:NAME; all of it is tested on. Repeat it for more.",
        Typed("CORPUS", default="a run's own held-out text"),
    ] = None
    lengths: Annotated[
        str | None, "Lengths in tokens, such as 512,1024,2048.", Typed("LENGTHS", default="those a run was tested at")
    ] = None
    seed: Annotated[int, "Draws others."] = 0
    way: HowMeasured = "windows"
    tokens: Annotated[
        int, at_least(2), "Windows: at most so many tokens of the text are tested, at every length the same."
    ] = 65_536
    store: Annotated[Path, "Where the corpus's tokens are kept for the next call.", Typed("DIR")] = Path("runs/text")

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "corpus": self.corpus or (), "lengths": self.lengths, "seed": self.seed}

    def of_windows(self) -> dict[str, Any]:
        """Returns all that `lab.measure_perplexity` takes of these."""
        return {**self.arguments(), "way": self.way, "tokens": self.tokens, "store": self.store}


@verb
def perplexity(
    model: Model,
    *,
    on: OnText,
    samples: Annotated[int, at_least(1), "Last token: how many chunks are drawn."] = 1000,
    output: Output,
) -> None:
    """How well a model predicts text, at several lengths.

    Exit codes: 0 fine, 1 a loss is not finite, 2 wrong input.

    Example: [bold]lengthwise eval perplexity runs/stdlib-bipe-s0-1a2b3c --lengths 512,1024,4096[/bold]

    Example: [bold]lengthwise eval perplexity ./my-llama --corpus book.txt --lengths 1024 --way last-token[/bold]
    """
    from .. import lab, report

    with console.stdout_kept(output.as_json):
        losses = lab.measure_perplexity(model, **on.of_windows(), samples=samples, after=tell)
    output.show([report.perplexity(losses)], losses.to_json())
    fail_unless_finite(losses)


def tell(losses: dict[int, Loss]) -> None:
    """A remark on the length that was measured last."""
    length, loss = list(losses.items())[-1]
    console.remark(f"{length:,} tokens: perplexity {loss.perplexity:.4g}")


def fail_unless_finite(perplexity: Any) -> None:
    if any(loss.mean is None for loss in perplexity.losses.values()):
        raise typer.Exit(1)


HOW = ("scoring", "choices", "budget")
"""What `--set` says of how a question is put and scored; the rest is about the question itself."""


@dataclass(frozen=True)
class OnPrompts(OnText):
    """The prompts that are made of a text, and whether perplexity is measured beside them."""

    samples: Annotated[int, at_least(1), "How many prompts of each kind are made."] = 10
    beside: Annotated[bool, "Perplexity at the same lengths, too.", Typed(flag="--with-perplexity")] = False


@verb
def needle(
    model: Model,
    *,
    on: OnPrompts,
    depths: Annotated[
        str | None,
        "Where the needle lies, from 0 to 1, the end of the prompt.",
        Typed("SHARES", default="five, from 0 to 1"),
    ] = None,
    settings: Annotated[
        list[str] | None, "keys, values, queries, haystack, scoring, choices or budget; repeat it.", SET
    ] = None,
    output: Output,
) -> None:
    """How often a model knows a number that a line of its prompt has told, by length and depth.

    Exit codes: 0 fine, 1 a loss is not finite, 2 wrong input.

    Example: [bold]lengthwise eval needle ./my-llama --corpus book.txt --lengths 512,2048 -s keys=4[/bold]
    """
    _measure(model, on, read_question("needle", settings or [], depths), output)


@verb
def variables(
    model: Model,
    *,
    on: OnPrompts,
    settings: Annotated[list[str] | None, "chains, hops, scoring, choices or budget; repeat it.", SET] = None,
    output: Output,
) -> None:
    """How often a model knows which names have a value, by assignments all over its prompt.

    Exit codes: 0 fine, 1 a loss is not finite, 2 wrong input.

    Example: [bold]lengthwise eval variables ./my-llama --corpus book.txt --lengths 512,2048 -s hops=2[/bold]
    """
    _measure(model, on, read_question("variables", settings or []), output)


def _measure(model: str, on: OnPrompts, asked: tuple[Needle | Variables, dict[str, Any]], output: Output) -> None:
    """Measures the answers and, where it is wanted, the perplexity at the same lengths; then shows both."""
    from .. import lab, report

    losses, (question, how) = None, asked
    with console.stdout_kept(output.as_json):
        answers = lab.measure_far_tokens(
            model,
            question=question,
            **on.arguments(),
            **how,
            samples=on.samples,
            after=lambda done, of: console.remark(f"{done} of {of} lengths and depths"),
        )
        if on.beside:
            losses = lab.measure_perplexity(model, **on.of_windows(), after=tell)
    panels = [report.far_tokens(answers.scores, answers.model)] + ([report.perplexity(losses)] if losses else [])
    output.show(panels, {**answers.to_json(), "perplexity": losses and losses.to_json()})
    if losses:
        fail_unless_finite(losses)


def read_question(
    what: str, settings: list[str], depths: str | None = None
) -> tuple[Needle | Variables, dict[str, Any]]:
    """Returns the question, and how it is put and scored.

    >>> read_question("needle", ["keys=4", "choices=5"], "0,1")
    (Needle(keys=4, values=1, queries=1, haystack='text'), {'choices': 5, 'depths': [0.0, 1.0]})
    """
    from ..evaluate import Needle, Variables, score_far_tokens
    from ..options import Word, schema, take, word_of

    kind, known = {"needle": Needle, "variables": Variables}[what], schema(score_far_tokens)
    typed_words = dict(word_of(setting, "keys=4") for setting in settings)
    values = take({**schema(kind), **{name: known[name] for name in HOW}}, typed_words, what, prefix="")
    how = {name: values.pop(name) for name in HOW if name in values}
    if depths is not None:
        how["depths"] = known["depths"].read(Word(depths), "--depths")
    return kind(**values), how


ANSWERED_BY = ("window", "budget", "questions", "tokens_at_once")


@dataclass(frozen=True)
class Best(Loaded):
    which: Checkpoint = "best"


@verb
def scrolls(
    model: Model,
    *,
    data: Annotated[
        str | None,
        "A copy of the data set, with TASK/SPLIT.jsonl or TASK.zip in it; or hf:NAME.",
        Typed("FOLDER", default="hf:tau/scrolls"),
    ] = None,
    task: Annotated[
        list[str] | None,
        "A task, such as qasper; repeat it for more.",
        Typed("TASK", default="a run's own, or all seven"),
    ] = None,
    settings: Annotated[list[str] | None, "window, budget, questions or tokens_at_once; repeat it.", SET] = None,
    submission: Annotated[
        Path | None,
        "Answer the test split, and add the answers to this CSV, which the benchmark's site scores.",
        Typed("FILE"),
    ] = None,
    loading: Best,
    output: Output,
) -> None:
    """What a model answers to questions about long inputs, of seven tasks: ROUGE, F1 or exact match.

    A prompt is as long as -s window=… says, and there are as many as -s questions=… says.

    Exit codes: 0 fine, 2 wrong input.

    Example: [bold]lengthwise eval scrolls ./my-llama --data scrolls/ --task qasper -s window=4096[/bold]
    """
    from .. import lab, report
    from ..evaluate.written_answers import write_submission
    from ..options import schema, take, word_of
    from ..text.scrolls import HUB

    known = {name: option for name, option in schema(lab.measure_answers).items() if name in ANSWERED_BY}
    how = take(known, dict(word_of(setting, "window=4096") for setting in settings or []), "scrolls", prefix="")
    missing: list[str] = []

    def keep(name: str, answered: Answered) -> None:
        """Writes what hours have answered into the file before the next task begins."""
        if submission:
            missing[:] = write_submission(submission, {name: answered.answers})

    with console.stdout_kept(output.as_json):
        answers = lab.measure_answers(
            model,
            data or HUB,
            task or [],
            split="test" if submission else "validation",
            **how,
            **loading.arguments(),
            after=lambda name, done, of: console.remark(f"{name}: {done:,} of {of:,} questions"),
            after_task=keep,
        )
    about = {"submission": str(submission), "missing_tasks": missing} if submission else {}
    lacks = f"It still lacks {', '.join(missing)}: the site wants all seven." if missing else "All seven are in it."
    remark = f"Submission: {submission}. {lacks}" if submission else ""
    output.show([report.answers(answers)], {**answers.to_json(), **about}, remark)


evaluate = typer.Typer(
    cls=Verbs,
    help="Measure a run's model, or any Hugging Face checkpoint, at several lengths of text, or by its answers.",
    epilog="Example: lengthwise eval perplexity runs/stdlib-bipe-s0-1a2b3c --lengths 512,1024,4096",
)
for measure in (perplexity, needle, variables, scrolls):
    evaluate.command(cls=Verb)(measure)
