"""Limits: one message each, raised by the environment; memory is asked for before it is taken."""

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


def test_a_model_may_take_most_of_what_is_free_and_no_more(monkeypatch):
    taken = []
    monkeypatch.setattr(limits, "UNASKED", 999)
    monkeypatch.setattr(limits, "memory_free", lambda device: 10_000 - sum(taken))

    def fill(tensors: int, numbers: int) -> None:
        with limits.within_memory("x", "y"):
            for _ in range(tensors):
                torch.zeros(numbers)
                taken.append(4 * numbers)

    fill(9, 250)
    taken.clear()
    with pytest.raises(OutOfMemory, match="x: its weights need"):
        fill(11, 250)
    assert sum(taken) == 10_000
    taken.clear()
    with pytest.raises(OutOfMemory):
        fill(1000, 25)  # each alone is too small to be looked at
    assert 8_000 <= sum(taken) <= 10_000


def test_what_is_freed_while_a_model_is_made_counts_no_longer(monkeypatch):
    monkeypatch.setattr(limits, "UNASKED", 0)
    monkeypatch.setattr(limits, "memory_free", lambda device: 10_000)
    with limits.within_memory("x", "y"):
        for _ in range(100):
            torch.zeros(250)


def test_a_tensor_is_compared_with_the_memory_of_its_own_device(monkeypatch):
    monkeypatch.setattr(limits, "UNASKED", 0)
    monkeypatch.setattr(limits, "_kept", lambda device: 0)
    monkeypatch.setattr(limits, "memory_free", lambda device: 10_000 if device.type == "cpu" else 100)
    with limits.within_memory("x", "y"):
        torch.zeros(10**6, device="meta")
        with torch.device("meta"):
            torch.zeros(10**6)
        with torch.device("cpu"):
            torch.zeros(250)
        with pytest.raises(OutOfMemory, match="x: its weights"):
            torch.zeros(250, device="cuda")
        with pytest.raises(OutOfMemory, match="x: its weights"), torch.device("cuda"):
            torch.zeros(250)
    with torch.device("meta"), limits.within_memory("x", "y"):
        torch.zeros(10**6)


def test_blocks_that_torch_keeps_on_a_gpu_are_free(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: asked.append(device) or (1000, 9000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 5000)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 2000)
    monkeypatch.setattr(limits, "UNASKED", 100)
    gpu = torch.device("cuda")
    assert limits.memory_free(gpu) == 4000
    asked.clear()
    limits.need_memory(3000, "x", "y", gpu)
    assert not asked  # what torch keeps is enough, and the GPU need not be asked
    limits.need_memory(4000, "x", "y", gpu)
    with pytest.raises(OutOfMemory):
        limits.need_memory(4001, "x", "y", gpu)


def system(root, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_a_container_has_what_its_groups_leave(monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "ROOT", tmp_path)
    system(tmp_path, {"proc/meminfo": "MemTotal: 90 kB\nMemAvailable: 80 kB\n", "proc/self/cgroup": "0::/\n"})
    assert limits.memory_free() == 80 * 1024
    of = "sys/fs/cgroup/"
    system(tmp_path, {of + "memory.max": "max\n", of + "memory.current": "9\n", of + "memory.stat": "anon 9\n"})
    assert limits.memory_free() == 80 * 1024
    system(tmp_path, {of + "memory.max": "5000\n", of + "memory.current": "3000\n"})
    assert limits.memory_free() == 2000
    system(tmp_path, {of + "memory.stat": "anon 2000\ninactive_file 1000\n"})
    assert limits.memory_free() == 3000
    # The group of the process has no limit of its own, and one around it has.
    system(tmp_path, {"proc/self/cgroup": "0::/a/b\n", of + "memory.max": "max\n", of + "a/b/memory.max": "max\n"})
    system(tmp_path, {of + "a/memory.max": "700\n", of + "a/memory.current": "800\n", of + "a/memory.stat": ""})
    assert limits.memory_free() == 0
    # The first version of control groups.
    of += "memory/"
    system(tmp_path, {"proc/self/cgroup": "7:cpu,cpuacct:/x\n4:memory:/x\n", of + "memory.limit_in_bytes": "5000\n"})
    system(tmp_path, {of + "memory.usage_in_bytes": "4000\n", of + "memory.stat": "total_inactive_file 1\n"})
    assert limits.memory_free() == 1001


def test_memory_of_which_nothing_is_known_is_unlimited(monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "ROOT", tmp_path)
    assert 0 < limits.memory_free() < limits.UNLIMITED
    monkeypatch.delattr("os.sysconf")
    assert limits.memory_free() == limits.memory_free(torch.device("meta")) == limits.UNLIMITED
    limits.need_memory(1 << 50, "x", "y")


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
