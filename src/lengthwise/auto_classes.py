"""The model types of this library, told to transformers before either of them is loaded.

`AutoModelForCausalLM.from_pretrained(folder)` then works after `import lengthwise` alone, whichever of the two is
imported first. Nothing is loaded for it until a config of such a type is read: transformers holds a stand-in for the
config class until then; the room of the true one registers it, and its models, when it is imported.
"""

from __future__ import annotations

import importlib
import sys
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

MODEL_TYPES = {
    "lengthwise": ("lengthwise.models.config", "LengthwiseConfig"),
    "chain-gpt2": ("lengthwise.convert.chained", "ChainGPT2Config"),
    "chain-llama": ("lengthwise.convert.chained", "ChainLlamaConfig"),
    "chain-mistral": ("lengthwise.convert.chained", "ChainMistralConfig"),
    "segmented-gpt2": ("lengthwise.convert.segmented", "SegmentedGPT2Config"),
    "segmented-llama": ("lengthwise.convert.segmented", "SegmentedLlamaConfig"),
    "segmented-mistral": ("lengthwise.convert.segmented", "SegmentedMistralConfig"),
}
"""The `model_type` of a saved config, and where its class is."""
REGISTRY = "transformers.models.auto.configuration_auto"
"""The module of transformers that knows which config class a model type has."""


class Later:
    """Stands for a config class, and is that class as soon as anything is asked of it."""

    def __init__(self, module: str, name: str):
        self.__module__, self.__name__ = module, name

    def _loaded(self) -> Any:
        return getattr(importlib.import_module(self.__module__), self.__name__)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._loaded(), name)

    def __call__(self, *args: Any, **fields: Any) -> Any:
        return self._loaded()(*args, **fields)


def announce() -> None:
    """Tell transformers of the model types, now and whenever its registry is imported."""
    if not any(getattr(finder, "marker", None) == _RegistryFinder.marker for finder in sys.meta_path):
        sys.meta_path.insert(0, _RegistryFinder())
    if REGISTRY in sys.modules:
        # Another thread may still be at its import, and this waits for that.
        _register(importlib.import_module(REGISTRY))


def _register(registry: ModuleType) -> None:
    # It has no mapping yet where this very import of it led here. The rooms then register their classes themselves.
    if (mapping := getattr(registry, "CONFIG_MAPPING", None)) is not None:
        for model_type, place in MODEL_TYPES.items():
            mapping.register(model_type, Later(*place), exist_ok=True)


class _RegistryFinder(MetaPathFinder):
    """Finds the registry as Python would, with a loader that tells it of the model types once it is executed.

    It stays where it is, for an import may fail and be tried again, and a look-up is no import.
    """

    marker = "tells transformers of lengthwise"
    """By this it is known to another import of this module, which makes no second one."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path) if fullname == REGISTRY else None
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = partial(_execute, spec.loader)
        return spec


def _execute(loader: Any, module: ModuleType) -> None:
    del loader.exec_module  # from here on the loader is as Python made it
    loader.exec_module(module)
    _register(module)
