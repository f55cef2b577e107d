"""`lengthwise certify`: is a model right at every length? And the check of a certificate, which needs no torch."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import Error
from ..files import must_exist, parse_json, read_bytes, write_text
from ..options import above
from . import console
from .typed import SET, Checkpoint
from .verb import Typed, is_typed, verb
from .work import Trust, beside_run, named_task, one_run, watched

if TYPE_CHECKING:
    from ..lab import Run
    from ..tasks import Task
    from ..verify import Refuted, Verdict
    from ..verify.certification import Decision
    from ..verify.subject import Subject


PICTURE, QUICK, PICTURE_SHARE = 10.0, 2.0, 1 / 6
"""Seconds to extract what a run computes, at most: of one that is proved, of any other, and a share of the budget."""
TYPED = 160
"""A word is typed in a command up to so many characters; a longer one is read from a file."""


@dataclass(frozen=True)
class Deciding:
    """Options of a decision, none of which --check takes."""

    budget: Annotated[float, above(0), "How long it searches and tries to prove.", Typed("SECONDS")] = 60.0
    checkpoint: Checkpoint = "last"
    consolidate: Annotated[bool, "First teach a copy the algebra of its machine; --save keeps it."] = False
    settle: Annotated[bool, "First teach a copy the machine that is extracted from it; --save keeps it."] = False
    save: Annotated[Path | None, "Where the copy that was taught goes.", Typed("DIR")] = None
    out: Annotated[Path | None, "Write the certificate, or what else was found, here.", Typed("FILE")] = None
    word: Annotated[str | None, "Read one word alone: tokens, as in '0:37 1', or a file of --out.", Typed("WORD")] = (
        None
    )
    no_picture: Annotated[bool, "Do not extract what a run computes, which its page draws."] = False
    trust: Trust = False

    def check(self) -> None:
        """Raises for options that do not go together."""
        if self.consolidate and self.settle:
            raise Error("--consolidate teaches a copy its task's machine, --settle its own: give one of them.")
        if (self.consolidate or self.settle) != (self.save is not None):
            option = "--settle" if self.settle else "--consolidate"
            raise Error(f"{option} teaches a copy of the model, and --save DIR says where it goes: give both.")


@verb
def certify(
    context: typer.Context,
    *,
    model: Annotated[
        Path | None, "A run directory; or a folder with a model, as transformers saves it.", Typed("RUN", argument=True)
    ] = None,
    task: Annotated[
        str | None,
        "The task that says what is right, or regex:PATTERN.",
        Typed("NAME", default="a run's own, or that of a network of the zoo"),
    ] = None,
    settings: Annotated[list[str] | None, "A setting of --task's task, as task.NAME=VALUE; repeat it.", SET] = None,
    deciding: Deciding,
    check: Annotated[Path | None, "Check this certificate, with numpy alone.", Typed("FILE")] = None,
    of: Annotated[Path | None, "With --check: the model that it is of.", Typed("DIR", flag="--model")] = None,
    theorem: Annotated[
        Path | None, "With --check: also write the proof as a theorem for Coq, in a new folder.", Typed("DIR")
    ] = None,
    as_json: console.Json = False,
) -> None:
    """Prove a model right at every length, or find the string that breaks it.

    The exit code is 0 for PROVED, 1 for REFUTED and UNKNOWN. With --check it is 0 where the certificate holds.

    Example: [bold]lengthwise certify runs/parity-regular-gpt-s0-1a2b --out proof.json[/bold]

    Example: [bold]lengthwise certify --check proof.json --model runs/parity-regular-gpt-s0-1a2b[/bold]

    Example: [bold]lengthwise certify --check proof.json --model parity-rnn --theorem coq[/bold]
    """
    if check or of:
        if not (check and of) or model:
            raise Error("--check FILE and --model DIR go together, without RUN: certify --check FILE --model DIR.")
        if name := next((each.name for each in fields(Deciding) if is_typed(context, each.name)), None):
            option = f"--{name.replace('_', '-')}"
            raise Error(f"--check takes no {option}. Leave it out: certify --check FILE --model DIR.")
        _check(check, of, as_json, _wanted(task, settings or []), theorem)
        return
    if theorem:
        raise Error("--theorem goes with --check: certify --check FILE --model DIR --theorem DIR.")
    if model is None:
        raise Error("certify needs a run or a folder with a model. See: lengthwise certify --help")
    must_exist(model)
    if not (task or settings):
        task, settings = _own_task(model)
    wanted = _wanted(task, settings or [])
    deciding.check()
    if deciding.word is None:
        raise typer.Exit(_decide(model, wanted, _task_words(task, settings or []), deciding, as_json))
    with console.stdout_kept(as_json):
        text, data = _one_word(_subject(model, wanted, deciding)[0], deciding.word)
    console.answer(as_json, data, text)
    raise typer.Exit(0 if data["verdict"] == "right" else 1)


def _decide(model: Path, wanted: Task | None, task_words: list[str], how: Deciding, as_json: bool) -> int:
    """Decides, keeps and shows the verdict; returns the exit code."""
    with console.stdout_kept(as_json):
        from ..verify import Proved, verdict_files
        from ..verify.certification import decide
        from ..verify.subject import checked_seconds

        subject, run = _subject(model, wanted, how)
        there = how.save is not None and (how.save / "made.json").is_file()
        with watched("certify") as watch:
            seconds = checked_seconds("certify", how.budget, "--budget")
            outcome = decide(subject, seconds, watch, save=how.save, settle=how.settle)
    if there:
        console.remark(f"{how.save}: it is there already, and is not taught again.")
    if run and not how.save and wanted is None:
        with beside_run("The verdict"):
            verdict_files.keep(run, outcome.verdict, subject.claim.to_json(), how.checkpoint)
        picture = min(how.budget * PICTURE_SHARE, PICTURE if isinstance(outcome.verdict, Proved) else QUICK)
        if picture >= 1 and not how.no_picture:
            verdict_files.extract_for_page(run, subject.model, subject.claim, picture, how.checkpoint)
    if how.out:
        _write(how.out, outcome.verdict)
    if how.save and run and wanted is None:  # the copy is in a folder, which has no task of its own
        task_words = _task_words(*_as_typed(run.experiment.task.name, run.experiment.task.params))
    again = ["lengthwise", "certify", str(how.save or model), *task_words]
    if not how.save:
        again += [*(["--checkpoint", how.checkpoint] if how.checkpoint != "last" else []), *["--trust"] * how.trust]
    command = _see_again(again, outcome.verdict, how.out)
    if as_json:
        about = {"model": str(model), "made": outcome.made, "search": outcome.search.to_json()}
        about |= {"kept": outcome.kept.to_json()} if outcome.kept else {}
        files = {"out": str(how.out) if how.out else None, "saved": str(how.save) if how.save else None}
        console.emit({**about, **outcome.verdict.to_json(), "command": command, **files})
    else:
        _say(outcome, subject, command)
        if how.out:
            console.out().print(f"Wrote {how.out}", markup=False)
    return outcome.verdict.exit_code


def _task_words(task: str | None, settings: list[str]) -> list[str]:
    """Returns --task and --set as they are typed."""
    return [*(["--task", task] if task else []), *(part for setting in settings for part in ("--set", setting))]


def _as_typed(name: str, params: dict[str, Any]) -> tuple[str, list[str]]:
    """A task as --task and --set."""
    return name, [f"task.{key}={v if isinstance(v, str) else json.dumps(v)}" for key, v in params.items()]


def _own_task(folder: Path) -> tuple[str | None, list[str]]:
    """The task that a network of the zoo is of, as it would be typed."""
    from ..lab.collection import FILE

    match read_file(folder / FILE) if (folder / FILE).is_file() else None:
        case {"task": {"name": str(name), "params": dict(params)}}:
            return _as_typed(name, params)
    return None, []


def _wanted(task: str | None, settings: list[str]) -> Task | None:
    """The task of --task and --set."""
    if task is None and settings:
        raise Error("--set is about the task that --task names: give both. A run's own task has its own settings.")
    return None if task is None else named_task("certify", task, settings)


def _check(
    certificate: Path, model: Path, as_json: bool, task: Task | None = None, theorem: Path | None = None
) -> None:
    """Nothing here, or below it, needs torch, but to see that a run's model is built as the certificate says."""
    from ..verify import checker

    content = read_file(certificate)
    proved = isinstance(content, dict) and content.get("verdict") == "proved"
    if isinstance(content, dict) and "verdict" in content and not proved:
        raise Error(f"{certificate}: is no certificate, for nothing was proved: it says {content['verdict']!r:.40}.")
    try:
        content = checker.read_json(certificate.read_text(encoding="utf-8"), str(certificate))
        content = content.get("certificate") if proved else content  # a run's verdict.json holds it
        report = checker.check(content, model)
        if task is not None:
            _same_claim(content["claim"], task)
        if report.assumed:
            with contextlib.suppress(ImportError):  # where torch is missing it stays assumed
                from .. import lab
                from ..verify.verdict_files import config_is

                report = replace(report, assumed=not config_is(lab.load(model)[0], content["model"]["config"]))
        told = [str(report)]
        if theorem is not None:
            from ..verify.theorem import write_theorem

            write_theorem(content, model, theorem)
            told.append(f"Wrote {theorem}: `make -C {theorem}` lets Coq check it.")
            if (theorem / "Extracted.v").exists():
                told.append(f"`make -C {theorem} extracted`: a program that Coq extracts, faster, and more to believe.")
    except checker.Rejected as rejected:
        if not as_json:
            reason = str(rejected).removeprefix(f"{certificate}: ")
            raise checker.Rejected(f"{certificate} is rejected: {reason}") from None
        console.emit({"accepted": False, "why": str(rejected)})
        raise typer.Exit(1) from None
    except OSError as error:
        raise Error(f"{error.filename or model}: {error.strerror or error}.") from error
    written = {} if theorem is None else {"theorem": str(theorem)}
    console.answer(as_json, {"accepted": True, **asdict(report), **written}, "\n".join(told))


