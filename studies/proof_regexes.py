"""Random machines and absorbing patterns: how many are learned, proved, refuted or neither, by model.

Every network is certified as training left it. A copy of one that learned its language, and is not proved, is
consolidated and certified too. Two families of languages:

random      the smallest machines of 3 to 12 states over two symbols, drawn with every table and answer equally likely
absorbing   42 regular expressions over a and b, in each of which some prefix decides what every longer word is

The second family is our own. Published work that certifies recurrent networks on 42 absorbing patterns does not list
them, so nothing here replicates it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from lengthwise.automata import Semiautomaton, from_regex, minimise
from lengthwise.lab import Experiment, Run, accuracy, plan
from lengthwise.recipes import LEARNED, Cell, Grid, Recipe, Scale, settings_of
from lengthwise.recipes.proof import networks, scales
from lengthwise.report import Panel, Table, TableCell, sign_of
from lengthwise.seeds import derive
from lengthwise.tasks import Task, from_machine

NAMES = ("discrete", "automaton", "RNN")
FAMILIES = ("random", "absorbing")
NUMBERS: dict[Scale, dict[str, range]] = {
    "smoke": {"random": range(2), "absorbing": range(2)},
    "laptop": {"random": range(20), "absorbing": range(0, 42, 3)},
    "paper": {"random": range(50), "absorbing": range(42)},
}
"""Which languages of each family: at laptop scale two random machines of each size, and every third pattern."""
BUDGETS: dict[Scale, scales.Budget] = {
    "smoke": scales.Budget(0.5, 1.0),
    "laptop": scales.Budget(12.0, 30.0),
    "paper": scales.Budget(120.0, 300.0),
}
TRAINED = 40
VERDICTS = ("proved", "refuted", "unknown")


SIZES = range(3, 13)
TESTED = 500
"""Words in a random language, and out of it, must exist near this length."""


def random_machine(number: int) -> Semiautomaton:
    """The machine of this number: of 3 states for 0, of 4 for 1, and again of 3 for 10.

    >>> [random_machine(i).num_states for i in (0, 1, 9, 10)]
    [3, 4, 12, 3]
    """
    Q, rng = SIZES[number % len(SIZES)], np.random.default_rng(derive("random machine", number))
    while True:
        accepting = np.flatnonzero(rng.random(Q) < 0.5).tolist()
        machine = minimise(Semiautomaton(rng.integers(0, Q, (Q, 2)).tolist(), 0, accepting))
        if machine.num_states == Q and _lasting(from_machine(machine)):
            return machine


def _lasting(task: Task) -> bool:
    return all(any(task.problem(n) is None for n in range(top - 9, top + 1)) for top in (40, TESTED))


def absorbing_patterns() -> list[str]:
    """
    >>> patterns = absorbing_patterns()
    >>> len(patterns), patterns[0], patterns[14], patterns[-4]
    (42, '(a|b)*a(a|b)*', 'a(a|b)*', '(a|b)a(a|b)*')
    """
    any_ = "(a|b)*"
    words = {k: ["".join(w) for w in product("ab", repeat=k)] for k in (1, 2, 3)}
    all_words = words[1] + words[2] + words[3]
    patterns = [f"{any_}{w}{any_}" for w in all_words]  # contains w
    patterns += [f"{w}{any_}" for w in all_words]  # begins with w
    patterns += [any_.join(["", *w, ""]) for w in ("aa", "bb", *words[3])]  # has the letters of w, in their order
    patterns += ["(a|b)" * k + w + any_ for k in (1, 2) for w in "ab"]  # has w at place k
    return patterns


def absorbing(machine: Semiautomaton) -> bool:
    """Whether some state is never left."""
    return bool((machine.delta == np.arange(machine.num_states)[:, None]).all(1).any())


def pattern_machine(pattern: str) -> Semiautomaton:
    return minimise(from_regex(pattern, "ab"))


class LanguageKey(NamedTuple):
    family: str
    number: int
    """Of the language in its family."""
    model: str


def recipe(scale: Scale) -> Recipe:
    """Random machines and absorbing patterns: how many are learned, proved and refuted, by model."""
    numbers = NUMBERS[scale]

    def report(finished: Mapping[LanguageKey, list[Run]], device: str) -> list[Panel]:
        question = networks.NetworkQuestion(BUDGETS[scale], None)
        rows: list[dict[str, Any]] = []
        for key, runs in finished.items():
            for run in runs:
                learned = _learned(run)
                first, *copies = networks.networks(run, question._replace(consolidate=learned), device)
                named = {**key._asdict(), "seed": run.experiment.seed, "learned": learned}
                rows.append({**named, **asdict(first), "consolidated": copies[0].raw if copies else None})
        return [matrix(rows), _panel(scale, rows)]

    return Recipe(
        title="Random machines and absorbing patterns, proved or refuted",
        description=(
            f"{_of(numbers, 'random')} random machines of 3 to 12 states, the smallest of their languages, and "
            f"{_of(numbers, 'absorbing')} regular expressions in which some prefix decides what every longer word is. "
            "The expressions are our own: published work on certified recurrent networks does not list its patterns, "
            "and this replicates none of it. Each network is certified as training on strings left it, and one that "
            "learned its language and is not proved so is consolidated: a copy is taught its machine, and certified."
        ),
        grid=Grid(
            [
                Cell(LanguageKey(family, i, model), partial(planned, scale, family, i, model), label=family)
                for family in FAMILIES
                for i in numbers[family]
                for model in NAMES
            ]
        ),
        report=report,
    )


def _of(numbers: Mapping[str, range], family: str) -> str:
    """How many languages of the family there are, where not all are taken."""
    taken, all_of_them = len(numbers[family]), len(NUMBERS["paper"][family])
    return str(taken) if taken == all_of_them else f"{taken} of {all_of_them}"


def planned(scale: Scale, family: str, number: int, model: str) -> list[Experiment]:
    settings = settings_of(scales.RULES[scale], f"{family}-{number}", model)
    machine = random_machine(number) if family == "random" else pattern_machine(absorbing_patterns()[number])
    task = from_machine(machine, supervision=settings.pop("supervision"))
    preset, own = scales.MODELS[model]
    seeds, lengths = settings.pop("seeds"), task.lengths(TRAINED - 9, TRAINED)[-1:]
    return plan(task, [preset], seeds=seeds, test_lengths=lengths, settings={**settings, **own})


def _learned(run: Run) -> bool:
    tested = [int(n) for n in run.result["baseline"] if int(n) <= TRAINED]
    return min(accuracy(run, n) for n in tested) >= LEARNED


def _panel(scale: Scale, rows: list[dict[str, Any]]) -> Panel:
    head = ["family", "model", "of", "learned", *VERDICTS, "taught"]
    lines = []
    for family in FAMILIES:
        for model in NAMES:
            mine = [row for row in rows if (row["family"], row["model"]) == (family, model)]
            if not mine:
                continue
            verdicts = Counter(row["raw"] for row in mine)
            learned = sum(row["learned"] for row in mine)
            copies = sum(row["consolidated"] == "proved" for row in mine)
            lines.append([family, model, *map(str, (len(mine), learned, *(verdicts[v] for v in VERDICTS), copies))])
    caption = (
        f"of: how many networks. learned: right on at least {LEARNED:.0%} of the test strings at every length tested "
        f"up to {TRAINED}. proved: right at every length, by a certificate that the independent checker accepts; "
        f"refuted: by a word that it gets wrong; unknown: neither, within {BUDGETS[scale].certify:g} s. taught: of "
        "those that learned their language and are not proved, how many are proved after at most "
        f"{BUDGETS[scale].consolidate:g} s of consolidation."
    )
    return Table("Languages by verdict", caption, head, lines, data=rows, labels=2)


def matrix(rows: Sequence[Mapping[str, Any]]) -> Panel:
    """Returns a cell for every language and model."""
    cells = {(row["family"], row["number"], row["model"]): _cell(row) for row in rows}
    languages = dict.fromkeys((row["family"], row["number"]) for row in rows)
    models = [name for name in NAMES if any(row["model"] == name for row in rows)]
    lines = [[_name(*of), *(cells.get((*of, model), "") for model in models)] for of in languages]
    verdicts, learned = Counter(row["raw"] for row in rows), sum(row["learned"] for row in rows)
    copies = sum(row["consolidated"] == "proved" for row in rows)
    finding = (
        f"{learned} of {len(rows)} networks learned their language; as training left them {verdicts['proved']} are "
        f"proved right at every length and {verdicts['refuted']} refuted; once consolidated {copies} more are proved."
    )
    caption = (
        "In colour the verdict on the network as training left it; learned: right on at least "
        f"{LEARNED:.0%} of the test strings; then: what became of its consolidated copy."
    )
    return Table("Every language and model", caption, ["", *models], lines, finding=finding)


def _cell(row: Mapping[str, Any]) -> TableCell:
    notes = [("at", f"{row['wrong']:,} tokens")] if row["wrong"] is not None else []
    notes += [] if row["learned"] else [("", "not learned")]
    copy = row["consolidated"]
    return networks.verdict_cell([row["raw"]], notes + ([("then", f"{sign_of(copy)} {copy}")] if copy else []))


def _name(family: str, number: int) -> str:
    """
    >>> _name("random", 11), _name("absorbing", 14)
    ('random 11, 4 states', 'a(a|b)*')
    """
    return (
        absorbing_patterns()[number]
        if family == "absorbing"
        else f"random {number}, {SIZES[number % len(SIZES)]} states"
    )
