"""A stack whose layers mix tokens in different ways, such as attention with a recurrence in between.

>>> config = hybrid(vocab_size=100, mixers=["block-lrnn", "softmax"], layers=4, ends=[13, 198])
>>> [mixer["name"] for mixer in config.mixer], config.position["between"]["name"]
(['block-lrnn', 'softmax', 'block-lrnn', 'softmax'], 'rope')

Every layer is LLaMA's around another mixer. What a mixer is told is what its own preset would tell it.
"""

from __future__ import annotations

from typing import Annotated, Any

from ... import mixers as known_mixers
from ...errors import Error, UnknownName, in_words
from ...options import OptionsOf, schema
from ..config import LengthwiseConfig
from .attention import SIZES, PositionName, PositionOptions, encoding, transformer
from .shared_options import Layers, MaxLength

OTHERWISE = {"softmax": "transformer", "forgetting": "fox", "chain": "chacal", "sliding-dilated": "regular-gpt"}
"""The presets of mixers that go by another name. A mixer has its preset's defaults here too."""


def hybrid(
    vocab_size: int,
    num_outputs: int | None = None,
    *,
    mixers: Annotated[
        list[str] | None, "How the layers mix tokens, in turn and again from the first; None: block-lrnn, softmax."
    ] = None,
    mixer_options: Annotated[dict | None, "What mixers are told besides, by their names."] = None,
    ends: Annotated[
        int | list[int] | None,
        "The ids of the tokens that end a segment, or how many tokens a segment has: positions are then BiPE's; None: "
        "there are no segments.",
    ] = None,
    position: Annotated[
        PositionName, "How tokens know where they are; with ends, that of the segments' numbers."
    ] = "rope",
    position_options: PositionOptions = None,
    max_length: MaxLength = 512,
    layers: Layers = 4,
    **shared: Annotated[Any, OptionsOf(transformer, f"{SIZES} initializer_range")],
) -> LengthwiseConfig:
    """Layers that mix tokens in different ways, such as attention with recurrences in between, in LLaMA's block.

    A position that acts on attention acts in the layers that compare queries with keys; at least one must. The n-th
    layer of sliding-dilated attention is dilated by the (n-1)-th power of its chunk, as the groups of RegularGPT are.
    """
    pattern = ["block-lrnn", "softmax"] if mixers is None else mixers
    if not pattern:
        raise Error('hybrid: mixers must name at least one, got none. ["block-lrnn", "softmax"] is a beginning.')
    chosen = [pattern[i % len(pattern)] for i in range(layers)]
    for name in [*chosen, *(mixer_options or {})]:
        if name not in known_mixers.MIXERS:
            raise UnknownName("mixer", name, known_mixers.MIXERS)
    if unused := [name for name in mixer_options or {} if name not in chosen]:
        raise Error(f"hybrid: mixer_options speak of {unused[0]!r}, and no layer is one. Leave it out, or add a layer.")
    config = transformer(vocab_size, num_outputs, layers=layers, block="llama", **shared)
    config.position = encoding(position, position_options, max_length, ends)
    specs = {name: _told(name, config, (mixer_options or {}).get(name, {})) for name in dict.fromkeys(chosen)}
    config.mixer = [_dilated(specs[name], chosen[:i].count(name)) for i, name in enumerate(chosen)]
    return config


def _told(name: str, config: LengthwiseConfig, options: Any) -> dict[str, Any]:
    """A mixer and its options: its preset's, without biases as in LLaMA's block, and those that were given."""
    if not isinstance(options, dict):
        raise Error(f'hybrid: the options of {name!r} are a dict, such as {{"heads": 4}}, got {in_words(options)}.')
    from . import PRESETS  # of which this file's is one

    preset = PRESETS[OTHERWISE.get(name, name)]
    with_heads = {"heads": config.heads} if "heads" in schema(preset) else {}
    mixer = preset(config.vocab_size, width=config.width, **with_heads).mixer
    spec = mixer[-1] if isinstance(mixer, list) else mixer
    assert spec is not None
    plain = {"biases": False} if "biases" in known_mixers.options(name) else {}
    return {**spec, **plain, **options}


def _dilated(spec: dict[str, Any], before: int) -> dict[str, Any]:
    """The spec of a layer that has so many of its kind before it."""
    return {"dilation": before, **spec} if spec["name"] == "sliding-dilated" and before else {**spec}
