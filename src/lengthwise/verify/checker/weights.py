"""The weights and the config of a model, read without the library that made them.

A file of safetensors is: eight bytes with the length n of a header, n bytes of JSON, and the numbers one after another.

    {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}

Everything is refused that does not agree: offsets that overlap or leave something out, numbers that are not finite or
subnormal, weights that are not used, options that are not known.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import Error
from .intervals import Array
from .rounding import LARGEST

Tensors = dict[str, Array]
DTYPES = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8")}
NAMES = {"F32": "float32", "F64": "float64"}
SMALLEST = {"float32": 2.0**-126, "float64": 2.0**-1022}
DEFAULTS: dict[str, Any] = {
    "model_type": "lengthwise",
    "vocab_size": 2,
    "num_outputs": None,
    "width": 0,
    "mixer": None,
    "position": None,
    "depth": None,
    "block": None,
    "embedding_scale": 1.0,
    "final_norm": True,
    "head": "linear",
    "head_bias": True,
    "tie_word_embeddings": False,
}
"""The part of a config that decides the function, and what a field is that config.json leaves out."""


class Rejected(Error):
    """The certificate does not prove what it claims of this model."""

    exit_code = 1


def read_json(text: str, what: str) -> Any:
    """JSON without NaN, infinities, and names given twice."""

    def refuse(word: str) -> Any:
        raise Rejected(f"{what}: {word} is no finite number.")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise Rejected(f"{what}: a name is given twice in one object.")
        return found

    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise Rejected(f"{what}: is not JSON ({error}).") from error


def read_safetensors(path: Path) -> Tensors:
    content = read_bytes(path)
    n = int.from_bytes(content[:8], "little")
    if len(content) < 8 or n > len(content) - 8:
        raise Rejected(f"{path}: is no file of safetensors: it is shorter than its header says.")
    try:
        header = read_json(content[8 : 8 + n].decode(), str(path))
    except UnicodeDecodeError as error:
        raise Rejected(f"{path}: is no file of safetensors: its header is not text.") from error
    data, found, end = content[8 + n :], {}, 0
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    for name, entry in sorted(entries.items(), key=lambda item: _offsets(path, *item)):
        begin, stop = _offsets(path, name, entry)
        if entry.get("dtype") not in DTYPES:
            raise Rejected(f"{path}: {name} is {entry.get('dtype')}, and only float32 and float64 are known here.")
        kind, shape = DTYPES[entry["dtype"]], entry.get("shape")
        if not isinstance(shape, list) or not all(type(k) is int and k >= 0 for k in shape):
            raise Rejected(f"{path}: {name} has the shape {shape!r}.")
        size = kind.itemsize * int(np.prod(shape, dtype=object))
        if begin != end or stop - begin != size or stop > len(data):
            raise Rejected(f"{path}: the numbers of {name} are not where the header says.")
        found[name], end = np.frombuffer(data[begin:stop], kind).reshape(shape), stop
    if end != len(data):
        raise Rejected(f"{path}: there are numbers that belong to no weight.")
    return found


def _offsets(path: Path, name: str, entry: Any) -> tuple[int, int]:
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(type(k) is int and k >= 0 for k in offsets):
        raise Rejected(f"{path}: the header does not say where the numbers of {name} are.")
    return offsets[0], offsets[1]


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Error(f"{path}: {(error.strerror or str(error)).lower()}. Name a file that can be read.") from error


def read_model(folder: Path) -> tuple[dict[str, Any], Tensors]:
    """The deciding part of the folder's config.json, and the weights of its model.safetensors."""
    config = read_json(read_bytes(folder / "config.json").decode(errors="replace"), str(folder / "config.json"))
    if not isinstance(config, dict) or config.get("model_type") != "lengthwise":
        raise Rejected(f"{folder / 'config.json'}: is not the config of a model of this library.")
    if config.get("quantization_config") is not None:
        raise Rejected(f"{folder / 'config.json'}: is of a model that is quantised as it is loaded.")
    if (folder / "adapter_config.json").exists():
        raise Rejected(f"{folder}: holds an adapter, which is put into the model as it is loaded.")
    tensors = read_safetensors(folder / "model.safetensors")
    kinds = {str(x.dtype) for x in tensors.values()}
    for declared in (config.get("dtype"), config.get("torch_dtype")):
        if declared is not None and {str(declared)} != kinds:
            own = ", ".join(sorted(kinds))
            raise Rejected(f"{folder / 'config.json'}: loads as {declared}, and the weights are {own}.")
    return deciding(config), tensors


def deciding(config: dict[str, Any]) -> dict[str, Any]:
    found = {name: config.get(name, default) for name, default in DEFAULTS.items()}
    found["position"] = found["position"] or {"name": "none"}
    return found


def digest(x: Array) -> str:
    """sha256 of a weight's type, shape and numbers, in the byte order of a file."""
    kind = x.dtype.newbyteorder("<")
    head = f"{x.dtype.name} {list(x.shape)}\n".encode()
    return hashlib.sha256(head + np.ascontiguousarray(x, dtype=kind).tobytes()).hexdigest()


class Weights:
    """Weights by name and shape, each of which must be taken."""

    def __init__(self, tensors: Tensors):
        kinds = {x.dtype.name for x in tensors.values()}
        if len(kinds) != 1 or not kinds <= set(NAMES.values()):
            raise Rejected(f"the weights must all be float32 or all float64, got {', '.join(sorted(kinds)) or 'none'}.")
        self.arithmetic = kinds.pop()
        for name, x in tensors.items():
            size = np.abs(x.astype(np.float64))
            if not (size < LARGEST).all():
                raise Rejected(f"the weight {name} has numbers that are not finite, or of 2^100 and more.")
            if ((size > 0) & (size < SMALLEST[self.arithmetic])).any():
                raise Rejected(f"the weight {name} has subnormal numbers, which not every processor reads alike.")
        self._left = dict(tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str, *shape: int) -> Array:
        if name not in self._left:
            raise Rejected(f"the model has no weight {name}, which its config asks for.")
        x = self._left.pop(name)
        if x.shape != shape:
            raise Rejected(f"the weight {name} must be {list(shape)}, got {list(x.shape)}.")
        return x.astype(np.float64)

    def done(self) -> None:
        if self._left:
            raise Rejected(f"the model has weights that nothing uses: {', '.join(sorted(self._left))}.")
