"""House rules that a machine can check: who imports whom, what an import costs, whether documents tell the truth."""

import ast
import graphlib
import importlib
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "lengthwise"
(LINE,) = re.findall(r"^ {4}(ops, automata, .*)$", (ROOT / "docs" / "architecture.md").read_text(), re.M)
ROOMS = LINE.split(", ")
"""As the document has them."""
FOUNDATION = {
    "auto_classes",
    "errors",
    "files",
    "foreign_code",
    "lazy_names",
    "limits",
    "notebooks",
    "options",
    "own_code",
    "seeds",
}
MODULES = sorted(SOURCE.rglob("*.py"))
DOCUMENTS = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")})


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def called(node: ast.Call) -> str:
    """The dotted name of what is called, which begins with a dot where that belongs to no name."""
    parts, part = [], node.func
    while isinstance(part, ast.Attribute):
        parts, part = [part.attr, *parts], part.value
    return ".".join([part.id if isinstance(part, ast.Name) else "", *parts])


def allowed(room: str) -> set[str]:
    """The rooms a room may import from."""
    if room in ("ops", "automata", "text"):
        return set()
    if room == "tasks":
        return {"automata"}
    earlier = set(ROOMS[: ROOMS.index(room)])
    return earlier - {"tasks", "automata"} if room == "models" else earlier


def imported(path: Path, module: ast.Module) -> Iterator[str]:
    """The rooms and foundation modules that a module of the library imports, anywhere in it."""
    package = ["lengthwise", *path.relative_to(SOURCE).parent.parts]
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = [*base, *(node.module or "").split(".")] if node.module else base
            names = [".".join([*base, alias.name]) for alias in node.names]
        elif isinstance(node, ast.Call) and called(node).endswith("import_module"):
            names = [each.value for each in node.args[:1] if isinstance(each, ast.Constant)]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "lengthwise" and len(parts) > 1:
                yield parts[1]


def test_imports_are_read_as_python_reads_them():
    text = "from ..lab import Run\nfrom .. import tasks, Error\nimport lengthwise.models.layers\nfrom . import x"
    assert list(imported(SOURCE / "report" / "a.py", ast.parse(text))) == ["lab", "tasks", "Error", "models", "report"]
    assert list(imported(SOURCE / "a.py", ast.parse("from .errors import Error"))) == ["errors"]
    text = "x = importlib.import_module('lengthwise.report')"
    assert list(imported(SOURCE / "lab" / "a.py", ast.parse(text))) == ["report"]


def test_a_room_imports_only_from_rooms_before_it():
    assert set(ROOMS) == {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    wrong = {}
    for path in MODULES:
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if room in ("__init__", "__main__"):
            continue
        assert room in {*FOUNDATION, *ROOMS}, f"{room} is no room: add it to docs/architecture.md and to this test"
        others = FOUNDATION if room in FOUNDATION else FOUNDATION | allowed(room) | {"Error", "__version__"}
        if names := set(imported(path, tree(path))) - others - {room}:
            wrong[str(path.relative_to(SOURCE))] = names
    assert wrong == {}


def test_a_verdict_needs_no_more_than_errors():
    """Who checks a verdict or a certificate must not have to trust the library that made it."""
    path = SOURCE / "verify" / "verdict.py"
    assert set(imported(path, tree(path))) == {"errors"}


CHECKER = sorted((SOURCE / "verify" / "checker").glob("*.py"))


@pytest.mark.parametrize("path", CHECKER, ids=lambda p: p.name)
def test_the_checker_is_independent(path):
    """It may import itself, errors, numpy and Python's own library: nothing that a proof was found by."""
    tree = ast.parse(path.read_text())
    inside = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level]
    assert all(node.level == 1 or (node.level, node.module) == (3, "errors") for node in inside)
    outside = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level]
    outside += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert {name.split(".")[0] for name in outside} <= {"numpy", *sys.stdlib_module_names}


def test_nothing_is_unpickled():
    wrong = []
    for path in MODULES:
        for node in ast.walk(tree(path)):
            names = set()
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
            loads = isinstance(node, ast.Call) and called(node) == "torch.load"
            if loads or names & {"pickle", "cloudpickle", "dill", "joblib", "shelve"}:
                wrong.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert wrong == []


def test_importing_costs_little_beyond_torch():
    code = (
        "import time, sys, torch; t = time.perf_counter(); import lengthwise; "
        "from lengthwise import ops, Error; print(time.perf_counter() - t); "
        "print(*[m for m in ('transformers', 'triton') if m in sys.modules and m not in before])"
    ).replace("import lengthwise;", "before = set(sys.modules); import lengthwise;", 1)
    # The best of three: a busy machine slows an import down, nothing speeds one up.
    for _ in range(3):
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        seconds, *loaded = run.stdout.splitlines()
        assert loaded in ([], [""])
        if float(seconds) < 1:
            return
    pytest.fail(f"lengthwise took {seconds} s to import")


