"""The tokenizer of a folder: read as it was saved, or refused with the reason."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from lengthwise import Error
from lengthwise.text import tokenizers


def test_a_tokenizer_is_read_as_it_was_saved(tmp_path):
    words = Tokenizer(models.WordLevel({"<end>": 0, "one": 1, "two": 2}, unk_token="<end>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>").save_pretrained(tmp_path)
    tokenizer = tokenizers.load(tmp_path)
    assert (len(tokenizer), tokenizer.eos_token_id) == (3, 0)
    assert tokenizer(["two one"])["input_ids"] == [[2, 1]]


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(Error, match=f"^{tmp_path}: there is no tokenizer in it"):
        tokenizers.load(tmp_path)
    with pytest.raises(Error, match=r"^somebody/tiny: there is no tokenizer in it"):
        tokenizers.load(tmp_path, "somebody/tiny")


def test_a_damaged_tokenizer_is_refused(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(Error, match=r"^somebody/tiny: no tokenizer can be read from it: .* Save the model's own"):
        tokenizers.load(tmp_path, "somebody/tiny")
