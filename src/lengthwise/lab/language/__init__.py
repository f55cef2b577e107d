"""Training a pretrained language model on."""

from .finetuning import FineTuned, FineTuning, fine_tune

__all__ = ["FineTuned", "FineTuning", "fine_tune"]
