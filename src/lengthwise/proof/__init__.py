"""What is known of a model rather than measured: networks whose weights are written down from a machine.

>>> import torch
>>> from lengthwise import proof, tasks
>>> machine = tasks.get("cycle-navigation").machine
>>> model = proof.regular_gpt(machine)
>>> tokens = torch.randint(3, (2, 1000), generator=torch.Generator().manual_seed(0))
>>> bool((model(tokens).logits.argmax(-1) == machine.run(tokens)).all())
True
"""

from .construction import regular_gpt, tagger
from .lemma import lemma_1

__all__ = ["lemma_1", "regular_gpt", "tagger"]
