"""One model in pieces: every device holds a part of each weight, gradient and average of the optimiser (FSDP2).

torch's `fully_shard` gathers the weights of a layer when it runs and adds up the gradients of each part of a batch. A
depth that runs its layers again and again is gathered once for the whole pass, since how often it runs them depends on
the strings. `state.model` stays the model of one process: the leader has it in the CPU's memory, and fills it to
validate and at the end.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, distribute_tensor

from ..errors import Error
from ..files import Tensors
from ..models.depth import Fixed
from .directory import SavedState
from .distributed import Distributed
from .shards import Shards, read_pieces, write_pieces
from .state import TrainState, check_alike, make_optimizer, weights
from .team import Team


class Sharded(Distributed):
    """The strategy `fsdp`. Its checkpoints are written in pieces, and read by any number of processes."""

    def __init__(self, team: Team):
        super().__init__(team)
        self.mesh = init_device_mesh(self.device.type, (team.size,))
        self._pieces: WeakKeyDictionary[TrainState, nn.Module] = WeakKeyDictionary()
        self._statistics: WeakKeyDictionary[TrainState, list[Tensor]] = WeakKeyDictionary()

    def spread(self, state: TrainState) -> None:
        from torch.distributed.fsdp import fully_shard

        if state.training.checkpointing.go_back is not None:
            raise Error("training.go_back needs all weights in one process. Use the strategy ddp, or leave it out.")
        if state.training.optimizer.kind == "muon":
            raise Error("training.optimizer muon needs whole matrices. Use the strategy ddp, or adamw.")
        state.check_memory(self.team.size)
        model = copy.deepcopy(state.model)
        _check(model)
        for layer in _layers(_part(model, state)):
            fully_shard(layer, mesh=self.mesh)
        fully_shard(model, mesh=self.mesh)
        self._pieces[state] = model
        self._statistics[state] = [b for name, b in weights(model).items() if name not in state.parameters]
        state.parameters = dict(model.named_parameters())
        state.optimizer = make_optimizer(state.model, state.parameters, state.training.optimizer)
        state.model.to("cpu" if self.leads else "meta")

    def prepare(self, state: TrainState, core: nn.Module | None = None) -> None:
        super().prepare(state, _part(self._pieces[state], state))
        self._pieces[state].train()

    def clip(self, state: TrainState) -> Tensor:
        norm = super().clip(state)
        with self.collective():
            return norm.full_tensor() if isinstance(norm, DTensor) else norm

    @contextlib.contextmanager
    def whole(self, state: TrainState) -> Iterator[None]:
        with self.collective():
            own = self._weights(state)
            pieces = state.weights()
            for name, tensor in own.items():
                full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
                if self.leads:
                    pieces[name].copy_(full)
        if self.leads:
            state.model.to(self.device)
        try:
            yield
        finally:
            state.model.to("cpu" if self.leads else "meta")

    def collect(self, state: TrainState) -> None:
        with self.whole(state):
            pass
        state.model.to(self.device if self.leads else "meta")
        state.parameters = dict(state.model.named_parameters())
        state.optimizer = make_optimizer(state.model, state.parameters, state.training.optimizer)
        del self._pieces[state]

    def keep(self, state: TrainState) -> bool:
        with self.collective():
            # A gradient may be NaN in one piece alone.
            bad = torch.stack([torch.isnan(_local(tensor)).any() for tensor in self._weights(state).values()]).any()
            if self.team.sum(bad.int()).item():
                return False
        folder = self.led(lambda: None if state.directory is None else str(state.directory.begin_state()))
        if folder is None:
            return False
        saved = self.save(state)
        with self.collective():
            write_pieces(Path(folder), dict(saved.tensors), self.team.control)
        self.led(lambda: state.directory and state.directory.end_state(saved.meta))
        return True

    def save(self, state: TrainState) -> SavedState:
        """This process's pieces; of the best weights the leader has all."""
        if state not in self._pieces:
            return state.saved()
        tensors = {f"model.{name}": tensor for name, tensor in self._weights(state).items()}
        if self.leads:
            tensors |= {f"best.{name}": tensor for name, tensor in state.best_weights.items()}
        return SavedState(tensors | state.averages(), state.rest())

    def load(self, state: TrainState, saved: SavedState) -> None:
        tensors, own = saved.tensors, self._weights(state)
        kinds = tensors.kinds if isinstance(tensors, Shards) else {k: (t.shape, t.dtype) for k, t in tensors.items()}
        check_alike({name: tensor.shape for name, tensor in own.items()}, _group(kinds, "model"))
        places: Tensors = {f"model.{name}": tensor for name, tensor in own.items()}
        for name in _group(kinds, "optimizer"):
            key, parameter = name.split(".", 1)
            places[f"optimizer.{name}"] = state.place_for(
                key, state.parameters[parameter], kinds[f"optimizer.{name}"][1]
            )
        if self.leads:
            for name, size in _group(kinds, "best").items():
                places[f"best.{name}"] = torch.empty(size, dtype=kinds[f"best.{name}"][1])
        with self.collective():
            if isinstance(tensors, Shards):
                read_pieces(tensors.path, places, self.team.control)
            else:
                with torch.no_grad():
                    for name, place in places.items():
                        place.copy_(self._piece(tensors[name], place))
        best = {name.split(".", 1)[1]: tensor for name, tensor in places.items() if name.startswith("best.")}
        state.best_weights = {name: tensor.to(self.device) for name, tensor in best.items()}
        state.go_on(saved.meta)

    def _piece(self, tensor: Tensor, place: Tensor) -> Tensor:
        """Returns the piece of a whole tensor that lies at `place`; every process has read it."""
        if not isinstance(place, DTensor):
            return tensor
        return distribute_tensor(tensor.to(self.device), self.mesh, place.placements, src_data_rank=None)

    def _weights(self, state: TrainState) -> Tensors:
        return weights(_part(self._pieces[state], state))

    def _module(self, state: TrainState) -> nn.Module:
        return self._pieces[state]

    def _forward(self, state: TrainState, call: Callable[..., Any]) -> Callable[..., Any]:
        forward, statistics = super()._forward(state, call), self._statistics[state]

        def same_everywhere(*arguments: Any, **options: Any) -> Any:
            for buffer in statistics:
                # Running statistics are those of the leader's strings, as torch's DDP has it.
                dist.broadcast(buffer, 0)
            with warnings.catch_warnings():
                # That a layer's output may be a view is no fault of whoever reads this.
                warnings.filterwarnings("ignore", "FSDP2-wrapped module", UserWarning)
                return forward(*arguments, **options)

        return same_everywhere


