"""`package.module:Class` and `path/to/file.py:Class`: a model of your own.

Any `nn.Module` from (B,T) integers to (B,T,N) logits. It is called with the options you set, and with `vocab_size`, as
large as the task's tokens and outputs need, if its `__init__` takes one.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from ..errors import Error
from ..options import Option, Schema, take
from .token_classifier import TokenClassifier


def build(name: str, vocab_size: int, num_outputs: int, given: dict[str, Any]) -> TokenClassifier:
    kind = _load(name)
    given = take(options(name), given, name)
    if "vocab_size" in inspect.signature(kind).parameters:
        given = {"vocab_size": max(vocab_size, num_outputs), **given}
    try:
        inner = kind(**given)
    except Exception as error:
        raise Error(f"{name}: could not be built with {given or 'no options'}: {error}") from error
    return TokenClassifier(inner, num_outputs, name)


def options(name: str) -> Schema:
    """What `__init__` takes besides the vocabulary. Its values are the class's own affair, and are not checked."""
    kind = _load(name)
    parameters = inspect.signature(kind).parameters.values()
    takes = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name != "vocab_size"]
    return {p.name: Option(p.name, Any, p.default) for p in takes}


def source(name: str) -> str:
    """The SHA-256 of the file the class is defined in; of the files that one imports it knows nothing."""
    kind = _load(name)
    try:
        return hashlib.sha256(Path(inspect.getsourcefile(kind) or "").read_bytes()).hexdigest()
    except (OSError, TypeError) as error:
        # inspect names a file that is not there, or fails, each way of reading code without one in its own manner.
        raise Error(
            f"{name}: a model must be defined in a Python file, so that its code can be recorded, and this class has "
            "none (a notebook, a prompt, standard input). Define it in a file, and import it from there."
        ) from error


def _load(name: str) -> type[nn.Module]:
    place, _, attribute = name.rpartition(":")
    try:
        module = _file(Path(place)) if place.endswith(".py") else _module(place)
    except Exception as error:
        raise Error(f"{name}: {place} could not be imported: {type(error).__name__}: {error}") from error
    kind = getattr(module, attribute, None)
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        classes = [n for n, c in vars(module).items() if isinstance(c, type) and issubclass(c, nn.Module)]
        raise Error(f"{name}: {attribute!r} must be a class of torch.nn.Module. In it: {', '.join(classes) or 'none'}.")
    return kind


def _module(place: str):
    with _importable(Path.cwd()):
        return importlib.import_module(place)


def _file(path: Path):
    path = path.expanduser().resolve()
    content = path.read_bytes()
    # Named by its content, so that an edited file is loaded anew and an unedited one once.
    name = f"lengthwise_imported_{path.stem}_{hashlib.sha256(str(path).encode() + content).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("not a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        with _importable(path.parent):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Within the block, modules in `folder` can be imported by name."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
