"""What a pass costs: the counts by hand, the dense form equal to the sparse one, and no time for a wrong answer."""

import json
import math

import attention_cost
import pytest
import torch
from attention_cost import (
    FORMS,
    SETTINGS,
    DenselyMasked,
    agree,
    attention,
    counted,
    exponent,
    in_turn,
    mask,
    networks,
    operations,
    pairs,
    seconds_of,
)

from lengthwise import Error
from lengthwise.cli import main
from lengthwise.mixers import Layout, Level
from lengthwise.mixers.sliding_dilated import SlidingDilated

SMOKE = SETTINGS["smoke"]
CPU = "cpu"


@pytest.mark.parametrize(("chunk", "level"), [(2, 0), (2, 2), (3, 1), (5, 0)])
def test_the_mask_is_equation_1(chunk, level):
    r = torch.randn(2, chunk)
    found = mask(r, 17, level)
    for m in range(17):
        for n in range(17):
            j, rest = divmod(m - n, chunk**level)
            inside = rest == 0 and 0 <= j < chunk
            assert found[:, m, n].tolist() == (r[:, j].tolist() if inside else [-math.inf, -math.inf])


def test_masked_is_the_mixer_it_was_made_of():
    torch.manual_seed(0)
    sparse = SlidingDilated(16, heads=2, chunk=3, missing="drop", biases=True)
    torch.nn.init.normal_(sparse.r)
    x = torch.randn(2, 23, 16)
    for level in range(3):
        told = {"layout": Layout.of(x), "level": Level(level)}
        torch.testing.assert_close(DenselyMasked(sparse)(x, **told)[0], sparse(x, **told)[0])


def test_pairs_counted_one_by_one():
    for length, chunk, level in [(12, 2, 0), (12, 2, 3), (30, 4, 1)]:
        each = [m - j * chunk**level for m in range(length) for j in range(chunk)]
        assert pairs(length, chunk, level) == sum(n >= 0 for n in each)


def test_the_worked_example():
    found = counted(64)
    assert found["counted by the paper"] == pytest.approx(3.11, abs=0.005)
    assert found["counted, whole groups"] == 2
    assert found["counted, pairs that exist"] == pytest.approx(512 * 513 / 2 / (57_408 + 1_280))
    assert counted(10_000)["counted, whole layers"] == pytest.approx(0.5, abs=0.01), "only the maps are left"
    assert counted(1)["counted, whole layers"] == pytest.approx(2.1, abs=0.1), "only the pairs are left"


def test_operations_by_hand():
    T, D, L = 1024, 64, 10
    assert operations("full attention", T, D) == L * (24 * D * D * T + 2 * T * T * D)
    assert operations("dense masked", T, D) == L * (24 * D * D * T + 4 * T * T * D)
    assert operations("every position", T, D) == L * (24 * D * D * T + 8 * T * D)
    nodes = sum(T / 2**l for l in range(L))
    assert operations("last position", T, D) == nodes * (4 * D * D + (20 * D * D + 8 * D) / 2)


def test_an_exponent_is_fitted_to_the_longest():
    times = {n: 1.0 for n in range(1, 10)} | {100 * n: n**1.5 for n in (1, 2, 4, 8)}
    assert exponent(times) == pytest.approx(1.5)


def test_the_last_of_the_rounds_count():
    calls = []
    in_turn({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 2)
    assert calls == ["a", "b"] * 3, "in turn, and one round more than is counted"


def test_only_the_dense_form_is_masked():
    found = {form: {type(mixer) for mixer in net.mixers()} for form, net in networks(SMOKE, 32, CPU).items()}
    assert found["dense masked"] == {DenselyMasked}
    assert found["every position"] == found["last position"] == {SlidingDilated}
    assert len(networks(SMOKE, 32, CPU)["full attention"].depth.layers) == 5


def test_forms_are_left_out_past_their_longest():
    found = seconds_of(SMOKE, True, CPU)
    assert list(found) == list(FORMS)
    assert list(found["dense masked"]) == [16, 32]
    assert list(found["last position"]) == [16, 32, 64]
    assert all(seconds > 0 for times in found.values() for seconds in times.values())


@pytest.mark.parametrize("form", ["dense masked", "last position"])
def test_a_wrong_form_is_not_timed(form):
    text = torch.zeros(1, 32, dtype=torch.long)
    nets = networks(SMOKE, 32, CPU)
    agree(nets, text)
    other = networks(SMOKE, 32, CPU)[form]
    torch.nn.init.normal_(other.get_parameter("head.weight"))
    with pytest.raises(Error, match="disagree at 32 tokens"):
        agree(nets | {form: other}, text)


def test_a_wrong_op_is_not_timed(monkeypatch):
    wrong = lambda q, k, v, r, level: attention(q, k, v, r, 0)  # noqa: E731
    monkeypatch.setattr(attention_cost, "attention", wrong)
    with pytest.raises(Error, match="disagree at level 1"):
        attention_cost.break_even(((16, 2),), 1, CPU)


def test_smoke(tmp_path, capsys):
    call = ["reproduce", attention_cost.__file__, "--scale", "smoke", "--out", str(tmp_path), "--json"]
    assert main(call) == 0
    data = json.loads(capsys.readouterr().out)
    ahead, both, table, crossed = data["panels"]
    assert data["tasks"] == []
    assert list(ahead["data"]["series"]) == list(both["data"]["series"]) == list(table["data"]) == list(FORMS)
    assert table["data"]["every position"]["relative_measured"] == {"forward": 1, "forward + backward": 1}
    drawn = ahead["data"]["series"]["dense masked"]
    assert table["data"]["dense masked"]["seconds"]["forward"] == dict(zip(drawn["x"], drawn["y"], strict=True))[32]
    (column,) = crossed["data"].values()
    assert {name.split(",")[0] for name in column} == {"counted by the paper", "counted", "measured"}
    assert "K < 3.11 L" in (tmp_path / "index.html").read_text().replace("&lt;", "<")
