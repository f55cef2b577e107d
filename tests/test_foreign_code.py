"""A model whose own code goes wrong is named, with the place in its file, in one line."""

import pytest
import torch

from lengthwise import Error, lab, models
from lengthwise.cli import main

SOUND = """
import torch, sys
from torch import nn
class Mine(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(vocab_size, vocab_size))
    def forward(self, tokens):
        return self.weight[tokens]
"""
WRONG = {
    "a shape": ("return self.weight[tokens]", "return self.weight[tokens] @ torch.zeros(7, 7)", "RuntimeError", 9),
    "a name": ("return self.weight[tokens]", "return self.wieght[tokens]", "AttributeError", 9),
    "an index of its own": ("return self.weight[tokens]", "return [][3]", "IndexError", 9),
    "an exit in forward": ("return self.weight[tokens]", "sys.exit(3)", "sys.exit", 9),
    "an exit while built": ("super().__init__()", "sys.exit('no')", "sys.exit", 6),
    "a built-in that fails": ("super().__init__()", "int('x')", "ValueError", 6),
    "an exit in the file": ("import torch, sys", "import torch, sys; sys.exit()", "sys.exit", 2),
    "a file that does not parse": ("import torch, sys", "import torch sys", "SyntaxError", 2),
    "an exception of its own kind": (
        "import torch, sys",
        "class Stop(BaseException): pass\nraise Stop('it')",
        "Stop",
        3,
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_line_names_model_error_and_place(name, tmp_path, capsys, monkeypatch):
    before, after, kind, line = WRONG[name]
    path = tmp_path / "mine.py"
    path.write_text(SOUND.replace(before, after))
    with pytest.raises(Error) as caught:
        lab.plan("parity", [f"{path}:Mine"])
    said = str(caught.value)
    assert said.startswith(f"{path}:Mine: ")
    assert f"{kind} ({path}:{line})" in said
    assert len(said.splitlines()) == 1
    monkeypatch.chdir(tmp_path)
    assert main(["--debug", "bench", "parity", "-m", f"{path}:Mine"]) == 2
    shown = capsys.readouterr().err
    assert "unexpected" not in shown
    assert "Traceback" in shown
    assert "mine.py" in shown


def test_a_model_without_weights_to_train_is_refused_before_anything_runs(tmp_path):
    path = tmp_path / "mine.py"
    frozen = "self.weight = nn.Parameter(torch.zeros(vocab_size, vocab_size), requires_grad=False)"
    none = "self.register_buffer('weight', torch.zeros(vocab_size, vocab_size))"
    for changed in (frozen, none):
        path.write_text(SOUND.replace("self.weight = nn.Parameter(torch.zeros(vocab_size, vocab_size))", changed))
        with pytest.raises(Error, match="must have weights that can be trained, and this one has none, or all are"):
            lab.plan("parity", [f"{path}:Mine"])


def test_a_wrong_model_weighs_no_more_than_a_right_one(tmp_path):
    """What is raised on purpose, and what others wait for, passes as it is."""
    path = tmp_path / "mine.py"
    path.write_text(SOUND.replace("return self.weight[tokens]", "raise RuntimeError('cannot allocate memory')"))
    classifier = models.build(f"{path}:Mine", vocab_size=2, num_outputs=2)
    with pytest.raises(RuntimeError, match="allocate memory"):
        classifier(torch.zeros(1, 2, dtype=torch.long))


def test_an_error_in_a_preset_is_this_library_s_own(monkeypatch):
    classifier = models.build("lstm", vocab_size=2, num_outputs=2)
    monkeypatch.setattr(classifier.inner.depth, "forward", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        classifier(torch.zeros(1, 3, dtype=torch.long))
