"""A preset's signature is the one place of a default: nothing that a preset sets has a second default below it."""

import inspect
from dataclasses import MISSING, fields

import pytest

from lengthwise import mixers, positions
from lengthwise.models import LengthwiseConfig, presets
from lengthwise.models.config import Block
from lengthwise.models.depth import Adaptive, Fixed
from lengthwise.options import schema

OFF = (None, False, 0, 1.0)
"""An option that is off may be off in several places: it says no number that could differ. 1.0: times nothing."""


def defaults(kind) -> dict[str, object]:
    parameters = inspect.signature(kind).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def parts(spec) -> list[dict]:
    return spec if isinstance(spec, list) else [spec]


@pytest.mark.parametrize("name", presets.PRESETS)
def test_no_option_has_two_defaults(name):
    preset = presets.PRESETS[name]
    config = preset(5)
    own = set(schema(preset, keyword_only=True))
    depths = {"fixed": [Fixed], "adaptive": [Adaptive]}[config.depth["name"]]
    below = [(mixers.MIXERS[spec["name"]], spec) for spec in parts(config.mixer)]
    below += [(positions.POSITIONS[config.position["name"]], config.position)]
    below += [(kind, config.depth) for kind in depths]
    for kind, spec in below:
        second = {option: default for option, default in defaults(kind).items() if option in own | spec.keys()}
        assert all(default in OFF for default in second.values()), (kind, second)
    in_block = {f.name: f.default for f in fields(Block) if f.default is not MISSING}
    for block in parts(config.block):
        assert all(in_block.get(option) in OFF for option in block if option != "kind")
    # These fields say which kind; a preset's option of the same name does too, or how many.
    numbers = (own & LengthwiseConfig.__annotations__.keys()) - {"head", "position", "depth", "block"}
    assert all(getattr(LengthwiseConfig(), option) in OFF for option in numbers), numbers
