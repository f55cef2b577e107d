"""Models by name: presets, Hugging Face configs, classes of your own; and one clear error for each way to be wrong."""

import json
import subprocess
import sys

import pytest
import torch

from lengthwise import models
from lengthwise.errors import Error, LengthError, ShapeError, UnknownName
from lengthwise.files import digest

CONFIGS = {
    "llama": {
        "model_type": "llama",
        "vocab_size": 32,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "dtype": "bfloat16",
    },
    "gpt2": {"model_type": "gpt2", "vocab_size": 32, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 16},
    "mamba2": {
        "model_type": "mamba2",
        "vocab_size": 32,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "state_size": 4,
        "num_heads": 4,
        "head_dim": 8,
        "n_groups": 1,
        "expand": 2,
    },
}


@pytest.fixture
def config(tmp_path):
    def write(name, **changes):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({**CONFIGS[name], **changes}))
        return f"hf:{path}"

    return write


def defaults(name):
    return {option.name: option.default for option in models.options(name).values()}


@pytest.mark.parametrize("name", models.available())
def test_presets_are_built_with_every_setting_at_its_default(name):
    classifier = models.build(name, vocab_size=3, num_outputs=7, settings=defaults(name))
    for last in (False, True):
        assert classifier(torch.randint(0, 3, (2, 5)), last=last).shape == (2, 1 if last else 5, 7)
    assert models.source(name) is None
    assert len(models.available()[name]) > 10


def test_presets_take_their_settings_and_no_others():
    assert models.options("regular-gpt")["chunk"].default == 2
    classifier = models.build("regular-gpt", vocab_size=2, num_outputs=2, width=16, heads=2, chunk=5)
    assert classifier.inner.config.depth["chunk"] == 5
    with pytest.raises(UnknownName, match="Did you mean 'layers'"):
        models.build("lstm", vocab_size=2, num_outputs=2, layer=2)
    with pytest.raises(UnknownName, match="Did you mean 'regular-gpt'"):
        models.build("regulargpt", vocab_size=2, num_outputs=2)
    with pytest.raises(Error, match="at least 1, got 0 and 2"):
        models.build("lstm", vocab_size=0, num_outputs=2)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("lstm", {"width": "abc"}, "lstm: width must be a whole number at least 1, got 'abc'. The default is 64."),
        ("lstm", {"layers": 1.5}, "layers must be a whole number at least 1, got 1.5"),
        ("lstm", {"layers": True}, "layers must be a whole number at least 1, got True"),
        ("gru", {"width": None}, "width must be a whole number at least 1, got None"),
        ("rnn", {"dropout": "0.1"}, "dropout must be a number at least 0 and below 1, got '0.1'"),
        ("rnn", {"dropout": False}, "dropout must be a number at least 0 and below 1, got False"),
        ("rnn", {"dropout": 1.5}, "rnn: dropout must be a number at least 0 and below 1, got 1.5. The default is 0.0."),
        ("regular-gpt", {"embedding_scale": 0.0}, "embedding_scale must be a number above 0 or None, got 0.0"),
        ("regular-gpt", {"biases": "no"}, "biases must be True, False or None, got 'no'"),
        ("regular-gpt", {"missing": "drip"}, "regular-gpt: missing must be .*, got 'drip'. Did you mean 'drop'"),
        (
            "transformer",
            {"position": 3},
            "transformer: position must be 'none', 'learned', .*, got 3. The default is",
        ),
    ],
)
def test_presets_check_what_their_settings_are(name, options, words):
    with pytest.raises(Error, match=words):
        models.build(name, vocab_size=2, num_outputs=2, **options)


def test_building_is_a_function_of_the_seed_and_running_draws_nothing():
    def build():
        torch.manual_seed(3)
        return models.build("transformer", vocab_size=2, num_outputs=2, width=16, heads=2)

    first, second = build(), build()
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
    state = torch.random.get_rng_state()
    first(torch.zeros(1, 3, dtype=torch.long))
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("name", CONFIGS)
def test_hugging_face(name, config):
    path = config(name)
    classifier = models.build(path, vocab_size=2, num_outputs=3).eval()
    tokens = torch.randint(0, 2, (2, 6))
    dense, last = classifier(tokens), classifier(tokens, last=True)
    assert dense.shape == (2, 6, 3)
    assert dense.dtype == torch.float32
    torch.testing.assert_close(last, dense[:, -1:], rtol=1e-4, atol=1e-5)
    assert type(classifier.inner).__name__.lower().startswith(name)
    # Some architectures run under vmap and some do not; either answer is found without an error.
    assert classifier.stackable in (True, False)


