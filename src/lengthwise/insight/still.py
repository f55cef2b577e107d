"""A model held still while it is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from ..models import LengthwiseForCausalLM, TokenClassifier


@contextmanager
def still(classifier: TokenClassifier) -> Iterator[None]:
    """Within the block there is no dropout, and every token is computed for itself; afterwards all is as it was.

    For one last answer a `LengthwiseForCausalLM` computes equal subtrees once. Then there are fewer nodes than tokens
    to look at, and the gradients of equal tokens arrive at one of them.
    """

    def forget_tokens(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple, dict]:
        # The depth policy knows which tokens are equal by its last argument alone.
        return args[:4], {name: value for name, value in kwargs.items() if name != "tokens"}

    training, inner = classifier.training, classifier.inner
    hooks = []
    if isinstance(inner, LengthwiseForCausalLM):
        hooks.append(inner.depth.register_forward_pre_hook(forget_tokens, with_kwargs=True))
    try:
        classifier.eval()
        yield
    finally:
        classifier.train(training)
        for hook in hooks:
            hook.remove()
