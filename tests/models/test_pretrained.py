"""Pretrained checkpoints: how they are found and named, and which are refused."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from lengthwise import Error
from lengthwise.models import pretrained


def tiny(path, **more):
    config = GPT2Config(vocab_size=27, n_positions=16, n_embd=8, n_layer=1, n_head=2, **more)
    GPT2LMHeadModel(config).save_pretrained(path)
    return path


def test_a_checkpoint_is_named_by_what_it_holds(tmp_path):
    found = pretrained.find(str(tiny(tmp_path)))
    (tmp_path / "notes.md").write_text("not part of it")
    assert pretrained.find(str(tmp_path)).digest == found.digest
    model = found.model()
    assert all(module.p == 0 for module in model.modules() if isinstance(module, torch.nn.Dropout))
    (tmp_path / "tokenizer.json").write_text("{}")
    assert pretrained.find(str(tmp_path)).digest != found.digest


def test_a_checkpoint_that_cannot_be_used_is_named(tmp_path):
    with pytest.raises(Error, match=r"no such folder here. Give a folder"):
        pretrained.find(str(tmp_path / "nowhere"))
    with pytest.raises(Error, match=r"a checkpoint is a folder with config.json"):
        pretrained.find(str(tmp_path))
    tiny(tmp_path)
    found = pretrained.find(str(tmp_path))
    with pytest.raises(Error, match=r"block must be in 2\.\.16"):
        found.check(range(27), 17)
    with pytest.raises(Error, match="knows 27 tokens and its tokenizer 28"):
        found.check(range(28), 16)
    (tmp_path / "config.json").write_text(
        (tmp_path / "config.json").read_text().replace('"n_layer": 1', '"n_layer": 2')
    )
    with pytest.raises(Error, match="asks for 2,104 weights, and the files beside it hold 1,232"):
        found.model()
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(Error, match=r"no weights as .safetensors"):
        pretrained.find(str(tmp_path))


def test_a_name_on_the_hub_says_that_it_needs_a_network(monkeypatch):
    import huggingface_hub

    def refuse(name, **_):
        raise ConnectionError("no network")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(Error, match=r"ConnectionError.*needs a network"):
        pretrained.find("openai-community/gpt2")


def test_a_name_on_the_hub_is_read_from_where_it_was_put(tmp_path, monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **_: str(tiny(tmp_path)))
    found = pretrained.find("somebody/tiny")
    assert (found.name, found.folder) == ("somebody/tiny", tmp_path)
    assert found.digest == pretrained.folder_digest(tmp_path)
