"""The page of some runs, as text."""

from __future__ import annotations

from lengthwise.report import html_page
from lengthwise.report.contents import Content


def page(runs, panels=(), *, own_text_panels=True, sweep=(), command="", **about):
    made = Content.of(runs, panels, own_text_panels=own_text_panels, sweep=sweep, command=command)
    return html_page.page(made, **about)
