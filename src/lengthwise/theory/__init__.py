"""What is known on paper, as code: networks whose weights are written down, and how far rounding carries them.

>>> import torch
>>> from lengthwise import tasks, theory
>>> machine = tasks.get("cycle-navigation").machine
>>> tokens = torch.randint(3, (2, 1000), generator=torch.Generator().manual_seed(0))
>>> for construction in (theory.regular_gpt, theory.block_lrnn):
...     print(bool((construction(machine)(tokens).logits.argmax(-1) == machine.run(tokens)).all()))
True
True

`exact_classifier` is a construction as the lab scores models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from .bi_nfa_vector import bipe_width
    from .bi_nfa_weights import bipe
    from .block_lrnn_weights import block_lrnn
    from .classifiers import exact_classifier
    from .regular_gpt_weights import regular_gpt
    from .rounding import rounding_bounds, rounding_is_harmless

__all__ = [
    "bipe",
    "bipe_width",
    "block_lrnn",
    "exact_classifier",
    "regular_gpt",
    "rounding_bounds",
    "rounding_is_harmless",
]

__getattr__, __dir__ = lazy_names(__name__)
