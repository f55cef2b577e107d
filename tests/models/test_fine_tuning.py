"""Training as others do it: LoRA, gradient checkpointing, the Trainer."""

import copy
import warnings

import pytest
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

from lengthwise.models import LengthwiseForCausalLM, presets

from .test_inputs import V, make, tokens

WITHOUT_MAPS = ("rnn", "lstm", "gru")
"""Their weights are those of torch's recurrent modules, and they have no nn.Linear but the head."""


@pytest.mark.parametrize("name", [name for name in presets.PRESETS if name not in WITHOUT_MAPS])
def test_lora_on_all_linear_maps(name, tmp_path):
    peft = pytest.importorskip("peft")
    model, t = make(name), tokens()
    own = model(t).logits
    adapted = peft.get_peft_model(
        copy.deepcopy(model), peft.LoraConfig(task_type="CAUSAL_LM", target_modules="all-linear", r=4)
    )
    added = {n: p for n, p in adapted.named_parameters() if "lora_" in n}
    assert added
    for p in added.values():
        torch.nn.init.normal_(p, std=0.1)
    adapted(input_ids=t, labels=t).loss.backward()
    assert all(p.grad.abs().sum() > 0 for p in added.values())  # none is written down and never read
    adapted.eval()
    wanted = adapted(input_ids=t).logits
    assert not torch.allclose(wanted, own, atol=1e-3)
    generated = adapted.generate(input_ids=t, max_new_tokens=4, do_sample=False)
    adapted.save_pretrained(tmp_path)
    again = peft.PeftModel.from_pretrained(copy.deepcopy(model), tmp_path).eval()
    torch.testing.assert_close(again(input_ids=t).logits, wanted)
    merged = adapted.merge_and_unload()
    torch.testing.assert_close(merged(t).logits, wanted, rtol=1e-3, atol=1e-3)
    assert torch.equal(merged.generate(t, max_new_tokens=4, do_sample=False), generated)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("name", presets.PRESETS)
def test_gradient_checkpointing_changes_nothing(name, reentrant):
    t, losses, runs = tokens(), [], []
    a, b = make(name, dropout=0.1).train(), make(name, dropout=0.1).train()
    b.activation_checkpointing_enable({"use_reentrant": reentrant})
    for model in (a, b):
        mixer = model.depth.layers[0].mixer
        mixer.register_forward_hook(lambda *_: runs.append(model))  # noqa: B023
        torch.manual_seed(1)
        losses.append(model(t, labels=t).loss)
        losses[-1].backward()
    torch.testing.assert_close(losses[0], losses[1])
    assert runs.count(b) == 2 * runs.count(a)
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        assert p.grad is q.grad is None or torch.allclose(p.grad, q.grad, rtol=1e-5, atol=1e-6)
    assert torch.equal(b.generate(t, max_new_tokens=3, do_sample=False)[:, :9], t)  # its cache is not filled twice


@pytest.mark.slow
@pytest.mark.parametrize("name", ["transformer", "regular-gpt", "block-lrnn"])
def test_the_trainer(name, tmp_path):
    pytest.importorskip("accelerate")
    rows = [{"input_ids": row, "labels": row} for row in tokens(16, 9)]

    def losses(checkpointing, accumulate):
        args = TrainingArguments(
            str(tmp_path / "run"), max_steps=4, per_device_train_batch_size=8 // accumulate, logging_steps=1,
            gradient_accumulation_steps=accumulate, gradient_checkpointing=checkpointing, report_to=[],
            save_strategy="no", use_cpu=True, disable_tqdm=True, learning_rate=1e-2,
        )  # fmt: skip
        trainer = Trainer(make(name), args, train_dataset=rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer.train()
        trainer.save_model(str(tmp_path / "saved"))
        again = AutoModelForCausalLM.from_pretrained(tmp_path / "saved")
        torch.testing.assert_close(again(tokens()).logits, trainer.model.eval()(tokens()).logits)
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]

    plain = losses(False, 1)
    assert plain[-1] < plain[0]
    torch.testing.assert_close(losses(True, 1), plain, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(losses(False, 2), plain, rtol=1e-3, atol=1e-3)


def test_it_loads_in_the_precision_and_place_that_is_asked(tmp_path):
    pytest.importorskip("accelerate")
    make("chacal").bfloat16().save_pretrained(tmp_path)
    for options, wanted in (
        ({"dtype": "auto"}, torch.bfloat16),
        ({"dtype": torch.bfloat16, "device_map": "auto"}, torch.bfloat16),
        ({"dtype": torch.float32, "device_map": "cpu", "attn_implementation": "sdpa"}, torch.float32),
    ):
        model = AutoModelForCausalLM.from_pretrained(tmp_path, **options)
        assert isinstance(model, LengthwiseForCausalLM)
        assert model.dtype == wanted
        assert model.generate(tokens(), max_new_tokens=3).shape == (2, 12)
        assert model(tokens()).logits.shape == (2, 9, V)


def test_the_name_by_which_peft_asks_for_checkpointing_warns_of_nothing():
    model = make("transformer")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not model.is_gradient_checkpointing
        model.activation_checkpointing_enable()
        assert model.is_gradient_checkpointing
