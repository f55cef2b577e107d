"""Builds the site into one folder that opens from disk: `make docs`, or `python site/build.py OUT`.

The pages are those of `docs/`, a few of this folder, and what is generated here from the zoo, the command line and the
public names. Links out of `docs/` become links within the site, or names of files.
"""

from __future__ import annotations

import base64
import importlib
import inspect
import json
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import typer

from lengthwise import tasks, verify
from lengthwise.cli.app import app
from lengthwise.files import read_json
from lengthwise.lab.collection import network_folder, networks
from lengthwise.verify.checker.check import MADE
from lengthwise.verify.checker.weights import read_model

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import atlas  # noqa: E402
import tutorials  # noqa: E402

import leaderboard  # noqa: E402

ROOT = HERE.parent
ROOMS = ("lab", "tasks", "verify", "report", "models", "mixers", "positions", "ops")
ROOMS = (*ROOMS, "automata", "text", "insight", "theory", "convert", "models.presets")
LISTED = ("models", "mixers", "positions", "tasks", "settings", "recipes")
"""The tables of `lengthwise list`, a page each."""
PARTS = {
    "Start": ["install", "ten-minutes"],
    "Tutorials": [f"tutorial-{name}" for name in tutorials.NAMES],
    "How-to": [
        *("certify", "steady", "extracting", "cliff", "far-tokens", "choosing-positions"),
        *("own-tasks", "own-models", "hugging-face", "language-models", "text", "scrolls"),
        *("results", "training-further", "going-on", "clusters", "searching", "several-devices"),
    ],
    "Ideas": ["regulargpt", "lrnn", "chacal", "bipe", "proofs", "positions", "constructions", "theorem"],
    "Evidence": ["hall-of-proofs", "hall-of-refutations", "zoo", "proved", "leaderboard", "reproduction", "atlas"],
    "Reference": [
        *("cli", *(f"options-{table}" for table in LISTED), *(f"api-{room}" for room in ROOMS)),
        *("certificate", "architecture"),
    ],
    "About": ["changelog", "citation", "log", "earlier-log"],
}
"""The pages in the order of the menu."""
KINDS = ("recurrence-boxes", "cascade", "tree-codes", "tree-boxes")
"""The proofs that the checker in JavaScript knows."""
MOST_ELEMENTS = 100
"""Of a tree's proof, whose conditions are about their pairs: of more, a browser takes minutes."""
MODULES = ("bounds", "affine", "layers", "sha256", "recurrence", "automaton", "tree", "attention", "check", "page")
"""Those of `proof/`, each after what it imports."""
READ_AS = {"rnn": "recurrence-boxes", "gru": "recurrence-boxes", "lstm": "recurrence-boxes"}
READ_AS |= {"transformer": "attention", "bipe": "attention", "chacal": "attention"}
"""What reads a refuted network in JavaScript, by its preset."""
MODELS = {"rnn": "an RNN", "gru": "a GRU", "lstm": "an LSTM", "transformer": "a Transformer"}
MODELS |= {"bipe": "a Transformer with BiPE", "chacal": "a Transformer with chain attention (ChaCAL)"}
LIVE = "parity-rnn"
"""The network that runs on the first page."""
SCRIPT = "proof.js"
"""All modules as one script, in the folder of what pages share."""
LINK = re.compile(r"\[([^\]]*)\]\((\.\./[^)#]*|(?:results|docs)/[^)#]*)(#[^)]*)?\)")


