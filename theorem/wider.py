"""Teaches a network of `lengthwise compile` further, until bounds such as Coq's decide every choice of its nodes.

    lengthwise compile modular-arithmetic --set task.leading_plus=true --out m
    .venv/bin/python theorem/wider.py m wider modular-arithmetic leading_plus=true
    lengthwise certify wider --task modular-arithmetic --set task.leading_plus=true --out proof.json
    lengthwise certify --check proof.json --model wider --theorem coq

`compile` asks that a choice is right at the nodes as they are. `Balls.v` and `Attention.v` know each number of a
vector up to a radius, and with the width the radii outgrow what lies between two choices. Here a number is a pair (c,
r), and one operation leads from |x - c| <= r to the next as there, with rounding by κ 2^-24 in place of u = 2^-24.
The loss is taken at the wrong end of every ball: c + r for a choice that is wrong, c - r for the right one. κ grows
by 5% while fewer than 0.4% of the conditions are wrong so, to 1.2; and the learning rate falls towards the end.

These bounds steer and prove nothing: they are float32's, and only Coq says what holds. Written for what `compile`
makes: chunk 2, one layer of tree attention with its norm behind it, relu, choices of one linear map.
"""

from __future__ import annotations

import argparse
import math
import shutil
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lengthwise import tasks
from lengthwise.files import read_json
from lengthwise.models import pretrained
from lengthwise.verify.algebra import MachineAlgebra
from lengthwise.verify.claim import claim_of, minimal
from lengthwise.verify.consolidate import compiling
from lengthwise.verify.consolidate.closure import Closure, ClosureNetwork, right_gap
from lengthwise.verify.consolidate.element_codes import structured_codes

U = 2.0**-24
LEAF = 4e-6
"""What a node's vector is off by, as a sum of chosen vectors."""
BEGIN, END, GROWTH, FEW = 0.02, 1.2, 1.05, 0.004
"""Of κ; and the share of wrong conditions below which it grows."""
BATCH, LOOK, SAMPLE, ENOUGH = 256, 50, 2048, 0.3
Ball = tuple[Tensor, Tensor]


def affine(x: Ball, W: Tensor, b: Tensor | None, u: float) -> Ball:
    (c, r), n = x, W.shape[1] + 1
    centre, radius = c @ W.T, (r + (n + 1) * u * (c.abs() + r)) @ W.abs().T
    return (centre, radius) if b is None else (centre + b, radius + (n + 1) * u * b.abs())


def add(x: Ball, y: Ball, u: float) -> Ball:
    return x[0] + y[0], x[1] + y[1] + u * (x[0].abs() + y[0].abs())


def norm(x: Ball, layer: nn.LayerNorm, u: float) -> Ball:
    """As `Norm.v`: an entry's own share of the mean is taken out of what it may be off by."""
    (c, r), n = x, x[0].shape[-1]
    mean = lambda v: v.mean(-1, keepdim=True)  # noqa: E731
    d, off = c - mean(c), r * (1 - 2 / n) + mean(r) + (n + 5) * u * mean(c.abs())
    v, wide = mean(d * d), mean(2 * d.abs() * off) + mean(off * off) + 4 * (n + 9) * u * mean(c * c)
    most, least, rho = ((v - wide).clamp_min(0.02 * v) + 1e-5).rsqrt(), (v + wide + 1e-5).rsqrt(), (v + 1e-5).rsqrt()
    z, far = d * rho, d.abs() * (torch.maximum(most - rho, rho - least) + 32 * u * most) + off * most
    size = layer.weight.abs()
    return z * layer.weight + layer.bias, far * size + 8 * u * (z.abs() * size + layer.bias.abs())


