"""Tokenizers: the one a folder holds, as transformers saves it, or byte-level BPE trained on a corpus."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Annotated, Any

from ..errors import Error
from ..files import canonical, check_regular, naming
from . import text_files
from .corpora import Corpus
from .documents import END

FILES = ("tokenizer.json", "vocab.json", "tokenizer.model")
"""A folder with a tokenizer holds at least one of these."""
BYTES = 256
WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s*[\r\n]+|\s+(?!\S)|\s+"
"""What a token never reaches across. Newlines are words of their own, so that a token tells where a line ends, and
several newlines are one word, so that a token can tell where a paragraph ends."""
READ = 100_000_000
"""Characters that a tokenizer is trained on at most: more change little, and their words need memory."""


def load(folder: Path | str, name: str | None = None) -> Any:
    """The tokenizer in this folder. `name` is what error messages call the folder, where its path would say little."""
    # Importing it takes seconds, and reading and splitting documents does not need it.
    from transformers import AutoTokenizer

    folder = Path(folder)
    name = name or str(folder)
    if folder.is_dir():
        for file in folder.iterdir():
            if file.suffix in (".json", ".txt", ".model"):
                check_regular(file)
    # In a folder without a tokenizer transformers makes an empty one and says nothing.
    if not any((folder / file).is_file() for file in FILES):
        raise Error(f"{name}: there is no tokenizer in it. Save the model's own there.")
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # the tokenizers library raises Exception itself
        first_line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise Error(
            f"{name}: no tokenizer can be read from it: {first_line} "
            "Save the model's own beside it (tokenizer.save_pretrained)."
        ) from error


def train(
    corpus: Corpus,
    size: Annotated[int, "Tokens of the vocabulary at most: the 256 bytes, the end of a text, what is learned."] = 4096,
    *,
    root: Path | str,
) -> Path:
    """The folder of a byte-level BPE of `size` tokens, trained on the corpus's documents to train on.

    It lies in `root`, named by its size and by the digest of what it is trained on. One that is there is not trained
    again.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    if size <= BYTES:
        raise Error(f"A byte-level tokenizer has the 256 bytes and the end of a text, so size > {BYTES}, got {size}.")
    known_by = canonical({"corpus": corpus.survey.digest, "held_out": corpus.held_out, "words": WORDS, "read": READ})
    folder = Path(root) / "tokenizers" / f"bpe-{size}-{hashlib.sha256(known_by).hexdigest()[:16]}"
    if (folder / "tokenizer.json").is_file():
        return folder
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizer()
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(_beginning(corpus), trainer)
    beside = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    with naming(beside):
        text_files.make_cache(folder.parent)
        PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=END).save_pretrained(beside)
        try:
            beside.rename(folder)
        except OSError:  # another process was first
            shutil.rmtree(beside)
    return folder


def pre_tokenizer() -> Any:
    """Returns the step that cuts a text into words, and these into bytes."""
    from tokenizers import Regex, pre_tokenizers

    splitter = pre_tokenizers.Split(Regex(WORDS), "isolated")
    return pre_tokenizers.Sequence([splitter, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _beginning(corpus: Corpus) -> Any:
    left = READ
    for text in corpus.train():
        yield text
        left -= len(text)
        if left <= 0:
            return


def to_generate(tokenizer: Any) -> Any:
    """Returns a copy that pads prompts as generate() needs them: on the left, with the end token if it has no other."""
    padding = copy.deepcopy(tokenizer)
    padding.padding_side = padding.init_kwargs["padding_side"] = "left"  # only the second is saved
    if padding.pad_token is None:
        padding.pad_token = padding.eos_token
    return padding


def digest(tokenizer: Any) -> str:
    """Returns the digest of all that decides which tokens a text has."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    settings = json.loads(backend.to_str()) if backend else {"vocab": tokenizer.get_vocab()}
    # Calls leave these behind.
    settings = {key: value for key, value in settings.items() if key not in ("padding", "truncation")}
    return hashlib.sha256(canonical({"tokenizer": settings, "end": tokenizer.eos_token_id})).hexdigest()