def test_an_architecture_is_built_by_its_name():
    small = {name: size for name, size in CONFIGS["mamba2"].items() if name != "model_type"}
    classifier = models.build("hf:mamba2", vocab_size=2, num_outputs=3, settings=small)
    assert classifier(torch.zeros(1, 4, dtype=torch.long)).shape == (1, 4, 3)


def test_hugging_face_options_override_the_config(config, tmp_path):
    path = config("gpt2")
    assert models.options(path)["n_layer"].default == 2
    classifier = models.build(path, vocab_size=2, num_outputs=2, n_layer=1, hidden_size=8)
    assert (classifier.inner.config.n_layer, classifier.inner.config.n_embd) == (1, 8)
    with pytest.raises(UnknownName, match="Did you mean 'n_layer'"):
        models.build(path, vocab_size=2, num_outputs=2, n_layers_=1)
    with pytest.raises(ShapeError, match=r"at least 40, got 32. Use --set model.vocab_size=40"):
        models.build(path, vocab_size=2, num_outputs=40)
    classifier = models.build(path, vocab_size=2, num_outputs=40, settings={"vocab_size": 40})
    assert classifier(torch.zeros(1, 2, dtype=torch.long)).shape == (1, 2, 40)
    with pytest.raises(LengthError, match="cannot read 17 tokens"):
        classifier(torch.zeros(1, 17, dtype=torch.long))


def test_hugging_face_takes_a_folder_and_its_digest_follows_the_content(config, tmp_path):
    path = config("llama")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIGS["llama"], indent=7))
    assert models.build(f"hf:{folder}", vocab_size=2, num_outputs=2).inner.config.hidden_size == 16
    assert models.source(path) == models.source(f"hf:{folder}")
    assert models.source(path) != models.source(config("llama", hidden_size=32))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "config.json"),
        ("not json", "config.json"),
        ("[1]", "model_type must be"),
        ('{"model_type": "llamma"}', "got 'llamma'"),
        ('{"model_type": "clip"}', "no causal language model|vocabulary must"),
        ('{"model_type": "llama", "hidden_size": "wide"}', "not a valid llama config"),
        ('{"model_type": "llama", "vocab_size": 9, "hidden_size": 10, "num_attention_heads": 0}', "llama|causal"),
    ],
)
def test_hugging_face_refuses(tmp_path, content, words):
    path = tmp_path / "config.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(Error, match=words):
        models.build(f"hf:{path}", vocab_size=2, num_outputs=2)


