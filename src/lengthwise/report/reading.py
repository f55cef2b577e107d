"""The help on a page: what its words mean, and where its parts are."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

CONTENTS_FROM = 5
"""A page of so many parts has a list of them."""


def how_to_read(seeds: int, parts: bool = False, overflow: bool = False, unit: str = "tokens") -> str:
    """What the words mean, folded; `parts`: whether strings are scored in parts; `overflow`: whether logits did."""
    scored = (
        "In tasks that ask for several entries a string is right in part: its score is the share of its entries that "
        "are right, and the accuracy is the mean score. "
    )
    terms = {
        "Accuracy": f"The share of test strings of one length that are right. {scored if parts else ''}"
        "A column with several lengths is the "
        "unweighted mean of their accuracies. 100.0 is printed only where every string was right.",
        "Length": f"In {unit}. Every model is trained on short strings, the shaded lengths, and tested on longer ones.",
        "Majority answer": "Always giving the commonest answer at that length (the tick on each bar, the dashed line). "
        "Only what lies above it was learned.",
        "Last and best valid.": "Large figures are of the model as it was at the last training step (its last "
        "checkpoint). Best valid. is of the step that did best on validation strings of the training lengths; test "
        "strings choose nothing.",
    }
    if seeds > 1:
        terms["Mean ± and max"] = (
            "Every seed is one training run from scratch. ± is the sample standard deviation over seeds; max is the "
            "best seed. A max far above the mean says that the model can learn the task but does not do so reliably."
        )
    terms["95% interval"] = (
        "Wilson's interval over all test strings of all seeds. It says how well the test strings pin "
        "these trained models down; how the next seed would do, only more seeds can say."
    )
    if overflow:
        terms["Overflow"] = (
            "The model's output numbers (logits) grew beyond what floating point holds, so that no answer can be read "
            "from them. Such a string counts as wrong."
        )
    rows = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in terms.items())
    return f'<details id="reading"><summary>How to read this page</summary><dl class="terms">{rows}</dl></details>'


def contents(parts: Sequence[tuple[str, str]]) -> str:
    """A list of links, from (name of the part, its title); nothing on a short page."""
    if len(parts) < CONTENTS_FROM:
        return ""
    links = "".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title in parts)
    return f'<nav aria-label="Contents"><ol class="contents">{links}</ol></nav>'
