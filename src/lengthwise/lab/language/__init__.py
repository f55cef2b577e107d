"""Language models on real text: documents, pre-trained checkpoints, and training one of them on."""

from .blocks import Texts, prepared
from .checkpoint import Checkpoint, find
from .documents import read, split
from .finetuning import FineTuned, FineTuning, fine_tune

__all__ = ["Checkpoint", "FineTuned", "FineTuning", "Texts", "find", "fine_tune", "prepared", "read", "split"]
