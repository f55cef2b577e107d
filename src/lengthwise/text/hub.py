"""Hugging Face datasets as corpora, read as a stream: nothing is kept on this machine.

hf:pg19                            a preset: PG19's training split
hf:pile:validation                 another split
hf:openwebtext2:train[:10000]      its first 10,000 documents
hf:ORG/NAME/CONFIG:SPLIT           any dataset with a column of text
hf:FOLDER                          a copy on this machine
hf:arxiv@FOLDER                    a preset that is read from a copy of its dataset on this machine
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import Error, import_extra

COLUMNS = ("text", "content", "code", "article")
"""A document stands in the first of these columns that a dataset has."""


class Preset(NamedTuple):
    path: str
    part: str | None = None
    """The documents whose `meta` names this part of the Pile; None: all."""


PRESETS = {
    "openwebtext2": Preset("Geralt-Targaryen/openwebtext2"),
    "pile": Preset("monology/pile-uncopyrighted"),
    "pg19": Preset("emozilla/pg19"),
    "arxiv": Preset("monology/pile-uncopyrighted", "ArXiv"),
    "github": Preset("monology/pile-uncopyrighted", "Github"),
}
"""arXiv and GitHub are parts of the Pile, so the few documents of `:validation` and `:test` are sooner found."""


class Named(NamedTuple):
    """The data set, split and column that a name after "hf:" says."""

    path: str
    config: str | None
    split: str
    first: int | None
    part: str | None


def parse(name: str) -> Named:
    """
    >>> parse("arxiv:test[:10]")
    Named(path='monology/pile-uncopyrighted', config=None, split='test', first=10, part='ArXiv')
    >>> parse("allenai/c4/en").config
    'en'
    """
    parts = re.fullmatch(r"(?P<path>[^:@\[]+)(@(?P<copy>[^:\[]+))?(:(?P<split>[\w.-]+)(\[:(?P<first>\d+)\])?)?", name)
    if not parts:
        raise Error(
            f"hf:{name}: a dataset is hf:NAME[/CONFIG][:SPLIT], such as hf:pg19:test or hf:pile:train[:10000], with "
            f"the name of one on the hub, of a folder, or one of {', '.join(PRESETS)}."
        )
    path, config, part = parts["path"], None, None
    if path in PRESETS:
        path, part = PRESETS[path]
    elif not Path(path).expanduser().exists() and path.count("/") == 2:
        path, _, config = path.rpartition("/")
    path = parts["copy"] or path
    if Path(path).expanduser().exists():
        path = str(Path(path).expanduser())
    return Named(path, config, parts["split"] or "train", int(parts["first"]) if parts["first"] else None, part)


def read(name: str) -> Iterator[str]:
    """The documents of the dataset of this name, in its order."""
    source = parse(name)
    datasets = import_extra("datasets", "datasets", f"hf:{name}")
    try:
        rows = datasets.load_dataset(source.path, source.config, split=source.split, streaming=True)
        documents = (_text(row, name) for row in rows if source.part in (None, _part(row)))
        yield from islice(documents, source.first)
    except Error:
        raise
    except Exception as error:  # the hub, the network and the readers of files have no error in common
        preset = re.split("[:@]", name)[0]
        copy = f"hf:{preset}@FOLDER" if preset in PRESETS else "hf:FOLDER"
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise Error(
            f"hf:{name}: the dataset {source.path} could not be read: {reason.rstrip('.')}. Without a connection, copy "
            f"it here (hf download {source.path} --repo-type dataset --local-dir FOLDER) and name the copy: {copy}."
        ) from error


def _part(row: dict[str, Any]) -> str | None:
    meta = row.get("meta")
    return meta.get("pile_set_name") if isinstance(meta, dict) else None


def _text(row: dict[str, Any], name: str) -> str:
    for column in COLUMNS:
        if isinstance(text := row.get(column, 0), str | None):
            return text or ""
    raise Error(
        f"hf:{name}: a dataset must have a column of text, {', '.join(COLUMNS[:-1])} or {COLUMNS[-1]}, got "
        f"{', '.join(row)}. Rename one in a copy on this machine."
    )
