"""Classes from outside the library, models and tasks alike: `package.module:Class` and `path/to/file.py:Class`.

A name is found by running the code it names, and code is known by the digest of the file that defines the class. A
record holds the name and the digest, so that a class that has changed is noticed before it runs. A class that a
notebook, a prompt or standard input defines is in no file, and is refused with how to write it to one.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.machinery
import importlib.util
import inspect
import os
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from .errors import Error, UnknownName
from .files import read_bytes
from .foreign_code import blaming

MAIN = "__main__"
CONSTANTS = (bool, int, float, str, bytes, tuple, type(None))
OTHER_MODELS = (
    "A Hugging Face model is hf:PATH, the folder of its config.json; a class of your own package.module:Class."
)
"""What else a model can be than one of the library's, said of an unknown name."""

_given: dict[str, type] = {}
"""The classes that callers of this process handed over, the last of each name."""
_asked: dict[tuple[str, str], type] = {}
"""What this process was asked to run, by name and digest: its records need no further trust."""
_allowed: set[tuple[str, str]] = set()
"""What the process that gave this one its job was asked to run."""
_named: weakref.WeakKeyDictionary[type, str] = weakref.WeakKeyDictionary()
"""The names by which classes were found in files."""
_texts: weakref.WeakKeyDictionary[type, bytes] = weakref.WeakKeyDictionary()
"""The source of each class when it was first asked for, which is what runs."""
_contents: dict[str, bytes] = {}
"""What was run of files, by the names of the modules made of them."""


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


def in_full(setting: str, parts: Iterable[str]) -> str:
    """Returns a setting under the name of its part, of which a class may be named alone if only one is called so.

    >>> in_full("Net.width", ["model", "lstm", "mine.py:Net"])
    'mine.py:Net.width'
    """
    parts = set(parts)
    if any(setting.startswith(f"{part}.") for part in parts):
        return setting
    classes = {part: part.rpartition(":")[2] for part in parts if is_class(part)}
    full = sorted(part for part, name in classes.items() if setting.startswith(f"{name}."))
    if len(full) > 1:
        raise Error(
            f"{setting}: {classes[full[0]]} is each of {', '.join(full)}. Give the whole name, as in {full[0]}."
        )
    return full[0] + setting[len(classes[full[0]]) :] if full else setting


def of_parts(settings: Mapping[str, Any], parts: Iterable[str]) -> dict[str, Any]:
    """Returns the settings under the full names of their parts, or raises an error that names one of no part."""
    parts, full = set(parts), {}
    for key, value in settings.items():
        name = in_full(key, parts)
        # A task's or a model's name may hold dots itself (a module, a path).
        if not any(name.startswith(f"{part}.") for part in parts):
            raise UnknownName("setting", key.split(".")[0], parts)
        if name in full:
            raise Error(f"{name} is set twice, once by the name of the class alone. Leave one of the two out.")
        full[name] = value
    return full


def settings_of(settings: dict[str, Any], part: str) -> dict[str, Any]:
    """The settings of a part, without its name before theirs."""
    prefix = f"{part}."
    return {key[len(prefix) :]: value for key, value in settings.items() if key.startswith(prefix)}


def load(name: str, base: type | tuple[type, ...], source: str | None = None) -> type:
    """The class of this name, of a `base`; with `source`, it must be the code of that digest.

    Code that this process was not asked for is compared with its digest before any of it runs.
    """
    if source and (name, source) in _asked:
        return _asked[name, source]
    place = name.rpartition(":")[0]
    # A file is read anew, in case it was edited; a module is what Python has imported.
    known = None if place.endswith(".py") else _given.get(name)
    verify = source is not None and (name, source) not in _allowed and not known and place not in sys.modules
    if verify:
        if not unchanged(name, source or ""):
            raise _changed(name)
        # Where a file only passes the class on, the one that defines it is what was compared.
        (name, _) = _defining(name) or (name, None)
    kind = known or _imported(name, base, source if verify else None)
    if digest(kind) != source and source:
        raise _changed(name)
    return kind


def _changed(name: str) -> Error:
    return Error(
        f"{name}: its source has changed since the experiment was planned. Restore it, or plan the experiment "
        "again: it is another one now."
    )


def unchanged(name: str, source: str) -> bool:
    """Whether the file that defines a class is of this digest; nothing is run to find out."""
    file = find_file(name)
    return file is not None and hashlib.sha256(read_bytes(file)).hexdigest() == source