LINES = {
    "foundation": 1_710,
    "ops": 3_358,
    "automata": 1_456,
    "positions": 1_405,
    "mixers": 3_200,
    "models": 3_864,
    "convert": 766,
    "tasks": 4_164,
    "text": 1_578,
    "train": 3_333,
    "evaluate": 1_696,
    "lab": 5_490,
    "insight": 991,
    "theory": 1_006,
    "verify": 9_519,
    "report": 3_904,
    "recipes": 4_589,
    "cli": 3_070,
}
"""How many lines a room may have: lowered as ideas leave, and raised only by a commit that says why."""


def test_a_room_keeps_to_its_lines():
    lines = dict.fromkeys(LINES, 0)
    for path in MODULES:
        room, *rest = path.relative_to(SOURCE).parts
        lines[room if rest else "foundation"] += len(path.read_text().splitlines())
    assert {room: count for room, count in lines.items() if count > LINES[room]} == {}


STRAIGHT = [room for room in ROOMS if room not in ("lab", "report")]
"""The rooms whose modules import one another in no circle."""


@pytest.mark.parametrize("room", STRAIGHT)
def test_no_module_of_a_room_imports_itself_through_others(room):
    imports = {}
    for path in (SOURCE / room).rglob("*.py"):
        if path.name != "__init__.py":
            imports[path] = set()
            for node in ast.walk(tree(path)):
                if isinstance(node, ast.ImportFrom) and node.level:
                    folder = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
                    names = [folder, *(folder / alias.name for alias in node.names)]
                    imports[path] |= {name.with_suffix(".py") for name in names}
    graph = {path: {each for each in needs if each in imports} for path, needs in imports.items()}
    graphlib.TopologicalSorter(graph).prepare()


OPENS = {
    "files.py": "the one place",
    "limits.py": "what the system says of its memory",
    "lab/provenance.py": "what the system says of its CPU",
    "cli/doctor.py": "what the system says of its memory",
    "cli/app.py": "/dev/null",
    "cli/console.py": "/dev/null",
    "report/drawing.py": "this package's own style",
    "recipes/common/rules.py": "this package's own tables",
    "evaluate/local_benchmarks.py": "this package's own source",
    "train/lease.py": "locks, which are told by what the system answers",
    "train/directory.py": "lines that are appended while the directory is locked",
    "text/tokens.py": "tokens that are appended to a folder of its own",
    "text/text_files.py": "the mark of a folder that was just made",
    "tasks/export_files.py": "files in a folder that is not in its place yet",
    "models/portable.py": "files in a folder that transformers saves to",
    "verify/consolidate/compiling.py": "files in a folder that is not in its place yet",
    "verify/checker/weights.py": "the checker imports nothing that a proof was found by",
    "cli/certify.py": "a certificate, which the checker reads",
}
"""The files that open others by themselves, and which: what a caller names is read and written by `files.py`."""


def test_files_are_opened_in_one_place():
    opened = set()
    for path in MODULES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call):
                name = called(node)
                binary = any(isinstance(each, ast.Constant) and each.value in ("rb", "ab", "wb") for each in node.args)
                itself = re.search(r"\.(read|write)_(text|bytes)$|^(os\.)?open$", name)
                if itself or (binary and name.endswith(".open")):
                    opened.add(str(path.relative_to(SOURCE)))
    assert opened == set(OPENS)


