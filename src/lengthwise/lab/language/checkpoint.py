"""A pre-trained causal language model, from a folder or the Hugging Face hub; only safetensors and JSON are read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import logging

from ...convert import to_chain
from ...errors import Error

HUB = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
"""What a name on the hub looks like."""
READ = (".json", ".safetensors", ".txt", ".model")
"""The files a checkpoint is made of; what else lies beside them is never looked at."""
TOKENIZERS = ("tokenizer.json", "vocab.json", "tokenizer.model")
DROPOUTS = ("attn_pdrop", "resid_pdrop", "embd_pdrop", "attention_dropout")


@dataclass(frozen=True)
class Checkpoint:
    name: str
    """As it was asked for."""
    folder: Path
    digest: str

    def model(self, gamma: float | None = None) -> PreTrainedModel:
        """The model without dropout, in fp32; with `gamma`, with chain attention in every layer."""
        try:
            config = AutoConfig.from_pretrained(self.folder, local_files_only=True)
            # Chain attention has none on its weights, and two models are compared fairly when neither has any.
            for dropout in DROPOUTS:
                if hasattr(config, dropout):
                    setattr(config, dropout, 0.0)
            with quiet():
                model, loading = AutoModelForCausalLM.from_pretrained(  # pyright: ignore[reportGeneralTypeIssues]
                    self.folder,
                    config=config,
                    dtype=torch.float32,
                    local_files_only=True,
                    use_safetensors=True,
                    output_loading_info=True,
                )
        except (OSError, ValueError, KeyError) as error:
            raise Error(f"{self.name}: no causal language model can be read from it: {_line(error)}") from error
        if absent := sorted(loading["missing_keys"]):
            raise Error(
                f"{self.name}: the checkpoint must hold all weights of {type(model).__name__}, and lacks "
                f"{len(absent)}, {absent[0]} first. Give one that was saved whole."
            )
        return model if gamma is None else to_chain(model, gamma)

    def tokenizer(self) -> Any:
        # Where there is none, transformers makes an empty one and says nothing.
        if not any((self.folder / name).is_file() for name in TOKENIZERS):
            raise Error(f"{self.name}: there is no tokenizer in it. Save the model's own there.")
        try:
            return AutoTokenizer.from_pretrained(self.folder, local_files_only=True)
        except Exception as error:  # the tokenizers library raises Exception itself
            raise Error(
                f"{self.name}: no tokenizer can be read from it: {_line(error)} "
                "Save the model's own beside it (tokenizer.save_pretrained)."
            ) from error

    def check(self, tokenizer: Any, block: int) -> None:
        """Raise unless the model can read blocks of so many tokens of this tokenizer."""
        config = AutoConfig.from_pretrained(self.folder, local_files_only=True)
        longest = getattr(config, "max_position_embeddings", None)
        if block < 2 or (longest is not None and block > longest):
            raise Error(f"block must be in 2..{longest}, the positions of {self.name}, got {block}. Use --set block=….")
        if len(tokenizer) > config.vocab_size:
            raise Error(
                f"{self.name}: its model knows {config.vocab_size} tokens and its tokenizer {len(tokenizer)}. "
                "They are not of one model: put the right tokenizer there."
            )


@contextmanager
def quiet() -> Iterator[None]:
    """A block in which transformers draws no bars of its own."""
    drawn = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if drawn:
            logging.enable_progress_bar()


def find(name: str) -> Checkpoint:
    """A checkpoint by its folder, or by its name on the hub, from where it is downloaded once."""
    folder = Path(name).expanduser()
    if not folder.exists():
        folder = _download(name)
    if not (folder / "config.json").is_file():
        raise Error(f"{name}: a checkpoint is a folder with config.json, weights (.safetensors) and tokenizer in it.")
    if not list(folder.glob("*.safetensors")):
        raise Error(f"{name}: there are no weights as .safetensors in it. Save it with model.save_pretrained.")
    return Checkpoint(name, folder, digest(folder))


def digest(folder: Path) -> str:
    """Of the names and contents of all files that are read."""
    whole = hashlib.sha256()
    for file in sorted(file for file in folder.iterdir() if file.suffix in READ):
        with file.open("rb") as content:
            whole.update(f"{file.name} {hashlib.file_digest(content, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()


def _download(name: str) -> Path:
    missing = f"{name}: there is no such folder here"
    if not HUB.fullmatch(name):
        raise Error(f"{missing}. Give a folder as model.save_pretrained writes it, or a name on the Hugging Face hub.")
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=[f"*{suffix}" for suffix in READ], ignore_patterns=["*/*"]))
    except Exception as error:  # every way in which a network, a hub or a name can fail
        raise Error(
            f"{missing}, and it could not be had from the Hugging Face hub ({type(error).__name__}), which needs a "
            "network. Download it elsewhere and give its folder."
        ) from error


def _line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
