"""The one shell: embedding and positions, and a depth policy over layers. The config says which.

    x = norm(depth(embedding_scale * E[tokens] + P[positions]))

Shapes: B batch, T tokens, D model width, V words of the vocabulary.
"""

from __future__ import annotations

from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.modules.dropout import _DropoutNd
from transformers import PreTrainedModel

from .. import mixers, positions
from ..errors import Error, ShapeError
from ..mixers import Layout, Level
from ..ops import Ranks
from ..positions import Placed
from .assembly import make_depth, make_position
from .cache import LengthwiseCache
from .config import LengthwiseConfig
from .equal_subtrees import EqualTokens
from .inputs import check_cache_position, layout_of_piece, read_layout
from .layers import make_norm
from .padded_rows import last_real


class LengthwisePreTrainedModel(PreTrainedModel):
    """Everything but the head."""

    config_class = LengthwiseConfig
    base_model_prefix = ""
    main_input_name = "input_ids"
    _input_embed_layer = "embedding"
    supports_gradient_checkpointing = True
    _no_split_modules = ["Layer"]  # noqa: RUF012
    _supports_sdpa = True
    reuses_equal_tokens = False
    """Whether what equal tokens share is computed once: set by `reuse_equal_tokens`."""

    ranks: Ranks | None = None
    """Among whom each sequence is divided: set by `split_over`."""

    def __init__(self, config: LengthwiseConfig):
        super().__init__(config)
        width = config.width
        if width < 1:
            raise Error(f"width must be at least 1, got {width}.")
        self.embedding = nn.Embedding(config.vocab_size, width)
        position = make_position(config, heads=config.heads)
        self.position = positions.NoPosition(config.width, 1) if position.in_each_layer else position
        # It names the ids without weights; in a tuple, and so no part of the module tree.
        self._placer = (position,)
        self.depth = make_depth(config)
        self.places_for_mixers = position.at_attention or any(m.traits.reads_segments for m in self.mixers())
        shared = any(m.traits.shares_pad for m in self.mixers()) or self.depth.pad_tokens
        self.pad = nn.Parameter(torch.empty(width)) if shared else None
        self.norm = make_norm(config.blocks(1)[-1], width) if config.final_norm else nn.Identity()

    @property
    def uncached(self) -> str | None:
        """Returns why nothing can be kept between the steps of decoding, or None."""
        return self.depth.uncached or self._placer[0].uncached

    def mixers(self) -> list[mixers.Mixer]:
        return [m for m in self.modules() if isinstance(m, mixers.Mixer)]

    def reuse_refusal(self, *, stacked: bool = False) -> str | None:
        """Returns why `reuse_equal_tokens` would be refused now, or None. `stacked`: for torch.func.vmap."""
        if not (self.depth.looks_up or self.depth.shares_subtrees):
            return (
                "nothing in this model is the same for equal tokens: its first mixer looks nothing up, and its depth "
                "is no tree of one sliding-dilated layer a group"
            )
        if self.position.at_input:
            return (
                "positions are added to the embeddings, so equal tokens are no longer equal. Use positions in attention"
            )
        if self._sharded():
            return "its weights are sharded (FSDP2 or tensor parallel), and every rank must compute the same tokens"
        if any(map(_hooked, self._reused())) or torch.nn.modules.module._has_any_global_hook():
            return "a hook on the embedding or the depth must see every token. Remove the hook first"
        if self._draws():
            return "dropout draws anew for every token. Call eval() first, or train without dropout"
        if self.depth.shares_subtrees and stacked:
            return "models stacked by torch.func.vmap cannot look at the tokens to find equal subtrees"
        if self.depth.shares_subtrees and self.embedding.weight.device.type != "cpu":
            return "on an accelerator the look for equal subtrees costs more than it saves"
        return None

    def _reused(self) -> list[nn.Module]:
        """The modules that compute equal tokens once."""
        return [*self.embedding.modules(), *self.depth.modules()]

    def _sharded(self) -> bool:
        return any(isinstance(weight, DTensor) for weight in self.parameters())

    def _draws(self) -> bool:
        """True if dropout, of the model or of something put into it, is active where equal tokens are computed once."""
        if self.training and self.config.dropout:
            return True
        return any(isinstance(m, _DropoutNd) and m.training and m.p > 0 for m in self._reused())

    def reuse_equal_tokens(self, on: bool = True, *, stacked: bool = False) -> None:
        """Compute what equal tokens share once, from now on, or compute every token (`on=False`, the default state).

        Logits and gradients are the same and take less time. Switch it off before you register hooks or shard the
        model: they would meet every different token once. `train()` switches it off where dropout begins to draw.
        """
        if on and (reason := self.reuse_refusal(stacked=stacked)):
            raise Error(f"reuse_equal_tokens: {reason}.")
        self.reuses_equal_tokens = on

    def split_over(self, ranks: Ranks | None) -> None:
        """From now on each of these ranks is given its piece of every sequence; None: whole ones (the default state).

        `train.sequence_parallel` is this for a block of code, with what training needs besides.
        """
        if ranks is not None:
            self._check_divided()
        self.ranks = ranks

    def _check_divided(self) -> None:
        """Raise an `Error` if this model cannot read a sequence that is divided among ranks."""
        able = {name for name, make in mixers.MIXERS.items() if isinstance(make, type) and make.traits.splits}
        specs = self.config.mixer if isinstance(self.config.mixer, list) else [self.config.mixer or {}]
        placer, reason = self._placer[0], self.depth.undivided
        if type(placer).place is not positions.Position.place:
            reason = f"{type(placer).__name__} places tokens by more than their number, and each rank has a piece"
        elif self._sharded():
            reason = "its weights are sharded (FSDP2 or tensor parallel). Give every rank whole ones"
        elif self._draws():
            reason = "dropout would draw on every rank by itself. Call eval() first, or train without dropout"
        elif unable := sorted({spec["name"] for spec in specs} - able):
            reason = (
                f"its {', '.join(unable)} reads all tokens together, or one after another. Build one of "
                f"{', '.join(sorted(able))}"
            )
        if reason:
            raise Error(f"This model cannot read a sequence that is divided among ranks: {reason}.")

    @property
    def is_gradient_checkpointing(self) -> bool:
        """True if layers are run again for the backward pass. PEFT asks by this name, at which transformers warns."""
        return any(getattr(module, "gradient_checkpointing", False) for module in self.modules())

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.reuses_equal_tokens and self._draws():
            self.reuses_equal_tokens = False
        return self

    def _init_weights(self, module: nn.Module) -> None:
        """Every vector enters a map with unit variance and leaves it so; other modules have initialised themselves.

        On PARITY with post-norm, variance 1/fan_in took about two thirds of the steps of 1/(2 fan_in).
        """
        scales, std = self.config.initialisation or {}, self.config.initializer_range
        if module is self and self.pad is not None:
            nn.init.normal_(self.pad, std=scales.get("pad", 1.0))
        elif isinstance(module, mixers.SlidingDilated) and "r" in scales:
            nn.init.normal_(module.r, std=scales["r"])
        elif isinstance(module, mixers.BlockLRNN) and "initial" in scales and module.initial is not None:
            nn.init.normal_(module.initial, std=scales["initial"])
        elif isinstance(module, nn.Embedding):
            std = scales.get("embedding", std)
            # A table of positions has a say of its own, but is added to the embeddings and must not drown them.
            if std is not None or all(module is not part for part in self.position.modules()):
                nn.init.normal_(module.weight, std=1 / self.config.embedding_scale if std is None else std)
        elif isinstance(module, nn.Linear) and scales.get("linear") != "torch":
            std = scales.get("linear", std)
            nn.init.normal_(module.weight, std=module.in_features**-0.5 if std is None else std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def _pass(
        self,
        last: bool,
        input_ids: Tensor | None,
        inputs_embeds: Tensor | None,
        attention_mask: Tensor | None,
        sequence_ids: Tensor | None,
        position_ids: Tensor | None,
        past_key_values: LengthwiseCache | None,
        use_cache: bool | None,
        cache_position: Tensor | None,
        output_hidden_states: bool | None,
        output_attentions: bool | None,
    ) -> tuple[Tensor, Layout, LengthwiseCache | None, tuple[Tensor, ...] | None]:
        """The tokens as the depth leaves them, their layout, the cache, and what layers made, if that is asked for.

        `last`: each row's last real token alone. `LengthwiseForCausalLM.forward` says what the other arguments are.
        """
        if (input_ids is None) == (inputs_embeds is None):
            got = "neither" if input_ids is None else "both"
            raise Error(f"input_ids or inputs_embeds must be given, one of the two, got {got}.")
        tokens = input_ids if inputs_embeds is None else inputs_embeds
        assert tokens is not None
        empty = tokens.shape[1] == 0 and self.ranks is None
        if tokens.dim() != (2 if inputs_embeds is None else 3) or empty:
            name = "input_ids must be (B,T)" if inputs_embeds is None else "inputs_embeds must be (B,T,D)"
            raise ShapeError(f"{name} with T >= 1, got {list(tokens.shape)}.")
        if past_key_values is not None and not isinstance(past_key_values, LengthwiseCache):
            kind = type(past_key_values).__name__
            raise Error(f"past_key_values must be a LengthwiseCache, got {kind}. Leave it out to begin one.")
        if output_attentions or (output_attentions is None and self.config.output_attentions):
            raise Error(
                "output_attentions: this model has no attention weights to give: its mixers never hold them all at "
                "once, or have none. Leave it out; insight.read_attention looks at those of a few tokens."
            )
        noted = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        if noted and self.depth.pad_tokens:
            raise Error(
                "output_hidden_states: with pad_tokens (the official reading of padding) layers see pads among the "
                "tokens, and nothing belongs to one token alone. Leave it out; insight.read_blocks gives the nodes."
            )
        cache = LengthwiseCache() if past_key_values is None and use_cache else past_key_values
        if cache is not None and cache.model_id != id(self):
            if self._placer[0].uncached:
                raise Error(self._placer[0].uncached)
            cache.of(self)
        if cache_position is not None:
            check_cache_position(cache_position, tokens.shape[1], cache)
        if self.ranks is not None:
            whole = {
                "attention_mask": attention_mask,
                "sequence_ids": sequence_ids,
                "position_ids": position_ids,
                "past_key_values": cache,
                "output_hidden_states": noted or None,
            }
            self._check_divided()  # dropout may have been switched on since
            layout = layout_of_piece(self.ranks, tokens, whole)
        elif attention_mask is None and sequence_ids is None and position_ids is None:
            if cache is None or cache.padded:
                layout = Layout.of(tokens) if cache is None else cache.following(tokens)
            else:  # as in `following`, without the call
                B, past, T = len(tokens), cache.length, tokens.shape[1]
                layout = Layout(torch.arange(past, past + T, device=tokens.device).expand(B, -1))
        else:
            layout = read_layout(tokens, attention_mask, sequence_ids, position_ids, cache)
        placer, placed = self._placer[0], None
        if placer.at_input or self.places_for_mixers:
            places, after = placer.place(input_ids, layout, None if cache is None else cache.place_state)
            if cache is not None:
                cache.place_state = after
            placed = Placed(None if placer.in_each_layer else placer, places)

        x = self.embedding(input_ids) if inputs_embeds is None else inputs_embeds
        if self.config.embedding_scale != 1:
            x = x * self.config.embedding_scale
        if placed is not None and placer.at_input:
            p = self.position.embed(placed.places)
            assert p is not None
            x = x + p.to(x.dtype)
        x = F.dropout(x, self.config.dropout, self.training)
        equal = self._equal_tokens(input_ids) if self.reuses_equal_tokens and input_ids is not None else None
        more = cache, equal, placed if self.places_for_mixers else None
        if noted:
            x, made = self._note(x, layout, last, more)
        else:
            x, made = self.depth(x, layout, Level(pad=self.pad), last, *more), None
        return x, layout, cache, made

    def _note(
        self,
        x: Tensor,
        layout: Layout,
        last: bool,
        more: tuple[LengthwiseCache | None, EqualTokens | None, Placed | None],
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Returns what the depth makes of all tokens or, `last`, of each row's last real one, and what layers made."""
        T, made = x.shape[1], [x]
        # A group of adaptive depth that opens late is passed by the tokens of the cache as well.
        hooks = [layer.register_forward_hook(lambda _, _in, y: made.append(y[:, -T:])) for layer in self.depth.layers]
        try:
            x = self.depth(x, layout, Level(pad=self.pad), False, *more)
        finally:
            for hook in hooks:
                hook.remove()
        made[-1] = self.norm(x)
        return last_real(x, layout) if last else x, tuple(made)

    def _equal_tokens(self, input_ids: Tensor) -> EqualTokens | None:
        if not self.depth.looks_up:
            return EqualTokens(input_ids, None)
        V = self.config.vocab_size
        if input_ids.numel() <= V:
            return None  # the table would be more work than the tokens are
        table = self.embedding(torch.arange(V, device=input_ids.device))
        scale = self.config.embedding_scale
        return EqualTokens(input_ids, table if scale == 1 else table * scale)


def _hooked(module: nn.Module) -> bool:
    """True if a hook sees, or changes, what passes a module, forwards or backwards."""
    forwards = module._forward_hooks or module._forward_pre_hooks
    return bool(forwards or module._backward_hooks or module._backward_pre_hooks)
