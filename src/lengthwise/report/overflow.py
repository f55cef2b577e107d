"""What to say of logits that overflowed: the strings they belong to count as wrong, and the reader is told so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..lab.records import Run
from ..lab.statistics import Checkpoint, overflowed


def overflow_text(strings_by_length: Mapping[int, tuple[int, int]]) -> str:
    """At which lengths logits overflowed, from (strings that did, all strings); empty where none did.

    >>> overflow_text({40: (0, 768), 500: (512, 768)})
    'at 500, 512 of 768 strings'
    >>> overflow_text({40: (0, 768), 500: (512, 768), 1_000: (700, 768), 2_000: (768, 768)})
    'at 3 lengths from 500 to 2,000, 1,980 of 2,304 strings'
    """
    bad = {n: strings for n, strings in strings_by_length.items() if strings[0]}
    if not bad:
        return ""
    some, all_ = map(sum, zip(*bad.values(), strict=True))
    at = f"{min(bad):,}" if len(bad) == 1 else f"{len(bad)} lengths from {min(bad):,} to {max(bad):,}"
    return f"at {at}, {some:,} of {all_:,} strings"


def overflow_of_runs(runs: Sequence[Run], checkpoint: Checkpoint = "last") -> str:
    """The same, of runs that differ in their seed only."""
    strings = sum(run.result["samples"] for run in runs)
    lengths = runs[0].experiment.tests.lengths
    return overflow_text({n: (overflowed(runs, [n], checkpoint), strings) for n in lengths})


def overflow_note(text_by_model: Mapping[str, str]) -> str:
    """The line below a table, from each model's `overflow_text`; empty where none overflowed.

    >>> overflow_note({"lstm": "", "block-lrnn": "at 500, 512 of 768 strings"})
    'Logits that overflow count as wrong: block-lrnn at 500, 512 of 768 strings.'
    """
    named = "; ".join(f"{label} {text}" for label, text in text_by_model.items() if text)
    return f"Logits that overflow count as wrong: {named}." if named else ""


def overflow_note_of_runs(runs_by_model: Mapping[str, Sequence[Run]]) -> str:
    """The line below a table that shows both checkpoints."""
    last = {label: overflow_of_runs(runs) for label, runs in runs_by_model.items()}
    best = {label: overflow_of_runs(runs, "best") for label, runs in runs_by_model.items()}
    return overflow_note(last | {f"{label} (best valid.)": text for label, text in best.items() if text != last[label]})
