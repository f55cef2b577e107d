"""Block scan by numba's compiled loops: threads, layouts, what they sum themselves, and when they are chosen."""

import os
import subprocess
import sys

import pytest
import torch

from lengthwise import Error, ops
from lengthwise.ops import block_scan
from lengthwise.ops.block_diagonal import OP, ScanCall, numba

from ..test_block_diagonal import begun, compare, inputs

pytest.importorskip("numba")


@pytest.mark.parametrize("many", [1, 2, 3, 5])
@pytest.mark.parametrize("B", [1, 3, 4])  # blocks are shared, or rows
@pytest.mark.parametrize("V", [None, 4])
@pytest.mark.parametrize("sums", [0, 2**18])
def test_threads_share_the_work(many, B, V, sums, threads, monkeypatch):
    monkeypatch.setattr(numba, "ALONE", 1)
    monkeypatch.setattr(numba, "SUMS", sums)
    T = 21
    leaves = inputs(B, T, 4, 3, V=V)
    index = None if V is None else torch.randint(0, V, (B, T))
    for begins in (None, begun(B, T)):
        given = {"index": index, "begins": begins}
        expected = block_scan(*leaves, **given, backend="reference")
        threads(many)
        compare(block_scan(*leaves, **given, backend="numba"), expected, leaves, 1e-12)
        threads(1)


def test_gradients_of_any_layout():
    A, v, initial = leaves = inputs(3, 20, 2, 4)
    slope = torch.randn(4, 2, 20, 3, dtype=torch.float64).permute(3, 2, 1, 0)
    found, wanted = (
        torch.autograd.grad(block_scan(A, v, initial, backend=name)[0], leaves, slope)
        for name in ("numba", "reference")
    )
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def test_without_gradients_of_the_transitions_none_are_made():
    A, v, _ = inputs(2, 30, 2, 3)
    lam, _, dA = numba.adjoint_of(*(x.detach() for x in (v, A, v[:, 0])), None, None, v.detach(), outer=False)
    assert dA is None
    assert lam.shape == v.shape


def chosen(A, v, index=None, kernel="auto"):
    start = v.new_zeros(len(v if index is None else index), *v.shape[-2:], dtype=torch.float32)
    return OP.choose(ScanCall(A, v, start, None, index), kernel).name


def test_chosen_where_there_is_enough_to_do():
    A, v, _ = (x.detach() for x in inputs(2, 512, 1, 4, torch.float32))
    assert chosen(A, v) == "numba"
    assert chosen(A[:, :511], v[:, :511]) == "torch"
    index = torch.zeros(2, 512, dtype=torch.long)
    assert chosen(A[0, :3], v[0, :3], index) == "numba"
    assert chosen(A.half(), v.half()) == "numba"
    assert chosen(A.to("meta"), v.to("meta")) == "torch"
    # One block for all tokens would be copied to each.
    assert chosen(A[:, :1].expand_as(A), v) == "torch"


def test_what_it_refuses(monkeypatch):
    A, v, _ = (x.detach() for x in inputs(2, 5, 1, 4, torch.float32))
    with pytest.raises(Error, match="spread over many places"):
        block_scan(A[:, :1].expand_as(A), v, backend="numba")
    with pytest.raises(Error, match=r"'numba' cannot run: A is on meta, and .* a CPU. Use 'auto' or 'torch'"):
        chosen(A.to("meta"), v.to("meta"), kernel="numba")
    monkeypatch.setattr(numba, "_importable", lambda: False)
    with pytest.raises(Error, match=r"pip install 'lengthwise\[cpu\]'"):
        block_scan(A, v, backend="numba")
    with pytest.raises(Error, match="no numba kernel"), ops.backend("numba"):
        ops.diagonal_scan(A[:, :, 0, 0], v[:, :, 0])


def test_without_numba_it_runs_all_the_same(monkeypatch):
    monkeypatch.setattr(numba, "_importable", lambda: False)
    monkeypatch.setattr(numba, "states_of", None)
    leaves = inputs(2, 600, 2, 4)
    compare(block_scan(*leaves), block_scan(*leaves, backend="reference"), leaves, 1e-12)


