"""`lengthwise eval needle` and `variables`: does a model know what stood far back in its prompt?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from ...options import at_least
from .. import console
from ..typed import SET
from ..verb import Typed, verb
from ..work import Output
from .perplexity import fail_unless_finite, tell
from .subject import Model, OnText, Windows

if TYPE_CHECKING:
    from ...evaluate import Needle, Variables

HOW = ("scoring", "choices", "budget")
"""What `--set` says of how a question is put and scored; the rest is about the question itself."""


@dataclass(frozen=True)
class PromptOptions:
    """Options of prompts: how many there are, and whether perplexity is measured beside them."""

    samples: Annotated[int, at_least(1), "How many prompts of each kind are made."] = 10
    beside: Annotated[bool, "Perplexity at the same lengths, too.", Typed(flag="--with-perplexity")] = False


@verb
def needle(
    model: Model,
    *,
    on: OnText,
    prompts: PromptOptions,
    depths: Annotated[
        str | None,
        "Where the needle lies, from 0 to 1, the end of the prompt.",
        Typed("SHARES", default="five, from 0 to 1"),
    ] = None,
    settings: Annotated[
        list[str] | None, "keys, values, queries, haystack, scoring, choices or budget; repeat it.", SET
    ] = None,
    windows: Windows,
    output: Output,
) -> None:
    """How often a model knows a number that a line of its prompt has told, by length and depth.

    Exit codes: 0 fine, 1 a loss is not finite, 2 wrong input.

    Example: [bold]lengthwise eval needle ./my-llama --corpus book.txt --lengths 512,2048 -s keys=4[/bold]
    """
    question, how = read_question("needle", settings or [], depths)
    _measure(model, on, prompts, question, how, windows, output)


@verb
def variables(
    model: Model,
    *,
    on: OnText,
    prompts: PromptOptions,
    settings: Annotated[list[str] | None, "chains, hops, scoring, choices or budget; repeat it.", SET] = None,
    windows: Windows,
    output: Output,
) -> None:
    """How often a model knows which names have a value, by assignments all over its prompt.

    Exit codes: 0 fine, 1 a loss is not finite, 2 wrong input.

    Example: [bold]lengthwise eval variables ./my-llama --corpus book.txt --lengths 512,2048 -s hops=2[/bold]
    """
    question, how = read_question("variables", settings or [])
    _measure(model, on, prompts, question, how, windows, output)


def _measure(
    model: str,
    on: OnText,
    prompts: PromptOptions,
    question: Needle | Variables,
    how: dict[str, Any],
    windows: Windows,
    output: Output,
) -> None:
    """Measures the answers and, where it is wanted, the perplexity at the same lengths; then shows both."""
    from ... import lab, report

    losses, shared = None, on.arguments()
    with console.stdout_kept(output.as_json):
        answers = lab.measure_far_tokens(
            model, question=question, **shared, **how, samples=prompts.samples, after=_tell_done
        )
        if prompts.beside:
            losses = lab.measure_perplexity(model, **shared, **asdict(windows), after=tell)
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
    from ...evaluate import Needle, Variables, score_far_tokens
    from ...options import Word, schema, take, word_of

    kind, known = {"needle": Needle, "variables": Variables}[what], schema(score_far_tokens)
    typed_words = dict(word_of(setting, "keys=4") for setting in settings)
    values = take({**schema(kind), **{name: known[name] for name in HOW}}, typed_words, what, prefix="")
    how = {name: values.pop(name) for name in HOW if name in values}
    if depths is not None:
        how["depths"] = known["depths"].read(Word(depths), "--depths")
    return kind(**values), how


def _tell_done(done: int, of: int) -> None:
    console.remark(f"{done} of {of} lengths and depths")
