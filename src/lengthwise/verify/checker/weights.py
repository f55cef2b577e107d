"""The weights and the config of a model, read without the library that made them.

A file of safetensors is: eight bytes with the length n of a header, n bytes of JSON, and the numbers one after another.

    {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}

Everything is refused that does not agree: offsets that overlap or leave something out, numbers that are not finite or
subnormal, weights that are not used, options that are not known.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import Error
from .fields import FLAG, OBJECT, OBJECT_OR_LIST, TEXT, Kind, Rejected, exactly, fields, maybe, read_json, real, whole
from .intervals import Array
from .rounding import LARGEST

Tensors = dict[str, Array]
DTYPES = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8")}
NAMES = {"F32": "float32", "F64": "float64"}
SMALLEST = {"float32": 2.0**-126, "float64": 2.0**-1022}
CONFIG: dict[str, tuple[Kind, Any]] = {
    "model_type": (exactly("lengthwise"), "lengthwise"),
    "vocab_size": (whole(1), 2),
    "num_outputs": (maybe(whole(1)), None),
    "width": (whole(1), 0),
    "mixer": (OBJECT_OR_LIST, None),
    "position": (exactly({"name": "none"}), {"name": "none"}),
    "depth": (OBJECT, None),
    "block": (OBJECT_OR_LIST, None),
    "embedding_scale": (real(2.0**-20, 2.0**20), 1.0),
    "final_norm": (FLAG, True),
    "head": (exactly("linear", "two-layer"), "linear"),
    "head_bias": (FLAG, True),
    "tie_word_embeddings": (FLAG, False),
}
"""The part of a config that decides the function: what a field may be, and what it is where it is left out."""
DEFAULTS = {name: default for name, (_, default) in CONFIG.items()}
CLASSES = {"AutoConfig": "LengthwiseConfig", "AutoModel": "LengthwiseModel"}
CLASSES["AutoModelForCausalLM"] = "LengthwiseForCausalLM"
START = Kind("null, or an object of numbers and torch", lambda x: x is None or (OBJECT.holds(x) and _is_start(x)))
OTHERS: dict[str, Kind] = {
    "architectures": exactly(["LengthwiseForCausalLM"], None),
    "auto_map": exactly({auto: f"modeling_lengthwise.{name}" for auto, name in CLASSES.items()}),
    "dropout": real(0.0, 1.0),
    "dtype": maybe(TEXT),
    "initialisation": START,
    "initializer_range": maybe(real()),
    "torch_dtype": maybe(TEXT),
    "transformers_version": TEXT,
    "use_cache": FLAG,
}
"""The other fields that a saved config has. With these values no answer in evaluation depends on them.

Every field that is not named here is refused: `transformers_weights` has other weights loaded, `attribute_map` gives
fields other names, `configuration_files` has another config read.
"""
RECORD = {"schema", "data", "model", "training", "tests", "seed", "objective", "continues"}
"""The fields of the record of a run on strings, which is no config."""


def read_safetensors(path: Path) -> Tensors:
    content = read_bytes(path)
    n = int.from_bytes(content[:8], "little")
    if len(content) < 8 or n > len(content) - 8:
        raise Rejected(f"{path}: is no file of safetensors: it is shorter than its header says.")
    try:
        header = read_json(content[8 : 8 + n].decode(), str(path))
    except UnicodeDecodeError as error:
        raise Rejected(f"{path}: is no file of safetensors: its header is not text.") from error
    if not OBJECT.holds(header):
        raise Rejected(f"{path}: is no file of safetensors: its header is no object.")
    data, tensors, end = content[8 + n :], {}, 0
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
        tensors[name], end = np.frombuffer(data[begin:stop], kind).reshape(shape), stop
    if end != len(data):
        raise Rejected(f"{path}: there are numbers that belong to no weight.")
    return tensors


def _offsets(path: Path, name: str, entry: Any) -> tuple[int, int]:
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(type(k) is int and k >= 0 for k in offsets):
        raise Rejected(f"{path}: the header does not say where the numbers of {name} are.")
    return offsets[0], offsets[1]


def read_bytes(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise Error(f"{path}: is no regular file. Name a file that can be read.")
        return path.read_bytes()
    except OSError as error:
        raise Error(f"{path}: {(error.strerror or str(error)).lower()}. Name a file that can be read.") from error


def read_model(folder: Path) -> tuple[dict[str, Any] | None, Tensors]:
    """The deciding part of a folder's config.json, and the weights of its model.safetensors.

    None in place of the config of a run on strings, whose record says it in other words.
    """
    file = folder / "config.json"
    config = read_json(read_bytes(file).decode(errors="replace"), str(file))
    if OBJECT.holds(config) and {"schema", "data", "model"} <= config.keys() <= RECORD:
        return None, read_safetensors(folder / "model.safetensors")
    if not OBJECT.holds(config) or config.get("model_type") != "lengthwise":
        raise Rejected(f"{file}: is not the config of a model of this library.")
    fields(str(file), {name: x for name, x in config.items() if name not in CONFIG}, {}, OTHERS)
    if (folder / "adapter_config.json").exists():
        raise Rejected(f"{folder}: holds an adapter, which is put into the model as it is loaded.")
    tensors = read_safetensors(folder / "model.safetensors")
    kinds = {str(x.dtype) for x in tensors.values()}
    for declared in (config.get("dtype"), config.get("torch_dtype")):
        if declared is not None and {declared} != kinds:
            own = ", ".join(sorted(kinds))
            raise Rejected(f"{file}: loads as {declared}, and the weights are {own}.")
    own = {name: config.get(name, default) for name, default in DEFAULTS.items()}
    return {**own, "position": DEFAULTS["position"] if own["position"] is None else own["position"]}, tensors


def _is_start(content: dict[str, Any]) -> bool:
    known = {"embedding", "linear", "pad", "r", "initial"}
    return content.keys() <= known and all(x == "torch" or real().holds(x) for x in content.values())


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
        self.names = list(tensors)

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