def _part(model: nn.Module, state: TrainState) -> nn.Module:
    """Returns the part of a copy of `state.model` that `state.core` is of the model itself."""
    name = next(name for name, module in state.model.named_modules() if module is state.core)
    return model.get_submodule(name)


def _layers(core: nn.Module) -> list[nn.Module]:
    """The layers that run once in a forward pass, and so can be gathered one by one."""
    if not isinstance(getattr(core, "depth", None), Fixed | None):
        return []
    names = getattr(core, "_no_split_modules", None) or ()
    return [module for module in core.modules() if type(module).__name__ in names]


def _check(model: nn.Module) -> None:
    """Raises where a weight is of a kind that `fully_shard` does not take; give the others a memory of their own."""
    kinds = {parameter.dtype for parameter in model.parameters()}
    scalar = next((name for name, parameter in model.named_parameters() if parameter.dim() == 0), None)
    if scalar or len(kinds) > 1:
        why = f"{scalar} is a single number" if scalar else f"its weights are of {', '.join(sorted(map(str, kinds)))}"
        raise Error(
            f"strategy 'fsdp' parts weights along their first dimension, all of one kind, and {why}. Use 'ddp'."
        )
    for parameter in model.parameters():
        parameter.data = parameter.data.contiguous()


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _group(kinds: Any, name: str) -> dict[str, torch.Size]:
    """The sizes of the tensors of one group of a checkpoint: "model", "best" or "optimizer"."""
    return {each.removeprefix(f"{name}."): size for each, (size, _) in kinds.items() if each.startswith(f"{name}.")}
