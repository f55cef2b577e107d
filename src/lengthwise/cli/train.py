"""`lengthwise train`: train language models on short windows of a corpus and test them on long ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..errors import Error
from ..options import apart, at_least
from . import console, registries
from .study import Config, SaveConfig, need, study_of, write_study
from .typed import Seeds, Settings, read_place
from .verb import Typed, is_typed, verb
from .work import Running, carry_out, watched

HowMeasured = Annotated[
    Literal["windows", "last-token"],
    "What perplexity is of: windows that follow one another, or last tokens of random chunks.",
]

SMALL = 5_000_000
"""Characters of a corpus of whose tokenizing nothing is said."""
FROM_SCRATCH = {"models": "--model", "seeds": "--seeds", "tokenizer": "--tokenizer", "vocabulary": "--vocabulary"}


@dataclass(frozen=True)
class Texts:
    corpus: Annotated[
        list[str] | None,
        "stdlib (the Python standard library), files and folders of text or code, or hf:NAME for a dataset.",
        Typed("CORPUS...", argument=True),
    ] = None
    models: Annotated[
        list[str] | None,
        "A model, its own options behind its name, as in -m 'transformer position=alibi'; repeat it for more.",
        Typed("NAME", flag="--model", short="-m"),
    ] = None
    origin: Annotated[
        str | None,
        "Go on from a run's model, on its own text unless another is named, or from a checkpoint.",
        Typed("MODEL", flag="--from", read=read_place),
    ] = None
    conversions: Annotated[
        list[str] | None,
        "With --from: convert it first, as in --convert drope or 'yarn factor=4'; repeat it.",
        Typed("NAME", flag="--convert"),
    ] = None
    seeds: Seeds = 1
    train_length: Annotated[
        int | None, at_least(2), "How many tokens a training window has.", Typed(default="128; with --from its own")
    ] = None
    test_lengths: Annotated[
        str | None,
        "Lengths in tokens at which perplexity is measured, such as 128,512,2048.",
        Typed("LENGTHS", default="the training length, and doublings to 16 times it"),
    ] = None
    way: HowMeasured = "windows"
    tokenizer: Annotated[
        Path | None,
        "The folder of a tokenizer, as transformers saves it.",
        Typed("DIR", default="byte-level BPE trained on the corpus"),
    ] = None
    vocabulary: Annotated[int, at_least(2), "How many tokens a tokenizer has that is trained here."] = 4096
    settings: Settings = None
    config: Config = None
    save_config: SaveConfig = None


@verb
def train(context: typer.Context, *, texts: Texts, running: Running) -> None:
    """Train language models on windows of a CORPUS and measure their perplexity at longer lengths.

    Documents are held out whole, to validate and to test on. To resume, give the same call again. The models and their
    tokenizer are saved as transformers loads them.

    Exit codes: 0 fine, 1 a run failed, 2 wrong input, 130 stopped by Ctrl-C.

    Example: [bold]lengthwise train stdlib -m bipe -m 'transformer position=rope' --set training.steps=500[/bold]

    Example: [bold]lengthwise train --from runs/NAME --convert drope --set training.steps=200[/bold]

    Example: [bold]lengthwise train --from runs/NAME --set objective.state_passing=1 --set training.steps=500[/bold]
    """
    study = study_of(context)
    for word in study["models"] or ():
        registries.check("models", apart(word)[0])
    from .. import lab
    from ..verify.falsification.hunt import Stage

    with console.stdout_kept(running.as_json):
        if study["origin"] is None:
            need(
                "train",
                study,
                corpus="a CORPUS: a file, a folder, hf:NAME, or stdlib for the Python standard library",
                models="a model, as in -m bipe; lengthwise list models names them",
            )
        refuse_within(study["corpus"], {"--html": running.html, "--save-config": texts.save_config})
        running.join()
        how = ("train_length", "test_lengths", "way", "settings")
        if study["origin"] is not None:
            check_further(context, study, running.out)
            experiments = lab.plan_further(
                study["origin"], study["corpus"], study["conversions"] or (), **{name: study[name] for name in how}
            )
        else:
            if study["conversions"]:
                raise Error("--convert is for --from MODEL. A model from scratch takes its options behind its name.")
            asked = {name: study[name] for name in ("seeds", "tokenizer", "vocabulary", *how)}
            asked |= {"train_length": study["train_length"] or 128, "store": running.out / "text"}
            with watched("tokenizing") as watch:

                def tell(done: int, of: int) -> None:
                    if of > SMALL:
                        watch(Stage(f"{done / of:.0%} of {of:,} characters", done / of))

                experiments = lab.plan_language_models(study["corpus"], study["models"], **asked, tokenizing=tell)
        if texts.save_config:
            write_study(texts.save_config, study)
    carry_out(
        experiments,
        running,
        title=f"Language models on {experiments[0].data.name}",
        description="Perplexity of held-out text at lengths that no model was trained on.",
    )


def check_further(context: typer.Context, study: dict[str, Any], out: Path) -> None:
    """Raises for what --from does not take, and for a run that is not among the records, beside which it goes on."""
    for name, flag in FROM_SCRATCH.items():
        if study[name] and is_typed(context, name):
            raise Error(f"{flag} is for models from scratch: with --from the model has its own. Leave it out.")
    place = Path(study["origin"]).expanduser()
    if not study["corpus"] and (place / "result.json").exists() and place.resolve().parent != out.resolve():
        raise Error(f"{place}: what goes on from a run stands beside it. Add --out {place.parent}.")


def refuse_within(corpus: list[str], files: dict[str, Path | str | None]) -> None:
    """Raise if a file that this call writes would be read as a part of its text the next time."""

    for option, file in files.items():
        for each in corpus:
            if file and Path(each).is_dir() and Path(file).resolve().is_relative_to(Path(each).resolve()):
                raise Error(
                    f"{option} is {file}, which would be read as text of {each} from then on. Write it elsewhere."
                )
