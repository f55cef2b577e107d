"""A pretrained causal language model, from a folder or the Hugging Face hub; only safetensors and JSON are read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.utils import logging

from ..errors import Error
from ..files import digest_of
from . import folders
from .hugging_face import HuggingFaceClassifier
from .modelling import LengthwiseForCausalLM
from .token_classifier import PresetClassifier, TokenClassifier

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
"""What a name on the hub looks like."""
SUFFIXES = (".json", ".safetensors", ".txt", ".model")
"""The files that make up a checkpoint. Other files beside them are never read."""
DROPOUTS = ("attn_pdrop", "resid_pdrop", "embd_pdrop", "attention_dropout")
"""The fields in which configs of Hugging Face models state their dropout."""


@dataclass(frozen=True)
class Checkpoint:
    name: str
    """The folder or hub name it was found by."""
    folder: Path
    digest: str
    """A digest of all its files' names and contents."""

    def config(self) -> PreTrainedConfig:
        return folders.config_of(self.folder / folders.CONFIG, self.name)

    def model(self) -> PreTrainedModel:
        """The model in fp32, without dropout. `convert.load` gives it with layers replaced."""
        config = self.config()
        # Chain attention has no dropout on its weights, and models compared with it should have none either.
        for dropout in DROPOUTS:
            if hasattr(config, dropout):
                setattr(config, dropout, 0.0)
        folders.check_weights(self.folder, config, self.name)
        try:
            with quiet():
                model, loading = AutoModelForCausalLM.from_pretrained(  # pyright: ignore[reportGeneralTypeIssues]
                    self.folder,
                    config=config,
                    dtype=torch.float32,
                    local_files_only=True,
                    trust_remote_code=False,
                    use_safetensors=True,
                    output_loading_info=True,
                )
        except Exception as error:
            first_line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise Error(f"{self.name}: no causal language model can be read from it: {first_line}") from error
        if missing := sorted(loading["missing_keys"]):
            raise Error(
                f"{self.name}: the checkpoint must hold all weights of {type(model).__name__}, and lacks "
                f"{len(missing)}, {missing[0]} first. Give one that was saved whole."
            )
        return model

    def check(self, tokenizer: Any, block: int, called: str = "block") -> None:
        """Raise unless the model can read blocks of `block` tokens of this tokenizer; `called`: how a call names it."""
        config = self.config()
        rotary = getattr(config, "rope_parameters", None) is not None
        longest = None if rotary else getattr(config, "max_position_embeddings", None)
        if block < 2 or (longest is not None and block > longest):
            allowed = "at least 2" if longest is None else f"in 2..{longest}, the positions of {self.name}"
            raise Error(f"{called} must be {allowed}, got {block}. Use --set {called}=….")
        if len(tokenizer) > config.vocab_size:
            raise Error(
                f"{self.name}: its model knows {config.vocab_size} tokens and its tokenizer {len(tokenizer)}. "
                "They are not of one model: put the right tokenizer there."
            )


def find(name: str) -> Checkpoint:
    """The checkpoint in a folder, or of a name on the hub, which is downloaded once."""
    folder = Path(name).expanduser()
    if not folder.exists():
        folder = _download(name)
    if not (folder / "config.json").is_file():
        raise Error(f"{name}: a checkpoint is a folder with config.json, weights (.safetensors) and tokenizer in it.")
    if not list(folder.glob("*.safetensors")):
        raise Error(f"{name}: there are no weights as .safetensors in it. Save it with model.save_pretrained.")
    return Checkpoint(name, folder, folder_digest(folder))


def as_classifier(model: PreTrainedModel, name: str) -> TokenClassifier:
    """The model as a bench sees it; `name` is what errors call it."""
    if isinstance(model, LengthwiseForCausalLM):
        return PresetClassifier(model, model.config.outputs, name)
    return HuggingFaceClassifier(model, model.config.vocab_size, name)


def position_rows(model: torch.nn.Module) -> int | None:
    """Returns how many tokens a model of Hugging Face's has a row of positions for; None: it has no such table."""
    longest = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    if not isinstance(model, PreTrainedModel) or not isinstance(longest, int):
        return None
    words = model.get_input_embeddings()
    tables = [part for part in model.modules() if isinstance(part, torch.nn.Embedding) and part is not words]
    # OPT's table begins with two rows that stand for no place.
    return longest if any(table.num_embeddings - longest in (0, 2) for table in tables) else None


def folder_digest(folder: Path) -> str:
    """A digest of the names and contents of all files that are read."""
    whole = hashlib.sha256()
    for file in sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES):
        whole.update(f"{file.name} {digest_of(file)}\n".encode())
    return whole.hexdigest()


@contextmanager
def quiet() -> Iterator[None]:
    """A block in which transformers draws no progress bars of its own."""
    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()


def _download(name: str) -> Path:
    missing = f"{name}: there is no such folder here"
    if not HUB_NAME.fullmatch(name):
        raise Error(f"{missing}. Give a folder as model.save_pretrained writes it, or a name on the Hugging Face hub.")
    from huggingface_hub import snapshot_download

    try:
        patterns = [f"*{suffix}" for suffix in SUFFIXES]
        return Path(snapshot_download(name, allow_patterns=patterns, ignore_patterns=["*/*"]))
    except Exception as error:  # every way in which a network, a hub or a name can fail
        raise Error(
            f"{missing}, and it could not be downloaded from the Hugging Face hub ({type(error).__name__}), which "
            "needs a network. Download it elsewhere and give its folder."
        ) from error
