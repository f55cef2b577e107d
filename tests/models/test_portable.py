"""A saved folder names its classes, for programs that never imported lengthwise, and is the same model all the same."""

import json
import os
import subprocess
import sys

import pytest
from transformers import AutoConfig, AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from lengthwise import convert, models
from lengthwise.models import LengthwiseConfig, hugging_face
from lengthwise.models.portable import FILE

STRANGER = """
import os, socket, sys
def refuse(*given): raise SystemExit("the network was asked")
socket.socket.connect = socket.getaddrinfo = refuse
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
for folder in sys.argv[1:]:
    # A process for each, of which transformers alone is the same, for it takes seconds to be imported.
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
        continue
    assert "lengthwise" not in sys.modules
    for auto in (AutoConfig, AutoModelForCausalLM, AutoModel):
        loaded = auto.from_pretrained(folder, trust_remote_code=True)
        print(type(loaded).__module__, type(loaded).__name__)
        loaded.save_pretrained(folder + "-again")
    break
"""
NAMES = ["own", "chain-gpt2", "chain-llama"]


def made(name):
    if name == "own":
        return models.LengthwiseForCausalLM(models.presets.lstm(8, width=8))
    size = {"vocab_size": 8, "bos_token_id": 0, "eos_token_id": 0}
    if name == "chain-gpt2":
        gpt2 = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, attn_pdrop=0.0, **size))
        return convert.to_chain(gpt2)
    llama = LlamaConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, intermediate_size=8, **size
    )
    return convert.to_chain(LlamaForCausalLM(llama))


@pytest.fixture(scope="module")
def every(tmp_path_factory):
    """Models of each name, and the folders that they were saved to."""
    models_by_name = {name: (made(name), tmp_path_factory.mktemp(name)) for name in NAMES}
    for model, folder in models_by_name.values():
        model.save_pretrained(folder)
    return models_by_name


@pytest.fixture(params=NAMES)
def saved(request, every):
    return every[request.param]


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize("names", [NAMES[:1], pytest.param(NAMES[1:], marks=pytest.mark.slow)])
def test_a_program_that_did_not_import_lengthwise_loads_and_saves_it(every, names, tmp_path):
    asked = [every[name] for name in names]
    run = subprocess.run(
        [sys.executable, "-c", STRANGER, *(str(folder) for _, folder in asked)],
        env={**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules")}, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    lines = run.stdout.splitlines()
    for (model, folder), config, head, bare in zip(asked, lines[::3], lines[1::3], lines[2::3], strict=True):
        assert config == f"{type(model.config).__module__} {type(model.config).__name__}"
        assert head == f"{type(model).__module__} {type(model).__name__}"
        assert bare.split()[1] in ("LengthwiseModel", "ChainGPT2Model", "ChainLlamaModel")
        # No source of the library was copied there, as transformers does for classes it loads in this way.
        assert {file.name for file in folder.with_name(f"{folder.name}-again").glob("*.py")} == {FILE}


def test_after_the_import_no_question_is_asked_and_saving_again_changes_no_byte(saved, tmp_path, monkeypatch):
    model, folder = saved
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("a question was asked"))
    for trust in ({}, {"trust_remote_code": True}, {"trust_remote_code": False}):
        again = AutoModelForCausalLM.from_pretrained(folder, **trust)
        assert type(again) is type(model)
        again.save_pretrained(tmp_path)
        assert contents(tmp_path) == contents(folder)


def test_the_folder_says_three_classes_and_their_file_imports_nothing_relative(saved):
    model, folder = saved
    auto_map = json.loads((folder / "config.json").read_text())["auto_map"]
    assert list(auto_map) == ["AutoConfig", "AutoModel", "AutoModelForCausalLM"]
    assert auto_map["AutoModelForCausalLM"] == f"modeling_lengthwise.{type(model).__name__}"
    lines = (folder / FILE).read_text().splitlines()[2:]
    assert [line.partition("  #")[0].split()[-1] for line in lines] == [v.split(".")[1] for v in auto_map.values()]
    assert all(line.startswith("from lengthwise.") for line in lines)


def test_the_map_is_no_setting(saved, tmp_path):
    """A run on `hf:FOLDER` is found by a digest of the config, which was saved before there were such maps."""
    _, folder = saved
    before = json.loads((folder / "config.json").read_text())
    del before["auto_map"]
    (tmp_path / "config.json").write_text(json.dumps(before))
    assert hugging_face.source(str(folder)) == hugging_face.source(str(tmp_path))
    assert "auto_map" not in hugging_face.options(str(folder))
    old, new = AutoConfig.from_pretrained(tmp_path).to_dict(), AutoConfig.from_pretrained(folder).to_dict()
    assert {**old, "_name_or_path": None} == {**new, "_name_or_path": None}
    assert "auto_map" not in new


def test_a_map_of_somebody_else_s_stays_in_the_digest(tmp_path):
    config = {"model_type": "gpt2"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    plain = hugging_face.source(str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoConfig": "theirs.Config"}}))
    assert hugging_face.source(str(tmp_path)) != plain


def test_a_class_of_one_s_own_names_no_other(tmp_path):
    class Mine(LengthwiseConfig):
        model_type = "mine"

    Mine(width=8).save_pretrained(tmp_path)
    assert "auto_map" not in json.loads((tmp_path / "config.json").read_text())
    assert {file.name for file in tmp_path.iterdir()} == {"config.json"}
