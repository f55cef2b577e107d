"""Figures 1, 7 and 8: tokens in a segment and segments in a text, by the length of the text, over one corpus or more.

A corpus's tokens stand in a row and are cut into windows of T. A window begins a segment, as for a model that reads it.
Tokens are counted of segments that end inside their window, and the segments of a window up to the last, which its end
may cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from ....errors import Error
from ....options import at_least
from ....report import Panel, Table, line_chart
from ....text import TokenFile, corpora, segment_ends, tokenizers, tokens_of
from ...base import Finished, Recipe, Scale

PUBLISHED = ("hf:pg19", "hf:arxiv")
SHARES = (0.1, 0.5, 0.9, 0.99)
FEWEST = 4
"""A length is left out where a corpus fills fewer windows of it."""
MOST = 50
"""Figure 1: most sentences have fewer tokens than this."""


class CorpusSetting(NamedTuple):
    lengths: tuple[int, ...]
    vocabulary: int
    corpora: tuple[str, ...]


SETTINGS: dict[Scale, CorpusSetting] = {
    "smoke": CorpusSetting((64, 128, 256), 300, ("stdlib",)),
    "laptop": CorpusSetting(tuple(1024 << n for n in range(7)), 4096, ("stdlib",)),
    "paper": CorpusSetting(tuple(1024 << n for n in range(8)), 32_000, PUBLISHED),
}


class WindowCounts(NamedTuple):
    """What windows of one length hold."""

    length: int
    tokens: np.ndarray
    """Of every segment that ends inside its window."""
    segments: np.ndarray
    """Of every window."""

    @property
    def summary(self) -> dict[str, Any]:
        named = [f"{100 * share:.0f}%" for share in SHARES]
        return {
            "length": self.length,
            "windows": len(self.segments),
            "segments": float(self.segments.mean()),
            "segments_by_share": dict(zip(named, np.quantile(self.segments, SHARES).tolist(), strict=True)),
            "tokens": float(self.tokens.mean()),
            "tokens_by_share": dict(zip(named, np.quantile(self.tokens, SHARES).tolist(), strict=True)),
            f"below_{MOST}": float((self.tokens < MOST).mean()),
            "longest": int(self.tokens.max()),
        }


def recipe(
    scale: Scale,
    *,
    text: Annotated[
        Sequence[str],
        "A corpus: stdlib, a file or folder, hf:NAME; repeat it for more. Without one, as the scale says.",
    ] = (),
    by: Annotated[
        Literal["sentence", "line", "paragraph", "two-ids"], "What a segment is; two-ids: as the released code has it."
    ] = "sentence",
    tokenizer: Annotated[str | None, "The folder of a tokenizer; None: BPE trained on these corpora."] = None,
    vocabulary: Annotated[int | None, at_least(257), "Tokens of one that is trained; None: as the scale says."] = None,
    store: Annotated[str, "The folder that keeps the tokens, and the tokenizer that is trained."] = "runs/text",
) -> Recipe:
    """BiPE: segments keep their length as texts grow, and become more: --set text=… for corpora of your own."""
    setting = SETTINGS[scale]
    names = tuple(text) or setting.corpora

    def report(finished: Finished, device: str) -> list[Panel]:
        whole = corpora.open(names, held_out=0)
        folder = tokenizer or tokenizers.train(whole, vocabulary or setting.vocabulary, root=store)
        read = tokenizers.load(folder)
        ends = segment_ends(read, by)
        panels = []
        for name in names:
            file = tokens_of(corpora.open([name], held_out=0), read, root=store).train
            counted = [count(file.tokens.numpy(), ends, T) for T in setting.lengths if len(file) >= FEWEST * T]
            if not counted:
                raise Error(
                    f"bipe figure-1: {name} has {len(file):,} tokens, and {FEWEST} windows of "
                    f"{setting.lengths[0]:,} need {FEWEST * setting.lengths[0]:,}. Give more text."
                )
            panels += _drawn(Path(name).name, file, counted, by, len(read))
        return panels

    return Recipe(
        title="BiPE, Figures 1, 7 and 8: segments of growing texts",
        description=(
            "BiPE counts the tokens of a segment and the segments of a text apart. If a segment keeps its length "
            "however long the text is, then a model that reads longer texts than it was trained on meets new numbers "
            "of segments alone, and RoPE or ALiBi has to go on there, but no new place inside a segment. A line break "
            "after a full stop is a segment of one token, as in the paper's rule."
        ),
        report=report,
    )


def count(tokens: np.ndarray, ends: Sequence[int], length: int) -> WindowCounts:
    """
    >>> found = count(np.array([1, 0, 1, 1, 0, 1, 1, 0, 1]), [0], 4)
    >>> found.tokens.tolist(), found.segments.tolist()
    ([2, 1, 3], [2, 2])
    """
    windows = tokens[: len(tokens) // length * length].reshape(-1, length)
    ended = np.isin(windows, ends)
    window, place = ended.nonzero()
    before = np.where(np.diff(window, prepend=-1) > 0, -1, np.concatenate([[-1], place[:-1]]))
    return WindowCounts(length, place - before, ended.sum(1) + ~ended[:, -1])


def change(one: np.ndarray, other: np.ndarray) -> float:
    """Total variation: the largest difference of the shares that two samples give any set of numbers.

    >>> change(np.array([1, 2]), np.array([2, 2]))
    0.5
    """
    most = int(max(one.max(), other.max())) + 1
    return float(
        np.abs(np.bincount(one, minlength=most) / len(one) - np.bincount(other, minlength=most) / len(other)).sum() / 2
    )


def _drawn(name: str, file: TokenFile, counted: list[WindowCounts], by: str, vocabulary: int) -> list[Panel]:
    first, last = counted[0], counted[-1]
    changed = max(change(each.tokens, last.tokens) for each in counted)
    growth = last.segments.mean() / first.segments.mean() / (last.length / first.length)
    caption = (
        f"{name}: {len(file):,} tokens of a vocabulary of {vocabulary:,}, segments by {by}. The shares of any set of "
        f"lengths differ by at most {100 * changed:.1f} points from those in windows of {last.length:,}."
    )
    sizes = list(range(1, int(max(np.quantile(each.tokens, 0.99) for each in counted)) + 1))
    spread = line_chart(
        f"Tokens in a segment: {name}",
        caption,
        "tokens",
        "share of the segments with at most so many",
        {f"windows of {each.length:,}": (sizes, [float((each.tokens <= n).mean()) for n in sizes]) for each in counted},
        percent=True,
    )
    numbers = line_chart(
        f"Segments in a text: {name}",
        f"Mean over windows, and the numbers that a tenth of them stay below or go above. From {first.length:,} to "
        f"{last.length:,} tokens the mean grows {growth:.3f} times as fast as the length.",
        "tokens of the text",
        "segments",
        {
            "nine tenths below": ([c.length for c in counted], [float(np.quantile(c.segments, 0.9)) for c in counted]),
            "mean": ([c.length for c in counted], [float(c.segments.mean()) for c in counted]),
            "one tenth below": ([c.length for c in counted], [float(np.quantile(c.segments, 0.1)) for c in counted]),
        },
        log_x=True,
        log_y=True,
    )
    lines = [each.summary for each in counted]
    table = Table(
        f"By length: {name}",
        "Of the tokens in a segment the mean, what half and what 99% of segments stay within, the share with fewer "
        f"than {MOST} and the longest. Per 1,000 tokens: what stays the same if segments grow in number with the text.",
        ["tokens of the text", "windows", "segments", "per 1,000", "tokens", "half", "99%", f"< {MOST}", "longest"],
        [
            [
                f"{line['length']:,}",
                f"{line['windows']:,}",
                f"{line['segments']:,.1f}",
                f"{1000 * line['segments'] / line['length']:.1f}",
                f"{line['tokens']:.2f}",
                f"{line['tokens_by_share']['50%']:.0f}",
                f"{line['tokens_by_share']['99%']:.0f}",
                f"{100 * line[f'below_{MOST}']:.1f}%",
                f"{line['longest']:,}",
            ]
            for line in lines
        ],
        data={"corpus": name, "tokens": len(file), "change": changed, "growth": growth, "by_length": lines},
    )
    return [spread, numbers, table]
