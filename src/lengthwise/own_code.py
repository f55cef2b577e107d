"""Classes from outside the library, models and tasks alike: `package.module:Class` and `path/to/file.py:Class`.

A name is found by running the code it names, and code is known by a digest: of the file that defines the class or,
where it has none (a notebook, a prompt, standard input), of the class with all it uses there. A record holds the name
and the digest, so that a class that has changed is noticed before it runs.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.machinery
import importlib.util
import inspect
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from .errors import Error
from .foreign_code import blaming
from .source_text import pieces_of

MAIN = "__main__"

_given: dict[str, type] = {}
"""The classes that callers of this process handed over, the last of each name."""
_asked: dict[tuple[str, str], type] = {}
"""What this process was asked to run, by name and digest: its records need no further trust."""
_named: weakref.WeakKeyDictionary[type, str] = weakref.WeakKeyDictionary()
"""The names by which classes were found in files."""
_digests: weakref.WeakKeyDictionary[type, str] = weakref.WeakKeyDictionary()
"""The digest of each class when it was first asked for."""


def name_of(kind: type) -> str:
    """The name by which a class is found again, which from now on stands for this very class."""
    name = _named.get(kind) or f"{kind.__module__}:{kind.__qualname__}"
    _given[name] = kind
    return name


def is_class(name: str) -> bool:
    """Whether a model's name is that of a class outside this library.

    >>> is_class("mine.py:Net"), is_class("hf:llama"), is_class("lstm")
    (True, False, False)
    """
    return ":" in name and not name.startswith("hf:")


def load(name: str, base: type, source: str | None = None) -> type:
    """The class of this name; with `source`, it must be the code of that digest."""
    if source and (name, source) in _asked:
        return _asked[name, source]
    # A file is read anew, in case it was edited; a module is what Python has imported.
    given = None if name.rpartition(":")[0].endswith(".py") else _given.get(name)
    kind = given or _imported(name, base)
    found = digest(kind)
    if source and found != source:
        raise Error(
            f"{name}: its source has changed since the experiment was planned. Restore it, or plan the experiment "
            "again: it is another one now."
        )
    return kind


def unchanged(name: str, source: str) -> bool:
    """Whether the file that a name stands for is of this digest; nothing is run to find out."""
    file = find_file(name)
    return file is not None and hashlib.sha256(file.read_bytes()).hexdigest() == source


def ask_for(name: str, base: type) -> str:
    """The digest of the code of this name, which from now on this process may load without being asked to trust it."""
    kind = load(name, base)
    source = digest(kind)
    _asked[name, source] = kind
    return source


def asked_for(name: str, source: str | None) -> bool:
    """Whether this process was asked to run this very code."""
    return (name, source) in _asked


def digest(kind: type) -> str:
    """The SHA-256 of the file the class is defined in, or of its `text`; of what that imports it knows nothing."""
    found = hashlib.sha256(text(kind)).hexdigest()
    if _digests.setdefault(kind, found) != found:
        raise Error(
            f"{kind.__module__}:{kind.__qualname__}: its file has changed since Python imported it. Start Python "
            "again, or call importlib.reload(module) and take the class from the module anew."
        )
    return found


def text(kind: type) -> bytes:
    """The source of a class: its file or, where it has none, the class with what it uses beside it."""
    file = _file_of(kind)
    return file.read_bytes() if file else pieces_of(kind).encode()


def find_file(name: str) -> Path | None:
    """Where the code of a name would be read from, found without running any of it."""
    place = name.rpartition(":")[0]
    if place.endswith(".py"):
        path = Path(place).expanduser()
        return path.resolve() if path.is_file() else None
    if place == MAIN:
        file = getattr(sys.modules[MAIN], "__file__", None)
        return Path(file) if file and Path(file).is_file() else None
    folders = [str(Path.cwd()), *sys.path]
    for part, last in _with_last(place.split(".")):
        spec = importlib.machinery.PathFinder.find_spec(part, folders)
        if spec is None:
            return None
        if last:
            return Path(spec.origin) if spec.origin and Path(spec.origin).is_file() else None
        folders = list(spec.submodule_search_locations or [])
    return None


def _with_last(parts: list[str]) -> Iterator[tuple[str, bool]]:
    """The parts of a dotted name, under their full names, and whether each is the last."""
    for i in range(len(parts)):
        yield ".".join(parts[: i + 1]), i == len(parts) - 1


def _file_of(kind: type) -> Path | None:
    """The file a class is defined in; None where there is none."""
    try:
        file = Path(inspect.getsourcefile(kind) or "")
    except (OSError, TypeError):
        return None
    if kind.__module__ == MAIN:
        # A class typed at the prompt after a script has run is in none of its lines.
        own = {f.__code__.co_filename for f in vars(kind).values() if inspect.isfunction(f)}
        if own and not any(Path(each).name == file.name for each in own):
            return None
    return file if file.is_file() else None


def _imported(name: str, base: type) -> type:
    place, _, attribute = name.rpartition(":")
    with blaming(name, f"{place} could not be imported"):
        module = _of_file(Path(place)) if place.endswith(".py") else _module(place)
    kind = module
    for part in attribute.split("."):
        kind = getattr(kind, part, None)
    if kind is None and place == MAIN:
        raise Error(
            f"{name}: the class was defined in a notebook, at a prompt or in another script, and this process has none "
            "of that name. Use one worker (workers=1), or move the class to a file and name it path/to/file.py:Class."
        )
    if not (isinstance(kind, type) and issubclass(kind, base)):
        classes = [n for n, c in vars(module).items() if isinstance(c, type) and issubclass(c, base) and c is not base]
        where = f"{base.__module__.removesuffix('.modules.module').removesuffix('.base')}.{base.__name__}"
        raise Error(f"{name}: {attribute!r} must be a class of {where}. In it: {', '.join(classes) or 'none'}.")
    if place.endswith(".py"):
        _named[kind] = name
    return kind


def _module(place: str) -> ModuleType:
    with _importable(Path.cwd()):
        return importlib.import_module(place)


def _of_file(path: Path) -> ModuleType:
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
