"""Whatever is written into a config: it is refused, or what transformers loads from the folder says what was proved."""

from __future__ import annotations

import copy
import inspect
import itertools
import json
from dataclasses import fields
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file
from transformers import PreTrainedConfig

from lengthwise.models import LengthwiseConfig, LengthwiseForCausalLM
from lengthwise.ops import kernels
from lengthwise.verify.checker import Rejected, check

from .conftest import resealed

SLOW = pytest.mark.slow
KINDS = ["rnn", *(pytest.param(f"{k}-parity", marks=SLOW) for k in ("tree", "codes", "snapped", "cascade"))]
WORDS = torch.tensor(list(itertools.product((0, 1), repeat=6)))
READ = {  # beyond the fields of the class: what some version of transformers takes from a config.json
    *("transformers_weights", "configuration_files", "attribute_map", "auto_map", "quantization_config", "torch_dtype"),
    *("num_labels", "name_or_path", "_name_or_path", "attn_implementation", "_attn_implementation", "rope_scaling"),
    *("output_attentions", "experts_implementation", "per_layer_config", "rope_parameters", "num_hidden_layers"),
    *("pruned_heads", "torchscript", "use_bfloat16", "tie_encoder_decoder", "x", "hidden_size", "extra_files"),
    *("_attn_implementation_internal", "pad_token_id", "layer_types", "distributed_config", "use_kernels"),
}
FOREIGN = sorted(
    {f.name for f in fields(PreTrainedConfig)}
    | {name for name, x in inspect.getmembers(PreTrainedConfig) if not callable(x) and not name.startswith("__")}
    | READ
)
VALUES = [None, True, False, 0, 1, 3, -1, 0.5, 1e-30, "x", "float16", "other.safetensors", [], ["x"], {}]
VALUES += [{"embedding_scale": "x"}, {"x": "mixer"}, {"quant_method": "torchao"}, {"0": {"width": 4}}]
VALUES += [{"__float__": "Infinity"}, "float32", "torch", {"linear": "torch"}, {"linear": True}, {"embedding": 0.5}]
FEW = [None, True, 0, 1e-30, "x", "float16", "other.safetensors", ["x"], {"embedding_scale": "x"}]
"""Of a field that is refused by its name, the value says little."""
OWN = [name for name in vars(LengthwiseConfig()) if name in LengthwiseConfig.__annotations__]


@pytest.fixture(scope="module", params=KINDS)
def proved(request, made, tmp_path_factory):
    """A model in a folder, its config and its certificate; other weights lie beside its own."""
    it, folder = made(request.param), tmp_path_factory.mktemp("model")
    model = it.model
    if model is None:
        model = LengthwiseForCausalLM(LengthwiseConfig(**it.certificate["model"]["config"])).eval()
        model.load_state_dict({name: torch.tensor(x) for name, x in it.weights.items()})
    model.save_pretrained(folder)
    save_file(
        {name: torch.zeros_like(x).contiguous() for name, x in model.state_dict().items()}, folder / "other.safetensors"
    )
    config = json.loads((folder / "config.json").read_text())
    return SimpleNamespace(folder=folder, config=config, certificate=it.certificate, logits=said(model))


def said(model):
    with torch.no_grad(), kernels.backend("reference"):
        return model.eval()(WORDS, return_dict=True).logits[:, -1]


def accepted(proved, config, certificate=None):
    """What the model that is loaded says, where the checker accepts; None where it does not."""
    (proved.folder / "config.json").write_text(json.dumps(config))
    try:
        check(certificate or proved.certificate, proved.folder)
    except Rejected:
        return None
    return said(LengthwiseForCausalLM.from_pretrained(proved.folder))


def test_what_was_saved_is_accepted(proved):
    assert torch.equal(accepted(proved, proved.config), proved.logits)


def test_a_field_of_transformers_changes_nothing_or_is_refused(proved):
    for name, value in itertools.product(FOREIGN, FEW):
        logits = accepted(proved, {**proved.config, name: value})
        assert logits is None or torch.equal(logits, proved.logits), (name, value)


def test_a_field_of_ours_changes_nothing_or_is_refused(proved):
    for name in OWN:
        for value in [*VALUES, ...]:
            config = {**proved.config, name: value}
            logits = accepted(proved, {key: x for key, x in config.items() if x is not ...})
            assert logits is None or torch.equal(logits, proved.logits), (name, value)


def places(config):
    """The names of each option, the outer name first."""
    for name, value in config.items():
        yield (name,)
        for inner in value if isinstance(value, dict) else ():
            yield (name, inner)


def test_an_option_that_the_certificate_has_too_makes_no_false_proof(proved):
    """Whoever seals the certificate anew says in it what the config says: then the loaded model has to be right."""
    right = proved.logits.argmax(-1)
    own = proved.certificate["model"]["config"]
    extra = [("depth", "pad_tokens"), ("depth", "nodes"), ("block", "normalisation"), ("mixer", "dilation")]
    for at in [*places(own), *extra]:
        for value in [*VALUES, 2, 4, 8, "gelu", "linear", "two-layer", "drop", "one-hot", "none", ...]:
            config, given = copy.deepcopy(proved.config), copy.deepcopy(proved.certificate)
            for changed in (config, given["model"]["config"]):
                inner = changed if len(at) == 1 else changed[at[0]]
                if isinstance(inner, list):
                    inner = inner[0]
                inner[at[-1]] = value
                if value is ...:
                    del inner[at[-1]]
            logits = accepted(proved, config, resealed(given))
            assert logits is None or torch.equal(logits.argmax(-1), right), (at, value)