def _same_claim(claimed: dict[str, Any], task: Task) -> None:
    """Raises unless a certificate is about a task: its symbols' names, and what is asked and right after every word."""
    from ..verify import checker
    from ..verify.checker.claim import StatedClaim, difference
    from ..verify.claim import claim_of

    why = difference(StatedClaim(claimed), StatedClaim(claim_of(task).to_json()))
    if why is not None:
        raise checker.Rejected(f"it is about another machine than {task.name}: {why}.")


def _subject(path: Path, wanted: Task | None, how: Deciding) -> tuple[Subject, Run | None]:
    """Returns what is looked at, and the run that it is of; None of a model in a folder."""
    from .. import lab, tasks
    from ..models import pretrained
    from ..verify import kept_of, made_of
    from ..verify.subject import subject_of, trained_lengths

    if _is_model(path):
        if wanted is None:
            raise Error(f"{path}: is a model and no run, so say what it is held against: --task NAME.")
        model = pretrained.find(str(path)).model()
        subject = subject_of("certify", pretrained.as_classifier(model, str(path)).eval(), wanted)
        return subject._replace(made=made_of(path) or subject.made, kept=kept_of(path)), None
    run = one_run("certify", path)
    own: tasks.Task | None = None if run.experiment.on_text else lab.load_task(run, trust=how.trust)
    if wanted is None and (own is None or own.machine is None):
        return subject_of("certify", run, None, trust=how.trust), None  # which says why not
    loaded = lab.load_model(run, how.checkpoint, trust=how.trust)
    subject = subject_of("certify", loaded, wanted or own)._replace(made="learned")
    return subject._replace(lengths=trained_lengths(run, own)) if own else subject, run


