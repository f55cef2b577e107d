"""How fast the text of a corpus is read, and made into tokens in files: million characters a second, one core."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from rich.table import Table

from lengthwise.text import corpora, tokenizers, tokens_of

SIZE = 4096
CHARACTERS = 6_000_000
"""As much of the standard library's source as is made into tokens each time."""
BOUND = 2
"""Million characters a second that are promised for tokens."""


def seconds(call: Callable[[], object]) -> float:
    """Of one core, whatever else the machine does."""
    start = time.process_time()
    call()
    return time.process_time() - start


def table(repeats: int = 5) -> Table:
    """Reading is done twice: once to know the sides of the documents, once to make their tokens."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with TemporaryDirectory() as folder:
        root, part = Path(folder), Path(folder) / "part.jsonl"
        tokenizer = tokenizers.load(tokenizers.train(corpora.open(["stdlib"]), SIZE, root=root))
        with part.open("w") as file:
            left = CHARACTERS
            for text in corpora.open(["stdlib"]).documents():
                file.write(json.dumps(text) + "\n")
                if (left := left - len(text)) < 0:
                    break
        corpus = corpora.open([part])
        count = corpus.survey.characters
        read = median(seconds(lambda: corpora.open([part]).survey) for _ in range(repeats))
        made = median(seconds(lambda n=n: tokens_of(corpus, tokenizer, root=root / str(n))) for n in range(repeats))
    found = Table(title=f"Text: the standard library's source, {SIZE} tokens of byte-level BPE, one core")
    for column in ("what", "M characters/s", "at least"):
        found.add_column(column)
    found.add_row("read, digest and split", f"{count / read / 1e6:.1f}", "")
    found.add_row("tokens in files", f"{count / made / 1e6:.1f}", f"{BOUND}")
    return found