def test_auto_uses_it_and_a_block_of_code_can_ask_for_it(monkeypatch):
    calls, states_of = [], numba.states_of
    monkeypatch.setattr(numba, "states_of", lambda *a: calls.append(1) or states_of(*a))
    A, v, initial = inputs(2, 600, 2, 4)
    block_scan(A, v, initial)
    assert len(calls) == 1
    block_scan(A, v, initial, backend="torch")
    with ops.backend("torch"):
        block_scan(A, v, initial)
    assert len(calls) == 1
    with ops.backend("numba"):
        block_scan(A[:, :5], v[:, :5], initial)
    assert len(calls) == 2


@pytest.mark.slow
def test_where_nothing_can_be_kept_on_disk():
    """Its directory cannot be written to, nor can the user's: it compiles all the same."""
    script = """
import numba.core.caching as caching, torch
caching.CacheImpl._locator_classes = []
from lengthwise.ops import block_scan
A, v = torch.full((1, 3, 1, 1, 1), 2.0), torch.ones(1, 3, 1, 1)
print(block_scan(A, v, backend="numba")[0].flatten().tolist())
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[1.0, 3.0, 7.0]"


def test_a_disk_that_is_full_keeps_nothing_and_loses_nothing(monkeypatch, threads):
    monkeypatch.setattr(numba, "ALONE", 1)
    loops, called = numba._loops(3, torch.float64), []

    def forward(*given):
        called.append(1)
        if len(called) <= 2:
            raise OSError("no space left on device")
        loops.forward(*given)

    monkeypatch.setattr(numba, "_loops", lambda *_: loops._replace(forward=forward))
    A, v, initial = (x.detach() for x in inputs(2, 30))
    threads(1)
    with pytest.raises(OSError, match="no space"):  # twice: then it is not the disk that should keep the loops
        block_scan(A, v, initial, backend="numba")
    called[:] = [1]
    found = block_scan(A, v, initial, backend="numba")
    torch.testing.assert_close(found, block_scan(A, v, initial, backend="reference"))


def test_every_width_and_precision_has_files_of_its_own():
    """Of one file with several entries numba, in two processes at once, can load one for the other."""
    kinds = torch.float32, torch.float64
    found = [loop for b in (2, 3, 9) for kind in kinds for loop in numba._loops(b, kind)]
    assert len({loop.__qualname__ for loop in found}) == 12
    assert numba._loops(9, kinds[0]) is numba._loops(33, kinds[0])


def test_what_fails_in_a_thread_is_raised(monkeypatch, threads):
    monkeypatch.setattr(numba, "ALONE", 1)
    loops = numba._loops(3, torch.float64)

    def forward(*given):
        if given[-4] > 0:  # not the first rows, which the calling thread has
            raise MemoryError("there")
        loops.forward(*given)

    monkeypatch.setattr(numba, "_loops", lambda *_: loops._replace(forward=forward))
    threads(2)
    with pytest.raises(MemoryError, match="there"):
        block_scan(*inputs(4, 30), backend="numba")


def test_with_its_compiler_off_it_is_python():
    script = """
import torch
from lengthwise.ops import block_scan
A, v = torch.full((1, 3, 1, 1, 1), 2.0), torch.ones(1, 3, 1, 1, requires_grad=True)
states = block_scan(A, v, backend="numba")[0]
states.sum().backward()
print(states.flatten().tolist(), v.grad.flatten().tolist())
"""
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=env)
    assert found.stdout.strip() == "[1.0, 3.0, 7.0] [7.0, 3.0, 1.0]"


def test_a_numba_that_cannot_be_imported_is_none(tmp_path):
    (tmp_path / "numba.py").write_text("raise ImportError('needs another NumPy')")
    script = """
import torch
from lengthwise.ops import block_scan
from lengthwise.ops.block_diagonal import numba
assert numba.INSTALLED
states = block_scan(torch.full((1, 5000, 1, 1, 1), 0.5), torch.ones(1, 5000, 1, 1))[0]
print(states[0, -1].item())
"""
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "PYTHONPATH": path}
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=env)
    assert found.stdout.strip() == "2.0"


def test_what_a_trace_and_a_negated_view_get():
    A, v, _ = (x.detach() for x in inputs(2, 600, 2, 4))
    wanted = block_scan(-A, v, backend="reference")[0]
    torch.testing.assert_close(block_scan(torch._neg_view(A), v, backend="numba")[0], wanted)
    traced = torch.jit.trace(lambda A, v: block_scan(A, v)[0], (-A, v), check_trace=False)
    torch.testing.assert_close(traced(-A, v), wanted)
