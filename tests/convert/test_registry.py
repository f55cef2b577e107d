"""Conversions as data: what they do to a checkpoint, and what is refused before its weights are read."""

import json

import pytest
import torch

from lengthwise import convert
from lengthwise.errors import Error, UnknownName
from lengthwise.models import pretrained

from .made import HEADS, tokens


@pytest.fixture
def checkpoint(tmp_path):
    torch.manual_seed(0)
    HEADS["gpt2"]().save_pretrained(tmp_path)
    return pretrained.find(str(tmp_path))


def test_a_checkpoint_is_loaded_with_its_conversions(checkpoint):
    # As they come out of a record.
    conversions = json.loads('[{"name": "chain", "gamma": 0.5, "layers": [0, 2]}]')
    model = convert.load(checkpoint, conversions).eval()
    assert (model.config.model_type, model.config.gamma, model.config.chain_layers) == ("chain-gpt2", 0.5, [0, 2])
    by_hand = convert.to_chain(checkpoint.model(), gamma=0.5, layers=[0, 2]).eval()
    assert torch.equal(model(tokens()).logits, by_hand(tokens()).logits)


def test_without_conversions_it_is_the_model_itself(checkpoint):
    assert type(convert.load(checkpoint)) is type(checkpoint.model())
    model = checkpoint.model()
    assert convert.apply(model, []) is model


def test_conversions_follow_one_another(checkpoint, monkeypatch):
    def double(model, factor=2):
        model.doubled = getattr(model, "doubled", 1) * factor
        return model

    monkeypatch.setitem(convert.CONVERSIONS, "double", double)
    assert convert.load(checkpoint, [{"name": "double"}, {"name": "double", "factor": 5}]).doubled == 10


@pytest.mark.parametrize(
    ("conversion", "error", "message"),
    [
        ({"gamma": 0.9}, Error, "A conversion needs a name"),
        ({"name": "chian"}, UnknownName, "Unknown conversion 'chian'. Did you mean 'chain'"),
        ({"name": "chain", "gama": 0.9}, UnknownName, "Unknown setting of conversion 'chain' 'gama'. Did you mean"),
        (["chain"], Error, r"A conversion needs a name, .* got \['chain'\]"),
        ({"name": "yarn"}, Error, r"conversion 'yarn' needs factor. Add factor=…"),
        ({"name": "bipe"}, Error, "conversion 'bipe' needs ends"),
        ({"name": "chain", "model": None}, UnknownName, "Unknown setting of conversion 'chain' 'model'"),
        ({"name": "yarn", "factor": "four"}, Error, "factor must be a number, got 'four'"),
    ],
)
def test_unknown_conversions_are_refused_before_the_weights_are_read(
    checkpoint, monkeypatch, conversion, error, message
):
    monkeypatch.setattr(pretrained.Checkpoint, "model", lambda self: pytest.fail("the weights were read"))
    with pytest.raises(error, match=message):
        convert.load(checkpoint, [conversion])
