"""The atlas: its vectors are what the code computes, hold every name of the registries, and can be run without it."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from lengthwise import mixers, positions

from .conftest import script

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "site" / "vectors"
FILES = sorted(str(file.relative_to(VECTORS)) for file in VECTORS.rglob("*.json"))


@pytest.fixture(scope="module")
def atlas():
    return script("atlas")


@pytest.fixture(scope="module")
def computed(atlas):
    return dict(atlas.vectors())


def read(path):
    return json.loads((VECTORS / path).read_text())


def close(one, other):
    """Whether two nested lists agree, number by number."""
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return one == other


def test_every_encoding_and_mixer_has_vectors():
    names = {f"positions/{name}.json" for name in positions.POSITIONS} | {
        f"mixers/{name}.json" for name in mixers.MIXERS
    }
    assert set(FILES) == names


@pytest.mark.parametrize("path", FILES)
def test_vectors_are_what_the_code_computes(computed, path):
    """Made anew by `python site/atlas.py`; a change here is one that every other implementation has to follow."""
    kept, now = read(path), computed[path]
    assert {key: kept[key] for key in kept if key != "outputs"} == json.loads(
        json.dumps({key: now[key] for key in now if key != "outputs"})
    )
    assert kept["outputs"].keys() == now["outputs"].keys()
    for name, values in kept["outputs"].items():
        assert close(values, now["outputs"][name]), name


def test_a_stranger_finds_alibi_rope_and_softmax_attention_in_them():
    """Written down from the formulas, in numpy alone."""

    def attention(q, k, bias):
        return q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1]) + bias

    def check(name, logits):
        outputs = read(f"positions/{name}.json")["outputs"]["logits"]
        for h, row in enumerate(outputs):
            for t, keys in enumerate(row):
                for s, value in enumerate(keys):
                    assert (
                        value is None if s > t else value - keys[t] == pytest.approx(logits[h, t, s] - logits[h, t, t])
                    )

    inputs = read("positions/alibi.json")["inputs"]
    ids, q, k = (np.array(inputs[name], float) for name in ("ids", "q", "k"))
    slopes = np.array([2.0**-4, 2.0**-8])[:, None, None]
    check("alibi", attention(q, k, -slopes * (ids[:, None] - ids)))
    inputs = read("positions/rope.json")["inputs"]
    q, k = (np.array(inputs[name], float) for name in ("q", "k"))
    angle = np.exp(1j * ids[:, None] * 10_000.0 ** -np.array([0, 0.5]))
    turned = [(x[..., :2] + 1j * x[..., 2:]) * angle for x in (q, k)]
    check("rope", attention(*(np.concatenate([x.real, x.imag], -1) for x in turned), 0))
    vectors = read("mixers/softmax.json")
    x, w = np.array(vectors["inputs"]["x"]), {name: np.array(value) for name, value in vectors["weights"].items()}
    q, k, v = np.split(x @ w["qkv.weight"].T + w.get("qkv.bias", 0), 3, -1)
    heads = []
    for part in (slice(0, 2), slice(2, 4)):
        logits = np.where(np.tri(len(x)) > 0, attention(q[:, part], k[:, part], 0), -np.inf)
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        heads.append(weights / weights.sum(-1, keepdims=True) @ v[:, part])
    y = np.concatenate(heads, -1) @ w["out.weight"].T + w.get("out.bias", 0)
    assert y == pytest.approx(np.array(vectors["outputs"]["y"]))


def test_the_page_draws_and_links_each(atlas):
    page = atlas.page(lambda text: text)
    for path in FILES:
        assert f'href="vectors/{path}"' in page
    assert len(re.findall(r"<svg ", page)) == len(FILES)
    assert "nan" not in " ".join(re.findall(r'points="([^"]*)"', page))
    assert re.search(r"### `alibi`.*?a number for each key and head, no matrix", page, re.S)
