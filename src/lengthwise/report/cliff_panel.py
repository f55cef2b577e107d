"""Up to which length language models are usable, as one chart with the number above it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..evaluate.long_context import BREAKS, HOLDS
from ..evaluate.text import Loss
from ..lab.cliff import Cliff
from .far_tokens_panel import far_tokens_panel
from .formatting import percent, short_names
from .panel import Panel, Table, line_chart
from .text_runs import SEEN, digits

ENDS = {
    "loss": "beyond, its perplexity is reliably more than {holds:g} times that behind {trained:,} tokens",
    "needles": "in longer prompts it reliably finds fewer needles than at {trained:,} tokens",
    "places": "it has places for no more",
    "tested": "no longer text was tested, and none was reliably worse (more than {most:.3g} times is excluded)",
}


def cliff_panels(cliffs: Sequence[Cliff]) -> list[Panel]:
    """The perplexity by place over that behind the trained length, and what needles are found."""
    first, names = cliffs[0], short_names(each.name for each in cliffs)
    drawn = {names[each.name]: each.steps for each in cliffs}
    curves = {name: ([s.length for s in steps], [_capped(s.times) for s in steps]) for name, steps in drawn.items()}
    bands = {name: ([_capped(s.low) for s in steps], [_capped(s.high) for s in steps]) for name, steps in drawn.items()}
    limit = f"{HOLDS:g} times"
    curves[limit] = ([first.trained, first.window], [HOLDS, HOLDS])
    caption = (
        "Every token of long windows, predicted behind all of its window, and behind the trained length alone: the "
        "perplexity of the first over that of the second, by place (drawn up to 10), with intervals over windows that "
        f"hold for all places together (95%). It holds up to {HOLDS:g} times, and is broken from {BREAKS:g} on. "
        f"{first.windows} windows of {first.window:,} tokens of {first.text}. {SEEN[first.seen]}"
    )
    title = "Up to which length it is usable" if len(cliffs) == 1 else "Up to which length they are usable"
    rows = [[names[each.name], *_row(each)] for each in cliffs]
    columns = ["", "usable up to", "ends by", "trained", "made for", "loss holds to", "needles to"]
    columns += ["perplexity at the end", "behind the trained length", "times"]
    table = Table(title, "", columns, rows, data=[each.to_json() for each in cliffs])
    marks = {"usable": first.usable} if len(cliffs) == 1 else {}
    chart = line_chart(title, caption, "tokens", "times the perplexity", curves, log_x=True, marks=marks, table=table)
    finding = " ".join(f"{names[each.name]}: {_sentence(each)}" for each in cliffs)
    return [replace(chart, bands=bands, base=limit, finding=finding), *_needles(cliffs, names)]


def _capped(times: float) -> float:
    return min(times, 10.0)


def _row(each: Cliff) -> list[str]:
    ends = {"loss": "loss", "needles": "needles", "places": "its places", "tested": "–"}
    needles = (
        "not tested" if each.needles is None else "finds none" if each.by_needles is None else f"{each.by_needles:,}"
    )
    made_for = "–" if each.made_for is None else f"{each.made_for:,}"
    own = [f"{each.usable:,}", ends[each.limit], f"{each.trained:,}", made_for, f"{each.by_loss:,}", needles]
    end = each.steps[-1]
    losses = (end.loss, end.loss - math.log(end.times))
    return [*own, *(digits(Loss(loss, 0).perplexity) for loss in losses), digits(end.times)]


def _sentence(each: Cliff) -> str:
    why = ENDS[each.limit].format(holds=HOLDS, trained=each.trained, most=max(step.high for step in each.steps))
    times = f", {each.usable / each.trained:.3g} times the {each.trained:,} it was trained at"
    return f"usable up to {each.usable:,} tokens{times}; {why}."


def _needles(cliffs: Sequence[Cliff], names: Mapping[str, str]) -> list[Panel]:
    """Shares with their intervals by length, above those by depth of each model."""
    scored = [(each, each.needles) for each in cliffs if each.needles]
    if not scored:
        return []
    lengths = sorted({n for each, _ in scored for n in each.needle_shares})
    rows = [[names[each.name], *(_cell(each.needle_shares.get(n)) for n in lengths)] for each, _ in scored]
    settings = scored[0][1].settings
    caption = (
        f"In %, with 95% intervals, over {scored[0][1].samples} prompts at each of {len(scored[0][1].depths)} depths. "
        f'Asked: "{settings["prompt"]}", in the text above; scored by {settings["scoring"]} of {settings["choices"]}.'
    )
    table = Table("Needles found by length", caption, ["", *(f"{n:,}" for n in lengths)], rows)
    return [table, *(replace(far_tokens_panel(far, names[each.name]), folded=True) for each, far in scored)]


def _cell(interval: tuple[float, float, float] | None) -> str:
    if interval is None:
        return "–"
    share, low, high = map(percent, interval)
    return f"{share} ({low}–{high})"
