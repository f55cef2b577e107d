"""Limits: one message each, raised by the environment; memory is asked for before it is taken."""

from __future__ import annotations

import re

import pytest
import torch

from lengthwise import Error, lab, limits, models, tasks
from lengthwise.automata import from_regex
from lengthwise.errors import OutOfMemory
from lengthwise.train import counting

LIMITS = {name: limit for name, limit in vars(limits).items() if isinstance(limit, limits.Limit)}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_goes_by_its_name_and_says_how_to_raise_it(name, monkeypatch):
    limit = LIMITS[name]
    assert limit.name == name
    limit.check(limit.usual, "who")
    with pytest.raises(Error, match=f"^who: at most .*, got .*{limit.variable}=…"):
        limit.check(limit.usual + 1, "who")
    monkeypatch.setenv(limit.variable, str(limit.usual + 1))
    limit.check(limit.usual + 1, "who")
    monkeypatch.setenv(limit.variable, "many")
    with pytest.raises(Error, match=f"{limit.variable} must be a whole number, got 'many'"):
        limit.check(1, "who")


def test_a_raised_limit_takes_effect(monkeypatch):
    with pytest.raises(Error, match="LENGTHWISE_MAX_REGEX_STATES"):
        from_regex("a{5001}")
    monkeypatch.setenv("LENGTHWISE_MAX_REGEX_STATES", "10")
    assert from_regex("a{5}").num_states == 7
    with pytest.raises(Error, match="at most 10 states"):
        from_regex("(a|b)*a(a|b){3}")


def test_weights_are_counted_before_they_are_made(monkeypatch):
    monkeypatch.setattr(limits, "UNASKED", 0)
    monkeypatch.setattr(limits, "memory_free", lambda device: 100_000)
    made = []
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *a, **k: made.append(1) or empty(*a, **k))
    with pytest.raises(OutOfMemory, match=r"lstm: its weights need at least . MB of memory, .* Build a smaller model"):
        models.build("lstm", vocab_size=2, num_outputs=2, width=256)
    monkeypatch.undo()
    before = torch.random.get_rng_state()
    torch.manual_seed(1)
    one = models.build("lstm", vocab_size=2, num_outputs=2)
    torch.manual_seed(1)
    with limits.within_memory("x", "y"):
        other = models.build("lstm", vocab_size=2, num_outputs=2)
    torch.random.set_rng_state(before)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_transformer_xl_says_what_its_pairs_need(monkeypatch):
    model = models.build("transformer-xl", vocab_size=2, num_outputs=2, width=8, heads=2, layers=1)
    tokens = torch.zeros(3, 20, dtype=torch.long)
    expected = model(tokens)
    monkeypatch.setattr(limits, "UNASKED", 0)
    monkeypatch.setattr(limits, "memory_free", lambda device: 20 * 20 * (8 + 3 * 2 * 4))
    with pytest.raises(OutOfMemory, match=r"transformer-xl: 3 x 20 queries of 20 keys, .* Ask for shorter strings"):
        model(tokens)
    torch.testing.assert_close(model(tokens[:1]), expected[:1])
    # Whoever tests reads fewer strings at a time, and goes on.
    task = tasks.get("parity")
    counted = counting.count_right(model, task, task.test_set(20, 5), device=torch.device("cpu"))
    assert 0 <= counted.right <= 5
    monkeypatch.setattr(limits, "memory_free", lambda device: 10)
    with pytest.raises(OutOfMemory, match="need at least"):
        counting.count_right(model, task, task.test_set(20, 5), device=torch.device("cpu"))


def test_a_step_that_runs_out_of_memory_is_one_line(quick, monkeypatch, tmp_path):
    def fails(*anything):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr("lengthwise.train.strategies.Single.backward", fails)
    [outcome] = lab.run(quick("lstm"), tmp_path, workers=1, device="cpu")
    assert re.fullmatch(r"A step of training.batch=16 at length \d ran out of memory. Lower .*", outcome.error)
    assert outcome.exit_code == 2


def test_one_model_needs_no_list_and_settings_may_be_nested():
    settings = {"training.steps": 3, "lstm.width": 8}
    [expected] = lab.plan("parity", ["lstm"], settings=settings)
    assert lab.plan("parity", "lstm", settings=settings) == [expected]
    assert lab.plan("parity", ["lstm"], settings={"training": {"steps": 3}, "lstm": {"width": 8}}) == [expected]
    assert lab.plan("parity", "lstm", settings="training.steps=3")[0].training.steps == 3
