"""A converted model: the original's weights, chain attention's equation, and all that transformers does with models."""

import copy
import logging
import subprocess
import sys

import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, DynamicCache, GPT2LMHeadModel

from lengthwise.convert import to_chain

from .made import BARE, HEADS, converted, lora, original, tokens


@pytest.mark.parametrize("way", ["sdpa", "eager"])
@pytest.mark.parametrize("name", [*HEADS, *BARE])
def test_gamma_0_is_the_original(name, way):
    model, x = original(name), tokens()
    model.set_attn_implementation(way)
    if way == "eager":
        model.float()  # in double precision Llama's own is NaN at padding, and its softmax single all the same
    mask = torch.ones_like(x)
    mask[1, :6] = 0
    wanted = [model(x)[0], model(x, attention_mask=mask)[0][mask.bool()]]
    weights = {n: p.clone() for n, p in model.state_dict().items()}
    chained = to_chain(copy.deepcopy(model), gamma=0.0)
    for a, b in zip([chained(x)[0], chained(x, attention_mask=mask)[0][mask.bool()]], wanted, strict=True):
        assert a.isfinite().all()
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4 if way == "eager" else 1e-10)
    kept = chained.state_dict()
    assert kept.keys() == weights.keys()
    assert all(torch.equal(kept[n], w) for n, w in weights.items())
    torch.testing.assert_close(model(x)[0], wanted[0])  # the copy's original is as it was
    assert not torch.allclose(to_chain(model, gamma=0.5)(x)[0], wanted[0], rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(("paths", "exclude"), [("mean", True), ("sum", True), ("mean", False)])
@pytest.mark.parametrize("name", HEADS)
def test_a_layer_is_its_equation(name, paths, exclude):
    """(1-γ) B^-1 A V, or without the factor, A being what the original says its attention is."""
    model, x, found = original(name), tokens(), {}
    model.set_attn_implementation("eager")
    A = model(x, output_attentions=True).attentions[0]
    first = (model.transformer.h if name == "gpt2" else model.model.layers)[0]
    own = first.attn if name == "gpt2" else first.self_attn
    source = own.c_attn if name == "gpt2" else own.v_proj
    source.register_forward_hook(lambda m, args, out: found.update(v=out))
    goal = own.c_proj if name == "gpt2" else own.o_proj
    goal.register_forward_pre_hook(lambda m, args: found.update(y=args[0]))
    chained = to_chain(model, gamma=0.8, paths=paths, exclude_diagonal=exclude)
    chained(x)
    v = found["v"][..., -16:] if name == "gpt2" else found["v"]
    v = v.unflatten(-1, (-1, 4)).transpose(1, 2)
    v = v.repeat_interleave(4 // v.shape[1], 1)
    B = torch.eye(20).double() - 0.8 * (A - A.diagonal(0, -2, -1).diag_embed() if exclude else A)
    wanted = B.inverse() @ A @ v
    wanted = (0.2 * wanted if paths == "mean" else wanted).transpose(1, 2).flatten(-2)
    torch.testing.assert_close(found["y"], wanted, rtol=1e-5, atol=1e-10 if name == "gpt2" else 1e-6)


@pytest.mark.parametrize("learn", [False, True])
@pytest.mark.parametrize("name", [*HEADS, *BARE])
def test_saves_and_loads(name, learn, tmp_path):
    form = {"paths": "sum", "exclude_diagonal": False} if learn else {}
    model, x = converted(name, gamma=0.7, layers=[-1, 0], learn_gamma=learn, **form), tokens()
    model.save_pretrained(tmp_path)
    auto = AutoModelForCausalLM if name in HEADS else AutoModel
    again = auto.from_pretrained(tmp_path, dtype=torch.float64).eval()
    assert type(again) is type(model)
    assert again.config.chain_layers == [0, 2]
    assert torch.equal(again(x)[0], model(x)[0])
    assert sum("gamma" in n for n, _ in again.named_parameters()) == 2 * learn


def test_never_loads_as_the_original_unsaid(tmp_path, caplog):
    converted("gpt2").save_pretrained(tmp_path)
    code = f"from transformers import AutoModelForCausalLM as A; A.from_pretrained({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode
    assert "trust_remote_code=True" in done.stderr
    logger = logging.getLogger("transformers")
    logger.propagate = True
    with caplog.at_level(logging.WARNING):
        GPT2LMHeadModel.from_pretrained(tmp_path)
    assert "type `chain-gpt2` to instantiate a model of type `gpt2`" in caplog.text


def test_how_it_generates_is_kept():
    model = original("gpt2")
    model.generation_config.max_new_tokens, model.generation_config.pad_token_id = 3, 0
    assert to_chain(model).generate(tokens(1, 5)).shape == (1, 8)


def padded():
    x = tokens()
    mask = torch.ones_like(x)
    mask[1, :7], mask[2, :19] = 0, 0
    return x, mask


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("layers", ["all", [1]])
def test_generate_with_a_cache(name, layers):
    form = {"paths": "sum", "exclude_diagonal": False} if layers == "all" else {}
    model = converted(name, layers=layers, learn_gamma=True, **form)
    x, mask = padded()
    for way in (
        {},
        {"num_beams": 3, "num_return_sequences": 2},
        {"do_sample": True, "top_k": 3},
        {"prefill_chunk_size": 6},
    ):
        common = {"attention_mask": mask, "max_new_tokens": 15, "do_sample": False, "pad_token_id": 0, **way}
        torch.manual_seed(2)
        found = model.generate(x, **common)
        torch.manual_seed(2)
        common.pop("prefill_chunk_size", None)
        assert torch.equal(found, model.generate(x, use_cache=False, **common))


def test_an_assistant_may_draft():
    """Which rewinds the cache behind every wrong guess."""
    model, draft, x = converted("gpt2"), original("gpt2"), tokens(1, 6)
    common = {"do_sample": False, "max_new_tokens": 20, "pad_token_id": 0}
    assert torch.equal(model.generate(x, assistant_model=draft, **common), model.generate(x, **common))


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", HEADS)
def test_in_pieces_and_padded(name, grad):
    model = converted(name, learn_gamma=True)
    x, mask = padded()
    leaves = [p for p in model.parameters() if p.requires_grad]
    with torch.set_grad_enabled(grad):
        alone = [model(row[kept.bool()][None]).logits[0] for row, kept in zip(x, mask, strict=True)]
        wanted = torch.autograd.grad(sum(y.square().sum() for y in alone), leaves) if grad else ()
        for cuts in ([20], [9, 1, 3, 7], [1] * 20):
            cache, parts, end = DynamicCache(config=model.config), [], 0
            # Positions count from 0 at the first real token, as generate() has them.
            ids = (mask.cumsum(1) - 1).clamp(min=0)
            for size in cuts:
                new, end = slice(end, end + size), end + size
                out = model(x[:, new], attention_mask=mask[:, :end], position_ids=ids[:, new], past_key_values=cache)
                parts.append(out.logits)
            found = torch.cat(parts, 1)
            assert found.isfinite().all()
            for i, y in enumerate(alone):
                torch.testing.assert_close(found[i, mask[i].bool()], y, rtol=1e-9, atol=1e-9)
            if grad:
                loss = found[mask.bool()].square().sum()
                for a, b in zip(torch.autograd.grad(loss, leaves), wanted, strict=True):
                    torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", HEADS)
def test_packed(name):
    """Sequences end to end in one row, as transformers tells them apart: by positions that begin again."""
    model, x = converted(name), tokens(1, 20)
    ids = torch.cat([torch.arange(8), torch.arange(12)])[None]
    found = model(x, position_ids=ids, use_cache=False).logits
    wanted = torch.cat([model(x[:, :8]).logits, model(x[:, 8:]).logits], 1)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)


def losses(model, steps=12, lr=0.02):
    """Of learning one batch by heart."""
    x, found = tokens(4, 16), []
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=lr)
    for _ in range(steps):
        loss = model(input_ids=x, labels=x).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("name", HEADS)
