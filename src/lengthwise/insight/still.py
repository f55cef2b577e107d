"""A model held still while it is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..models import TokenClassifier
from ..models.token_classifier import equal_tokens


@contextmanager
def still(classifier: TokenClassifier) -> Iterator[None]:
    """Within the block there is no dropout, and every token is computed for itself; afterwards all is as it was.

    Of equal tokens that are computed once there are fewer nodes than tokens to look at, and the gradients of all of
    them arrive at one.
    """
    training = classifier.training
    try:
        with equal_tokens(classifier.eval(), reused=False):
            yield
    finally:
        classifier.train(training)
