"""What a page holds besides what is seen: its records and panels, compressed, from which it can be drawn again."""

from __future__ import annotations

import base64
import gzip
import json
import lzma
import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from ..errors import Error
from ..files import finite, read_bytes, read_text
from ..lab.experiment import Experiment
from . import panel as panels

INSIDE = re.compile(r'<script type="application/x-xz" id="inside">([^<]*)</script>')
EARLIER = re.compile(r'<script type="application/json" id="(records|panels)">(.*?)</script>', re.S)


@dataclass(frozen=True)
class PageRun:
    """A run as a page has it, its metrics thinned and its verdict as it was when the page was made."""

    path: Path
    experiment: Experiment
    result: dict[str, Any]
    metrics: list[dict[str, Any]]
    verdict: panels.Verdict | None = None


def recorded(folder: str | Path) -> dict[str, Any]:
    """Returns the numbers in a folder of results: its `results.json`, or the same compressed, `results.json.gz`."""
    plain, packed = Path(folder) / "results.json", Path(folder) / "results.json.gz"
    return json.loads(read_bytes(plain) if plain.is_file() else gzip.decompress(read_bytes(packed)))


def embedded(data: Mapping[str, Any]) -> str:
    """The data as an element of a page that shows nothing: no text in it can be markup."""
    text = json.dumps(finite(data), separators=(",", ":")).encode()
    content = base64.b64encode(lzma.compress(text, preset=9)).decode()
    return f'<script type="application/x-xz" id="inside">{content}</script>'


def inside(path: str | Path) -> dict[str, Any]:
    """Returns what a page of this library holds: `records`, and `panels` where it has some.

    Each record has an experiment, its result, the run's name, metrics, and a verdict where there is one. A page that
    was made before 2026-11-25 has no metrics, and of its panels the numbers alone.
    """
    if data := read_embedded(read_text(Path(path))):
        return data
    raise Error(f"{path}: holds no records. Name a page that Lengthwise wrote.")


def read_embedded(page: str) -> dict[str, Any]:
    """The same of the text of a page; empty where it holds nothing."""
    if match := INSIDE.search(page):
        return json.loads(lzma.decompress(base64.b64decode(match[1])))
    return {name: json.loads(content) for name, content in EARLIER.findall(page)}


def runs_inside(data: Mapping[str, Any]) -> list[PageRun]:
    """Returns the runs of what a page holds, for reports that are made again."""
    return [
        PageRun(
            Path(record["run"]),
            Experiment.from_json(record["experiment"]),
            record["result"],
            record.get("metrics", []),
            panels.Verdict(**record["shown"]) if record.get("shown") else None,
        )
        for record in data["records"]
    ]


def panels_inside(data: Mapping[str, Any]) -> list[panels.Panel]:
    """Returns the panels of what a page holds, to be drawn again."""
    return [from_plain(each) for each in data.get("panels", [])]


def to_plain(value: Any) -> Any:
    """A panel as JSON that `from_plain` makes the same panel of."""
    if is_dataclass(value):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        data = {"data": parts.pop("data")} if "data" in parts else {}
        return {
            "is": type(value).__name__,
            **{k: to_plain(v) for k, v in parts.items() if v not in ("", (), None)},
            **data,
        }
    if isinstance(value, Mapping):
        return {"is": "map", "of": [[to_plain(key), to_plain(each)] for key, each in value.items()]}
    if isinstance(value, Set):
        return {"is": "set", "of": sorted(to_plain(each) for each in value)}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [to_plain(each) for each in value]
    return value


def from_plain(value: Any) -> Any:
    """The panel of such JSON."""
    if isinstance(value, list):
        return list(map(from_plain, value))
    if not isinstance(value, dict):
        return value
    content = dict(value)
    if (kind := content.pop("is")) == "map":
        return {_hashable(from_plain(key)): from_plain(each) for key, each in content["of"]}
    if kind == "set":
        return set(map(_hashable, map(from_plain, content["of"])))
    data = {"data": content.pop("data")} if "data" in content else {}
    return getattr(panels, kind)(**{name: from_plain(part) for name, part in content.items()}, **data)


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
