"""Models made elsewhere, changed to have a layer of this library, their weights kept.

>>> from lengthwise import convert
>>> from transformers import GPT2Config, GPT2LMHeadModel
>>> model = GPT2LMHeadModel(GPT2Config(vocab_size=8, n_embd=8, n_layer=2, n_head=2, attn_pdrop=0.0))
>>> convert.to_chain(model, gamma=0.9, layers=[1]).config.model_type
'chain-gpt2'

`load` gives a pretrained checkpoint with a list of conversions, which are plain data.
What is saved loads again by the auto classes of transformers, after `import lengthwise`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from .chained import to_chain
    from .registry import CONVERSIONS, Conversion, apply, check, load
    from .segmented import to_bipe
    from .yarn import to_drope, to_yarn

__all__ = ["CONVERSIONS", "Conversion", "apply", "check", "load", "to_bipe", "to_chain", "to_drope", "to_yarn"]

__getattr__, __dir__ = lazy_names(__name__)
