"""How models are listened to: where they are, without dropout, every token for itself, and left as they were."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import Tensor
from torch.utils.hooks import RemovableHandle

from ..models import TokenClassifier
from ..models.token_classifier import equal_tokens


def beside(classifier: TokenClassifier, tokens: Tensor) -> Tensor:
    """The tokens on the device of the model, which may be a GPU; test strings are made on the CPU."""
    first = next(classifier.parameters(), None)
    return tokens if first is None else tokens.to(first.device)


@contextmanager
def listening(classifier: TokenClassifier, hooks: Iterable[RemovableHandle] = ()) -> Iterator[None]:
    """Within the block the classifier is in evaluation mode, and every token is computed for itself; then `hooks` go.

    Of equal tokens that are computed once there are fewer nodes than tokens to look at, and the gradients of all of
    them arrive at one.
    """
    training, hooks = classifier.training, list(hooks)
    try:
        with equal_tokens(classifier.eval(), reused=False):
            yield
            for hook in hooks:
                hook.remove()
    finally:
        classifier.train(training)
        for hook in hooks:
            hook.remove()
