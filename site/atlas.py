"""The atlas of encodings and mixers, from their registries; and vectors with which another library can check its own.

    python site/atlas.py        # writes site/vectors anew

A file of `site/vectors` has small inputs, weights and outputs in double precision, as nested lists. Weights and inputs
are multiples of 2^-10, so that they are the same numbers everywhere.

    positions/NAME.json    ids (T), tokens (T), q and k (H,T,d) -> logits (H,T,T), null where a key comes after its
                           query; added (T,D), what is added to the embeddings
    mixers/NAME.json       x (T,D), weights by name -> y (T,D)
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lengthwise import mixers, models, positions
from lengthwise.positions import DenseBias, DistanceBias, KeyBias, Layout

HERE = Path(__file__).parent
VECTORS = HERE / "vectors"
D, H, T = 4, 2, 6
GRID = 1024
LEARNED = {"name": "learned", "rows": 4}
POSITIONS: dict[str, dict[str, Any]] = {
    "learned": {"rows": 4},
    "bilevel": {"inside": LEARNED, "between": {"name": "rope"}, "ends": [0]},
    "multilevel": {"levels": [LEARNED, {"name": "rope"}], "level_ends": [[0]]},
    "coupled": {"of": LEARNED, "ends": [2], "back": [0]},
    "randomized": {"of": {"name": "rope"}, "longest": 160},
    "accumulated": {"rows": 4},
}
"""What an encoding must be told."""
MIXERS: dict[str, dict[str, Any]] = {
    "sliding-dilated": {"shared_pad": False},
    "block-lrnn": {"block": 2},
    **{name: {"state": 4} for name in ("s4", "s4d", "liquid-s4", "lru", "diagonal-lrnn")},
}
NEXT = "\n"
COST = {
    type(None): "no more than attention without positions",
    KeyBias: "a number for each key and head, no matrix",
    DistanceBias: "a matrix of all pairs, read off a table of distances",
    DenseBias: "a matrix of all pairs",
}


def position(name: str, width: int = 2 * D, heads: int = H) -> positions.Position:
    torch.manual_seed(0)
    made = positions.get(name, width=width, heads=heads, **POSITIONS.get(name, {})).double().eval()
    return _on_grid(made)


def mixer(name: str, width: int = D) -> mixers.Mixer:
    torch.manual_seed(0)
    config: Any = models.presets.hybrid(5, mixers=[name], layers=1, heads=H, width=width)
    options = {key: value for key, value in config.mixer[0].items() if key != "name"} | MIXERS.get(name, {})
    return _on_grid(mixers.get(name, width=width, **options).double().eval())


def _on_grid(module: Any) -> Any:
    with torch.no_grad():
        for tensor in [*module.parameters(), *(b for b in module.buffers() if b.is_floating_point())]:
            tensor.copy_(_grid(tensor))
    return module


def _grid(x: Tensor) -> Tensor:
    return (x * GRID).round() / GRID


def logits(made: positions.Position, q: Tensor, k: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor | None, Any]:
    """The logits (H,T,T) of these queries and keys (H,T,d), what is added to the embeddings, and the kind of bias."""
    length = q.shape[1]
    places, _ = made.place(tokens[None], Layout(torch.arange(length)[None]))
    score = made.score(q[None], places, places)
    turned, keys = made.rotate_queries(q[None], places), made.rotate(k[None], places)
    if score.scale is not None:
        turned = turned * score.scale[:, None, :, None]
    bias = positions.added(score.bias, made.pairs(turned, keys, places, places) if made.at_pairs else None)
    product = turned @ keys.mT * q.shape[-1] ** -0.5
    added = made.embed(places)
    return (product if bias is None else product + bias.dense())[0], None if added is None else added[0], type(bias)


def position_vectors(name: str) -> dict[str, Any]:
    made = position(name)
    with torch.no_grad():
        for weight in made.parameters():
            if not weight.any():  # as it begins; another library is to be checked with weights that do something
                weight.copy_(_grid(torch.randn_like(weight)))
    q, k = _grid(torch.randn(2, H, T, D, dtype=torch.float64))
    tokens = torch.tensor([1, 2, 0, 3, 0, 1])
    found, added, _ = logits(made, q, k, tokens)
    after = torch.ones(T, T).triu(1).bool()
    hidden = [[[None if after[t, s] else found[h, t, s].item() for s in range(T)] for t in range(T)] for h in range(H)]
    outputs = {"logits": hidden} | ({} if added is None else {"added": added.tolist()})
    inputs = {"ids": [*range(T)], "tokens": tokens.tolist(), "q": q.tolist(), "k": k.tolist()}
    about = {
        "schema": 1,
        "kind": "position",
        "name": name,
        "heads": H,
        "width": 2 * D,
        "options": POSITIONS.get(name, {}),
    }
    return {**about, "inputs": inputs, "weights": _weights(made), "outputs": outputs}


def mixer_vectors(name: str) -> dict[str, Any]:
    made = mixer(name)
    x = _grid(torch.randn(1, T, D, dtype=torch.float64))
    with torch.no_grad():
        y = made(x, layout=Layout.of(x))[0][0]
    about = {"schema": 1, "kind": "mixer", "name": name, "heads": made.traits.heads, "width": D}
    return {**about, "inputs": {"x": x[0].tolist()}, "weights": _weights(made), "outputs": {"y": y.tolist()}}


def _weights(module: Any) -> dict[str, Any]:
    return {name: tensor.tolist() for name, tensor in module.state_dict().items()}


def vectors() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every file of vectors, by its path below `site/vectors`."""
    yield from ((f"positions/{name}.json", position_vectors(name)) for name in positions.POSITIONS)
    yield from ((f"mixers/{name}.json", mixer_vectors(name)) for name in mixers.MIXERS)


