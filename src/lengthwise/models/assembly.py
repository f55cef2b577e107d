"""A config made into modules: its position encoding, and its layers under the depth policy that runs them."""

from __future__ import annotations

from functools import partial
from typing import Any

from .. import mixers, positions
from ..errors import Error, UnknownName
from ..limits import LAYERS
from ..options import Option
from .config import LengthwiseConfig
from .depth import Adaptive, Fixed
from .discrete_nodes import DiscreteNodes
from .layers import Layer
from .snapped_nodes import SnappedLayer


def make_position(config: LengthwiseConfig, heads: int) -> positions.Position:
    spec = dict(config.position or {})
    return positions.get(_name("position", spec), width=config.width, heads=heads, **spec)


def _name(kind: str, spec: dict[str, Any]) -> str:
    if "name" not in spec:
        raise Error(
            f'{kind} must be a dict with a "name", got {spec}. A preset fills it, such as presets.transformer(2).'
        )
    return spec.pop("name")


def make_depth(config: LengthwiseConfig) -> Fixed | Adaptive:
    """The layers, under the policy that runs them."""
    spec = dict(config.depth or {})
    name = _name("depth", spec)
    needed = {"fixed": ("layers",), "adaptive": ("chunk", "thickness", "by")}
    if name not in needed:
        raise UnknownName("depth", name, needed)
    known = {"pad_tokens", "nodes", "snapped", *needed[name]} if name == "adaptive" else needed[name]
    for option in spec:
        if option not in known:
            raise UnknownName(f"option of depth {name!r}", option, known)
    if missing := [option for option in needed[name] if option not in spec]:
        raise Error(f"depth {name!r} needs {', '.join(missing)}: presets give all its options.")
    if name == "fixed":
        return Fixed(_layers(config, spec["layers"]))
    layers = _layers(config, spec["thickness"], spec.get("snapped"))
    layers[-1].nodes = _nodes(config, spec.get("nodes"))
    chunk = spec["chunk"]
    if isinstance(chunk, list):
        raise Error(f"depth: chunk is one whole number; models that choose among several, {chunk}, are built no more.")
    for layer in layers:
        if layer.mixer.traits.chunk not in (None, chunk):
            raise Error(f"mixer and depth must have one chunk, got {layer.mixer.traits.chunk} and {chunk}.")
    return Adaptive(layers, chunk, spec["by"], spec.get("pad_tokens", False))


def _nodes(config: LengthwiseConfig, spec: dict[str, int] | None) -> DiscreteNodes | None:
    """Returns the module that makes the output of a group discrete; None if it is not."""
    if spec is None:
        return None
    if spec.keys() != {"groups", "codes"}:
        raise Error(f"depth: nodes are discrete by their groups and codes, got {spec}. Leave out nodes otherwise.")
    if config.blocks(1)[-1].kind != "transformer":
        raise Error("depth: discrete nodes are for layers with a feed-forward network. Leave out nodes otherwise.")
    sizes = {key: Option(key, int).read(value, f"depth: nodes.{key}") for key, value in spec.items()}
    return DiscreteNodes(config.width, **sizes)


def _layers(config: LengthwiseConfig, count: int, snapped: dict[str, Any] | None = None) -> list[Layer]:
    LAYERS.check(Option("layers", int).read(count, "depth: layers (of an adaptive depth, thickness)"), "depth")
    if count < 1:
        raise Error(f"depth: layers (of an adaptive depth, thickness) must be at least 1, got {count}.")
    specs = config.mixer if isinstance(config.mixer, list) else [config.mixer or {}] * count
    blocks = config.blocks(count)
    for name, listing in (("mixer", specs), ("block", blocks)):
        if len(listing) != count:
            raise Error(f"{name} lists {len(listing)} for {count} layers; list one for each, or give one for all.")
    make = Layer if snapped is None else partial(SnappedLayer, **_centres(snapped))
    # An encoding acts on mixers that compare queries with keys.
    traits = [getattr(mixers.MIXERS.get(spec.get("name", "")), "traits", None) for spec in specs]
    acts = any(each is not None and each.takes_position for each in traits)
    return [
        make(config.width, _mixer(config, {**spec}, acts), block, config.dropout)
        for spec, block in zip(specs, blocks, strict=True)
    ]


def _centres(spec: dict[str, Any]) -> dict[str, Any]:
    """Returns how many centres nodes are snapped to, and how near they must be."""
    if not isinstance(spec, dict) or spec.keys() != {"centres", "radius"}:
        raise Error(
            f'depth: snapped nodes are {{"centres": N, "radius": R}}, got {spec}. model.snap() makes such a config.'
        )
    kinds = {"centres": int, "radius": float}
    return {key: Option(key, kind).read(spec[key], f"depth: snapped.{key}") for key, kind in kinds.items()}


def _mixer(config: LengthwiseConfig, spec: dict[str, Any], acts: bool) -> mixers.Mixer:
    """`acts`: on some layer's attention an encoding can act. The other layers do without it."""
    name = _name("mixer", spec)
    mixer = mixers.get(name, width=config.width, **spec)
    # Built for every layer even if the model's one serves all: what it draws is a part of what a seed means.
    position = make_position(config, mixer.traits.heads)
    if position.at_attention and not acts:
        why = f": {mixer.traits.knows_order}" if mixer.traits.knows_order else ""
        raise Error(
            f"position {config.position} acts on attention, and mixer {name!r} takes no positions{why}. Use the "
            "position 'none', or 'learned' or 'sinusoidal', which are added to the embeddings."
        )
    if position.at_attention and mixer.traits.takes_position:
        if position.in_each_layer:
            mixer.position = position
        elif mixer.traits.heads != config.heads:
            raise Error(
                f"position {config.position} is shared by the layers, so all must have as many heads, and say how "
                f"many: got {config.heads} and, of mixer {name!r}, {mixer.traits.heads}."
            )
    if mixer.traits.reads_segments and not position.has_segments:
        raise Error(
            f"mixer {name!r} reads where segments begin, and position {config.position} has none. Use the position "
            '"bilevel" or "multilevel".'
        )
    return mixer
