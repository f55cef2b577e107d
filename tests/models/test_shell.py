"""A vocabulary that grows: what the model knew it still says, and the new words are saved, tied and trained."""

import pytest
import torch

from lengthwise import models
from lengthwise.models import LengthwiseForCausalLM

from ..mixers import made

TOKENS = torch.randint(0, 5, (2, 13), generator=torch.Generator().manual_seed(0))
NEW = torch.tensor([[5, 0, 7, 6, 4]])


def make(**options):
    torch.manual_seed(0)
    mixer, depth = {"name": "softmax", "heads": 2}, {"name": "fixed", "layers": 1}
    return LengthwiseForCausalLM(made.config(vocab_size=5, width=16, mixer=mixer, depth=depth, **options)).eval()


def again(model, folder):
    model.save_pretrained(folder)
    return LengthwiseForCausalLM.from_pretrained(folder).eval()


@pytest.mark.parametrize("mean", [True, False])
@pytest.mark.parametrize(
    "options",
    [{}, {"tie_word_embeddings": True}, {"tie_word_embeddings": True, "num_outputs": 5}, {"head": "two-layer"}],
    ids=str,
)
def test_old_words_keep_their_logits(options, mean, tmp_path):
    model = make(**options)
    with torch.no_grad():
        model.head.bias.copy_(torch.randn(5))
    before = model(TOKENS).logits
    table = model.resize_token_embeddings(8, mean_resizing=mean)
    assert table is model.get_input_embeddings() is model.embedding
    tied = model.config.tie_word_embeddings
    for found in (model, again(model, tmp_path)):
        assert (found.config.vocab_size, found.config.outputs) == (8, 8)
        assert (found.head.weight is found.embedding.weight) == tied
        torch.testing.assert_close(found(TOKENS).logits[..., :5], before, rtol=0, atol=1e-6)
        torch.testing.assert_close(found(NEW).logits, model(NEW).logits)
    model.resize_token_embeddings(5)
    torch.testing.assert_close(model(TOKENS).logits, before, rtol=0, atol=1e-6)


@pytest.mark.parametrize("outputs", [3, 5])
def test_a_head_with_its_own_answers_stays(outputs, tmp_path):
    model = make(num_outputs=outputs)
    before, head = model(TOKENS).logits, model.head
    model.resize_token_embeddings(8)
    assert model.head is head
    for found in (model, again(model, tmp_path)):
        assert (found.config.vocab_size, found.config.outputs) == (8, outputs)
        assert torch.equal(found(TOKENS).logits, before)
        assert found(NEW).logits.shape == (1, 5, outputs)


def test_the_first_layers_table_has_the_new_words():
    model = models.build("block-lrnn", vocab_size=5, num_outputs=3, width=8).eval()
    model.reuse_equal_tokens()
    before = model(TOKENS)
    model.inner.resize_token_embeddings(8)
    # The first layer multiplies its whole table, and products of 5 and of 8 rows may be rounded differently.
    torch.testing.assert_close(model(TOKENS), before, rtol=0, atol=1e-6)
    words = torch.cat([NEW, NEW], 1)  # more tokens than words: looked up
    torch.testing.assert_close(model(words)[:, :5], model(NEW), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("scale", "width"), [(1.0, None), (8.0, None), (8.0, 0.02)])
def test_new_words_begin_as_the_others_did(scale, width):
    config = made.config(vocab_size=2, width=16, embedding_scale=scale, initializer_range=width)
    model = LengthwiseForCausalLM(config)
    model.resize_token_embeddings(500, mean_resizing=False)
    wanted = 1 / scale if width is None else width
    assert model.embedding.weight[2:].detach().std().item() == pytest.approx(wanted, rel=0.05)


def test_an_embedding_may_be_wrapped():
    peft = pytest.importorskip("peft")
    model = LengthwiseForCausalLM(models.presets.block_lrnn(5, width=16, block=4)).eval()
    wanted = model(TOKENS).logits
    wrapped = peft.get_peft_model(model, peft.LoraConfig(target_modules=["embedding"], r=2))
    torch.testing.assert_close(wrapped(TOKENS).logits, wanted)