def choices(layer: nn.Module, taps: Tensor, groups: int, u: float) -> Ball:
    """The logits (B,G,K) of what nodes choose that read these vectors (B,2,D), oldest first."""
    B, _, D = taps.shape
    mixer, own = layer.mixer, taps[:, 1]
    H = len(mixer.r)
    heads = lambda x: tuple(part.view(B, H, D // H) for part in x)  # noqa: E731
    vector = lambda j: (taps[:, j], torch.full_like(own, LEAF))  # noqa: E731
    q, k, v = mixer.qkv.weight.split(D)
    (a, ar), scores, values = heads(affine(vector(1), q, None, u)), [], []
    for j, bias in ((1, mixer.r[:, 0]), (0, mixer.r[:, 1])):
        b, br = heads(affine(vector(j), k, None, u))
        root = math.sqrt(D // H)
        off = (ar * (b.abs() + br) + a.abs() * br).sum(-1) / root
        off = off + (D // H + 16) * u * ((a * b).abs().sum(-1) / root + bias.abs())
        scores.append(((a * b).sum(-1) / root + bias, off))
        values.append(heads(affine(vector(j), v, None, u)))
    apart, off = scores[0][0] - scores[1][0], scores[0][1] + scores[1][1]
    share, moved = torch.sigmoid(apart), torch.sigmoid(off - apart.abs()) - torch.sigmoid(-apart.abs())
    share, moved = share[..., None], moved[..., None]
    (x, xr), (y, yr) = values
    mixed = share * x + (1 - share) * y
    off = share * xr + (1 - share) * yr + moved * (x.abs() + xr + y.abs() + yr) + 204 * u * (x.abs() + y.abs())
    out = affine((mixed.flatten(1), off.flatten(1)), mixer.out.weight, None, u)
    hidden = norm(add((own, torch.full_like(own, LEAF)), out, u), layer.mixer_norm, u)
    c, r = affine(hidden, layer.up.weight, layer.up.bias, u)
    up = c.relu(), torch.where(c + r <= 0, torch.zeros_like(r), r)
    node = norm(add(hidden, affine(up, layer.down.weight, layer.down.bias, u), u), layer.feed_norm, u)
    c, r = affine(node, layer.nodes.choose.weight, layer.nodes.choose.bias, u)
    return c.view(B, groups, -1), r.view(B, groups, -1)


def at_worst(x: Ball, right: Tensor) -> Tensor:
    return x[0] + torch.ones_like(x[0]).scatter(-1, right[..., None], -1.0) * x[1]


def teach(network: ClosureNetwork, closure: Closure, seconds: float, lr: float) -> bool:
    """True once every choice is decided, by `ENOUGH`, at κ = 1."""
    layer, codes, results = network.node.layer, network.codes, closure.results
    every, kappa, step = torch.arange(len(closure.taps)), BEGIN, 0
    parameters = list(network.node.model.parameters())
    optimiser, hard = torch.optim.Adam(parameters, lr=lr), every

    @torch.no_grad()
    def gaps(rows: Tensor, u: float) -> Tensor:
        table = network.table()
        bounds = lambda part: choices(layer, table[closure.taps[part]], codes.shape[1], u)  # noqa: E731
        return torch.cat(
            [right_gap(at_worst(bounds(p), codes[results[p]]), codes[results[p]]).amin(-1) for p in rows.split(4096)]
        )

    begun = time.process_time()
    while (share := (time.process_time() - begun) / seconds) < 1:
        optimiser.param_groups[0]["lr"] = lr * (
            1 if share < 0.7 else 0.52 + 0.5 * math.cos(math.pi * (share - 0.7) / 0.3)
        )
        drawn = torch.cat([rows[torch.randint(len(rows), (BATCH // 2,))] for rows in (every, hard)])
        right = codes[results[drawn]]
        found = choices(layer, network.table()[closure.taps[drawn]], codes.shape[1], kappa * U)
        loss = F.cross_entropy(network.answers(closure.asked), closure.right)
        for logits, weight in ((at_worst(found, right), 1.0), (found[0], 0.1)):
            loss = loss + weight * F.cross_entropy(logits.flatten(0, 1), right.flatten(), reduction="sum") / BATCH
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        step += 1
        if step % LOOK == 0:
            wrong = (gaps(every[torch.randperm(len(every))[:SAMPLE]], kappa * U) <= 0).float().mean()
            kappa = min(END, kappa * GROWTH) if wrong < FEW else kappa
        if step % (10 * LOOK) == 0:
            narrow = torch.nonzero(gaps(every, kappa * U) < 0.7)[:, 0]
            hard = narrow if len(narrow) > 64 else every
            left = gaps(every, U)
            print(f"{step} steps, κ {kappa:.3f}: {int((left <= 0).sum())} of {len(every)} undecided", flush=True)
            if left.min() > ENOUGH:
                return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what `lengthwise compile` wrote")
    parser.add_argument("out", type=Path)
    parser.add_argument("task")
    parser.add_argument("options", nargs="*", metavar="NAME=VALUE", help="of the task")
    parser.add_argument("--seconds", type=float, default=1800.0, help="of a core, at most")
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(asked.seed)
    options = {
        name: {"true": True, "false": False}.get(v, int(v) if v.isdigit() else v)
        for name, _, v in (o.partition("=") for o in asked.options)
    }
    model = pretrained.as_classifier(pretrained.find(str(asked.folder)).model(), str(asked.folder)).inner
    claim = minimal(claim_of(tasks.get(asked.task, **options)), lambda: True)
    algebra = MachineAlgebra(claim, 2, math.inf)
    codes = torch.from_numpy(structured_codes(algebra))
    closure = Closure(algebra, codes, algebra.conditions(), batch_size=BATCH)
    done = teach(ClosureNetwork(model.train(False), codes), closure, asked.seconds, asked.lr)
    shutil.rmtree(asked.out, ignore_errors=True)
    compiling.save(model, asked.out, read_json(asked.folder / compiling.FILE))
    if not done:
        raise SystemExit("Not every choice is decided. Give more --seconds.")


if __name__ == "__main__":
    main()
