"""`lengthwise eval`: measure a trained language model on text, at any lengths, or by the answers it writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from . import console, typed
from .answers import score_answers
from .bench import is_typed
from .train import HowMeasured
from .work import Device, Trust, page_path, print_panels

if TYPE_CHECKING:
    from ..evaluate import Loss, Needle, Variables

KINDS = ("perplexity", "needle", "variables", "scrolls")


def evaluate(
    context: typer.Context,
    what: Annotated[
        Literal["perplexity", "needle", "variables", "scrolls"],
        typer.Argument(
            parser=typed.one_of("WHAT", *KINDS),
            autocompletion=typed.words(*KINDS),
            metavar="WHAT",
            help="What is measured: perplexity; needle, a fact far back; variables, a chain of them; scrolls, answers.",
        ),
    ],
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="A run directory, or a Hugging Face checkpoint: its folder or hub name."),
    ],
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            "--corpus",
            metavar="CORPUS",
            show_default="a run's own held-out text",
            help="stdlib, a file or folder of text, or hf:NAME; all of it is tested on. Repeat it for more.",
        ),
    ] = None,
    lengths: Annotated[
        str | None,
        typer.Option(
            "--lengths",
            metavar="LENGTHS",
            show_default="those a run was tested at",
            help="Lengths in tokens, such as 512,1024,2048.",
        ),
    ] = None,
    way: HowMeasured = "windows",
    tokens: Annotated[
        int,
        typer.Option(
            "--tokens",
            parser=typed.whole("--tokens", 2),
            metavar="N",
            help="Windows: at most so many tokens of the text are tested, at every length the same.",
        ),
    ] = 65_536,
    samples: Annotated[
        int | None,
        typer.Option(
            "--samples",
            parser=typed.whole("--samples", 1),
            metavar="N",
            show_default="1000; needle, variables: 10",
            help="Last token: how many chunks are drawn. Needle, variables: how many prompts of each kind.",
        ),
    ] = None,
    depths: Annotated[
        str | None,
        typer.Option(
            "--depths",
            metavar="SHARES",
            show_default="0,0.25,0.5,0.75,1",
            help="Needle: where it lies, from 0 to 1, the end of the prompt.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="NAME=VALUE",
            help="Needle: keys, values, queries, haystack. Variables: chains, hops. Both: scoring, choices, budget. "
            "Scrolls: window, budget, questions, tokens_at_once.",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="FOLDER",
            show_default="hf:tau/scrolls",
            help="Scrolls: a copy of the data set, with TASK/SPLIT.jsonl or TASK.zip in it; or hf:NAME.",
        ),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task",
            metavar="TASK",
            show_default="a run's own, or all seven",
            help="Scrolls: a task, such as qasper; repeat it for more.",
        ),
    ] = None,
    submission: Annotated[
        Path | None,
        typer.Option(
            "--submission",
            metavar="FILE",
            help="Scrolls: answer the test split, and add the answers to this CSV, which its site scores.",
        ),
    ] = None,
    beside: Annotated[
        bool, typer.Option("--with-perplexity", help="Needle, variables: perplexity at the same lengths, too.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", parser=typed.whole("--seed"), metavar="N", help="Draws others.")] = 0,
    checkpoint: Annotated[
        Literal["last", "best"] | None,
        typer.Option(
            "--checkpoint",
            parser=typed.one_of("--checkpoint", "last", "best"),
            autocompletion=typed.words("last", "best"),
            metavar="WHICH",
            show_default="last; scrolls: best",
            help="Of a run: the weights at the end, or those of the best validation.",
        ),
    ] = None,
    conversions: Annotated[
        list[str] | None,
        typer.Option(
            "--convert",
            metavar="NAME",
            help="Convert a checkpoint first, as in --convert 'yarn factor=4' or 'bipe ends=sentence'; repeat it.",
        ),
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option("--tokenizer", metavar="DIR", show_default="the model's own", help="The folder of a tokenizer."),
    ] = None,
    precision: Annotated[
        Literal["fp32", "bf16"],
        typer.Option(
            "--precision",
            parser=typed.one_of("--precision", "fp32", "bf16"),
            metavar="FORMAT",
            help="The number format: fp32 or bf16.",
        ),
    ] = "fp32",
    store: Annotated[
        Path, typer.Option("--store", metavar="DIR", help="Where the corpus's tokens are kept for the next call.")
    ] = Path("runs/text"),
    trust: Trust = False,
    device: Device = "auto",
    html: Annotated[Path | None, typer.Option("--html", metavar="PATH", help="Write a page here.")] = None,
    as_json: console.Json = False,
) -> None:
    """Measure a run's model, or any Hugging Face checkpoint, at several lengths of text, or by its answers.

    [bold]perplexity[/bold]: how well it predicts the text.

    [bold]needle[/bold]: how often it knows a number that a line of its prompt has told, by length and depth.

    [bold]variables[/bold]: how often it knows which names have a value, by assignments all over its prompt.

    [bold]scrolls[/bold]: what it answers to questions about long inputs, of seven tasks: ROUGE, F1 or exact match.

    Exit codes: 0 fine, 1 a loss is not finite, 2 wrong input.

    Example: [bold]lengthwise eval perplexity runs/stdlib-bipe-s0-1a2b3c --lengths 512,1024,4096[/bold]

    Example: [bold]lengthwise eval needle ./my-llama --corpus book.txt --lengths 512,2048 -s keys=4[/bold]

    Example: [bold]lengthwise eval perplexity ./my-llama --corpus book.txt --lengths 1024 --way last-token[/bold]

    Example: [bold]lengthwise eval scrolls ./my-llama --data scrolls/ --task qasper -s window=4096[/bold]
    """
    from .. import lab, report
    from ..errors import Error

    if what != "scrolls" and (data or task or submission):
        raise Error(f"--data, --task and --submission are for scrolls, got {what}. Leave them out.")

    if what == "perplexity" and (settings or beside):
        raise Error("--set and --with-perplexity are for needle and variables, got perplexity. Leave them out.")
    if what != "needle" and depths is not None:
        raise Error(f"--depths is for needle, which lies at one, got {what}. Leave it out.")
    shared: dict[str, Any] = {
        "seed": seed,
        "which": checkpoint or "last",
        "trust": trust,
        "tokenizer": tokenizer,
        "precision": precision,
        "conversions": conversions or (),
    }
    shared |= {"device": lab.chosen_device(device)}
    how: dict[str, Any] = {"way": way, "tokens": tokens, "samples": samples or 1000, "store": store}
    if what == "scrolls":
        unused = [f"--{name}" for name in ("way", "tokens", "seed", "store") if is_typed(context, name)]
        if corpus or lengths or depths or beside or samples or unused:
            raise Error(
                f"{', '.join(['--corpus', '--lengths', '--depths', '--samples', *unused])} and --with-perplexity are "
                "not for scrolls. Its prompts are as long as -s window=… says, and as many as -s questions=…."
            )
        shared.pop("seed")
        shared["which"] = checkpoint or "best"
        score_answers(model, data, task or [], settings or [], submission, html, as_json, shared)
        return
    found, losses = None, None
    with console.stdout_kept(as_json):
        if what != "perplexity":
            question, asked = read_question(what, settings or [], depths)
            asked |= {"samples": samples} if samples else {}
            found = lab.measure_far_tokens(model, corpus or (), lengths, question, **asked, **shared, after=_tell_done)
        if what == "perplexity" or beside:
            losses = lab.measure_perplexity(model, corpus or (), lengths, **how, **shared, after=_tell)
        panels = ([report.far_tokens(found.scores, found.model)] if found else []) + (
            [report.perplexity(losses)] if losses else []
        )
    page = (
        report.html([], page_path(html), title=panels[0].title, panels=panels, command=console.command)
        if html
        else None
    )
    if as_json:
        both = {**found.to_json(), "perplexity": losses and losses.to_json()} if found else losses and losses.to_json()
        console.emit({**(both or {}), "page": str(page) if page else None})
    else:
        print_panels(panels)
        if page:
            console.out().print(f"\nPage: {page}", markup=False)
    if losses and any(loss.mean is None for loss in losses.losses.values()):
        raise typer.Exit(1)


def read_question(what: str, settings: list[str], depths: str | None) -> tuple[Needle | Variables, dict[str, Any]]:
    """What is asked, and how it is asked and scored.

    >>> read_question("needle", ["keys=4", "choices=5"], "0,1")
    (Needle(keys=4, values=1, queries=1, haystack='text'), {'choices': 5, 'depths': [0.0, 1.0]})
    """
    from ..evaluate import Needle, Variables, score_far_tokens
    from ..options import Word, schema, take, word_of

    kind = {"needle": Needle, "variables": Variables}[what]
    how = {
        name: option for name, option in schema(score_far_tokens).items() if name in ("scoring", "choices", "budget")
    }
    given = dict(word_of(setting, "keys=4") for setting in settings)
    read = take({**schema(kind), **how}, given, what, prefix="")
    own = {name: value for name, value in read.items() if name not in how}
    asked = {name: value for name, value in read.items() if name in how}
    if depths is not None:
        asked["depths"] = schema(score_far_tokens)["depths"].read(Word(depths), "--depths")
    return kind(**own), asked


def _tell_done(done: int, of: int) -> None:
    console.remark(f"{done} of {of} lengths and depths")


def _tell(found: dict[int, Loss]) -> None:
    length, loss = list(found.items())[-1]
    console.remark(f"{length:,} tokens: perplexity {loss.perplexity:.4g}")
