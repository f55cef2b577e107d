"""The S4 family: linear recurrences that do not depend on the input, or only diagonally.

hippo.py: where they start; system.py: one in steps, as convolution and as recurrence, with its arithmetic;
base.py: what the layers share.
"""

from .base import SpaceState, StateSpace
from .diagonal import Diagonal
from .liquid_s4 import LiquidS4
from .lru import LRU
from .s4 import S4
from .s4d import S4D

__all__ = ["LRU", "S4", "S4D", "Diagonal", "LiquidS4", "SpaceState", "StateSpace"]
