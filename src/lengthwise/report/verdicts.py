"""What certify has found of runs, for the page, the terminal and `--json`: the first thing after their accuracy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..lab.records import Run
from ..verify.checker.check import made_in_words
from ..verify.verdict import Proved, Refuted
from ..verify.verdict_files import RecordedVerdict, extracted_of, recorded_verdict
from .drawing import in_html
from .extracted_panel import panel_of
from .panel import Machine, Panel, Verdict, Verdicts
from .sections import Section

SHOWN = 24
"""Tokens of a wrong word that are written out."""


def _named(section: Section) -> list[tuple[str, Run]]:
    """The runs, each by its label and, of several, its seed."""
    labels = [label for label, _ in section.runs]
    return [(label + f", seed {run.experiment.seed}" * (labels.count(label) > 1), run) for label, run in section.runs]


def in_words(record: RecordedVerdict) -> Verdict:
    """The verdict as the page says it; a proof that nobody checked here proves nothing yet."""
    verdict = record.verdict
    best = ", at its best checkpoint" if record.checkpoint == "best" else ""
    if isinstance(verdict, Proved):
        if not record.checked:  # a forger can make a file as large as this
            rest = f"{best}: certify --check reads it"
            return Verdict("", "unknown", "a proof is kept, and was not checked here", rest)
        snapped = ", its nodes snapped to their centres" if verdict.certificate.get("inference") == "snapped" else ""
        machine = "" if record.of_task else ", of the machine kept with it: its own task does not run here"
        rest = f"{snapped}{best}{machine} ({made_in_words(verdict.certificate)})"
        return Verdict("", "proved", "PROVED for every length", rest)
    if isinstance(verdict, Refuted):
        word = " ".join(map(str, verdict.word[:SHOWN])) + " …" * (len(verdict.word) > SHOWN)
        answer, right = _answer(verdict.said), _answer(verdict.right)
        kept_word = "" if record.checked else "as it was kept; "
        rest = f"{best}: after {word} it says {answer}, and {right} is right ({kept_word}the shortest string found)"
        return Verdict("", "refuted", f"fails first at length {len(verdict.word):,}", rest)
    return Verdict("", "unknown", "not decided", f"{best}: {verdict.why}")


def _answer(answer: int | tuple[int, ...]) -> str:
    return str(answer) if isinstance(answer, int) else " and ".join(map(str, answer)) or "nothing"


def verdict_data(run: Run) -> dict[str, Any] | None:
    """The verdict for `--json`, without its certificate, which `verdict.json` holds."""
    if (record := recorded_verdict(run)) is None:
        return None
    data = {key: value for key, value in record.verdict.to_json().items() if key != "certificate"}
    if isinstance(record.verdict, Proved) and not record.checked:
        data["verdict"] = "unchecked"
    verdict = in_words(record)
    return {**data, "checked": record.checked, "checkpoint": record.checkpoint, "words": verdict.summary + verdict.rest}


def verdicts_of(section: Section) -> dict[str, list[Verdict]]:
    """The verdicts on each group of a section, by its label; those without any are left out."""
    by_label: dict[str, list[Verdict]] = {}
    for (label, run), (name, _) in zip(section.runs, _named(section), strict=True):
        if (record := verdict_of(run)) is not None:
            by_label.setdefault(label, []).append(replace(record, subject=name))
    return by_label


def verdict_of(run: Run) -> Verdict | None:
    """What is known of a run, as `certify` kept it beside it."""
    record = recorded_verdict(run)
    return None if record is None else in_words(record)


def verdict_panels(section: Section) -> list[Panel]:
    """Returns the verdicts of a section, and the machine they are about; nothing where nothing was found."""
    verdicts = [verdict for each in verdicts_of(section).values() for verdict in each]
    panels: list[Panel] = [Verdicts("At every length", "", verdicts)] if verdicts else []
    records = [record for _, run in section.runs if (record := recorded_verdict(run)) is not None]
    if records:
        caption = (
            "The machine that says what is right: in each state its answer, on each arrow the symbols that take it."
        )
        panels.append(Machine(f"The machine of {section.title}", caption, records[0].claim, folded=True))
    return panels


def extracted_of_section(section: Section) -> list[Panel]:
    """Returns a panel of what `inspect RUN algebra` found of the runs, as it was kept: nothing is extracted here."""
    panels = []
    for label, run in _named(section):
        if (extraction := extracted_of(run)) is None:
            continue
        best = " at its best checkpoint" if extraction["checkpoint"] == "best" else ""
        try:
            panel = panel_of(extraction["found"], f"{label}{best}: {extraction['said']}.", label)
            in_html(panel)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            continue  # a file that somebody changed
        panels.append(panel)
    note = "As it was kept beside the run: it is not extracted again here, and is no proof."
    return [Panel("What was extracted", note, below=tuple(panels), folded=True)] if panels else []
