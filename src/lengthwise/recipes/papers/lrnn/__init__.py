"""The block-diagonal input-dependent linear RNN (Fan et al. 2024): Table 2."""

from . import table_2

__all__ = ["table_2"]
