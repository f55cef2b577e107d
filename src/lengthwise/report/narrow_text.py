"""Text for a terminal that is narrower than its tables: words stay whole, and no column is lost."""

from __future__ import annotations

import re

GAP = 2
"""Spaces between two columns of a table."""


def fold(text: str, width: int) -> str:
    """The text with every table that is wider than `width` cut between its columns; each part begins with the first.

    >>> print(fold("size  left  right\\n   8     1      2\\n  16     3      4\\n\\nAll of it in a sentence.", 12))
    size  left
       8     1
      16     3
    <BLANKLINE>
    size  right
       8      2
      16      4
    <BLANKLINE>
    All of it in a sentence.
    """
    blocks: list[list[str]] = [[]]
    for line in text.split("\n"):
        # A table ends at an empty line, and where there is a line of words with no gap between them.
        if bool(line.strip() and " " * GAP in line.strip()) != bool(blocks[-1] and " " * GAP in blocks[-1][-1].strip()):
            blocks.append([])
        blocks[-1].append(line)
    return "\n".join("\n".join(_folded(block, width)) for block in blocks if block)


def wrap(label: str, width: int) -> list[str]:
    """A name in lines of at most `width`: broken at spaces, a longer word after its marks, and only then within.

    >>> wrap("block-lrnn normalisation=orthogonal p=1.2", 16)
    ['block-lrnn', 'normalisation=', 'orthogonal p=1.2']
    """
    width, lines = max(1, width), [""]
    for word in label.split():
        parts = [word] if len(word) <= width else re.findall(r"[^-=/:.,_]*[-=/:.,_]+|[^-=/:.,_]+", word)
        pieces = [part[i : i + width] for part in parts for i in range(0, len(part), width)]
        for i, piece in enumerate(pieces):
            gap = " " if lines[-1] and i == 0 else ""
            if len(lines[-1]) + len(gap) + len(piece) <= width:
                lines[-1] += gap + piece
            else:
                lines.append(piece)
    return [line for line in lines if line]


def _folded(lines: list[str], width: int) -> list[str]:
    columns = _columns(lines) if max(map(len, lines)) > width else []
    if len(columns) < 3:
        return lines
    (_, first), *others = columns
    parts: list[list[tuple[int, int]]] = []
    room = 0
    for start, end in others:
        room -= GAP + end - start
        if room < 0:
            parts.append([])
            room = width - first - GAP - (end - start)
        parts[-1].append((start, end))
    tables = [
        [(" " * GAP).join([line[:first].ljust(first), *(_cell(line, *at) for at in part)]).rstrip() for line in lines]
        for part in parts
    ]
    return [line for i, table in enumerate(tables) for line in ([""] * (i > 0) + table)]


def _cell(line: str, start: int, end: int) -> str:
    return line[start:end].ljust(end - start)


def _columns(lines: list[str]) -> list[tuple[int, int]]:
    """Where the columns stand: between the places at which no line has a letter, `GAP` or more of them."""
    widest = max(map(len, lines))
    filled = "".join("x" if any(line[i : i + 1].strip() for line in lines) else " " for i in range(widest))
    # The first column may be indented; what is before its letters belongs to it.
    found = [match.span() for match in re.finditer(r"x+( x+)*", filled)]
    return [(0, found[0][1]), *found[1:]]
