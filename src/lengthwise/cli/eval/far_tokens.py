"""`lengthwise eval needle` and `variables`: does a model know what stood far back in its prompt?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from ...options import at_least
from .. import console
from ..typed import Checkpoint
from ..verb import Typed, verb
from .perplexity import Text, fail_unless_finite, tell
from .subject import Corpora, Lengths, Loading, Model, Output, Seed

if TYPE_CHECKING:
    from ...evaluate import Needle, Variables

HOW = ("scoring", "choices", "budget")
"""What `--set` says of how a question is put and scored; the rest is about the question itself."""
Prompts = Annotated[int, at_least(1), "How many prompts of each kind are made."]
Beside = Annotated[bool, "Perplexity at the same lengths, too.", Typed(flag="--with-perplexity")]


@verb
def needle(
    model: Model,
    *,
    corpus: Corpora = None,
    lengths: Lengths = None,
    samples: Prompts = 10,
    depths: Annotated[
        str | None,
        "Where the needle lies, from 0 to 1, the end of the prompt.",
        Typed("SHARES", default="five, from 0 to 1"),
    ] = None,
    settings: Annotated[
        list[str] | None,
        "keys, values, queries, haystack, scoring, choices or budget; repeat it.",
        Typed("NAME=VALUE", flag="--set", short="-s"),
    ] = None,
    beside: Beside = False,
    text: Text,
    seed: Seed = 0,
    checkpoint: Checkpoint = "last",
    loading: Loading,
    output: Output,
) -> None:
    """How often a model knows a number that a line of its prompt has told, by length and depth.

    Exit codes: 0 fine, 1 a loss is not finite, 2 wrong input.

    Example: [bold]lengthwise eval needle ./my-llama --corpus book.txt --lengths 512,2048 -s keys=4[/bold]
    """
    question, how = read_question("needle", settings or [], depths)
    how |= {"samples": samples, "seed": seed, "which": checkpoint, **loading.arguments()}
    _measure(model, corpus or [], lengths, question, how, text if beside else None, output)


@verb
def variables(
    model: Model,
    *,
    corpus: Corpora = None,
    lengths: Lengths = None,
    samples: Prompts = 10,
    settings: Annotated[
        list[str] | None,
        "chains, hops, scoring, choices or budget; repeat it.",
        Typed("NAME=VALUE", flag="--set", short="-s"),
    ] = None,
    beside: Beside = False,
    text: Text,
    seed: Seed = 0,
    checkpoint: Checkpoint = "last",
    loading: Loading,
    output: Output,
) -> None:
    """How often a model knows which names have a value, by assignments all over its prompt.

    Exit codes: 0 fine, 1 a loss is not finite, 2 wrong input.

    Example: [bold]lengthwise eval variables ./my-llama --corpus book.txt --lengths 512,2048 -s hops=2[/bold]
    """
    question, how = read_question("variables", settings or [])
    how |= {"samples": samples, "seed": seed, "which": checkpoint, **loading.arguments()}
    _measure(model, corpus or [], lengths, question, how, text if beside else None, output)


def _measure(
    model: str,
    corpus: list[str],
    lengths: str | None,
    question: Needle | Variables,
    how: dict[str, Any],
    text: Text | None,
    output: Output,
) -> None:
    """Measures the answers and, where `text` says how, the perplexity at the same lengths; then shows both."""
    from ... import lab, report

    losses = None
    with console.stdout_kept(output.as_json):
        found = lab.measure_far_tokens(model, corpus, lengths, question, **how, after=_tell_done)
        if text:
            shared = {name: value for name, value in how.items() if name not in (*HOW, "samples", "depths")}
            shared |= {"way": text.way, "tokens": text.tokens, "store": text.store}
            losses = lab.measure_perplexity(model, corpus, lengths, **shared, after=tell)
    panels = [report.far_tokens(found.scores, found.model)] + ([report.perplexity(losses)] if losses else [])
    output.show(panels, {**found.to_json(), "perplexity": losses and losses.to_json()})
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