def _is_model(path: Path) -> bool:
    """True if it is a folder that transformers loads, and no run."""
    if not (path / "config.json").is_file() or (path / "result.json").exists():
        return False
    config = read_file(path / "config.json")
    return isinstance(config, dict) and "model_type" in config


def _one_word(subject: Subject, typed_word: str) -> tuple[str, dict[str, Any]]:
    """Returns what the model says after one word, read alone: in words, and as JSON."""
    import numpy as np

    from ..verify.falsification.reading import Reader

    word = read_word(typed_word)
    symbols = subject.claim.machine.num_symbols
    if not word or max(word) >= symbols:
        raise Error(f"--word has one token or more, each in 0..{symbols - 1}, got {typed_word!r:.80}.")
    if (right := subject.claim.right(word)) is None:
        raise Error("--word: nothing is asked after this word, so no answer is wrong.")
    with Reader(subject.model, subject.claim) as reader:
        refuted = reader.alone(np.array(word))
    if refuted:
        return str(refuted), refuted.to_json()
    told = f"right: after this word of {len(word):,} tokens the model says {right}"
    return told, {"verdict": "right", "word": list(word), "right": right}


def read_file(path: Path) -> Any:
    remedy = "Name a JSON file that certify --out wrote"
    return parse_json(read_bytes(path, remedy), str(path), f"{remedy}.")


