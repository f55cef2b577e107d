"""`lengthwise eval`: measure a trained language model on text, at any lengths, or by the answers it writes."""

from __future__ import annotations

import typer

from ..verb import Verb, Verbs
from .far_tokens import needle, variables
from .perplexity import perplexity
from .scrolls import scrolls

evaluate = typer.Typer(
    cls=Verbs,
    help="Measure a run's model, or any Hugging Face checkpoint, at several lengths of text, or by its answers.",
    epilog="Example: lengthwise eval perplexity runs/stdlib-bipe-s0-1a2b3c --lengths 512,1024,4096",
)
for measure in (perplexity, needle, variables, scrolls):
    evaluate.command(cls=Verb)(measure)