def allow(code: Iterable[tuple[str, str]]) -> None:
    """Let this process run code, by name and digest, that the process which gave it its job was asked for."""
    _allowed.update(code)


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
    """The SHA-256 of the file the class is defined in; of what that imports it knows nothing."""
    file = _file_of(kind)
    if file is None:
        name = kind.__qualname__.rpartition(".")[2]
        raise Error(
            f"{name}: a notebook, a prompt or standard input defined it, and a run is known by the file of its code. "
            f"Write it to one, as a cell does that begins with %%writefile my_code.py, and name my_code.py:{name}."
        )
    now = read_bytes(file)
    ran = _texts.get(kind) or _contents.get(kind.__module__)
    # Python keeps no source of what it has imported: the class itself must say whether it is the file's.
    same = ran == now if ran else not _from_source(kind) or _is_written_in(now, file, kind)
    if not same:
        raise Error(
            f"{kind.__module__}:{kind.__qualname__}: its file has changed since Python imported it. Start Python "
            "again, or call importlib.reload(module) and take the class from the module anew."
        )
    _texts[kind] = now
    return hashlib.sha256(now).hexdigest()


def text(kind: type) -> bytes:
    """The source of a class as it runs: what its file held."""
    if kind not in _texts:
        digest(kind)
    return _texts[kind]


def _from_source(kind: type) -> bool:
    """Whether Python compiled the class's file as it stands: others (pytest) rewrite what they import."""
    loader = getattr(sys.modules.get(kind.__module__), "__loader__", None)
    return type(loader) is importlib.machinery.SourceFileLoader


def _is_written_in(text: bytes, file: Path, kind: type) -> bool:
    """Whether the functions of a class, their defaults and its constants are those that the text of its file gives."""
    try:
        nodes, codes = list(ast.walk(ast.parse(text))), set(_inner(compile(text, str(file), "exec", dont_inherit=True)))
    except (SyntaxError, ValueError):
        return False
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    lines = {(min([f.lineno, *(each.lineno for each in f.decorator_list)]), f.name): f.args for f in functions}
    for function in map(inspect.unwrap, _functions(kind)):
        code = function.__code__
        if Path(code.co_filename).name != file.name:
            continue
        if code not in codes:
            return False
        if args := lines.get((code.co_firstlineno, code.co_name)):
            by_name = [(function.__kwdefaults__ or {}).get(a.arg) for a in args.kwonlyargs]
            if not _alike([*args.defaults, *args.kw_defaults], [*(function.__defaults__ or ()), *by_name]):
                return False
    classes = [node for node in nodes if isinstance(node, ast.ClassDef) and node.name == kind.__name__]
    if len(classes) != 1:
        return bool(classes) or not _functions(kind)
    assigned = [each for each in classes[0].body if isinstance(each, ast.Assign | ast.AnnAssign)]
    targets = [(each.targets[0] if isinstance(each, ast.Assign) else each.target, each.value) for each in assigned]
    values = {target.id: value for target, value in targets if isinstance(target, ast.Name)}
    return _alike(list(values.values()), [vars(kind).get(name) for name in values])


def _alike(written: Sequence[ast.expr | None], values: Sequence[Any]) -> bool:
    """Whether the constants among written expressions are the values found."""
    if len(written) != len(values):
        return False
    for node, value in zip(written, values, strict=True):
        try:
            constant = ast.literal_eval(node) if node else None
        except (ValueError, TypeError):
            continue
        if isinstance(value, CONSTANTS) and isinstance(constant, CONSTANTS) and repr(constant) != repr(value):
            return False
    return True


def _inner(code: CodeType) -> Iterator[CodeType]:
    """Every code inside another; the same lines of a file are equal ones."""
    for each in code.co_consts:
        if inspect.iscode(each):
            yield each
            yield from _inner(each)


def _functions(kind: type) -> list[Any]:
    """The functions written in a class."""
    inside = [getattr(each, "__func__", getattr(each, "fget", each)) for each in vars(kind).values()]
    return [f for f in inside if inspect.isfunction(f) and f.__module__ == kind.__module__]


def find_file(name: str) -> Path | None:
    """Where the class of a name is defined, found without running any of it; None where that cannot be seen."""
    definition = _defining(name)
    return definition[1] if definition else None


def _defining(name: str, steps: int = 8) -> tuple[str, Path] | None:
    """The name of a class in the file that defines it, and that file; imports are followed so many `steps`."""
    place, _, attribute = name.rpartition(":")
    file = _file_of_place(place)
    outer, dot, inner = attribute.partition(".")
    if file is None or not steps:
        return None
    try:
        nodes = list(ast.walk(ast.parse(read_bytes(file))))
    except (SyntaxError, ValueError):
        return name, file
    for node in nodes:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == outer:
            return name, file
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == outer:
            return name, file
    for node in [node for node in nodes if isinstance(node, ast.ImportFrom)]:
        for alias in node.names:
            if (alias.asname or alias.name) == outer:
                return _defining(f"{_origin(node, place, file)}:{alias.name}{dot}{inner}", steps - 1)
    return None


