"""What a model saves also loads where nobody imported lengthwise, by `trust_remote_code=True`.

A config is saved with an `auto_map`, and a file of Python beside it which imports lengthwise and names the classes.
Where lengthwise was imported, transformers takes its classes without a question and leaves that file alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_MAPPING

FILE = "modeling_lengthwise.py"
"""The file of Python beside a saved config."""


class Portable:
    """Mixed in before a config's own class."""

    def save_pretrained(self, save_directory: Any, push_to_hub: bool = False, **options: Any) -> None:
        folder = Path(save_directory)
        if _registered(type(self)) and not folder.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / FILE).write_text(_python(type(self)), encoding="utf-8")
        super().save_pretrained(save_directory, push_to_hub, **options)  # pyright: ignore[reportAttributeAccessIssue]

    def to_json_file(self, json_file_path: Any, use_diff: bool = True) -> None:
        super().to_json_file(json_file_path, use_diff)  # pyright: ignore[reportAttributeAccessIssue]
        if _registered(type(self)):
            file = Path(json_file_path)
            saved = json.loads(file.read_text(encoding="utf-8"))
            saved["auto_map"] = {
                auto: f"{FILE.removesuffix('.py')}.{own.__name__}" for auto, own in _classes(type(self))
            }
            file.write_text(json.dumps(saved, indent=2, sort_keys=True) + "\n", encoding="utf-8")

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **options: Any) -> Any:
        """Without the `auto_map`, which is no setting of the model, and is written again when it is saved."""
        plain = {key: value for key, value in config_dict.items() if key != "auto_map"}
        return super().from_dict(plain, **options)  # pyright: ignore[reportAttributeAccessIssue]

    @classmethod
    def register_for_auto_class(cls, auto_class: str = "AutoConfig") -> None:
        """Nothing: transformers would copy the library's source beside what is saved afterwards."""


def _registered(config_class: type) -> bool:
    """True if the auto classes know it: one's own subclass they may not."""
    return config_class in MODEL_MAPPING and config_class in MODEL_FOR_CAUSAL_LM_MAPPING


def _classes(config_class: type) -> list[tuple[str, Any]]:
    return [
        ("AutoConfig", config_class),
        ("AutoModel", MODEL_MAPPING[config_class]),
        ("AutoModelForCausalLM", MODEL_FOR_CAUSAL_LM_MAPPING[config_class]),
    ]


def _python(config_class: type) -> str:
    lines = ['"""Lets transformers load this folder with trust_remote_code=True, where lengthwise is installed."""', ""]
    lines += [f"from {own.__module__} import {own.__name__}  # noqa: F401" for _, own in _classes(config_class)]
    return "\n".join(lines) + "\n"
