"""Blocks: found in every kind of model, read at every position, the model left as it was."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from lengthwise import Error, models
from lengthwise.insight.block_outputs import read_blocks
from lengthwise.models import TokenClassifier

TOKENS = torch.randint(2, (2, 13), generator=torch.Generator().manual_seed(0))


def brought(name: str) -> TokenClassifier:
    return models.build(f"{Path(__file__).parent / 'toys.py'}:{name}", vocab_size=2, num_outputs=2)


def regular_gpt(**options) -> TokenClassifier:
    torch.manual_seed(0)
    return models.build("regular-gpt", vocab_size=2, num_outputs=2, width=8, heads=2, settings=options)


def test_regular_gpt_by_hand():
    classifier = regular_gpt(chunk=3, thickness=2)
    read = read_blocks(classifier, TOKENS)
    assert [b.name for b in read] == [f"group {g}, layer {k}" for g in range(3) for k in range(2)]
    # Two tokens further back for each layer, at dilations 1, 3 and 9.
    assert [b.reach for b in read] == [3, 5, 11, 17, 35, 53]
    assert all(b.positions.tolist() == list(range(13)) for b in read)
    with torch.no_grad():
        torch.testing.assert_close(classifier.inner.head(read[-1].output), classifier(TOKENS))


def test_reach_is_what_an_output_depends_on():
    classifier = regular_gpt()
    first = read_blocks(classifier, TOKENS)
    for n in (2, 4, 8):
        other = TOKENS.clone()
        other[:, 12 - n] = 1 - other[:, 12 - n]
        changed = [
            not torch.equal(a.output[:, -1], b.output[:, -1])
            for a, b in zip(first, read_blocks(classifier, other), strict=True)
        ]
        assert changed == [block.reach > n for block in first]


def test_the_official_padding_has_the_nodes_of_one_tree():
    classifier = regular_gpt(variant="official")
    read = read_blocks(classifier, TOKENS)
    assert [b.positions.tolist() for b in read] == [[0, 2, 4, 6, 8, 10, 12], [0, 4, 8, 12], [4, 12], [12]]
    assert [b.output.shape[1] for b in read] == [7, 4, 2, 1]
    assert [b.reach for b in read] == [2, 4, 8, 16]
    with torch.no_grad():
        torch.testing.assert_close(classifier.inner.head(read[-1].output), classifier(TOKENS, last=True))
    # With two layers a group the first of them has an output at every token kept so far; those of pads are left out.
    thick = read_blocks(regular_gpt(variant="official", thickness=2), TOKENS)
    assert [b.positions.tolist() for b in thick][:3] == [
        list(range(13)),
        [0, 2, 4, 6, 8, 10, 12],
        [0, 2, 4, 6, 8, 10, 12],
    ]
    assert [b.output.shape[1] for b in thick] == [len(b.positions) for b in thick]


@pytest.mark.parametrize(("name", "count"), [("transformer", 3), ("lstm", 1)])
def test_fixed_depth(name, count):
    classifier = models.build(
        name, vocab_size=2, num_outputs=2, width=8, **({"layers": 3, "heads": 2} if count == 3 else {})
    )
    read = read_blocks(classifier, TOKENS)
    assert [(b.name, b.reach) for b in read] == [(f"layer {i}", None) for i in range(count)]
    assert all(b.output.shape == (2, 13, 8) for b in read)


def test_hugging_face(tmp_path):
    config = {"model_type": "gpt2", "vocab_size": 8, "n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 16}
    (tmp_path / "config.json").write_text(json.dumps(config))
    classifier = models.build(f"hf:{tmp_path}", vocab_size=2, num_outputs=2)
    read = read_blocks(classifier, TOKENS)
    assert [list(b.output.shape) for b in read] == [[2, 13, 16]] * 3


def test_blocks_and_not_what_is_inside_them():
    read = read_blocks(brought("Experts"), TOKENS)
    assert [list(b.output.shape) for b in read] == [[2, 13, 6]] * 3


def test_children_without_embedding_and_head():
    classifier = brought("Recurrent")
    model, read = classifier.inner, read_blocks(classifier, TOKENS)
    assert len(read) == 2
    torch.testing.assert_close(read[0].output, model.lstm(model.embedding(TOKENS))[0].detach())
    assert len(read_blocks(brought("OneHot"), TOKENS)) == 1
    chain = nn.Sequential(nn.Embedding(2, 6), nn.Linear(6, 6), nn.Linear(6, 2))
    assert len(read_blocks(TokenClassifier(chain, 2, "chain"), TOKENS)) == 1


@pytest.mark.parametrize("model", ["Bare", "Window"])
def test_nothing_to_look_at(model):
    with pytest.raises(Error, match=r"nn\.ModuleList.*found none"):
        read_blocks(brought(model), TOKENS)


def test_nothing_is_dropped_and_a_look_that_fails_leaves_no_hook():
    classifier = regular_gpt(dropout=0.5).train()
    assert torch.equal(read_blocks(classifier, TOKENS)[-1].output, read_blocks(classifier, TOKENS)[-1].output)
    with pytest.raises(Error):
        read_blocks(classifier, TOKENS + 5)
    assert not any(module._forward_hooks for module in classifier.modules())