def curve_of_position(name: str, length: int = 129) -> tuple[list[list[float]], Any]:
    """By head the logit of two equal vectors n apart, less that of none apart; of an encoding that is added, the
    likeness of two places n apart. And the kind of its bias."""
    made = position(name, width=64)
    same = torch.ones(H, length, 32, dtype=torch.float64)
    with torch.no_grad():
        found, added, kind = logits(made, same, same, torch.arange(length) % 4)
    if added is not None and not made.at_attention:
        unit = torch.nn.functional.normalize(added, dim=-1)
        return [(unit @ unit[-1]).flip(0).tolist()], kind
    last = found[:, -1].flip(1)
    return (last - last[:, :1]).clamp(min=-12).tolist(), kind


def curve_of_mixer(name: str, length: int = 65) -> list[list[float]]:
    """How much a token n back moves the output as training begins: the logarithm of its share."""
    torch.manual_seed(0)
    made = mixer(name, width=16)
    x = torch.randn(1, length, 16, dtype=torch.float64, requires_grad=True)
    y = made(x, layout=Layout.of(x))[0][0, -1]
    moved = (
        torch.stack([torch.autograd.grad(each, x, retain_graph=True)[0][0] for each in y]).square().sum((0, 2)).sqrt()
    )
    return [(moved / moved.sum()).flip(0).clamp(min=1e-8).log10().tolist()]


def drawn(curves: list[list[float]], label: str) -> str:
    """Curves over distance as a small picture, in the colour of the text around it."""
    width, height, low, high = 240, 80, min(map(min, curves)), max(map(max, curves))
    spread = (high - low) or 1.0

    def points(ys: list[float]) -> str:
        step = width / (len(ys) - 1)
        return " ".join(f"{i * step:.1f},{4 + (height - 8) * (high - y) / spread:.1f}" for i, y in enumerate(ys))

    lines = "".join(
        f'<polyline points="{points(ys)}" fill="none" stroke="currentColor" stroke-opacity="{1 - 0.4 * i:.1f}"/>'
        for i, ys in enumerate(curves)
    )
    ends = f"{label}: {high:.3g} at the top, {low:.3g} at the bottom, over {len(curves[0]) - 1} tokens"
    return (
        f'<svg role="img" aria-label="{ends}" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f"<title>{ends}</title>{lines}</svg>"
    )


def page(prose: Callable[[str], str]) -> str:
    """The page of the site; `prose` makes Markdown of a docstring."""
    return f"""# Atlas

Every encoding of positions and every mixer, from its registry: the formula as its module says it, a curve, what it
costs and how far it reaches. The vectors are inputs, weights and outputs in double precision, as JSON, with which
another library can check its own. `site/atlas.py` says what is in them, and a test holds them to the code.

## Encodings of positions

A curve is the logit of two equal vectors n tokens apart, by head, less that of none apart; of encodings that are added
to the embeddings, the likeness of two places n apart.

{NEXT.join(_entries(positions.POSITIONS, "positions", _position, prose))}
## Mixers

A curve says how much a token n back moves the last output as training begins, as the logarithm of its share.

{NEXT.join(_entries(mixers.MIXERS, "mixers", _mixer, prose))}"""


def _entries(
    registry: dict[str, Any], kind: str, entry: Callable[[str], str], prose: Callable[[str], str]
) -> Iterator[str]:
    told = set()
    for name, made in registry.items():
        yield f"### `{name}`\n"
        module = inspect.getmodule(getattr(made, "func", made))
        assert module is not None
        assert module.__doc__ is not None
        source = module.__name__.replace(".", "/")
        if module.__name__ not in told:
            told.add(module.__name__)
            yield prose(inspect.cleandoc(module.__doc__)) + "\n"
        yield entry(name) + "\n"
        vector = f'<a href="vectors/{kind}/{name}.json">vectors</a>'
        yield f"{vector} · `lengthwise list {name}` · `src/{source}.py`\n"


def _position(name: str) -> str:
    curves, kind = curve_of_position(name)
    made = position(name)
    reach = "any length" if made.longest is None else f"{made.longest} places, beyond which tokens share the last"
    reach = reach if made.at_most is None else f"texts of at most {made.at_most} tokens"
    cached = "" if made.uncached is None else "; nothing is cached while decoding"
    return f"{drawn(curves, name)}\n\nCost: {COST[kind]}. Reach, as drawn: {reach}{cached}."


def _mixer(name: str) -> str:
    keys = mixer(name).traits.keeps_keys
    kept = "every earlier key and value" if keys else "a state of fixed size"
    return f"{drawn(curve_of_mixer(name), name)}\n\nWhile decoding it keeps {kept}."


def main() -> int:
    for path, content in vectors():
        file = VECTORS / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
