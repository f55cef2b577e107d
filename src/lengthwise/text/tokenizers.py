"""The tokenizer that a folder holds, as transformers saves it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import Error

FILES = ("tokenizer.json", "vocab.json", "tokenizer.model")
"""A folder with a tokenizer holds at least one of these."""


def load(folder: Path | str, name: str | None = None) -> Any:
    """The tokenizer in this folder. `name` is what error messages call the folder, where its path would say little."""
    # Importing it takes seconds, and reading and splitting documents does not need it.
    from transformers import AutoTokenizer

    folder = Path(folder)
    name = name or str(folder)
    # In a folder without a tokenizer transformers makes an empty one and says nothing.
    if not any((folder / file).is_file() for file in FILES):
        raise Error(f"{name}: there is no tokenizer in it. Save the model's own there.")
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # the tokenizers library raises Exception itself
        first_line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise Error(
            f"{name}: no tokenizer can be read from it: {first_line} "
            "Save the model's own beside it (tokenizer.save_pretrained)."
        ) from error