MINE = """
import torch
from torch import nn
from neighbour import WIDTH

class Mine(nn.Module):
    def __init__(self, vocab_size, width=WIDTH, *, bias=True):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, width)
        self.head = nn.Linear(width, vocab_size, bias=bias)
    def forward(self, tokens):
        return self.head(self.embed(tokens).cumsum(1))

class Needs(Mine):
    def __init__(self, size):
        super().__init__(size)

class Transposed(Mine):
    def forward(self, tokens):
        return super().forward(tokens).mT

class Narrow(Mine):
    def forward(self, tokens):
        return super().forward(tokens)[..., :1]

class Tuple(Mine):
    def forward(self, tokens):
        return (super().forward(tokens),)

class Counts(Mine):
    def forward(self, tokens):
        return super().forward(tokens) if tokens.sum() + self.head.weight.sum() > 0 else super().forward(tokens)

class Raises(Mine):
    def __init__(self):
        raise RuntimeError("out of cheese")

not_a_class = 3
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "neighbour.py").write_text("WIDTH = 6\n")
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "mine.py"


def test_a_class_of_your_own(mine):
    for name in (f"{mine}:Mine", "mine:Mine"):
        assert defaults(name) == {"width": 6, "bias": True}
        classifier = models.build(name, vocab_size=2, num_outputs=4, width=3)
        assert classifier.inner.embed.weight.shape == (4, 3)
        tokens = torch.randint(0, 2, (2, 5))
        assert classifier(tokens).shape == (2, 5, 4)
        assert torch.equal(classifier(tokens, last=True), classifier(tokens)[:, -1:])
        assert classifier.stackable
    assert models.options(f"{mine}:Needs")["size"].required
    assert not models.build(f"{mine}:Counts", vocab_size=2, num_outputs=2).stackable
    wide = models.build(f"{mine}:Mine", vocab_size=9, num_outputs=2)
    assert wide(torch.tensor([[8]])).shape == (1, 1, 2)


def test_its_digest_follows_the_file(mine):
    name, before = f"{mine}:Mine", models.source(f"{mine}:Mine")
    assert models.source(name) == before
    mine.write_text(MINE.replace("cumsum(1)", "cumsum(1) * 2"))
    assert models.source(name) != before


@pytest.mark.parametrize(
    ("name", "options", "error", "words"),
    [
        ("absent.py:Mine", {}, Error, "absent.py: no such file"),
        ("no_such_module_at_all:Mine", {}, Error, "could not be imported: ModuleNotFoundError"),
        ("mine:Mime", {}, Error, "must be a class of torch.nn.Module. In it: .*Mine"),
        ("mine:not_a_class", {}, Error, "must be a class"),
        ("mine:Mine", {"widht": 3}, UnknownName, "Did you mean 'width'"),
        ("mine:Mine", {"width": "many"}, Error, "could not be built"),
        ("mine:Needs", {}, Error, "mine:Needs needs size. Add size=…"),
        ("mine:Raises", {}, Error, "out of cheese"),
    ],
)
def test_refuses_to_build(mine, name, options, error, words):
    with pytest.raises(error, match=words):
        models.build(name, vocab_size=2, num_outputs=2, **options)


CODE = """
from lengthwise import own_code
class Base:
    def forward(self, tokens):
        return tokens + 1
class Mine(Base):
    pass
print(own_code.ask_for("__main__:Mine", Base))
"""


@pytest.mark.parametrize("way", ["-", "-c", "exec", "script.py"])
def test_a_script_s_class_is_known_by_its_file_and_a_class_without_one_is_refused(way, tmp_path):
    words = [way]
    if way == "exec":
        # As in a notebook or at a prompt, where __main__ has no file at all.
        words = ["-c", f"import sys; del sys.modules['__main__'].__loader__; exec({CODE!r})"]
    elif way == "-c":
        words = ["-c", CODE]
    script = tmp_path / "script.py"
    script.write_text(CODE)
    run = subprocess.run([sys.executable, *words], input=CODE, capture_output=True, text=True, cwd=tmp_path)
    if way == "script.py":
        assert run.stdout.strip() == digest(script.read_bytes())
    else:
        assert "Mine: a notebook, a prompt or standard input defined it" in run.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Transposed", r"\(B,T,N\) = \[2, 5, 'N'\], got \[2, 2, 5\]"),
        ("Narrow", "at least 2 logits a position, got 1"),
        ("Tuple", "must return a tensor of logits, got tuple"),
    ],
)
def test_refuses_wrong_outputs(mine, name, words):
    classifier = models.build(f"mine:{name}", vocab_size=2, num_outputs=2)
    with pytest.raises(ShapeError, match=words):
        classifier(torch.zeros(2, 5, dtype=torch.long))


def test_a_config_as_transformers_saves_it(tmp_path):
    """Mamba-2's own default holds an infinity, which is no JSON number."""
    from transformers import Mamba2Config

    Mamba2Config(
        vocab_size=8,
        hidden_size=32,
        num_hidden_layers=2,
        num_heads=4,
        head_dim=16,
        state_size=16,
        n_groups=1,
        chunk_size=16,
    ).save_pretrained(tmp_path)
    classifier = models.build(f"hf:{tmp_path}", vocab_size=2, num_outputs=2)
    assert classifier.inner.config.time_step_limit[1] == float("inf")
    assert torch.isfinite(classifier(torch.tensor([[0, 1, 1]]))).all()
