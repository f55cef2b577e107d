"""No change of the code changes an experiment of a recipe: recorded runs are found by their hashes."""

import hashlib
import json
from pathlib import Path

import pytest

from lengthwise import recipes

ROOT = Path(__file__).parent.parent.parent
GOLDEN = json.loads(Path(__file__).with_name("hashes.json").read_text(encoding="utf-8"))
"""By recipe the digest of its cells at each scale, of all that train on no text."""


@pytest.mark.parametrize("name", GOLDEN)
def test_a_recipe_plans_the_experiments_that_it_always_did(name):
    which = (str(ROOT / name), "") if name.endswith(".py") else name.split()
    for scale, golden in GOLDEN[name].items():
        cells = [(c.label, [e.hash for e in c.experiments]) for c in recipes.get(*which, scale).grid.cells]
        assert hashlib.sha256(json.dumps(cells).encode()).hexdigest()[:16] == golden, scale
