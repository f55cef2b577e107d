"""Ranks that are threads of this process: what processes exchange by messages, threads leave on one table."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

import torch

from lengthwise.ops import Ranks

X = TypeVar("X")


class ThreadRanks(Ranks):
    def __init__(self, rank: int, table: list, barrier: Barrier):
        self.rank, self.size, self.table, self.barrier = rank, len(table), table, barrier
        self.received = 0

    def _all(self, x: torch.Tensor) -> list[torch.Tensor]:
        self.table[self.rank] = x.detach().clone()
        self.barrier.wait(20)
        found = list(self.table)
        self.barrier.wait(20)
        assert len({each.shape for each in found}) == len({each.dtype for each in found}) == 1
        return found

    def gather(self, x):
        self._note(x)
        return torch.stack(self._all(x))

    def scatter_sum(self, x):
        self._note(x[0])
        return torch.stack(self._all(x)).sum(0)[self.rank]

    def exchange(self, sent, like):
        self.table[self.rank] = sent
        self.barrier.wait(20)
        came = [self.table[peer][self.rank].clone() for peer in range(self.size)]
        self.barrier.wait(20)
        assert [x.shape for x in came] == [x.shape for x in like]
        self.received += sum(x.numel() * x.element_size() for x in came)
        return came

    def add(self, x):
        return torch.stack(self._all(x)).sum(0)


def in_threads(size: int, work: Callable[[Ranks], X]) -> list[X]:
    """What `work` gives on every rank."""
    table, barrier = [None] * size, Barrier(size)

    def one(rank: int) -> X:
        try:
            return work(ThreadRanks(rank, table, barrier))
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        waiting = [pool.submit(one, rank) for rank in range(size)]
        errors = [w.exception() for w in waiting]
    # The others break off when one fails; its own error is the one to see.
    for error in sorted((e for e in errors if e), key=lambda e: type(e).__name__ == "BrokenBarrierError"):
        raise error
    return [w.result() for w in waiting]
