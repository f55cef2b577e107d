"""What a page holds besides what is seen: its records and the numbers of its panels, compressed."""

from __future__ import annotations

import base64
import gzip
import json
import lzma
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import Error
from ..files import finite, read_bytes, read_text

INSIDE = re.compile(r'<script type="application/x-xz" id="inside">([^<]*)</script>')
EARLIER = re.compile(r'<script type="application/json" id="(records|panels)">(.*?)</script>', re.S)


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

    Each record has an experiment, its result, the run's name, metrics (thinned), and a verdict where there is one. A
    page that was made before 2026-11-25 has no metrics.
    """
    if data := read_embedded(read_text(Path(path))):
        return data
    raise Error(f"{path}: holds no records. Name a page that Lengthwise wrote.")


def read_embedded(page: str) -> dict[str, Any]:
    """The same of the text of a page; empty where it holds nothing."""
    if match := INSIDE.search(page):
        return json.loads(lzma.decompress(base64.b64decode(match[1])))
    return {name: json.loads(content) for name, content in EARLIER.findall(page)}
