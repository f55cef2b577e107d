"""What `bench` and `reproduce` share: run experiments, then say what came out, in words, JSON and a page."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ..errors import Error
from ..lab.launch import Launch, Loading
from ..options import check_names, schema
from ..own_code import of_parts, settings_of
from . import console, registries
from .study import settings_typed
from .typed import Html
from .verb import Typed

if TYPE_CHECKING:
    from ..lab import Choice, Experiment, Outcome, Run
    from ..report import Panel
    from ..tasks import Task
    from ..verify.falsification.hunt import Stage, Watcher

Device = Annotated[str, schema(Launch)["device"].line]
Trust = Annotated[bool, schema(Loading)["trust"].line]


@dataclass(frozen=True)
class Running(Launch):
    """Options of where runs are made, and where their records and findings go."""

    out: Annotated[Path, "The directory of the records; the same call continues from them.", Typed("DIR")] = Path(
        "runs"
    )
    html: Annotated[Path | None, "Where the page goes.", Typed("PATH", default="index.html among the records")] = None
    as_json: console.Json = False

    def join(self) -> None:
        """Checks the device; with a strategy sees that this process can take part. One that does not lead does its part
        and leaves."""
        from .. import lab

        lab.device_of(self.device, self.launch, self.gpus_per_run)
        if self.strategy is None:
            return
        lab.check_strategy(self, console.command)
        if not lab.follows():
            return
        with contextlib.suppress(lab.Interrupted):  # the leader says so
            lab.follow(self.strategy, lab.chosen_device(self.device))
        raise typer.Exit


@dataclass(frozen=True)
class Output:
    """Options of where the findings go."""

    html: Html = None
    as_json: console.Json = False

    def show(
        self, panels: Sequence[Panel], data: dict[str, Any], *remarks: str, runs: Sequence[Run] = (), **about: Any
    ):
        """Writes the page, and prints the panels and remarks about them; or, with --json, the data alone."""
        from .. import report

        page = None
        if self.html:
            place, title = page_path(self.html), about.pop("title", panels[0].title)
            page = report.html(runs, place, title=title, panels=panels, command=console.command, **about)
        if self.as_json:
            console.emit({**data, "page": str(page) if page else None})
            return
        print_panels(panels)
        for line in filter(None, (*remarks, page and f"Page: {page}")):
            console.out().print(f"\n{line}", markup=False)


INTERRUPTED = 130
"""The exit code after Ctrl-C, a shell's own: nothing was found out yet, and the call must be given again."""


def one_run(verb: str, path: Path) -> Run:
    """Returns the run in this directory, where there is one alone."""
    from .. import lab

    runs = lab.load(path)
    if len(runs) > 1:
        raise Error(f"{verb} takes one run, and {path} holds {len(runs)}. Give one of them, such as {runs[0].path}.")
    return runs[0]


@contextlib.contextmanager
def beside_run(what: str) -> Iterator[None]:
    """A run's directory that cannot be written to ends nothing: a line says what is not kept in it."""
    try:
        yield
    except OSError as error:
        console.remark(f"{what} is not kept beside the run: {error.strerror or error}.")


def named_task(verb: str, name: str, settings: list[str]) -> Task:
    """Returns the task of this name with the settings that were typed, all of which must be its own."""
    registries.check("tasks", name)
    fixed = settings_typed(settings)
    check_settings([name], [], fixed)
    from ..lab.grid import parse, task_of

    fixed = parse(fixed)
    if foreign := [key for key in fixed if not key.startswith("task.")]:
        raise Error(f"{verb} takes settings of the task alone, as task.NAME=VALUE, got {foreign[0]}.")
    return task_of(name, {key.removeprefix("task."): value for key, value in fixed.items()})


