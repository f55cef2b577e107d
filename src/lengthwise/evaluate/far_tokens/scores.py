"""How often a language model finds what stands far back, by length of the prompt and depth in it.

    score(N, depth) = mean over samples of the share of right answers      (`answers` says what counts as right)

A question is a function of (seed, length, depth, sample), the settings, the tokenizer and the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain, product
from random import Random
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn

from ...errors import Error, LengthError
from ...limits import CLASSES, SAMPLES
from ...models import pretrained
from ...models.token_classifier import evaluating
from ...options import at_least, checked
from ...seeds import derive
from ..benchmark_scores import contained
from ..text import memory_for
from .answers import log_likelihoods, ranked, written
from .haystack import DRAWS, Encoder, FactQuestion
from .needle import Needle, Needles
from .variables import Chains, Variables

DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
POOL = 4
"""Needles are hidden in text that is so many times as long as the longest prompt, if the documents have as much."""
NEEDLE = Needle()


@dataclass(frozen=True)
class FarScores:
    """The right answers at each length and depth."""

    what: str
    """"needle" or "variables"."""
    lengths: tuple[int, ...]
    """Tokens of a prompt with its answer."""
    depths: tuple[float, ...]
    """Where the needle lay: 0 the beginning, 1 the end. Empty where facts lie everywhere."""
    scores: tuple[tuple[float, ...], ...]
    """A row for each length, with a score for each depth, or one."""
    samples: int
    """How many prompts each score is the mean of."""
    baseline: float
    """What a model scores that holds all answers alike; 0 of one that writes."""
    settings: dict[str, Any]

    @property
    def by_length(self) -> dict[int, float]:
        """The mean over all depths."""
        return {n: sum(row) / len(row) for n, row in zip(self.lengths, self.scores, strict=True)}

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "by_length": {str(n): score for n, score in self.by_length.items()}}


@checked
def score_far_tokens(
    model: nn.Module,
    tokenizer: Any,
    text: Iterable[str] | Tensor,
    question: Needle | Variables = NEEDLE,
    *,
    lengths: Annotated[Sequence[int], at_least(1), "How many tokens a prompt has with its answer."],
    depths: Annotated[Sequence[float], at_least(0, at_most=1), "Where the needle lies, from 0 to 1, the end."] = DEPTHS,
    samples: Annotated[int, at_least(1, at_most=SAMPLES), "How many prompts there are of each kind."] = 10,
    scoring: Annotated[
        Literal["ranking", "generation"], "Whether given answers are ranked, or the model writes its own."
    ] = "ranking",
    choices: Annotated[int, at_least(2, at_most=CLASSES), "How many answers are ranked for each right one."] = 10,
    budget: Annotated[int, at_least(1), "How many tokens a model may write."] = 32,
    seed: Annotated[int, "Another one draws other prompts."] = 0,
    autocast: str = "fp32",
    tokens_at_once: int = 8192,
    after: Callable[[int, int], None] | None = None,
) -> FarScores:
    """Counts how often a language model answers a question about its prompt rightly, by length and depth.

    `text`: documents, or their tokens (M,), to hide facts in. The first that fill some prompts are read.
    `after` each length and depth it is called with how many are done, and how many there are.
    """
    if not lengths or (question.lies_at_depth and not depths):
        raise Error(f"{'depths' if lengths else 'lengths'} is empty: name at least one.")
    rows = pretrained.position_rows(model)
    if rows is not None and max(lengths) > rows:
        raise LengthError(
            f"The model has places for {rows:,} tokens, got length {max(lengths):,}. Use shorter prompts."
        )
    writes = scoring == "generation"
    source = question.source(Encoder(tokenizer), text, POOL * max(lengths), writes)
    ask = partial(_by_writing, tokenizer=tokenizer, budget=budget) if writes else _by_ranking
    asked = {
        **asdict(question),
        "scoring": scoring,
        "seed": seed,
        **({"budget": budget} if writes else {"choices": choices}),
    }
    places = list(depths) if question.lies_at_depth else [None]
    scores: list[float] = []
    with evaluating(model):
        for n, depth in product(lengths, places):
            before = n - (budget if writes else source.width)
            drawn = [_drawn(source, before, depth, question.right * choices, (n, i, asked)) for i in range(samples)]
            questions, some = [*chain(*drawn)], max(1, tokens_at_once // n)
            parts = [questions[i : i + some] for i in range(0, len(questions), some)]
            with memory_for(f"prompts of {n:,} tokens", "Ask for shorter ones, or for fewer tokens at once."):
                shares = [share for part in parts for share in ask(model, part, autocast=autocast)]
            scores.append(sum(shares) / len(shares))
            if after:
                after(len(scores), len(lengths) * len(places))
    rows = tuple(tuple(scores[i : i + len(places)]) for i in range(0, len(scores), len(places)))
    where = tuple(depths) if question.lies_at_depth else ()
    settings = {**asked, "prompt": question.prompt, "budget": budget if writes else source.width}
    return FarScores(question.name, tuple(lengths), where, rows, samples, 0.0 if writes else 1 / choices, settings)


def _drawn(
    source: Needles | Chains, tokens: int, depth: float | None, choices: int, known_by: tuple[Any, ...]
) -> list[FactQuestion]:
    for attempt in range(DRAWS):
        random = Random(derive("far tokens", *known_by, depth, attempt))
        if questions := source.draw(tokens, depth, choices, random):
            return questions
    raise Error(
        "What is hidden must stand in its prompt as often as it was put there, and in none that was drawn it does. "
        "Either the text is full of such words, or the tokenizer cannot write them. Give other documents, or another "
        "tokenizer."
    )


def _by_ranking(model: nn.Module, questions: Sequence[FactQuestion], autocast: str) -> list[float]:
    answers = [question.right + question.wrong for question in questions]
    likelihoods = log_likelihoods(model, _prompts(model, questions), _on(model, answers), autocast=autocast)
    return [ranked(row, len(question.right)) for row, question in zip(likelihoods.tolist(), questions, strict=True)]


def _by_writing(
    model: nn.Module, questions: Sequence[FactQuestion], tokenizer: Any, budget: int, autocast: str
) -> list[float]:
    texts = written(model, tokenizer, _prompts(model, questions), budget, autocast=autocast)
    return [contained(text, question.answers) for text, question in zip(texts, questions, strict=True)]


def _prompts(model: nn.Module, questions: Sequence[FactQuestion]) -> Tensor:
    return _on(model, [question.prompt for question in questions])


def _on(model: nn.Module, tokens: list[Any]) -> Tensor:
    return torch.tensor(tokens, device=next(model.parameters()).device)
