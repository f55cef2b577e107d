"""Which trained networks are right at every length: tables of what `certify` proves of them, and what it refutes."""

from . import networks, scales, state_tracking, steady, table

__all__ = ["networks", "scales", "state_tracking", "steady", "table"]
