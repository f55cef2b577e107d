"""Any model as the bench sees it: `classifier(tokens, last=False)` -> logits (B, T or 1, S).

Shapes: B batch, T tokens, S outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from ..errors import Error, ForeignError, LengthError, ShapeError
from ..foreign_code import blaming
from .cache import LengthwiseCache
from .modelling import LengthwiseForCausalLM


class TokenClassifier(nn.Module):
    """Wraps a module from (B,T) integers to (B,T,N) logits, N >= S, of which the first S are taken."""

    def __init__(self, inner: nn.Module, num_outputs: int, name: str):
        super().__init__()
        self.inner = inner
        if num_outputs < 1:
            raise ShapeError(f"{name}: num_outputs must be at least 1, got {num_outputs}.")
        self.num_outputs, self.name = num_outputs, name

    def forward(self, tokens: Tensor, last: bool = False, **options: Any) -> Tensor:
        """The logits; `options` are what `logits` of a subclass takes beside these."""
        with self.blamed(tokens):
            try:
                logits = self.logits(tokens, last, **options)
            except IndexError as error:
                if "out of range in self" not in str(error):
                    raise
                raise self._unread(tokens, error) from error
        B, T, S = tokens.shape[0], tokens.shape[1], self.num_outputs
        if not isinstance(logits, Tensor):
            raise ShapeError(f"{self.name}: must return a tensor of logits, got {type(logits).__name__}.")
        if logits.dim() != 3 or logits.shape[0] != B or logits.shape[1] not in ((1, T) if last else (T,)):
            raise ShapeError(f"{self.name}: must return logits (B,T,N) = {[B, T, 'N']}, got {list(logits.shape)}.")
        if logits.shape[2] < S:
            raise ShapeError(f"{self.name}: must return at least {S} logits a position, got {logits.shape[2]}.")
        return logits[:, -1:, :S] if last else logits[..., :S]

    def _unread(self, tokens: Tensor, error: IndexError) -> Error:
        """Returns which table was too short for these tokens: that of the positions, or that of the vocabulary."""
        try:
            self.logits(tokens.reshape(-1, 1), last=False)
        except IndexError:
            return ShapeError(
                f"{self.name}: its vocabulary is too small for token {int(tokens.max())} ({error}). "
                f"It must have at least {int(tokens.max()) + 1} entries."
            )
        return LengthError(
            f"{self.name}: cannot read {tokens.shape[1]} tokens ({error}). Raise the longest length the model "
            "has a position for, or ask for shorter strings."
        )

    def blamed(self, tokens: Tensor) -> AbstractContextManager[None]:
        """A block in which whatever is raised is the fault of code from outside this library."""
        return blaming(self.name, f"failed on tokens {list(tokens.shape)}", ForeignError)

    def logits(self, tokens: Tensor, last: bool) -> Tensor:
        """All the model has to say, at every position or, if it knows a shorter way, at the last alone."""
        return self.inner(tokens)

    @property
    def reuses_equal_tokens(self) -> bool:
        return isinstance(self.inner, LengthwiseForCausalLM) and self.inner.reuses_equal_tokens

    def reuse_refusal(self, *, stacked: bool = False) -> str | None:
        """Returns why `reuse_equal_tokens` would be refused now, or None. `stacked`: for torch.func.vmap."""
        if isinstance(self.inner, LengthwiseForCausalLM):
            return self.inner.reuse_refusal(stacked=stacked)
        return "a model from outside this library computes every token"

    def reuse_equal_tokens(self, on: bool = True, *, stacked: bool = False) -> None:
        """Compute what equal tokens share once: see `LengthwiseForCausalLM.reuse_equal_tokens`."""
        if isinstance(self.inner, LengthwiseForCausalLM):
            self.inner.reuse_equal_tokens(on, stacked=stacked)
        elif on:
            raise Error(f"{self.name}: reuse_equal_tokens: {self.reuse_refusal(stacked=stacked)}.")

    @cached_property
    def stackable(self) -> bool:
        """True if torch.func.vmap can run it over stacked parameters: found out by trying."""
        return _stacks(self)


class PresetClassifier(TokenClassifier):
    inner: LengthwiseForCausalLM

    def blamed(self, tokens: Tensor) -> AbstractContextManager[None]:
        return nullcontext()

    def logits(self, tokens: Tensor, last: bool, past: LengthwiseCache | None = None) -> Tensor:
        """`past`: the tokens follow those it holds, and are added to it."""
        logits = self.inner(tokens, past_key_values=past, logits_to_keep=1 if last else 0).logits
        assert logits is not None
        return logits

    @cached_property
    def stackable(self) -> bool:
        return all(mixer.traits.stackable for mixer in self.inner.mixers())


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """A block in which a model is in evaluation mode. Afterwards each of its modules is in the mode it was in, and the
    random state is what it was.

    Every function that only looks at a caller's model does so in this block.
    """
    modes = [(module, module.training) for module in model.modules()]
    devices = {weight.device for weight in model.parameters() if weight.device.type == "cuda"}
    with torch.random.fork_rng(devices=list(devices)):
        try:
            model.eval()
            yield
        finally:
            # Not by train(mode), which gives one mode to all of them.
            for module, mode in modes:
                module.training = mode


@contextmanager
def equal_tokens(classifier: nn.Module, *, reused: bool) -> Iterator[None]:
    """Within the block equal tokens are computed once where that is not refused (`reused`), or every one is.

    Afterwards the switch stands where it stood. A module that is no `TokenClassifier` has no such switch.
    """
    if not isinstance(classifier, TokenClassifier):
        yield
        return
    before = classifier.reuses_equal_tokens
    if reused != before and not (reused and classifier.reuse_refusal()):
        classifier.reuse_equal_tokens(reused)
    try:
        yield
    finally:
        if classifier.reuses_equal_tokens != before and not (before and classifier.reuse_refusal()):
            classifier.reuse_equal_tokens(before)


def _stacks(classifier: TokenClassifier) -> bool:
    """Run two members mapped and one by one: no error, no random draw, the same logits."""
    own = dict(classifier.named_parameters())
    stacked = {name: torch.stack([p.detach(), p.detach() * 0.9]) for name, p in own.items()}
    tokens = torch.zeros(1, 3, dtype=torch.long, device=next(iter(own.values())).device) if own else None
    if tokens is None:
        return False
    buffers = {name: b.clone() for name, b in classifier.named_buffers()}

    def run(parameters: dict[str, Tensor]) -> Tensor:
        return functional_call(classifier, (parameters, buffers), (tokens,))

    try:
        with torch.no_grad():
            mapped = vmap(run, randomness="error")(stacked)
            alone = torch.stack([run({name: p[i] for name, p in stacked.items()}) for i in range(2)])
    except Exception:
        # Whatever a foreign model stumbles over under vmap, the answer is the same: it trains alone.
        return False
    unchanged = all(torch.equal(buffers[name], b) for name, b in classifier.named_buffers())
    return unchanged and torch.allclose(mapped, alone, rtol=1e-3, atol=1e-5)
