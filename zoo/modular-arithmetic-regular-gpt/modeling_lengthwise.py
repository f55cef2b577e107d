"""Lets transformers load this folder with trust_remote_code=True, where lengthwise is installed."""

from lengthwise.models.config import LengthwiseConfig  # noqa: F401
from lengthwise.models.modelling import LengthwiseModel  # noqa: F401
from lengthwise.models.modelling import LengthwiseForCausalLM  # noqa: F401
