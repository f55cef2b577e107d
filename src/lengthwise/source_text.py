"""The source of a class that no file holds: the class itself, what it uses from the same notebook, and its imports.

Such code has passed through a cell or a prompt, whose lines Python keeps (`linecache`). What is written here can be
saved as a file and imported from it. Where not even the lines are kept, as of standard input, the byte code stands for
them: a change is noticed, but nothing can be imported.
"""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

CONSTANTS = (bool, int, float, str, bytes, tuple, type(None))


def pieces_of(kind: type) -> str:
    """The source of a class: imports first, then what it uses, itself last."""
    imports: list[str] = []
    pieces: list[str] = []
    _collect(kind, imports, pieces, set())
    return "\n".join([*dict.fromkeys(imports), *pieces]) + "\n"


def is_written_in(text: bytes, file: Path, kind: type) -> bool:
    """Whether the functions of a class, their defaults and its constants are those that the text of its file gives."""
    try:
        nodes, codes = list(ast.walk(ast.parse(text))), set(_inner(compile(text, str(file), "exec", dont_inherit=True)))
    except (SyntaxError, ValueError):
        return False
    lines = {(_first_line(node), node.name): node.args for node in nodes if isinstance(node, ast.FunctionDef)}
    for function in map(inspect.unwrap, _functions(kind)):
        code = function.__code__
        if Path(code.co_filename).name != file.name:
            continue
        if _said(code) not in codes:
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


def _inner(code: CodeType) -> Iterator[tuple[Any, ...]]:
    """What is said by every code inside another."""
    for each in code.co_consts:
        if inspect.iscode(each):
            yield _said(each)
            yield from _inner(each)


def _said(code: CodeType) -> tuple[Any, ...]:
    """What a code does and where it stands, the same for the same lines of a file."""
    constants = tuple(_said(each) if inspect.iscode(each) else (type(each), each) for each in code.co_consts)
    return code.co_qualname, code.co_firstlineno, code.co_code, code.co_names, code.co_varnames, constants


def _first_line(node: ast.FunctionDef | ast.ClassDef) -> int:
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])


def _collect(thing: Any, imports: list[str], pieces: list[str], seen: set[int]) -> None:
    seen.add(id(thing))
    source = _lines(thing)
    namespace = _namespace(thing)
    codes = [compile(source, "<own>", "exec")] if source else [f.__code__ for f in _functions(thing)]
    bases = [] if source else [base.__name__ for base in getattr(thing, "__bases__", ())]
    for name in dict.fromkeys([*bases, *(name for code in codes for name in _globals(code))]):
        if name not in namespace or name.startswith("__") or id(namespace[name]) in seen:
            continue
        value = namespace[name]
        module = getattr(value, "__module__", None)
        if isinstance(value, ModuleType):
            imports.append(f"import {value.__name__} as {name}")
        elif (inspect.isclass(value) or inspect.isfunction(value)) and module == thing.__module__:
            _collect(value, imports, pieces, seen)
        elif module and hasattr(value, "__qualname__"):
            imports.append(f"from {module} import {value.__qualname__} as {name}")
        elif isinstance(value, CONSTANTS):
            pieces.append(f"{name} = {value!r}")
    pieces.append(source or _byte_code(thing))


def _namespace(thing: Any) -> dict[str, Any]:
    """The names a class or function sees: those of its module and of the functions around it."""
    names = dict(vars(sys.modules[thing.__module__])) if thing.__module__ in sys.modules else {}
    for function in _functions(thing):
        names |= inspect.getclosurevars(function).nonlocals
    return names


def _functions(thing: Any) -> list[Any]:
    """The functions written in a class, or the function itself."""
    if inspect.isfunction(thing):
        return [thing]
    inside = [getattr(each, "__func__", getattr(each, "fget", each)) for each in vars(thing).values()]
    return [f for f in inside if inspect.isfunction(f) and f.__module__ == thing.__module__]


def _lines(thing: Any) -> str | None:
    """The source of a class or function; None where Python has not kept it."""
    functions = _functions(thing)
    if functions:
        codes = [(f.__code__.co_filename, f.__code__.co_firstlineno) for f in functions]
    else:
        codes = [(name, None) for name in reversed(linecache.cache) if not name.endswith(".py")]
    for file, at in codes:
        if source := _definition("".join(linecache.getlines(file)), thing.__name__, at):
            return source
    return None


def _definition(text: str, name: str, at: int | None) -> str | None:
    """The class or function of this name around line `at` of a text, as it would stand by itself."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except SyntaxError:
        return None
    lines = text.splitlines()
    for node in reversed(nodes):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
            first = _first_line(node)
            if at is None or first <= at <= (node.end_lineno or first):
                return textwrap.dedent("\n".join(lines[first - 1 : node.end_lineno])) + "\n"
    return None


def _globals(code: CodeType) -> Iterator[str]:
    """The names that a code looks up outside itself, in the order of their use."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(step.argval)
        if inspect.iscode(step.argval):
            yield from _globals(step.argval)


def _byte_code(thing: Any) -> str:
    """What stands for a source that was not kept: the same for the same code under the same Python."""
    lines = [f"# {thing.__qualname__}: Python {sys.version_info[0]}.{sys.version_info[1]} kept no source of it"]
    lines += [f"# {k} = {v!r}" for k, v in vars(thing).items() if isinstance(v, CONSTANTS) and not k.startswith("__")]
    for function in _functions(thing):
        lines += [f"# {function.__name__}", *(f"#   {step}" for step in _steps(function.__code__))]
    return "\n".join(lines)


def _steps(code: CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        # A set is written in no fixed order.
        value = sorted(map(repr, step.argval)) if isinstance(step.argval, frozenset) else step.argval
        yield step.opname if inspect.iscode(value) else f"{step.opname} {value!r}"
        if inspect.iscode(step.argval):
            yield from _steps(step.argval)
