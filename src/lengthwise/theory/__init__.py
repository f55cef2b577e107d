"""What is known on paper, as code: networks whose weights are written down, and what some networks cannot do.

>>> import torch
>>> from lengthwise import tasks, theory
>>> machine = tasks.get("cycle-navigation").machine
>>> tokens = torch.randint(3, (2, 1000), generator=torch.Generator().manual_seed(0))
>>> for construction in (theory.regular_gpt, theory.block_lrnn):
...     print(bool((construction(machine)(tokens).logits.argmax(-1) == machine.run(tokens)).all()))
True
True

`exact_classifier` is a construction as the lab scores models. `prefix_identity`, `subtraction_identity` and
`subtraction_answers` hold a linear RNN against the propositions on commuting transitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from .affine_layer import FirstLayer
    from .bi_nfa_vector import bipe_width
    from .bi_nfa_weights import bipe
    from .block_lrnn_weights import block_lrnn
    from .classifiers import exact_classifier
    from .commuting import prefix_identity, subtraction_answers, subtraction_identity, subtraction_prefixes
    from .regular_gpt_weights import binary_matrix_product, regular_gpt
    from .rounding import rounding_bounds, rounding_is_harmless

__all__ = [
    "FirstLayer",
    "binary_matrix_product",
    "bipe",
    "bipe_width",
    "block_lrnn",
    "exact_classifier",
    "prefix_identity",
    "regular_gpt",
    "rounding_bounds",
    "rounding_is_harmless",
    "subtraction_answers",
    "subtraction_identity",
    "subtraction_prefixes",
]

__getattr__, __dir__ = lazy_names(__name__)
