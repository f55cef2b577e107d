"""The auto classes of transformers know the model types after `import lengthwise` alone, in either order of imports."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

from lengthwise import auto_classes, convert, models
from lengthwise.auto_classes import MODEL_TYPES, Later

LOAD = """
print(not any(name.startswith("lengthwise.models") for name in sys.modules))
from transformers import AutoConfig
for folder in sys.argv[1:]:
    loaded = AutoConfig.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    print(*(type(part).__name__ for part in loaded))
"""
ORDERS = {
    "lengthwise first": "import sys, lengthwise\nfrom transformers import AutoModelForCausalLM",
    "transformers first": "import sys\nfrom transformers import AutoModelForCausalLM\nimport lengthwise",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    own = models.LengthwiseForCausalLM(models.presets.lstm(5, width=8))
    gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=8, n_embd=8, n_layer=1, n_head=2, attn_pdrop=0.0, bos_token_id=0))
    made = {"own": own, "chained": convert.to_chain(gpt2)}
    for name, model in made.items():
        model.save_pretrained(tmp_path_factory.getbasetemp() / name)
    return [str(tmp_path_factory.getbasetemp() / name) for name in made]


@pytest.mark.parametrize("order", ORDERS)
def test_a_folder_loads_by_the_auto_classes(order, folders):
    run = subprocess.run([sys.executable, "-c", ORDERS[order] + LOAD, *folders], capture_output=True, text=True)
    assert run.stdout.splitlines() == [
        "True",  # nothing was loaded before it was needed
        "LengthwiseConfig LengthwiseForCausalLM",
        "ChainGPT2Config ChainGPT2LMHeadModel",
    ], run.stderr[-2000:]


def test_every_model_type_is_announced():
    own = {t: kind for t, kind in CONFIG_MAPPING._extra_content.items() if kind.__module__.startswith("lengthwise.")}
    assert {t: (kind.__module__, kind.__name__) for t, kind in own.items()} == MODEL_TYPES
    assert all(kind.model_type == t for t, kind in own.items())


def test_a_stand_in_is_the_class_it_stands_for():
    later = Later(*MODEL_TYPES["lengthwise"])
    assert (later.model_type, later.__name__, later(width=8).width) == ("lengthwise", "LengthwiseConfig", 8)
    assert later.from_dict({"model_type": "lengthwise", "width": 8}).width == 8
    for again in (pickle.loads(pickle.dumps(later)), copy.deepcopy(later)):
        assert again.attribute_map == {"hidden_size": "width"}


def test_it_is_announced_again_where_the_registry_is_there(folders, monkeypatch):
    monkeypatch.setattr(CONFIG_MAPPING, "_extra_content", {})
    finders = list(sys.meta_path)
    auto_classes.announce()
    assert sys.meta_path == finders
    assert isinstance(AutoModelForCausalLM.from_pretrained(folders[0]), models.LengthwiseForCausalLM)