STUDIES = sorted((ROOT / "studies").glob("*.py"))


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_uses_public_names_alone(path):
    """What a package lists in `__all__`, a room among them, and the names of another study."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lengthwise."):
            module = importlib.import_module(node.module or "")
            if node.module not in ("lengthwise.errors", "lengthwise.seeds"):
                assert hasattr(module, "__path__"), f"{node.module} is no package"
                assert {alias.name for alias in node.names} <= set(module.__all__)


NAMELESS = {"found", "said", "given", "taught", "kept", "shown", "measured"}
"""Participles that fit anything: what holds a thing is called by a noun."""
PUBLIC = {"certification.py: kept", "compiling.py: kept"}
"""Names that callers use, and are as they were."""


def bindings(node: ast.AST) -> Iterator[str]:
    """The names that a module binds: variables, arguments and functions; not fields, whose names records carry."""
    classes = [each.body for each in ast.walk(node) if isinstance(each, ast.ClassDef)]
    fields = {id(each.target) for body in classes for each in body if isinstance(each, ast.AnnAssign)}
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) and id(each) not in fields:
            yield each.id
        elif isinstance(each, ast.arg):
            yield each.arg
        elif isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield each.name


def test_things_are_called_by_nouns():
    paths = [path for path in MODULES if path.parent.name != "theorem"]
    names = {f"{path.name}: {name}" for path in paths for name in bindings(tree(path)) if name in NAMELESS}
    assert names == PUBLIC


def test_a_class_has_a_name_of_its_own():
    nodes = [node for path in MODULES for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)]
    names = Counter(node.name for node in nodes)
    assert {name for name, count in names.items() if count > 1} == set()


def test_a_docstring_begins_with_what_a_caller_gets():
    """A verb in the third person, or a noun; verbs of the command line ask their user's question."""
    rooms, begins = ("ops", "mixers", "models", "lab", "verify", "cli"), re.compile(r"(What|Whether|How|Why|None|Of)\b")
    verbs, asks = {"needle", "variables", "perplexity", "scrolls"}, set()
    for path in [path for room in rooms for path in (SOURCE / room).rglob("*.py") if path.parent.name != "theorem"]:
        nodes = [node for node in ast.walk(tree(path)) if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
        asks |= {f"{path.name}: {node.name}" for node in nodes if begins.match(ast.get_docstring(node) or "")} - {
            f"{path.name}: {verb}" for verb in verbs
        }
    assert asks == set()


STABLE = {
    "lengthwise": "tasks automata positions mixers text lab insight theory verify report convert",
    "lengthwise.ops": "sliding_dilated_attention chain_attention block_scan diagonal_scan key_biased_attention",
    "lengthwise.models": "LengthwiseConfig LengthwiseForCausalLM presets build",
    "lengthwise.lab": "bench plan load load_model",
    "lengthwise.report": "html frame",
    "lengthwise.verify": "certify falsify extract compile_machine",
}


@pytest.mark.parametrize("room", STABLE)
def test_the_names_to_keep_are_public(room):
    assert set(STABLE[room].split()) <= set(importlib.import_module(room).__all__)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_names_in_documents_are_public(path):
    hidden = []
    for block in re.findall(r"^```python\n(.*?)^```", path.read_text(), re.S | re.M):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lengthwise"):
                room, names = node.module or "", [alias.name for alias in node.names]
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in ROOMS:
                room, names = f"lengthwise.{ast.unparse(node.value)}", [node.attr]
            else:
                continue
            public = getattr(importlib.import_module(room), "__all__", [])
            hidden += [f"{room}.{name}" for name in names if name not in public]
    assert hidden == []


def slug(heading: str) -> str:
    """The anchor of a heading, as the usual renderers make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_in_documents_resolve(path):
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.S | re.M)
    for target in re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|srcset|href)="([^"]+)"', text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        aim = (path.parent / file).resolve() if file else path
        assert aim.exists(), f"{target} leads nowhere"
        if anchor and aim.suffix == ".md":
            assert anchor in {slug(h) for h in re.findall(r"^#+ (.*)$", aim.read_text(), re.M)}, f"no heading {target}"


SKETCHES = {
    "several-devices.md": "begins under torchrun",
}


@pytest.mark.parametrize(
    "document",
    [document for document in DOCUMENTS if "```python" in document.read_text() and document.name not in SKETCHES],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_a_document_s_python_runs(document, run_python, tmp_path):
    if document.name == "hugging-face.md":
        for package in ("peft", "accelerate"):
            pytest.importorskip(package)
    # One program, as a reader saves it: later blocks use the names of earlier ones.
    blocks = re.findall(r"^```python\n(.*?)^```", document.read_text(), re.S | re.M)
    (tmp_path / "document.py").write_text("\n".join(blocks))
    done = run_python("import runpy; runpy.run_path('document.py', run_name='__main__')", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_every_dependency_is_imported():
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    packages = {re.split(r"[^\w-]", line)[0].replace("automata-lib", "automata") for line in asked}
    code = "\n".join(path.read_text(encoding="utf-8") for path in MODULES)
    used = set(re.findall(r"^\s*(?:import|from) (\w+)", code, re.M))
    assert packages - used == set()


def test_python_m_lengthwise_is_the_command():
    words = [sys.executable, "-m", "lengthwise"]
    done = subprocess.run([*words, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("lengthwise ")
    refused = subprocess.run([*words, "bnech"], capture_output=True, text=True)
    assert (refused.returncode, refused.stderr[:7]) == (2, "error: ")


def test_a_benchmark_is_written_down_only_when_asked(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    bench = importlib.import_module("benchmarks.__main__")
    monkeypatch.setattr(bench, "RESULTS", tmp_path / "results.md")
    monkeypatch.setattr(bench, "BENCHES", {"tasks": lambda: ["a table"]})
    bench.main(["tasks"])
    assert not bench.RESULTS.exists()
    bench.main(["--record", "tasks"])
    assert "a table" in bench.RESULTS.read_text()
