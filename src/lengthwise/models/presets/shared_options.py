"""Options that several presets have, each with its bounds and its one sentence."""

from __future__ import annotations

from typing import Annotated, Literal

from ...options import at_least

Width = Annotated[int, at_least(1), "How many numbers a token becomes."]
Heads = Annotated[int, at_least(1), "How many attention heads share the width, which they must divide."]
Layers = Annotated[int, at_least(1), "How many layers there are."]
Expansion = Annotated[int, at_least(1), "How many times as wide as the model the hidden layer of its networks is."]
Dropout = Annotated[
    float, at_least(0, below=1), "The share of the embeddings and sublayers' outputs that training drops."
]
Norm = Annotated[Literal["pre", "post"], "Whether a sublayer is normalised before it or after its sum."]
Activation = Annotated[Literal["gelu", "relu"], "The nonlinearity of the feed-forward networks."]
MaxLength = Annotated[
    int,
    at_least(1),
    "How many positions have a vector of their own, where they are learned; all beyond share the last.",
]
InitializerRange = Annotated[
    float | None,
    at_least(0),
    "The standard deviation that weights begin with; None: 1/sqrt(fan-in), with embeddings of unit variance.",
]
Initialisation = Annotated[
    Literal["lengthwise", "official"], "Whose weights training starts from: this library's, or the released code's."
]
LogScale = Annotated[
    int | None,
    at_least(2),
    "Logits grow with the logarithm of the number of keys, and are at first as without it at so many, such as half the "
    "training length; None: they do not grow.",
]
QKNorm = Annotated[bool, "Whether queries and keys are normalised before they are compared, each head by itself."]
Tied = Annotated[bool, "Whether the head reads logits off the embeddings; needs as many outputs as tokens."]
