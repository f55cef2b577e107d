"""Networks taught the algebra of a machine: compiled from random weights, or consolidated after training on strings."""

from .compiling import Made, compile_machine, consolidate_run, kept_of, made_of

__all__ = ["Made", "compile_machine", "consolidate_run", "kept_of", "made_of"]
