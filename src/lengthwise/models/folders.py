"""The folder of a model, read as data: its config and its weights are checked before anything is built from them.

A config can name code (a kernel or a file of Python on the hub, a quantiser) and sizes that no weight has. Nothing that
names code is followed, and no model is built whose numbers are not those in the files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedConfig

from ..auto_classes import MODEL_TYPES
from ..errors import Error, in_words
from ..files import check_regular, parse_json, read_bytes, read_json, read_shapes
from ..limits import LAYERS, need_memory, within_memory

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
ALLOWED = {
    "attn_implementation": ("eager", "sdpa", "flex_attention"),
    "experts_implementation": ("eager", "batched_mm", "grouped_mm"),
}
"""Fields by which transformers chooses code, and the choices that are its own or torch's. Any other is looked for on
the hub."""
REFUSED = {
    "quantization_config": "its weights are quantised. Save the model unquantised",
    "transformers_weights": f"it names another file of weights. Call that {WEIGHTS}",
    "kernel_config": "it names kernels on the hub. Remove the field",
    "distributed_config": "it is of several processes. Remove the field",
    "backbone": "it names another model. Save the language model alone",
    "attribute_map": "it renames fields. Remove the field",
    "sub_configs": "it names classes. Remove the field",
}
"""Fields that name code or other files, or change what a field means, and why they are refused."""
FLOATS = ("F64", "F32", "F16", "BF16")


def read_config(path: Path, called: str) -> dict[str, Any]:
    """Returns the JSON of a config whose `model_type` is known and which names no code. `called` begins the errors.

    A `model_type` itself, where no file is called so, is a config that says no more.
    """
    if str(path) in CONFIG_MAPPING and not path.exists():
        return {"model_type": str(path)}
    try:
        content = read_bytes(path)
    except Error as error:
        raise Error(f"{called}: must be a folder with a {CONFIG}, or such a file; reading it: {error}") from error
    data = _numbers(parse_json(content, str(path), "Save the model there again."))
    known = data.get("model_type") if isinstance(data, dict) else None
    if not isinstance(known, str) or known not in CONFIG_MAPPING:
        got = in_words(known) if isinstance(data, dict) else type(data).__name__
        raise Error(f"{path}: model_type must be an architecture transformers knows, got {got:.80}.")
    for key, value in _fields(data):
        _check_field(path, key, value)
    if known in MODEL_TYPES:
        data.pop("auto_map", None)  # no setting of the model: with or without it, it is the same experiment
    return data


def config_of(path: Path, called: str, changes: Mapping[str, Any] | None = None) -> PreTrainedConfig:
    """Returns the config in a file, with some fields changed. Code that it names beside it is not followed."""
    data = read_config(path, called)
    kind = CONFIG_MAPPING[data["model_type"]]
    aliases = getattr(kind, "attribute_map", {})
    data |= {aliases.get(name, name): value for name, value in (changes or {}).items()}
    try:
        config = kind.from_dict(_without(data, "auto_map"))
    except Exception as error:
        raise Error(f"{called}: not a valid {data['model_type']} config: {_first_line(error)}") from error
    sizes = {name: getattr(config, name, None) for name in ("vocab_size", "max_position_embeddings")}
    if wrong := [name for name, size in sizes.items() if size is not None and type(size) is not int]:
        raise Error(f"{path}: {wrong[0]} must be a whole number, got {in_words(sizes[wrong[0]]):.80}.")
    return config


def check_weights(folder: Path, config: PreTrainedConfig, called: str) -> None:
    """Raises unless the weights in a folder are those of a model of this config. Nothing large is made for it."""
    stored: dict[str, tuple[str, list[int]]] = {}
    for file in _weight_files(folder, called):
        stored |= read_shapes(file)
    try:
        with within_memory(called, "Repair its config.json."), torch.device("meta"), torch.random.fork_rng([]):
            model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    except Error:
        raise
    except Exception as error:
        raise Error(f"{called}: no causal language model can be built from its config: {_first_line(error)}") from error
    config_file = folder / CONFIG
    own = model.state_dict()
    for name, weight in own.items():
        form, shape = stored.get(name, ("F32", list(weight.shape)))
        if shape != list(weight.shape):
            raise Error(
                f"{config_file}: asks for {name} of the shape {list(weight.shape)}, and the weights beside it are "
                f"{shape}. Restore the file that was changed."
            )
        if weight.is_floating_point() and form not in FLOATS:
            raise Error(f"{folder}: {name} must be of {', '.join(FLOATS)}, got {form}. Save the model again.")
    asked, there = _numel(model, own), sum(torch.Size(shape).numel() for _, shape in stored.values())
    if asked > there:
        raise Error(
            f"{config_file}: asks for {asked:,} weights, and the files beside it hold {there:,}. Restore the file that "
            "was changed, or give a checkpoint that was saved whole."
        )
    made = [*model.parameters(), *model.buffers()]
    need_memory(sum(4 * each.numel() for each in made), f"{called}: its weights", "Load a smaller model.")


def _weight_files(folder: Path, called: str) -> list[Path]:
    for file in folder.iterdir():
        if file.suffix in (".json", ".safetensors"):
            check_regular(file)
        if file.name == "adapter_config.json":
            raise Error(f"{file}: is of an adapter. Merge it into the model (merge_and_unload), and save that.")
        if file.name.startswith("shard-"):
            raise Error(f"{file}: is of a checkpoint in pieces. Save the model whole, with model.save_pretrained.")
    if os.path.lexists(folder / WEIGHTS):
        return [folder / WEIGHTS]
    if not (folder / INDEX).exists():
        raise Error(f"{called}: there is no {WEIGHTS} in it. Save it with model.save_pretrained.")
    index = read_json(folder / INDEX, "Save the model there again.")
    places = index.get("weight_map") if isinstance(index, dict) else None
    names = set(places.values()) if isinstance(places, dict) and all(map(_is_name, places.values())) else set()
    if not names:
        raise Error(f"{folder / INDEX}: must say for each weight in which file beside it it is. Save the model again.")
    return [folder / name for name in sorted(names)]


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and Path(value).name == value and value.endswith(".safetensors")


def _numel(model: nn.Module, own: Mapping[str, torch.Tensor]) -> int:
    """Numbers that a file must hold: those of tied weights once."""
    buffers = (each for name, each in model.named_buffers() if name in own)
    return sum(each.numel() for each in (*model.parameters(), *buffers))


def _check_field(path: Path, key: str, value: Any) -> None:
    choice = key.removeprefix("_").removesuffix("_internal")
    if choice in ALLOWED:
        for each in value.values() if isinstance(value, dict) else [value]:
            if each is not None and each not in ALLOWED[choice]:
                raise Error(
                    f"{path}: {key} must be one of {', '.join(ALLOWED[choice])}, got {in_words(each):.80}; others are "
                    "code, which is not looked for. Remove the field."
                )
    if value is not None and key in REFUSED:
        raise Error(f"{path}: has {key}, by which {REFUSED[key]}.")
    if key == "model_type" and isinstance(value, str) and value.startswith("timm"):
        raise Error(f"{path}: a part of it is of {value:.40}, which loads code. Save the language model alone.")
    if type(value) is int and ("layers" in key or key == "num_labels"):
        LAYERS.check(value, f"{path}: {key}")


def _fields(data: Any) -> Iterator[tuple[str, Any]]:
    """Every field of an object, and of those within it."""
    if isinstance(data, dict):
        yield from data.items()
    for part in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from _fields(part)


def _without(data: Any, key: str) -> Any:
    if isinstance(data, dict):
        return {name: _without(value, key) for name, value in data.items() if name != key}
    return [_without(each, key) for each in data] if isinstance(data, list) else data


def _numbers(data: Any) -> Any:
    """Returns the data with infinite numbers (Mamba-2's longest time step), which transformers writes as objects."""
    if isinstance(data, dict):
        if data.keys() == {"__float__"} and data["__float__"] in ("Infinity", "-Infinity", "NaN"):
            return float(data["__float__"])
        return {key: _numbers(value) for key, value in data.items()}
    return [_numbers(each) for each in data] if isinstance(data, list) else data


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