def test_trains(name):
    torch.manual_seed(0)
    model = to_chain(HEADS[name](), layers="last", learn_gamma=True).train()
    (gamma,) = [p for n, p in model.named_parameters() if "gamma" in n]
    before = gamma.detach().clone()
    found = losses(model)
    assert found[-1] < 0.8 * found[0]
    assert not torch.equal(gamma, before)


@pytest.mark.parametrize("T", [65, 128, 130])
def test_trains_on_texts_of_one_block_and_more(T):
    model = to_chain(HEADS["gpt2"](n_positions=256))
    tokens = torch.randint(0, 11, (2, T))
    model(input_ids=tokens, labels=tokens).loss.backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


def test_trains_with_gradient_checkpointing():
    x, gradients = tokens(), []
    for often in (False, True):
        torch.manual_seed(0)
        model = to_chain(HEADS["gpt2"](resid_pdrop=0.0, embd_pdrop=0.0), learn_gamma=True).train()
        if often:
            model.gradient_checkpointing_enable()
        gradients.append(torch.autograd.grad(model(x, labels=x).loss, list(model.parameters())))
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(("name", "maps"), [("gpt2", ["c_attn"]), ("llama", ["q_proj", "v_proj"])])
def test_trains_under_lora(name, maps, tmp_path):
    torch.manual_seed(0)
    base = to_chain(HEADS[name](), learn_gamma=True).train()
    frozen = {n: p.clone() for n, p in base.named_parameters()}
    model = lora(copy.deepcopy(base), *maps, modules_to_save=["gamma"])
    trained = [n for n, p in model.named_parameters() if p.requires_grad]
    assert trained
    assert all("lora" in n or "gamma" in n for n in trained)
    found = losses(model, lr=0.1)
    assert found[-1] < 0.9 * found[0]
    saved = [p for n, p in model.named_parameters() if "gamma.modules_to_save" in n]
    assert len(saved) == 3
    assert not any(torch.equal(p, frozen[n]) for p, n in zip(saved, (n for n in frozen if "gamma" in n), strict=True))
    model.eval()
    x = tokens()
    assert model.generate(input_ids=x, max_new_tokens=4, pad_token_id=0).shape == (3, 24)
    merged = model.merge_and_unload()
    wanted = model(x).logits
    merged.save_pretrained(tmp_path)
    torch.testing.assert_close(AutoModelForCausalLM.from_pretrained(tmp_path).eval()(x).logits, wanted)
    assert all(torch.equal(p, frozen[n]) for n, p in base.named_parameters())


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["gpt2", pytest.param("llama", marks=pytest.mark.slow)])
def test_compiles(name, backend):
    torch._dynamo.reset()
    model, x = converted(name, {"num_hidden_layers": 1}, learn_gamma=True).float(), tokens()
    leaves = list(model.parameters())

    def run(forward):
        logits = forward(input_ids=x, use_cache=False).logits
        return logits, torch.autograd.grad(logits.square().mean(), leaves)

    wanted, wanted_gradients = run(model)
    found, gradients = run(torch.compile(model, backend=backend))
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)
    for a, b in zip(gradients, wanted_gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


def test_half_precision():
    model, x = converted("llama"), tokens()
    wanted = model(x).logits
    found = model.bfloat16()(x).logits
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), wanted, rtol=0.2, atol=0.2)
