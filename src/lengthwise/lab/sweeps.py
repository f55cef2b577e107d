"""Sweeps: all combinations of some settings are trained, and validation strings alone choose among them.

    sweep = {"training.lr": [1e-4, 3e-4, 5e-4], "model.chunk": [2, 3]}
    plan_sweep("parity", ["regular-gpt"], sweep, seeds=3)    # 18 ordinary experiments

`lab/choices.py` has the choosing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from ..errors import Error, in_words
from ..limits import EXPERIMENTS
from ..options import Word
from ..own_code import in_full
from .experiment import Experiment
from .grid import Architectures, OneTask, Settings, parse, plan

Sweep = Sequence[str] | Mapping[str, Any]
"""`["training.lr=1e-4,3e-4"]`, or `{"training.lr": [1e-4, 3e-4]}`."""

VALIDATED_ON = ("training.lengths", "training.validation_samples")
"""Settings that decide which strings are validated on: their values are not judged alike."""
PAIRS = {"(": ")", "[": "]", "{": "}"}


def values_of(text: str) -> list[Word]:
    """The values in a text: commas part them, but not those in brackets or quotes.

    >>> values_of("1e-4,3e-4"), values_of("(0.9,0.98),(0.9,0.999)"), values_of("'a,b',c")
    (['1e-4', '3e-4'], ['0.9,0.98', '0.9,0.999'], ['a,b', 'c'])
    """
    parts, open_, quote = [""], [], ""
    for sign in text:
        if sign == "," and not (open_ or quote):
            parts.append("")
            continue
        parts[-1] += sign
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in PAIRS:
            open_.append(PAIRS[sign])
        elif sign in PAIRS.values() and (not open_ or sign != open_.pop()):
            raise Error(f"A sweep's values need a partner for every bracket, got {text!r}.")
    if open_ or quote:
        raise Error(f"A sweep's values need a partner for every bracket and quote, got {text!r}.")
    return [Word(_bare(part.strip())) for part in parts]


def _bare(part: str) -> str:
    """Without the quotes or round brackets around the whole of it."""
    inner = part[1:-1]
    quoted = len(part) > 1 and part[0] in "\"'" and part[-1] == part[0] and part[0] not in inner
    bracketed = part.startswith("(") and part.endswith(")") and not {"(", ")"} & {*inner}
    return inner if quoted or bracketed else part


def parse_sweep(sweep: Sweep) -> dict[str, list[Any]]:
    """The values of every swept setting by its full name."""
    if isinstance(sweep, Mapping):
        parsed = {key: values_of(v) if isinstance(v, str) else v for key, v in parse(sweep).items()}
    else:
        texts = [sweep] if isinstance(sweep, str) else sweep
        if not isinstance(texts, (list, tuple)) or not all(isinstance(each, str) for each in texts):
            raise Error(
                'sweep must be texts NAME=VALUE,VALUE, or a mapping {"training.lr": [1e-3, 3e-4]}, got '
                f"{in_words(sweep)}."
            )
        parsed = {}
        for text in texts:
            name, equals, values = (part.strip() for part in text.partition("="))
            if not (name and equals):
                raise Error(f"A sweep is NAME=VALUE,VALUE, got {text!r}. For example --sweep training.lr=1e-3,3e-4.")
            if name in parsed:
                raise Error(f"{name} is swept twice. Put all its values into one: {name}=VALUE,VALUE.")
            parsed[name] = values_of(values)
        parse(parsed)
    for name, values in parsed.items():
        values = values.tolist() if hasattr(values, "tolist") else values  # pyright: ignore[reportAttributeAccessIssue]
        if not isinstance(values, (list, tuple)) or len(values) < 2 or "" in values:
            got = ",".join(map(str, values)) if isinstance(values, (list, tuple)) else in_words(values)
            raise Error(
                f"A sweep of {name} needs two values at least, joined by commas, got {got!r}. One goes to --set."
            )
        parsed[name] = list(values)
    return parsed


def swept(sweep: Any, learning_rates: Any = ()) -> bool:
    """Whether anything is swept; learning rates that are given in their own way are not swept with the rest."""
    asked, rated = (
        not (given is None or (isinstance(given, (str, list, tuple, Mapping)) and not given))
        for given in (sweep, learning_rates)
    )
    if asked and rated:
        raise Error("Learning rates are swept with the rest, as in --sweep training.lr=1e-3,3e-4. Leave them out.")
    return asked


def check_choosable(names: Iterable[str], given: Mapping[str, Any], task: Any) -> None:
    """Refuse settings that are also `given`, and those that change what is asked rather than who answers."""
    asked = [each for each in (task if isinstance(task, (list, tuple)) else [task]) if isinstance(each, str)]
    for name in names:
        if not isinstance(name, str):
            raise Error(f"A setting is named by a text, got {in_words(name)}. For example training.lr.")
        if name in given:
            raise Error(f"{name} is both set and swept. Leave one of the two out.")
        if name in VALIDATED_ON or any(
            in_full(name, asked).startswith(f"{part}.") for part in ("tests", "task", *asked)
        ):
            raise Error(
                f"{name} is part of the question that is asked, and validation chooses among answers to one question. "
                f"Set it with --set, in a call for each value."
            )


def plan_sweep(
    task: OneTask | Sequence[OneTask],
    architectures: Architectures,
    sweep: Sweep,
    *,
    seeds: int | Sequence[int] = 1,
    train_length: int = 40,
    test_lengths: str | Sequence[int] | None = None,
    settings: Settings = (),
    unused: Callable[[str, list[str]], None] | None = None,
) -> list[Experiment]:
    """`plan` for every combination of the swept settings, each experiment once.

    A sweep's names are those of `settings`: `training.`, `model.` (every model) or a model's own name (that one).
    """
    swept, given = parse_sweep(sweep), parse(settings)
    check_choosable(swept, given, task)
    told: set[str] = set()

    def once(setting: str, without: list[str]) -> None:
        if unused and setting not in told:
            told.add(setting)
            unused(setting, without)

    planned: dict[str, Experiment] = {}
    made: dict[str, list[set[str]]] = {name: [set() for _ in values] for name, values in swept.items()}
    count = math.prod(map(len, swept.values()))
    EXPERIMENTS.check(count, "sweep")
    for places in product(*(range(len(values)) for values in swept.values())):
        point = {name: swept[name][i] for name, i in zip(swept, places, strict=True)}
        experiments = plan(
            task,
            architectures,
            seeds=seeds,
            train_length=train_length,
            test_lengths=test_lengths,
            settings={**given, **point},
            unused=once if unused else None,
        )
        EXPERIMENTS.check(len(experiments) * count, "sweep")
        planned |= {e.hash: e for e in experiments if e.hash not in planned}
        for name, i in zip(swept, places, strict=True):
            made[name][i] |= {e.hash for e in experiments}
    for name, hashes in made.items():
        for i, mine in enumerate(hashes):
            if mine in hashes[:i]:
                first, second = swept[name][hashes.index(mine)], swept[name][i]
                raise Error(
                    f"{name}: {first} and {second} make the same runs. Give each value once, and no --set or --sweep "
                    "of the same option by the model's own name."
                )
    return list(planned.values())