def check_settings(tasks: Sequence[str], models: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Raises what planning would of a setting that nothing named here has, before anything is imported."""
    for key in settings:
        if "." not in key and (whole := registries.setting(key)):
            raise Error(f"A setting is PART.NAME=VALUE, got {key}={settings[key]}. Did you mean {whole}?")
    if not all("." in key for key in settings):
        return  # the nearest name is looked for among all
    settings = of_parts(settings, {"task", "model", "training", "tests", *models, *tasks})
    for part in ("training", "tests"):
        check_names(_names("settings", part) or (), settings_of(settings, part), part, f"{part}.")
    for table, prefix, names in (("tasks", "task.", tasks), ("models", "model.", models)):
        known = {name: _names(table, name) for name in names}
        # A setting of all models may be one of some of them.
        some = {option for each in known.values() for option in (each or ())} if table == "models" else set()
        of_all = settings_of(settings, prefix[:-1])
        for name, own in known.items():
            if own is not None:
                foreign = {key for key in of_all if key not in some} if None not in known.values() else set()
                check_names(own, [*settings_of(settings, name), *foreign], name, prefix)


def _names(table: str, name: str) -> list[str] | None:
    """The options of a name; None of one that is not listed."""
    known = registries.options(table, name)
    return None if known is None else [option["name"] for option in known]


def carry_out(
    experiments: Sequence[Experiment],
    running: Running,
    *,
    title: str | None = None,
    description: str | None = None,
    panels: Callable[[list[Run]], list[Panel]] | None = None,
    sweep: Sequence[str] = (),
    compare: str | None = None,
) -> None:
    """Run them, make the panels, report, and leave with 1 if a run failed, or 2 if all did by a wrong call.

    Of the settings named in `sweep` validation strings choose, and the report shows the chosen ones. The runs are
    paired by seed over the values of what `compare` names.
    """
    from .. import lab, report
    from .progress import names

    out, as_json = running.out, running.as_json
    outcomes = _outcomes(experiments, running)
    runs = [outcome.run for outcome in outcomes if outcome.run]
    # Where a recipe has panels, what text is worth is for them to say.
    tabled = [run for run in runs if not (panels and run.experiment.on_text)]
    failed, called = [outcome for outcome in outcomes if outcome.run is None], names(experiments)
    choices = lab.choose(runs, sweep, experiments) if sweep else []
    if tabled and not as_json:
        console.out().print(report.table(tabled, sweep=choices))
    page, made = None, []
    content = {"panels_of_text": not panels, "sweep": choices, "command": console.command}
    try:
        if panels and (runs or not experiments):
            with console.stdout_kept(as_json):
                made = panels(runs)
        made = [*made, *(_compared(runs, compare, choices) if compare and runs else [])]
        if not as_json:
            print_panels(made)
        if tabled or made:
            where = page_path(running.html) if running.html else out / "index.html"
            page = report.html(runs, where, title=title, description=description, panels=made, **content)
    finally:
        # Whatever becomes of panels and page, what was computed and what failed is told.
        if as_json:
            failures = [{"run": called[o.experiment.hash], "error": o.error, "log": str(o.log)} for o in failed]
            data = report.data(runs, made, **content) if tabled or made else {"tasks": [], "panels": []}
            console.emit({**data, "failures": failures, "page": str(page) if page else None})
        tell_other_code([o.run for o in outcomes if o.run and o.found], called)
        _tell(failed, called)
    if page and not as_json:
        console.out().print((f"Records: {out}\n" if runs else "") + f"Page:    {page}", markup=False)
    if failed:
        raise typer.Exit(2 if not runs and all(o.exit_code == 2 for o in failed) else 1)


def _outcomes(experiments: Sequence[Experiment], running: Running) -> list[Outcome]:
    """Runs them, shows how they go on, and says how to go on after Ctrl-C."""
    from .. import lab
    from .progress import Watch

    watching = Watch(experiments, console.err(), running.out)
    try:
        with console.stdout_kept(running.as_json), watching:
            if not experiments:
                return []
            return lab.run(experiments, running.out, command=console.command, progress=watching, **running.launched())
    except lab.Interrupted as stopped:
        begun = f"torchrun --nproc-per-node {os.environ['LOCAL_WORLD_SIZE']} -m " if running.strategy else ""
        console.remark(f"\n{stopped} To go on, give the same call again:\n{begun}{console.command}")
        raise typer.Exit(INTERRUPTED) from None


def _compared(runs: list[Run], setting: str, choices: Sequence[Choice]) -> list[Panel]:
    """The pairs; where failed runs leave none, a line says so."""
    from .. import report

    try:
        return report.compare(runs, setting, sweep=choices)
    except Error as error:
        console.remark(f"note: not compared: {error}")
        return []


@contextlib.contextmanager
def watched(verb: str) -> Iterator[Watcher]:
    """On a terminal a bar, elsewhere a line at every tenth of the time."""
    from rich.progress import BarColumn, Progress, TextColumn

    err, tenth = console.err(), -1
    columns = (BarColumn(bar_width=15), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as drawn:
        bar = drawn.add_task("", total=1.0)

        def hear(stage: Stage) -> None:
            nonlocal tenth
            drawn.update(bar, completed=stage.share, description=stage.doing)
            if drawn.disable and int(stage.share * 10) > tenth:
                tenth = int(stage.share * 10)
                err.print(f"{verb}: {stage.doing}", markup=False)

        yield hear


def page_path(path: Path) -> Path:
    """A directory means the index.html in it."""
    return path / "index.html" if path.is_dir() else path


def print_panels(panels: Sequence[Panel]) -> None:
    from ..report.drawing import in_text

    out = console.out()
    for panel in panels:
        out.print(f"\n[bold]{escape(panel.title)}[/bold]")
        out.print(in_text(panel, console.columns(out)), markup=False)
        out.print(panel.caption, markup=False, style="dim")


def tell_other_code(runs: Sequence[Run], called: Mapping[str, str], what: str = "runs found finished") -> None:
    """One line about those of the runs that other code had made, by their names."""
    from ..lab.provenance import made_by_other_code
    from ..report.formatting import some_of

    other = [run for run in runs if made_by_other_code(run.result.get("code"))]
    if other:
        which = some_of([called[run.experiment.hash] for run in other], 3)
        console.remark(
            f"note: {len(other)} of {len(runs)} {what} were made by other code (another version or commit, or a tree "
            f"with uncommitted changes): {which}. To run them again, delete them or choose another --out."
        )


def _tell(failed: Sequence[Outcome], called: dict[str, str]) -> None:
    for outcome in failed:
        console.remark(f"error: {called[outcome.experiment.hash]}: {outcome.error}")
        if console.debug and outcome.traceback:
            console.remark(outcome.traceback)
        elif outcome.log:
            console.remark(f"  traceback: {outcome.log}")
