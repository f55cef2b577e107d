"""A checkpoint of which each process wrote its own pieces, by torch.distributed.checkpoint: a folder of safetensors.

    state/STEP-SERIAL-DIGEST/shard-00001-….safetensors      the pieces of each process, and where in the whole they lie
                             state.json                     the JSON-like rest, and the digest of every other file

Tensors have the names they have in the checkpoint of one process. So each is read whole (`Shards` is a mapping like any
other), or in the pieces that another number of processes needs (`read_pieces`). No pickle is written or read.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import RecordError
from ..files import Tensors

REST = "state.json"


class Shards(Mapping[str, Tensor]):
    """The tensors of such a folder, all of which are read when one is asked for."""

    def __init__(self, path: Path):
        self.path = path

    @cached_property
    def kinds(self) -> Mapping[str, tuple[torch.Size, torch.dtype]]:
        """The size and the number format of every tensor."""
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

        entries = HuggingFaceStorageReader(str(self.path)).read_metadata().state_dict_metadata
        return {name: (each.size, each.properties.dtype) for name, each in entries.items()}  # pyright: ignore[reportAttributeAccessIssue]

    @cached_property
    def _tensors(self) -> Tensors:
        tensors = {name: torch.empty(size, dtype=dtype) for name, (size, dtype) in self.kinds.items()}
        read_pieces(self.path, tensors)
        return tensors

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.kinds)

    def __len__(self) -> int:
        return len(self.kinds)


def write_pieces(path: Path, tensors: Tensors, group: Any) -> None:
    """Writes this process's pieces; all processes of `group` call it."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    writer = HuggingFaceStorageWriter(str(path), save_distributed=True)
    save(dict(tensors), storage_writer=writer, process_group=group)


def read_pieces(path: Path, tensors: Tensors, group: Any = None) -> None:
    """Fill `tensors`, whole or in pieces; all processes of `group` call it, or this one alone."""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    with warnings.catch_warnings():
        # That a single process reads is meant so.
        warnings.filterwarnings("ignore", "torch.distributed is", UserWarning)
        try:
            reader = HuggingFaceStorageReader(str(path))
            load(dict(tensors), storage_reader=reader, process_group=group, no_dist=group is None)
        except CheckpointException as error:
            raise RecordError(
                f"{path}: its tensors are not those of this model. Was the model's code changed since? Delete the run "
                "to train it again."
            ) from error