def lay_out(source: Path) -> None:
    """Every page of the site, as Markdown."""
    for page in (ROOT / "docs").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        write(source / page.name, f"---\nnosearch: true\n---\n{text}" if page.stem in ("log", "earlier-log") else text)
    for picture in (ROOT / "docs").glob("*.png"):
        shutil.copy(picture, source)
    shutil.copytree(HERE / "static", source / "static")
    script = f'"use strict";\n{in_one(iter(MODULES))}\n'
    (source / "static" / SCRIPT).write_text(script, encoding="utf-8")
    (source / "networks").mkdir()
    shutil.copy(HERE / "conf.py", source)
    write(source / "changelog.md", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    write(source / "citation.md", citation())
    for name in ("install", "ten-minutes", "certificate"):
        write(source / f"{name}.md", (HERE / f"{name}.md").read_text(encoding="utf-8"))
    write(source / "hall-of-proofs.md", hall_of_proofs())
    write(source / "hall-of-refutations.md", hall_of_refutations())
    for name in shown_in_the_browser():
        write(source / f"proof-{name}.md", page_of_a_proof(name))
        write_network(source, name, proved_network(name))
    for name in refuted_in_the_browser():
        write(source / f"refuted-{name}.md", page_of_a_refutation(name))
        write_network(source, name, refuted_network(name))
    write(source / "atlas.md", atlas.page(prose))
    write(source / "leaderboard.md", leaderboard.page())
    tutorials.write(source, source / "tutorials")
    write(source / "cli.md", "\n".join(command_line()))
    for table_of in LISTED:
        write(source / f"options-{table_of}.md", "\n".join(options(table_of)))
    for room in ROOMS:
        write(source / f"api-{room}.md", "\n".join(public_names(room)))
    parts = {part: pages for part, pages in PARTS.items() if pages}
    menu = [f"\n```{{toctree}}\n:hidden:\n\npart-{part.lower()}\n```\n" for part in parts]
    home = (HERE / "index.md").read_text(encoding="utf-8")
    write(source / "index.md", f"{home}\n## `{LIVE}`, here and now\n\n{in_html(LIVE)}{''.join(menu)}")
    for part, pages in parts.items():
        own = [f"proof-{name}" for name in shown_in_the_browser()]
        own += [f"refuted-{name}" for name in refuted_in_the_browser()]
        here = [*pages, *(own if part == "Evidence" else [])]
        listed = [entry(source / f"{page}.md") for page in here]
        text = "\n".join([f"# {part}", "", *listed, "", "```{toctree}", ":hidden:", "", *here, "```", ""])
        write(source / f"part-{part.lower()}.md", text)


def entry(page: Path) -> str:
    """A page's line in the list of its part: its title, and whom it is for."""
    text = page.read_text(encoding="utf-8").removeprefix("---\nnosearch: true\n---\n")
    title, said = re.findall(r"^# (.*)$", text, re.M)[0], re.search(r"\n\n(For whoever .+?[.:])\s", text, re.S)
    whom = f"\\\n{' '.join(said[1].split()).rstrip(':')}" if said else ""
    return f"- [{title}]({page.name}){whom}"


def write(file: Path, text: str) -> None:
    file.write_text(LINK.sub(moved, text), encoding="utf-8")


def moved(link: re.Match[str]) -> str:
    """A link of a document, from where the page then lies."""
    text, target = link[1], link[2].removeprefix("../")
    if target.startswith("results/") and target.endswith(".html"):
        return f'<a href="{target}">{text}</a>'
    if target == "README.md":
        return f"[{text}](index.md)"
    if target.startswith(("site/", "docs/")) and target.endswith(".md"):
        return f"[{text}]({target[5:]}{link[3] or ''})"
    return f"{text} (`{target}`)"


def table(header: list[str], rows: Iterator[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows]]
    return "\n".join(lines) + "\n"


def hall_of_proofs() -> str:
    def rows() -> Iterator[list[str]]:
        for name, network in networks().items():
            if network["verdict"] != "proved":
                continue
            proof = read_json(network_folder(name) / "certificate.json")
            verdict = '<span class="proved">✓ proved</span>'
            machine = f"{len(proof['claim']['delta'])} states"
            shown = f"[`{name}`](proof-{name}.md)" if name in shown_in_the_browser() else f"`{name}`"
            yield [shown, verdict, proof["made"], network["task"]["name"], machine, f"{proof['margin']:.3g}"]

    return f"""# Hall of proofs

Networks that are right after every string of every length, in float32 and in any order of summation. The rung says
how it came about: *learned*, from strings of at most 40 symbols and their answers alone (of every span in them, too,
where its card says so); *settled*, then taught the
machine that was extracted from it; *consolidated*, then taught the task's machine; *compiled*, from no string. The
margin is the least by which a right answer is ahead, or a choice decided. A name that is a link opens the network in
your browser, which checks its proof there.

{table(["network", "verdict", "rung", "task", "machine", "margin"], rows())}
Copy one out and check it, with numpy alone:

```sh
lengthwise zoo parity-rnn
lengthwise certify --check parity-rnn/certificate.json --model parity-rnn
```

What a certificate claims and assumes is in [proofs](proofs.md) and, as a theorem of Coq, in [theorem](theorem.md).
"""


@cache
def shown_in_the_browser() -> list[str]:
    """The networks whose proofs the browser checks."""
    proved = [name for name, about in networks().items() if about["verdict"] == "proved"]
    return [name for name in proved if in_the_browser(read_json(network_folder(name) / "certificate.json"))]


def in_the_browser(certificate: dict[str, Any]) -> bool:
    """Whether the checker in JavaScript has this kind of proof: one layer, float32, one answer after a word.

    It rejects the tree of 154 elements of modulo 5: its intervals, which forget what cancels, are too wide there.
    """
    layers = certificate["model"]["config"]["depth"].get("layers", 1)
    single = all(isinstance(answer, int) for answer in certificate["claim"]["answers"])
    small = len(certificate["proof"].get("elements", ())) <= MOST_ELEMENTS
    return certificate["kind"] in KINDS and certificate["arithmetic"] == "float32" and layers == 1 and single and small


def proof_of(certificate: dict[str, Any], weights: dict[str, Any]) -> dict[str, Any]:
    """A certificate's claim and sets, with the weights they are about."""
    tensors = {
        name: {"shape": list(x.shape), "data": base64.b64encode(x.astype("<f4").tobytes()).decode()}
        for name, x in weights.items()
    }
    about = {name: certificate[name] for name in ("kind", "claim", "proof")}
    model = certificate["model"]
    return {**about, "config": model.get("config"), "digests": model["weights"], "tensors": tensors}


def in_one(modules: Iterator[str]) -> str:
    """ES modules as one script, each a constant with what it exports: a browser imports nothing from disk."""
    parts = []
    for name in modules:
        text = (HERE / "proof" / f"{name}.mjs").read_text(encoding="utf-8")
        exported = re.findall(r"^export (?:const|class|function\*?) (\w+)", text, re.M)
        imported = r"^import (?:\* as )?(\w+|\{[^}]*\}) from \"./(\w+).mjs\";"
        text = re.sub(imported, r"const \1 = module_\2;", re.sub(r"^export ", "", text, flags=re.M), flags=re.M)
        parts.append(f"const module_{name} = (() => {{\n{text}\nreturn {{ {', '.join(exported)} }};\n}})();")
    return "\n".join(parts)


def proved_network(name: str) -> dict[str, Any]:
    """What the page of a proof reads: the network, the claim and the proof."""
    folder = network_folder(name)
    return proof_of(read_json(folder / "certificate.json"), read_model(folder)[1])


def refuted_network(name: str) -> dict[str, Any]:
    """What the page of a refutation reads: the network, the claim, and the string that refutes it."""
    about, (config, weights) = networks()[name], read_model(network_folder(name))
    claim = verify.claim_of(tasks.get(about["task"]["name"], **about["task"]["params"])).to_json()
    kind, model = READ_AS[about["model"]["name"]], {"config": config, "weights": {}}
    return {**proof_of({"kind": kind, "claim": claim, "proof": None, "model": model}, weights), "word": about["word"]}


def write_network(source: Path, name: str, data: dict[str, Any]) -> None:
    """A network beside its page, as a script: from disk a browser reads nothing else."""
    text = json.dumps(data, separators=(",", ":"))
    (source / "networks" / f"{name}.js").write_text(f"const network = {text};\n", encoding="utf-8")


def page_of_a_proof(name: str) -> str:
    task, made = networks()[name]["task"]["name"], read_json(network_folder(name) / "certificate.json")["made"]
    return f"""# `{name}`, proved in your browser

This page holds a network for `{task}`, {MADE[made]}, and its proof. The network runs
here, in float32. Below, a checker in JavaScript, which shares no code with those in Python and Coq, goes through every
condition of the proof. [What it says and assumes](proofs.md).

{in_html(name)}"""


def in_html(name: str) -> str:
    """The part of a page on which a network is read."""
    return f"""```{{raw}} html
<div id="proof">This page needs JavaScript.</div>
<script src="networks/{name}.js"></script>
<script src="_static/{SCRIPT}"></script>
<script>module_page.show(document.getElementById("proof"), network);</script>
```
"""


def refuted_in_the_browser() -> list[str]:
    """The refuted networks that JavaScript can run."""
    return [n for n, a in networks().items() if a["verdict"] == "refuted" and a["model"]["name"] in READ_AS]


def page_of_a_refutation(name: str) -> str:
    about = networks()[name]
    return f"""# `{name}`, refuted in your browser

This page holds {MODELS[about["model"]["name"]]} for `{about["task"]["name"]}`, right on all test strings
{right_to(about["accuracy"])}. It runs here, in float32, on the string that refutes it. Take a symbol away, or type
another string: which ones is it right on?

{in_html(name)}"""


def hall_of_refutations() -> str:
    def rows() -> Iterator[list[str]]:
        for name, network in networks().items():
            if network["verdict"] == "refuted":
                word = network["word"]
                verdict = '<span class="refuted">✗ refuted</span>'
                tested = right_to(network["accuracy"])
                page = f"refuted-{name}.md"
                cells = [network["task"]["name"], tested, f"{len(word)}", f"`{shortened(word)}`"]
                yield [f"[`{name}`]({page})", verdict, *cells, f"[run it here]({page})"]

    def commands() -> Iterator[str]:
        for name, network in networks().items():
            if network["verdict"] == "refuted":
                again = f"lengthwise certify {name} --task {network['task']['name']}"
                yield f'lengthwise zoo {name} && {again} --word "{shortened(network["word"])}"'

    return f"""# Hall of refutations

Networks that look right and are not, each with the shortest wrong string that was found. Every one is right on all test
strings of the lengths that it was trained on, and of much longer ones.

{table(["network", "verdict", "task", "right on all test strings", "wrong after", "the string", ""], rows())}
Copy one out, and have it read its string again:

```sh
{chr(10).join(commands())}
```
"""


def right_to(accuracy: dict[str, float]) -> str:
    """Up to which length every test string was right."""
    lengths = sorted(map(int, accuracy))
    wrong = [length for length in lengths if accuracy[str(length)] < 1]
    right = [length for length in lengths if not wrong or length < wrong[0]]
    rest = f"; {accuracy[str(wrong[0])]:.0%} at {wrong[0]:,}" if wrong else ""
    return f"to {right[-1]:,} symbols{rest}"


def shortened(word: list[int]) -> str:
    """A word with its runs counted, as `--word` reads it."""
    runs: list[list[int]] = []
    for symbol in word:
        if runs and runs[-1][0] == symbol:
            runs[-1][1] += 1
        else:
            runs.append([symbol, 1])
    return " ".join(f"{symbol}:{count}" if count > 1 else str(symbol) for symbol, count in runs)


def command_line() -> Iterator[str]:
    """Every verb with its arguments and options."""
    yield "# The command line\n"
    yield "Every verb takes `--help` and `--json`. Exit codes: 0 fine, 1 the finding is bad, 2 the call is wrong.\n"
    group: Any = typer.main.get_command(app)
    yield from verbs(group, ["lengthwise"])


def verbs(command: Any, path: list[str]) -> Iterator[str]:
    context = command.make_context(path[-1], [], resilient_parsing=True)
    for name in command.list_commands(context):
        verb = command.get_command(context, name)
        yield f"## `{' '.join([*path, name])}`\n"
        yield prose(inspect.cleandoc(verb.help or "")) + "\n"
        if hasattr(verb, "list_commands"):
            yield from (line.replace("## `", "### `", 1) for line in verbs(verb, [*path, name]))
            continue
        rows = [[spelled(each), plain(getattr(each, "help", "") or "")] for each in verb.params if each.name != "help"]
        if rows:
            yield table(["argument or option", "what it is"], iter(rows))


def options(table_of: str) -> Iterator[str]:
    """Every name of a table of `lengthwise list`, with its options."""
    names = ROOT / "src" / "lengthwise" / "cli" / "names.jsonl"
    yield f"# {table_of.capitalize()}, and every option of each\n"
    yield "What `lengthwise list NAME` shows. Options are set by `--set`, in TOML files, or as arguments in Python.\n"
    for found in map(json.loads, names.read_text(encoding="utf-8").splitlines()):
        if found["table"] == table_of:
            yield f"## `{found['name']}`\n\n{prose(found['line'])}\n"
            rows = [
                [f"`{each['name']}`", plain(each["type"]), default(each), plain(each["line"])]
                for each in found["options"]
            ]
            if rows:
                yield table(["option", "is", "default", "what it does"], iter(rows))


def default(option: dict[str, Any]) -> str:
    return f"`{option['default']}`" if "default" in option else "must be given"


def citation() -> str:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    return f"# Citation\n\nCite Lengthwise, and the papers whose layers or tasks you used:\n\n```yaml\n{text}```\n"


def spelled(parameter: Any) -> str:
    word = (parameter.metavar or (parameter.name or "").upper()).replace("|", "\\|")
    if parameter.param_type_name == "argument":
        return f"`{word}`"
    flags = ", ".join(f"`{flag}`" for flag in parameter.opts)
    return flags if parameter.is_flag else f"{flags} `{word}`"


def plain(text: str) -> str:
    """Help without its colours, in one cell of a table."""
    return re.sub(r"\[/?[a-z]+\]", "", text).replace("|", "\\|").replace("\n", " ")


def prose(text: str) -> str:
    """A docstring or a help as Markdown: examples are code, and what looks like HTML is text."""
    lines, fenced = [], False
    for line in re.sub(r"\[/?bold\]", "`", text).splitlines():
        begins = line.startswith(">>>")
        if begins and not fenced:
            lines += ["", "```pycon"]
            fenced = True
        elif fenced and not line.strip():
            lines.append("```")
            fenced = False
        code = fenced or line.startswith("    ")
        lines.append(line if code else re.sub(r"(`[^`]*`)|<", lambda m: m[1] or "&lt;", line))
    return "\n".join([*lines, *["```"] * fenced])


def public_names(room: str) -> Iterator[str]:
    """The public names of a room, argument by argument."""
    module = importlib.import_module(f"lengthwise.{room}")
    yield f"# `lengthwise.{room}`\n\n{prose(inspect.cleandoc(module.__doc__ or ''))}\n"
    for name in sorted(module.__all__, key=str.lower):
        thing = getattr(module, name)
        if inspect.ismodule(thing) or not (inspect.isclass(thing) or inspect.isroutine(thing)):
            continue
        yield f"## `{room}.{name}`\n"
        yield "```python\n" + called(name, thing) + "\n```\n"
        yield prose(inspect.cleandoc(thing.__doc__ or "")) + "\n"
        if rows := arguments(thing):
            yield table(["argument", "what it is"], iter(rows))


def called(name: str, thing: Any) -> str:
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return name
    parts = []
    for each in signature.parameters.values():
        star = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        default = "" if each.default is each.empty else f"={shown(each.default)}"
        parts.append(f"{star}{each.name}{default}")
    return "\n".join(textwrap.wrap(f"{name}({', '.join(parts)})", 84, subsequent_indent="    "))


def shown(default: Any) -> str:
    text = repr(default)
    return text if len(text) < 30 and " at 0x" not in text else "…"


def arguments(thing: Any) -> list[list[str]]:
    """What the annotations of a call say of its arguments."""
    try:
        hints = get_type_hints(thing.__init__ if inspect.isclass(thing) else thing, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return []
    rows = []
    for name, hint in hints.items():
        told = [text for text in getattr(hint, "__metadata__", ()) if isinstance(text, str)]
        rows += [[f"`{name}`", plain(told[0])]] if told else []
    return rows


def main(out: Path) -> int:
    if out.exists():
        shutil.rmtree(out)
    source = out.parent / f"{out.name}-pages"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    lay_out(source)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(source), str(out)]
    failed = subprocess.run(command, check=False).returncode
    if not failed:
        for page in (ROOT / "results").glob("*/*.html"):
            (out / "results" / page.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(page, out / "results" / page.parent.name)
        for folder in (HERE / "vectors", source / "tutorials", source / "networks"):
            shutil.copytree(folder, out / folder.name)
        print(f"Open {out / 'index.html'}")
    return failed


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site")))
