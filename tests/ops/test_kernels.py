"""The registry: which kernel runs a call, the switch for a block of code, and what is refused in which words."""

import time
from dataclasses import FrozenInstanceError, fields, is_dataclass

import pytest
import torch

from lengthwise import Error, ops
from lengthwise.errors import UnknownName
from lengthwise.ops import Kernel, Op, block_diagonal


def too_long(call):
    return "the call has more than 3 tokens" if call > 3 else None


@pytest.fixture
def op():
    """A call is its number of tokens, a result the kernel that gave it."""
    kernels = [
        Kernel("reference", lambda call: ("reference", call)),
        Kernel("triton", lambda call: ("triton", call), too_long, priority=2, worthwhile=lambda call: call > 1),
        Kernel("torch", lambda call: ("torch", call), priority=1),
        Kernel("slow", lambda call: ("slow", call), priority=-1),
    ]
    return Op("some_op", kernels)


def test_auto_takes_the_best_that_supports_the_call_and_is_worthwhile(op):
    assert [kernel.name for kernel in op.kernels] == ["triton", "torch", "reference", "slow"]
    assert [op.run(n) for n in (1, 2, 3, 4)] == [("torch", 1), ("triton", 2), ("triton", 3), ("torch", 4)]


def test_a_kernel_that_is_named_runs(op):
    assert op.run(1, "triton") == ("triton", 1)
    assert op.run(2, "slow") == ("slow", 2)
    assert op.run(2, "reference") == ("reference", 2)


def test_naming_one_that_cannot_run_raises_its_reason(op):
    words = "some_op: kernel 'triton' cannot run: the call has more than 3 tokens. Use 'auto' or 'torch'."
    with pytest.raises(Error) as caught:
        op.run(4, "triton")
    assert str(caught.value) == words
    with pytest.raises(Error, match=r"kernel 'numba' cannot run: this op has no numba kernel. Use 'auto' or 'triton'."):
        op.run(3, "numba")
    with pytest.raises(UnknownName, match="Did you mean 'slow'"):
        op.run(3, "slo")


def test_a_block_of_code_names_a_kernel_for_the_calls_that_name_none(op):
    with ops.backend("reference"):
        assert op.run(2) == ("reference", 2)
        assert op.run(2, "torch") == ("torch", 2)
        with ops.backend("auto"):
            assert op.run(2) == ("triton", 2)
        assert op.run(2) == ("reference", 2)
    assert op.run(2) == ("triton", 2)
    for name, reason in (("triton", "more than 3 tokens"), ("numba", "this op has no numba kernel")):
        with pytest.raises(Error, match=f"{reason}. Name 'torch' in the call, or leave"), ops.backend(name):
            op.run(4)
    with pytest.raises(UnknownName), ops.backend("cuda"):
        pass


def test_where_no_kernel_can_run_each_says_why():
    op = Op("some_op", [Kernel("torch", lambda call: call, too_long)])
    with pytest.raises(Error, match=r"some_op: no kernel can run. 'torch': the call has more than 3 tokens."):
        op.run(4)


def test_a_name_is_taken_once(op):
    for name in ("torch", "auto"):
        with pytest.raises(Error, match=f"some_op: a kernel cannot be named '{name}'"):
            op.register(Kernel(name, lambda call: call))
    op.register(Kernel("better", lambda call: ("better", call), priority=3))
    assert op.run(1) == ("better", 1)


def test_ops_are_listed_by_name():
    assert {"block_scan", "chain_attention", "diagonal_scan", "sliding_dilated_attention"} <= set(ops.OPS)
    for name, op in ops.OPS.items():
        assert name == op.name
        assert {"reference", "torch"} <= {kernel.name for kernel in op.kernels}
        assert all(callable(getattr(ops, name)) for name in ops.OPS)


def test_a_kernel_and_a_call_are_not_changed():
    call = block_diagonal.ScanCall(torch.ones(1, 2, 1, 1, 1), torch.ones(1, 2, 1, 1), torch.zeros(1, 1, 1), None, None)
    for x in (call, block_diagonal.OP.kernels[0]):
        assert is_dataclass(x)
        with pytest.raises(FrozenInstanceError):
            setattr(x, fields(x)[0].name, None)


def test_choosing_costs_microseconds():
    call = block_diagonal.ScanCall(torch.ones(1, 1, 2, 3, 3), torch.ones(1, 1, 2, 3), torch.zeros(1, 2, 3), None, None)

    def seconds(n=2000):
        begin = time.perf_counter()
        for _ in range(n):
            block_diagonal.OP.choose(call)
        return (time.perf_counter() - begin) / n

    assert min(seconds() for _ in range(5)) < 50e-6  # 2 µs on a machine at rest


@pytest.mark.parametrize("name", ["block_scan", "chain_attention"])
def test_the_switch_reaches_the_ops(name):
    x = torch.ones(1, 1, 3, 2, requires_grad=True)

    def node() -> str:
        if name == "block_scan":
            y = ops.block_scan(torch.ones(1, 1, 3, 2, 2), x, backend="auto")[0]
        else:
            y = ops.chain_attention(x, x, x)
        return torch.autograd.graph.get_gradient_edge(y).node.name()

    usual = node()
    with ops.backend("reference"):
        assert node() != usual
    assert node() == usual