def _write(path: Path, verdict: Verdict) -> None:
    data = verdict.to_json()
    write_text(path, json.dumps(data.get("certificate", data), indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def read_word(text: str) -> tuple[int, ...]:
    """
    >>> read_word("0:3 1 0")
    (0, 0, 0, 1, 0)
    """
    if Path(text).is_file():
        content = read_file(Path(text))
        tokens = content.get("word") if isinstance(content, dict) else None
        if not isinstance(tokens, list) or not all(isinstance(s, int) and s >= 0 for s in tokens):
            raise Error(f"{text}: holds no word. Give a file that certify --out wrote about a refuted model.")
        return tuple(tokens)
    from ..limits import LENGTH

    word: list[int] = []
    for part in text.split():
        token, _, times = part.partition(":")
        if not (token.isdecimal() and (times or "1").isdecimal() and len(part) < 20):
            raise Error(f"--word is tokens, or TOKEN:TIMES, as in '0:37 1', or a file, got {text!r:.80}.")
        LENGTH.check(len(word) + int(times or 1), "--word")
        word += [int(token)] * int(times or 1)
    return tuple(word)


def in_runs(word: Sequence[int]) -> str:
    """
    >>> in_runs([0, 0, 0, 1, 0])
    '0:3 1 0'
    """
    counted = ((s, sum(1 for _ in run)) for s, run in groupby(word))
    return " ".join(str(s) if k == 1 else f"{s}:{k}" for s, k in counted)


def _see_again(again: list[str], verdict: Verdict, out: Path | None) -> str | None:
    """Returns the command that shows a wrong word once more."""
    word = getattr(verdict, "word", None)
    if word is None:
        return None
    text = in_runs(word)
    if len(text) > TYPED:
        if not out:
            return None
        text = str(out)
    return " ".join(map(console.quote, [*again, "--word", text]))


def _say(outcome: Decision, subject: Subject, command: str | None) -> None:
    from ..verify import Proved, Refuted

    verdict, search, out = outcome.verdict, outcome.search, console.out()
    if isinstance(verdict, Proved):
        out.print("[bold green]PROVED[/] for every length.", end=" ")
        out.print(f"{verdict.certificate['words']}", markup=False)
    elif isinstance(verdict, Refuted):
        out.print(f"[bold red]REFUTED[/] at length {len(verdict.word):,}, the shortest failure found.")
        out.print(_shown(verdict, subject), markup=False)
        if search.seen and search.seen > len(verdict.word):
            out.print(f"It was first seen at {search.seen:,} tokens.", markup=False)
        if search.predicted:
            out.print(f"Margins at shorter lengths predicted it at about {search.predicted:,} tokens.", markup=False)
        again = command or "--out FILE keeps the word, which is too long to be typed."
        out.print(f"{'See it again: ' if command else ''}{again}", markup=False)
    else:
        out.print("[bold yellow]UNKNOWN[/]:", end=" ")
        out.print(f"{verdict.why}.", markup=False)
        if verdict.by_how_much is not None:
            out.print(f"What was nearest to a proof is short by {verdict.by_how_much:.3g}.", markup=False)
        if search.stopped:
            out.print(f"It reads no longer strings: {search.stopped}", markup=False)
    if outcome.kept and not isinstance(verdict, Proved):  # whose words say it
        out.print(f"This copy was {outcome.made}: it keeps {outcome.kept}.", markup=False)
    if outcome.cut_short and not isinstance(verdict, Proved):
        remark = f"The copy was taught for {outcome.cut_short:.0f} s, all that --budget gave it"
        out.print(f"{remark}: a larger one teaches it to the end.", markup=False)


def _shown(verdict: Refuted, subject: Subject) -> str:
    """The word in the machine's symbols, and both answers."""
    names = subject.claim.machine.symbols
    word = ("" if max(map(len, names)) == 1 else " ").join(names[s] for s in verdict.word)
    word = word if len(word) <= TYPED else f"{word[:TYPED]} …"
    answer = "nothing" if verdict.said == () else verdict.said
    return f"word:  {word}\nsaid:  {answer}\nright: {verdict.right if verdict.right != () else 'nothing'}"
