"""The model types of this library, told to transformers before either of them is loaded.

`AutoModelForCausalLM.from_pretrained(folder)` then works after `import lengthwise` alone, whichever of the two is
imported first. Nothing is loaded for it until a config of such a type is read: transformers holds a stand-in for the
config class until then; the room of the true one registers it, and its models, when it is imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MODEL_TYPES = {
    "lengthwise": ("lengthwise.models.config", "LengthwiseConfig"),
    "chain-gpt2": ("lengthwise.convert.chained", "ChainGPT2Config"),
    "chain-llama": ("lengthwise.convert.chained", "ChainLlamaConfig"),
    "chain-mistral": ("lengthwise.convert.chained", "ChainMistralConfig"),
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

    def __call__(self, *given: Any, **fields: Any) -> Any:
        return self._loaded()(*given, **fields)


def announce() -> None:
    """Tell transformers of the model types, now or when its registry is imported."""
    if REGISTRY in sys.modules:
        _register(sys.modules[REGISTRY])
    else:
        sys.meta_path.insert(0, _OnceImported())


def _register(registry: ModuleType) -> None:
    for model_type, place in MODEL_TYPES.items():
        registry.CONFIG_MAPPING.register(model_type, Later(*place))


class _OnceImported(MetaPathFinder):
    """Finds the registry as Python would, and sees to it that it is told of the model types once it is executed."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname != REGISTRY:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        loader, execute = spec.loader, spec.loader.exec_module

        def execute_and_register(module: ModuleType) -> None:
            del loader.exec_module  # back to the loader's own
            execute(module)
            _register(module)

        loader.exec_module = execute_and_register
        return spec
