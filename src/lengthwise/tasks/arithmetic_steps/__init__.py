"""Arithmetic with chain of thought (Feng et al. 2023): chains drawn backwards, and a checker that reads any chain."""

from .chain_checker import Judgement, check_chain, evaluate, reductions, split_lines
from .symbols import Numbers
from .task import ArithmeticSteps

__all__ = ["ArithmeticSteps", "Judgement", "Numbers", "check_chain", "evaluate", "reductions", "split_lines"]
