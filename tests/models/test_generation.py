"""What one generated token costs in calls: the functions of the library that Python runs, ops included."""

import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

import lengthwise
from lengthwise.models import LengthwiseForCausalLM, presets

SOURCE = str(Path(lengthwise.__file__).parent)
SMALL = {"width": 8, "heads": 2}
MOST = {
    "transformer": (presets.transformer(5, **SMALL, layers=1), 20),
    "transformer-xl": (presets.transformer_xl(5, **SMALL, layers=1), 25),
    "chacal": (presets.chacal(5, **SMALL, layers=1), 27),
    "regular-gpt": (presets.regular_gpt(5, **SMALL, depth="position"), 104),
    "block-lrnn": (presets.block_lrnn(5, width=8, block=4), 29),
    "lstm": (presets.lstm(5, width=8), 10),
    "s4d": (presets.s4d(5, width=8), 20),
}
"""The most calls; RegularGPT has four groups from 9 tokens to 16."""


def counted(model, new: int) -> Counter[str]:
    """Calls while so many tokens are generated, by name."""
    names: Counter[str] = Counter()

    def hear(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            names[frame.f_code.co_qualname] += 1

    tokens = torch.randint(0, 5, (2, 9), generator=torch.Generator().manual_seed(0))
    before = sys.getprofile()
    sys.setprofile(hear)
    try:
        model.generate(tokens, max_new_tokens=new, min_new_tokens=new, do_sample=False)
    finally:
        sys.setprofile(before)
    return names


@pytest.mark.parametrize("name", MOST)
def test_a_generated_token_takes_few_calls(name):
    config, most = MOST[name]
    model = LengthwiseForCausalLM(config).eval()
    few, many = (counted(model, new) for new in (3, 7))
    # Comprehensions are functions in some versions of Python.
    each = {call: n / 4 for call, n in (many - few).items() if not call.endswith(("comp>", "genexpr>"))}
    assert sum(each.values()) <= most, each
