"""What a model keeps between the steps of decoding: every mixer's state, for every group of an adaptive depth.

A group of adaptive depth opens when the text first outgrows C^l tokens; all tokens so far then pass it at once, which
over a whole text is as much work again as one group. So a token costs O(K C log T) on average, opening included.

With gradients switched on, what is kept is joined anew at every step, so that a backward pass may go through the cache.

Shapes: B batch, T tokens, S tokens so far, D model width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from ..errors import Error, ShapeError
from ..mixers import KeyValues, Layout, PathState
from ..mixers.growing_keys import Growing, GrowingKeyValues, GrowingTokens
from ..positions import Placed


class LengthwiseCache(Cache):
    """The `past_key_values` of a `LengthwiseForCausalLM`."""

    def __init__(self):
        super().__init__(layers=[])
        self.reset()

    def reset(self) -> None:
        self.states: dict[tuple[int, int], Any] = {}
        self.levels = 0
        """How many groups of adaptive depth are open: all tokens so far have passed each of them."""
        self.length = 0
        """How many tokens there have been, padding included."""
        self.padded = False
        """Whether any of them was padding."""
        self._rows, self._device = -1, torch.device("cpu")
        self._end: Tensor | None = None
        """(B,1): where the last tokens stand, if all of them are real."""
        self.tokens: GrowingTokens | None = None
        """The layout and the places of all tokens so far, where anything reads them again: once for all layers."""
        self.place_state: Any = None
        """What the model's position encoding goes on from."""
        self._top: Growing | None = None
        self.model_id = 0

    def of(self, model: object) -> LengthwiseCache:
        """This cache, for the model that began it: what another one made of the tokens means nothing to it."""
        if self.length and self.model_id != id(model):
            raise Error("past_key_values: was made by another model. Leave it out, and give this one the whole text.")
        self.model_id = id(model)
        return self

    def keep(self, place: tuple[int, int], state: Any) -> None:
        """The state of the mixer at this (group, layer)."""
        if state is None:
            raise Error(
                "A mixer of this model keeps no state, for its tokens read those after them. Use use_cache=False."
            )
        if isinstance(state, KeyValues):
            assert self.tokens is not None
            state = GrowingKeyValues(state, self.tokens)
        elif isinstance(state, PathState) and isinstance(state.keys, KeyValues):
            assert self.tokens is not None
            state = state._replace(keys=GrowingKeyValues(state.keys, self.tokens))
        self.states[place] = state

    @property
    def layout(self) -> Layout:
        """Returns the layout of all tokens so far, where they were kept."""
        assert self.tokens is not None
        return self.tokens.layout

    def placed(self, new: Placed | None) -> Placed | None:
        """As the `new` tokens were placed, all tokens so far."""
        if new is None:
            return None
        assert self.tokens is not None
        assert self.tokens.places is not None
        return Placed(new.position, self.tokens.places)

    @property
    def top(self) -> Tensor:
        """(B,S,D): all tokens so far, as the highest open group left them."""
        assert self._top is not None
        return self._top.value

    @property
    def continues(self) -> bool:
        """True if real tokens can follow these: every row ends in a real one, or there are none yet."""
        return not self.padded or self._end is not None

    def following(self, tokens: Tensor) -> Layout:
        """The layout of further tokens, (B,T) or (B,T,D), all of them real, without a look at the data."""
        B, T = tokens.shape[:2]
        if not self.padded:
            return Layout(torch.arange(self.length, self.length + T, device=tokens.device).expand(B, -1))
        if self._end is None:
            raise Error(
                "attention_mask must go on as it began: a row of the cache ends in padding, so give the mask for the "
                'tokens of the cache and the new ones. To generate, pad on the left: tokenizer.padding_side = "left".'
            )
        if self._rows != B:
            raise self._other_rows(B)
        return Layout(self._end + torch.arange(1, T + 1, device=tokens.device))

    def extend(self, new: Layout, placed: Placed | None, keep: bool) -> None:
        """Note the next tokens, before they pass any group: their layout and places (`keep`), or only their number."""
        if new.sequences is not None:
            raise Error("A cache continues one sequence a row: leave sequence_ids out, or use_cache=False.")
        rows, count = new.positions.shape
        if self.length and rows != self._rows:
            raise self._other_rows(rows)
        self._rows, self._device = rows, new.positions.device
        self.length, self.padded = self.length + count, self.padded or new.real is not None
        whole = new.real is None or (not torch.compiler.is_compiling() and bool(new.real[:, -1].all()))
        self._end = new.positions[:, -1:] if whole else None
        if not keep:
            return
        places = None if placed is None else placed.places
        if self.tokens is None:
            self.tokens = GrowingTokens(new, places)
        else:
            self.tokens.append(new, places)

    def _other_rows(self, rows: int) -> ShapeError:
        return ShapeError(f"past_key_values: has {self._rows} rows, got {rows} of tokens.")

    def close(self, x: Tensor, levels: int) -> None:
        """Note what the highest group made of the new tokens or, where groups were opened, of all."""
        if self._top is None or levels > self.levels:
            self._top = Growing(x)
        else:
            self._top.append(x)
        self.levels = levels

    def _every_state(self) -> list[Any]:
        """The mixers' and the position encoding's: each has `select(rows)` and, if `croppable`, `crop(length)`."""
        return [*self.states.values(), *([] if self.place_state is None else [self.place_state])]

    # What generate() asks of a cache.

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.length

    def get_max_length(self, layer_idx: int | None = None) -> int:
        return -1

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        return self.length + query_length, 0

    @property
    def is_initialized(self) -> bool:
        return self.length > 0

    @property
    def is_croppable(self) -> bool:
        return all(state.croppable for state in self._every_state())

    @property
    def batch_size(self) -> int:
        return self._rows

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep these rows, in this order."""
        if not self.length:
            return
        self._rows, indices = len(indices), indices.to(self._device)
        self._end = None if self._end is None else self._end[indices]
        if self.tokens is not None:
            self.tokens.select(indices)
        self.place_state = None if self.place_state is None else self.place_state.select(indices)
        self._top = None if self._top is None else self._top.select(indices)
        self.states = {key: state.select(indices) for key, state in self.states.items()}

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self.batch_select_indices(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        if self.length:
            self.batch_select_indices(torch.arange(self.batch_size).repeat_interleave(repeats))

    def crop(self, tokens_to_remove: int) -> None:
        """Forget the last -n tokens (n <= 0) or, as older callers ask, all but the first n (n > 0)."""
        n = self.length + tokens_to_remove if tokens_to_remove <= 0 else tokens_to_remove
        if n >= self.length:
            return
        if n <= 0:
            self.reset()
            return
        if not self.is_croppable:
            raise Error("A recurrent state cannot be taken back. Decode without an assistant, or use_cache=False.")
        self._end = None if self._end is None else self._end - (self.length - n)
        self.length = n
        for part in (self.tokens, self._top, *self._every_state()):
            if part is not None:
                part.crop(n)
