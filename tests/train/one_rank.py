"""One process of a group over gloo: `python one_rank.py RANK SIZE FILE` compares its pieces with the whole sequence.

FILE is where the processes find each other. Whatever differs is an AssertionError, and the process ends with 1.
"""

import sys
from copy import deepcopy
from itertools import accumulate

import torch
import torch.distributed as dist
import torch.nn.functional as F

from lengthwise import models
from lengthwise.ops import Ranks, block_scan, diagonal_scan
from lengthwise.train import sequence_parallel

PIECES = {
    2: [(1, 0), (0, 1), (1, 1), (2, 0), (4, 3), (13, 16), (64, 37)],
    3: [(1, 1, 1), (5, 0, 6), (0, 16, 31)],
}
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def own_part(pieces, rank):
    end = list(accumulate(pieces))[rank]
    return slice(end - pieces[rank], end)


def summed(x):
    x = x.clone()
    dist.all_reduce(x)
    return x


def scans(ranks, pieces):
    """Values, and the gradients of transitions, inputs and the initial state."""
    draw, T, cut = torch.Generator().manual_seed(0), sum(pieces), own_part(pieces, ranks.rank)
    A, a = torch.randn(2, T, 2, 3, 3, generator=draw).double() / 2, torch.randn(2, T, 4, generator=draw).double()
    v, w = torch.randn(2, T, 2, 3, generator=draw).double(), torch.randn(2, T, 4, generator=draw).double()
    blocks = (lambda A, v, s, **o: block_scan(A, v, s, **o)[0], A, v, v[:, 0])
    entries = (diagonal_scan, torch.complex(a, w) / 2, torch.complex(w, a), torch.complex(a, a)[:, 0])
    for scan, *inputs in (blocks, entries):
        whole, own = ([x.clone().requires_grad_() for x in inputs] for _ in range(2))
        states = scan(*whole)
        g = torch.randn(states.shape, generator=draw, dtype=states.dtype)
        (states * g).real.sum().backward()
        part = scan(own[0][:, cut], own[1][:, cut], own[2], ranks=ranks)
        (part * g[:, cut]).real.sum().backward()
        torch.testing.assert_close(part, states[:, cut], **CLOSE)
        for x, y in zip(own, whole, strict=True):
            found = torch.zeros_like(y) if x.grad is None else x.grad
            torch.testing.assert_close(summed(found), y.grad, **CLOSE)


def model(name, last, pieces, **options):
    """Loss, logits and the gradients of all weights."""
    torch.manual_seed(1)
    whole = models.build(name, vocab_size=5, num_outputs=4, width=8, **options).double()
    tokens, wanted = (torch.randint(0, n, (2, sum(pieces))) for n in (5, 4))
    split = deepcopy(whole)

    def loss(model, tokens, wanted, total):
        logits = model(tokens, last=last)
        if last:
            return F.cross_entropy(logits[:, -1], wanted[:, -1]), logits
        return total(F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="sum")), logits

    one, logits = loss(whole, tokens, wanted, lambda x: x)
    one.backward()
    with sequence_parallel(split) as ranks:
        cut = own_part(pieces, ranks.rank)
        mine, own_logits = loss(split, tokens[:, cut], wanted if last else wanted[:, cut], ranks.total)
        mine.backward()
        ranks.add_gradients(split.parameters())
    torch.testing.assert_close(mine, one, **CLOSE)
    torch.testing.assert_close(own_logits, logits if last else logits[:, cut], **CLOSE)
    for (name, p), q in zip(whole.named_parameters(), split.parameters(), strict=True):
        torch.testing.assert_close(q.grad, p.grad, msg=lambda said, name=name: f"{name}: {said}", **CLOSE)


def main(rank: int, size: int, file: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=size)
    for pieces in PIECES[size]:
        scans(Ranks(), pieces)
        model("block-lrnn", False, pieces, layers=2, block=4)
        model("block-lrnn", True, pieces, layers=2, block=4)
        for chunk in (2, 3):
            model("regular-gpt", True, pieces, heads=2, chunk=chunk)
            model("regular-gpt", True, pieces, heads=2, chunk=chunk, thickness=2)
            model("regular-gpt", False, pieces, heads=2, chunk=chunk, thickness=2)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