def _origin(node: ast.ImportFrom, place: str, file: Path) -> str:
    """The place that `from … import` takes names from, in the file of `place`."""
    module = node.module or ""
    if place.endswith(".py"):
        beside = file.parent / f"{module.replace('.', '/')}.py"
        return str(beside) if beside.is_file() else module
    if not node.level:
        return module
    parts = place.split(".")
    up = node.level - (file.name == "__init__.py")
    return ".".join([*parts[: len(parts) - up], *([module] if module else [])])


def _file_of_place(place: str) -> Path | None:
    """The file of a module, or of a path to one."""
    if place.endswith(".py"):
        path = Path(place).expanduser()
        return path.resolve() if path.is_file() else None
    if place == MAIN:
        file = getattr(sys.modules[MAIN], "__file__", None)
        return Path(file) if file and Path(file).is_file() else None
    folders = [str(Path.cwd()), *sys.path]
    spec = None
    for part in accumulate(place.split("."), "{}.{}".format):
        spec = importlib.machinery.PathFinder.find_spec(part, folders)
        folders = [] if spec is None else list(spec.submodule_search_locations or [])
    return Path(spec.origin) if spec and spec.origin and Path(spec.origin).is_file() else None


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


def _imported(name: str, base: type | tuple[type, ...], source: str | None) -> type:
    """The class, of code that is compared with the digest `source` before it runs."""
    place, _, attribute = name.rpartition(":")
    with blaming(name, f"{place} could not be imported"), _compiled_anew(source is not None):
        module = _of_file(Path(place), source) if place.endswith(".py") else _module(place)
    kind = module
    for part in attribute.split("."):
        kind = getattr(kind, part, None)
    if kind is None and place == MAIN:
        raise Error(
            f"{name}: the class was defined in another script, and this process has none of that name. Move it to a "
            "file and name it path/to/file.py:Class."
        )
    if not (isinstance(kind, type) and issubclass(kind, base)):
        bases = base if isinstance(base, tuple) else (base,)
        classes = [n for n, c in vars(module).items() if isinstance(c, type) and issubclass(c, base) and c not in bases]
        places = [b.__module__.removesuffix(".modules.module").removesuffix(".base") for b in bases]
        where = " or ".join(f"{place}.{b.__name__}" for place, b in zip(places, bases, strict=True))
        raise Error(f"{name}: {attribute!r} must be a class of {where}. In it: {', '.join(classes) or 'none'}.")
    if place.endswith(".py"):
        _named[kind] = name
    return kind


def run_file(file: str) -> ModuleType:
    """The module that a file of Python is, run as it stands now."""
    if not Path(file).expanduser().is_file():
        raise Error(f"{file}: there is no such file.")
    with blaming(file, "it could not be imported"):
        return _of_file(Path(file), None)


def _module(place: str) -> ModuleType:
    with _importable(Path.cwd()):
        return importlib.import_module(place)


def _of_file(path: Path, source: str | None) -> ModuleType:
    path = path.expanduser().resolve()
    content = read_bytes(path)
    if source and hashlib.sha256(content).hexdigest() != source:
        raise _changed(str(path))
    # Named by its content, so that an edited file is loaded anew and an unedited one once.
    name = f"lengthwise_imported_{path.stem}_{hashlib.sha256(str(path).encode() + content).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise ImportError("not a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        with _importable(path.parent):
            # These bytes, and not what Python keeps in __pycache__, are what the digest is of.
            exec(compile(content, str(path), "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    _contents[name] = content
    return module


@contextmanager
def _compiled_anew(wanted: bool) -> Iterator[None]:
    """Within the block Python imports from sources, and reads and writes no byte code."""
    before = sys.pycache_prefix, sys.dont_write_bytecode
    if wanted:
        sys.pycache_prefix, sys.dont_write_bytecode = os.devnull, True
    try:
        yield
    finally:
        sys.pycache_prefix, sys.dont_write_bytecode = before


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Within the block, modules in `folder` can be imported by name; never those in a run's directory.

    A run may have come from anywhere, and what lies in it would go before installed packages of the same name.
    """
    if (folder / "config.json").is_file() and (folder / "metrics.jsonl").is_file():
        yield
        return
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
