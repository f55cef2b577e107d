"""`lengthwise zoo`: trained networks to pick up, each proved at every length or refuted; `push` sends one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from ..errors import Error
from . import console
from .verb import Typed, verb
from .work import one_run

MARKS = {
    "proved": "[green]✓[/green]",
    "refuted": "[red]✗[/red]",
    "unknown": "[yellow]?[/yellow]",
    "language model": "–",
}


@verb
def zoo(
    name: Annotated[str | None, "A network, such as parity-rnn.", Typed("NAME", argument=True)] = None,
    out: Annotated[Path | None, "Copy it into this new folder; by default one of its name, here.", Typed("DIR")] = None,
    as_json: console.Json = False,
) -> None:
    """List small trained networks, each proved right at every length or refuted by a string, or copy one out.

    Example: [bold]lengthwise zoo[/bold]

    Example: [bold]lengthwise zoo parity-rnn --out my-rnn[/bold]
    """
    from ..lab import collection

    if name is None:
        if out is not None:
            raise Error("--out says where a network goes: name one, as in lengthwise zoo parity-rnn --out my-rnn.")
        known = collection.networks()
        if as_json:
            console.emit(known)
            return
        console.out().print(_table(known))
        signs = "✓ proved at every length, ✗ refuted, – a language model, of which there is no verdict"
        console.out().print(f"lengthwise zoo NAME copies one out; {signs}.", style="dim")
        return
    folder = collection.copy_out(name, out or Path(name))
    about = collection.networks()[name]
    text = f"{collection.sentence(about).replace('*', '')}\nCopied to {folder}; its README.md says how"
    console.answer(as_json, {**about, "directory": str(folder)}, f"{text} to load and check it.")


def _table(known: dict[str, dict[str, Any]]) -> Any:
    from rich import box
    from rich.table import Table

    from ..lab.collection import network_folder

    table = Table("", "network", "wrong at", "kB", box=box.SIMPLE, pad_edge=False)
    for name, about in known.items():
        wrong = f"{len(about['word']):,}" if "word" in about else ""
        size = sum(file.stat().st_size for file in network_folder(name).iterdir())
        table.add_row(MARKS[about["verdict"]], name, wrong, f"{size // 1000:,}")
    return table


@verb
def push(
    run: Annotated[Path, "A finished run on strings of a task.", Typed("RUN", argument=True)],
    to: Annotated[str, "The repository on the hub, as ORG/NAME; it is made where there is none.", Typed("ORG/NAME")],
    private: Annotated[bool, "Make the repository a private one."] = False,
    as_json: console.Json = False,
) -> None:
    """Send the network of a run to the Hugging Face hub: weights, config, a card, and what certify decided of it.

    It needs an account there: log in once with `hf auth login`.

    Example: [bold]lengthwise push runs/parity-rnn-s0-0123456789abcdef --to me/parity-rnn[/bold]
    """
    import tempfile

    from huggingface_hub import HfApi

    from ..lab import collection
    from ..verify.verdict_files import recorded_verdict

    of = one_run("push", run)
    decided = recorded_verdict(of)
    with tempfile.TemporaryDirectory() as scratch:
        verdict = decided.verdict.to_json() if decided else None
        folder = collection.write_network(of, Path(scratch) / to.rpartition("/")[2], verdict, name=to)
        hub = HfApi()
        try:
            hub.create_repo(to, private=private, exist_ok=True)
            hub.upload_folder(repo_id=to, folder_path=str(folder), commit_message=f"{to}, made with lengthwise")
        except Exception as problem:  # without a network it is one of the hub's HTTP library, which changes
            raise Error(f"push: {to} could not be written: {' '.join(str(problem).split())}") from problem
    console.answer(as_json, {"run": str(of.path), "repository": to, "private": private}, f"Sent {of.path} to {to}.")
