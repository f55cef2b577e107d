"""What one generated token costs in calls: the functions of the shell that Python runs, and how deep they lie."""

import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

import lengthwise
from lengthwise.models import LengthwiseForCausalLM, presets

SOURCE = Path(lengthwise.__file__).parent
SHELL = tuple(str(SOURCE / room) for room in ("models", "mixers", "positions"))
SMALL = {"width": 8, "heads": 2}
MODELS = {
    "transformer": (presets.transformer(5, **SMALL, layers=1), 26, 9),
    "chacal": (presets.chacal(5, **SMALL, layers=1), 25, 9),
    "regular-gpt": (presets.regular_gpt(5, **SMALL, chunk=9, depth="position"), 51, 9),
    "block-lrnn": (presets.block_lrnn(5, width=8, block=4), 40, 9),
    "lstm": (presets.lstm(5, width=8), 14, 6),
}
"""The most calls, and the greatest depth: half of the calls of when every layer looked for its own place in the cache,
which were 52, 50, 103, 81 and 29, at depths of 11, 10, 11, 10 and 7."""


class Calls:
    """A profiler that counts calls and, of those of the shell, how many lie on the stack at once."""

    def __init__(self, rooms: tuple[str, ...] = SHELL):
        self.names: Counter[str] = Counter()
        self.depth, self.rooms = 0, rooms

    def __call__(self, frame, event, argument):
        if event != "call" or not frame.f_code.co_filename.startswith(self.rooms):
            return
        self.names[frame.f_code.co_qualname] += 1
        depth = 0
        while frame is not None:
            depth += frame.f_code.co_filename.startswith(self.rooms)
            frame = frame.f_back
        self.depth = max(self.depth, depth)


def counted(model, new: int, rooms: tuple[str, ...] = SHELL) -> Calls:
    calls = Calls(rooms)
    tokens = torch.randint(0, 5, (2, 9), generator=torch.Generator().manual_seed(0))
    before = sys.getprofile()
    sys.setprofile(calls)
    try:
        model.generate(tokens, max_new_tokens=new, min_new_tokens=new, do_sample=False)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("name", MODELS)
def test_a_generated_token_takes_few_calls(name):
    config, most, deepest = MODELS[name]
    model = LengthwiseForCausalLM(config).eval()
    few, many = counted(model, 4), counted(model, 12)
    each = {call: n / 8 for call, n in (many.names - few.names).items()}
    assert sum(each.values()) <= most, each
    assert many.depth <= deepest


EVERYWHERE = {
    "transformer": (presets.transformer(5, **SMALL, layers=1), 20),
    "transformer-xl": (presets.transformer_xl(5, **SMALL, layers=1), 25),
    "chacal": (presets.chacal(5, **SMALL, layers=1), 27),
    "regular-gpt": (presets.regular_gpt(5, **SMALL, depth="position"), 104),
    "block-lrnn": (presets.block_lrnn(5, width=8, block=4), 29),
    "lstm": (presets.lstm(5, width=8), 10),
    "s4d": (presets.s4d(5, width=8), 20),
}
"""The most calls of the whole library, ops included; RegularGPT has four groups from 9 tokens to 16."""


@pytest.mark.parametrize("name", EVERYWHERE)
def test_and_few_in_the_ops(name):
    config, most = EVERYWHERE[name]
    model = LengthwiseForCausalLM(config).eval()
    few, many = (counted(model, new, (str(SOURCE),)) for new in (3, 7))
    # Comprehensions are functions in some versions of Python.
    each = {call: n / 4 for call, n in (many.names - few.names).items() if not call.endswith(("comp>", "genexpr>"))}
    assert sum(each.values()) <= most, each
