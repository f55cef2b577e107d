"""Tokens in a segment and segments in a text, counted again one by one."""

import numpy as np
import pytest

from lengthwise import Error, recipes
from lengthwise.recipes.papers.bipe.figure_1 import change, count


@pytest.mark.parametrize("length", [1, 2, 7, 31, 100])
def test_counted_one_by_one(length):
    rng = np.random.default_rng(length)
    tokens, ends = rng.integers(9, size=997), [2, 5]
    found = count(tokens, ends, length)
    inside, segments = [], []
    for start in range(0, len(tokens) - length + 1, length):
        since, ended = 0, 0
        for token in tokens[start : start + length]:
            since += 1
            if token in ends:
                inside.append(since)
                since, ended = 0, ended + 1
        segments.append(ended + (since > 0))
    assert found.tokens.tolist() == inside
    assert found.segments.tolist() == segments


def test_change_is_total_variation():
    rng = np.random.default_rng(0)
    one, other = rng.integers(6, size=50), rng.integers(9, size=70)
    subsets = [[n for n in range(9) if mask >> n & 1] for mask in range(512)]
    worst = max(abs(np.isin(one, s).mean() - np.isin(other, s).mean()) for s in subsets)
    assert change(one, other) == pytest.approx(worst)
    assert change(one, one) == 0


def prose(tmp_path, name, sentences, seed):
    rng = np.random.default_rng(seed)
    made = [
        " ".join(rng.choice(["one", "two", "three", "sea", "tree"], size=rng.integers(2, 30))) for _ in range(sentences)
    ]
    path = tmp_path / name
    path.write_text(". ".join(made) + ".\n", encoding="utf-8")
    return str(path)


def test_the_figure_of_two_texts(tmp_path):
    files = [prose(tmp_path, "a.txt", 300, 0), prose(tmp_path, "b.txt", 200, 1)]
    settings = [f"store={tmp_path / 'kept'}", *(f"text={file}" for file in files)]
    recipe = recipes.get("bipe", "figure-1", "smoke", settings)
    panels = recipe.panels([])
    assert [p.title for p in panels] == [
        f"{what}: {name}"
        for name in ("a.txt", "b.txt")
        for what in ("Tokens in a segment", "Segments in a text", "By length")
    ]
    data = panels[2].data
    lines = data["by_length"]
    assert [line["length"] for line in lines] == [64, 128, 256]
    # Sentences of 2 to 29 words, whatever the window; about twice as many of them in a window twice as long.
    assert all(line["longest"] < 60 for line in lines)
    assert abs(lines[2]["tokens_by_share"]["50%"] - lines[1]["tokens_by_share"]["50%"]) <= 2
    assert lines[2]["segments"] / lines[1]["segments"] == pytest.approx(2, rel=0.15)
    assert 0.8 < data["growth"] < 1


def test_what_is_refused(tmp_path):
    file = prose(tmp_path, "a.txt", 3, 0)
    recipe = recipes.get("bipe", "figure-1", "smoke", [f"store={tmp_path / 'kept'}", f"text={file}"])
    with pytest.raises(Error, match="4 windows of 64 need 256"):
        recipe.panels([])
    with pytest.raises(Error, match="by"):
        recipes.get("bipe", "figure-1", "smoke", ["by=word"])
