"""What is known of a model rather than measured: networks whose weights are written down, and what some cannot do.

>>> import torch
>>> from lengthwise import proof, tasks
>>> machine = tasks.get("cycle-navigation").machine
>>> tokens = torch.randint(3, (2, 1000), generator=torch.Generator().manual_seed(0))
>>> for build in (proof.regular_gpt, proof.block_lrnn):
...     print(bool((build(machine)(tokens).logits.argmax(-1) == machine.run(tokens)).all()))
True
True
"""

from . import commuting
from .affine import FirstLayer
from .blocks import block_lrnn
from .construction import classifier, regular_gpt
from .lemma import lemma_1

__all__ = ["FirstLayer", "block_lrnn", "classifier", "commuting", "lemma_1", "regular_gpt"]
