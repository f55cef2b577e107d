"""The folder of a model is data: nothing in it is followed to code, and no size is taken before the weights have it."""

import json
import resource
import signal
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import CONFIG_MAPPING, GPT2Config, GPT2LMHeadModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from lengthwise import Error, models
from lengthwise.models import LengthwiseForCausalLM, folders, presets, pretrained


@pytest.fixture(params=["lengthwise", "gpt2"])
def folder(request, tmp_path):
    gpt2 = GPT2Config(vocab_size=8, n_embd=8, n_layer=2, n_head=2, n_positions=16)
    model = (
        GPT2LMHeadModel(gpt2)
        if request.param == "gpt2"
        else LengthwiseForCausalLM(presets.PRESETS["transformer"](8, None, width=8, heads=2, layers=2))
    )
    model.save_pretrained(tmp_path)
    return tmp_path


def change(folder, **fields):
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**content, **fields}))


def refused(folder) -> str:
    with pytest.raises(Error) as caught:
        pretrained.find(str(folder)).model()
    assert "\n" not in str(caught.value)
    return str(caught.value)


CODE = [
    {"_attn_implementation": "evil/kernel"},
    {"attn_implementation": "evil/kernel@main:forward"},
    {"attn_implementation": {"": "evil/kernel"}},
    {"attn_implementation": "flash_attention_2"},
    {"_attn_implementation_internal": "evil/kernel"},
    {"experts_implementation": "sonicmoe"},
    {"text_config": {"model_type": "gpt2", "attn_implementation": "evil/kernel"}},
    {"attribute_map": {"x": "_attn_implementation"}, "x": "evil/kernel"},
    {"quantization_config": {"quant_method": "fp8"}},
    {"transformers_weights": "other.safetensors"},
    {"vision_config": {"model_type": "timm_wrapper", "architecture": "hf-hub:evil/model"}},
]


@pytest.mark.parametrize("fields", CODE, ids=str)
def test_no_field_of_a_config_leads_to_code(folder, fields):
    change(folder, **fields)
    assert "config.json: " in refused(folder)
    with pytest.raises(Error):
        models.build(f"hf:{folder}", vocab_size=8)


@pytest.mark.parametrize("name", ["attn_implementation", "_attn_implementation", "_attn_implementation_internal"])
def test_no_option_leads_to_code(folder, name):
    with pytest.raises(Error, match="Unknown setting"):
        models.build(f"hf:{folder}", vocab_size=8, **{name: "evil/kernel"})


def test_an_auto_map_is_no_invitation(folder, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *asked: pytest.fail("asked whether code may run"))
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    change(folder, auto_map={"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"})
    pretrained.find(str(folder)).model()
    models.build(f"hf:{folder}", vocab_size=8)


def test_an_adapter_beside_a_model_is_refused(folder):
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "evil/model"}')
    assert "adapter" in refused(folder)


SIZES = [
    {"width": 10**9, "n_embd": 2 * 10**9},
    {"width": 10**400, "n_embd": 10**400},
    {"vocab_size": 10**9},
    {"n_positions": 10**9, "vocab_size": 10**10},
    {"depth": {"name": "fixed", "layers": 10**9}, "n_layer": 10**7},
    {"num_hidden_layers": 10**9},
    {"num_labels": 10**9},
    {"width": None, "n_embd": None},
    {"vocab_size": "8"},
]


@pytest.mark.parametrize("fields", SIZES, ids=lambda fields: " ".join(fields))
def test_a_size_that_the_weights_do_not_have_takes_no_memory(folder, fields):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    change(folder, **fields)
    said = refused(folder)
    assert str(folder) in said
    if sys.platform == "linux":
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kB


def halve(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def edit(file, **header):
    """A file of safetensors whose header says something else of one tensor."""
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    said = json.loads(content[8 : 8 + size])
    name = next(name for name in said if name != "__metadata__")
    said[name] |= header
    new = json.dumps(said).encode()
    file.write_bytes(len(new).to_bytes(8, "little") + new + content[8 + size :])


def reshape(file):
    tensors = load_file(file)
    name = next(iter(tensors))
    save_file({**tensors, name: torch.zeros(3, 5)}, file, {"format": "pt"})


def whole_numbers(file):
    save_file({name: tensor.long() for name, tensor in load_file(file).items()}, file, {"format": "pt"})


DAMAGES = {
    "half": halve,
    "empty": lambda file: file.write_bytes(b""),
    "a page": lambda file: file.write_text("<html>" * 100),
    "overlapping": lambda file: edit(file, data_offsets=[0, 8]),
    "another shape": reshape,
    "whole numbers": whole_numbers,
    "a device": lambda file: (file.unlink(), file.symlink_to("/dev/zero")),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
    "nowhere": lambda file: (file.unlink(), file.symlink_to("nowhere")),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_damage_names_its_file(folder, name, damage):
    if name == "config.json" and damage in ("overlapping", "another shape", "whole numbers"):
        pytest.skip("a config has no header")
    DAMAGES[damage](folder / name)
    # A device that were read would never end.
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it is still being read"))
    signal.alarm(120)
    try:
        assert str(folder) in refused(folder)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("text", ["null", "[]", "[" * 100_000, '{"model_type": ["gpt2"]}', '{"model_type": "evil"}'])
def test_a_config_that_is_none_is_named(folder, text):
    (folder / "config.json").write_text(text)
    assert "config.json" in refused(folder)


def test_a_config_of_nothing_but_null_is_named(folder):
    content = json.loads((folder / "config.json").read_text())
    change(folder, **{key: None for key in content if key != "model_type"})
    assert str(folder) in refused(folder)


@pytest.mark.parametrize("index", ["[]", '{"weight_map": {"a": "../x.safetensors"}}', '{"weight_map": {"a": 3}}'])
def test_an_index_names_files_beside_it_alone(folder, index):
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    (folder / "model.safetensors.index.json").write_text(index)
    assert "index.json" in refused(folder)


VARIED = [
    ("regular-gpt", {"nodes": "discrete"}),
    ("regular-gpt", {"thickness": 2, "tie_word_embeddings": True}),
    ("transformer", {"tie_word_embeddings": True}),
    ("transformer", {"position": "randomized", "position_options": {"of": {"name": "rope"}, "longest": 40}}),
    ("chacal", {"chain_layers": [0], "learn_gamma": True, "gamma": 0.7}),
]


@pytest.mark.parametrize(("name", "options"), [*((name, {}) for name in sorted(presets.PRESETS)), *VARIED], ids=str)
def test_every_preset_saves_what_is_read_again(name, options, tmp_path):
    made, tokens = models.build(name, vocab_size=4, **options).inner.eval(), torch.randint(4, (2, 9))
    made.save_pretrained(tmp_path)
    again = pretrained.find(str(tmp_path)).model().eval()
    assert again.config.depth == made.config.depth
    for key, weight in made.state_dict().items():
        assert torch.equal(weight, again.state_dict()[key]), key
    torch.testing.assert_close(again(tokens).logits, made(tokens).logits)
    assert (again.head.weight is again.embedding.weight) == options.get("tie_word_embeddings", False)


@pytest.mark.slow
def test_no_config_of_transformers_is_taken_for_code(tmp_path):
    for name in sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES):
        try:
            config = CONFIG_MAPPING[name]()
        except Exception:
            continue  # it has no defaults
        config.to_json_file(tmp_path / "config.json", use_diff=False)
        folders.config_of(tmp_path / "config.json", name)
