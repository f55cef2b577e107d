"""A bench in a file: what is written is read back as the same experiments."""

import json
from pathlib import Path

import pytest

from lengthwise import lab
from lengthwise.cli import main, study
from lengthwise.cli.bench import bench
from lengthwise.cli.study import write_study
from lengthwise.lab import loggers
from lengthwise.lab.grid import parse


def read_study(path):
    return study.read_study(path, study.keys_of(bench))


def planned(said):
    keys = ("seeds", "train_length", "test_lengths", "settings")
    return [e.hash for e in lab.plan(said["task"], said["models"], **{k: said[k] for k in keys if k in said})]


def test_a_file_repeats_the_call(tmp_path):
    words = "task.pattern=(10|01)* task.alphabet=10 training.steps=1e2 training.betas=0.9,0.98 training.clip=none "
    words += "model.width=16 transformer.position=none transformer.initializer_range=0.5 tests.samples=4"
    said = {"task": "regex", "models": ["transformer", "transformer"], "seeds": 2, "train_length": 9}
    said |= {"test_lengths": "20,30", "settings": parse(words.split()), "out": "some where", "workers": None}
    for seeds in (2, [1, 5]):
        write_study(tmp_path / "study.toml", {**said, "seeds": seeds})
        assert read_study(tmp_path / "study.toml")["seeds"] == seeds
    write_study(tmp_path / "study.toml", said)
    again = read_study(tmp_path / "study.toml")
    assert (again["out"], again["seeds"]) == ("some where", 2)
    assert planned(again) == planned(said)


def test_typed_words_win_over_the_file(tmp_path, capsys):
    quick = "training = { steps = 3, batch = 4, validation_samples = 4 }\ntests.samples = 2\nmodel.width = 8\n"
    (tmp_path / "a.toml").write_text(
        'task = "parity"\nmodels = ["rnn"]\nseeds = [3]\ntrain_length = 4\ntest_lengths = "8"\nworkers = 1\n'
        f"[settings]\n{quick}"
    )
    call = ["bench", "--config", str(tmp_path / "a.toml"), "--out", str(tmp_path / "runs"), "--device", "cpu"]
    assert main([*call, "-m", "gru", "-s", "training.steps=2", "--save-config", str(tmp_path / "b.toml")]) == 0
    (run,) = lab.load(tmp_path / "runs")
    assert (run.experiment.model.name, run.experiment.training.steps, run.experiment.training.batch) == ("gru", 2, 4)
    assert run.experiment.seed == 3
    capsys.readouterr()
    assert main(["bench", "--config", str(tmp_path / "b.toml")]) == 0
    assert "found finished" in capsys.readouterr().err
    assert len(lab.load(tmp_path / "runs")) == 1


@pytest.mark.parametrize(
    "setting", ["block-lrnn.p=Infinity", "chacal.chain_layers=-1", "training.clip=none", "training.betas=0.9,0.95"]
)
def test_what_is_saved_is_read_back_as_it_was_meant(tmp_path, setting):
    model = setting.split(".")[0] if not setting.startswith("training") else "lstm"
    said = {"task": "parity", "models": [model], "settings": parse([setting])}
    write_study(tmp_path / "a.toml", said)
    again = read_study(tmp_path / "a.toml")
    plans = [lab.plan("parity", [model], settings=each["settings"]) for each in (said, again)]
    assert plans[0][0].hash == plans[1][0].hash
    assert plans[0][0].hash != lab.plan("parity", [model])[0].hash


def test_several_tasks_and_rates_on_one_page(tmp_path, capsys):
    words = "-m rnn --train-length 4 --test-lengths 8 --workers 1 --device cpu --sweep training.lr=1e-2,1e-5"
    quick = "-s training.steps=3 -s training.batch=4 -s tests.samples=2 -s model.width=8 -s cycle-navigation.size=3"
    call = ["bench", "parity", "cycle-navigation", *words.split(), *quick.split(), "--out", str(tmp_path / "runs")]
    assert main([*call, "--save-config", str(tmp_path / "study.toml")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    runs = lab.load(tmp_path / "runs")
    assert len(runs) == 4
    page = (tmp_path / "runs" / "index.html").read_text()
    for text in ("parity", "cycle-navigation (size=3)", "Settings chosen on validation alone"):
        assert text in page
        assert text in out
    assert main(["bench", "--config", str(tmp_path / "study.toml")]) == 0
    assert capsys.readouterr().err.count("found finished") >= 4
    assert main(["bench", "-t", "parity", "--task", "cycle-navigation", *words.split(), *quick.split(),
                 "--out", str(tmp_path / "runs")]) == 0  # fmt: skip
    assert len(lab.load(tmp_path / "runs")) == 4


def test_a_file_keeps_rates_and_loggers(tmp_path, capsys, monkeypatch):
    sent = []

    class Note:
        def __init__(self, experiment, path):
            self.hash = experiment.hash

        def log(self, values, step):
            sent.append(self.hash)

        test = log

        def close(self):
            pass

    monkeypatch.setitem(loggers.LOGGERS, "tensorboard", Note)
    monkeypatch.setattr(loggers, "check_extra", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    words = "parity -m rnn --train-length 4 --test-lengths 8 --workers 1 --device cpu --sweep training.lr=1e-2,1e-5"
    words += " -s training.steps=2 -s training.batch=4 -s tests.samples=2 -s model.width=8 --log tensorboard"
    assert main(["bench", *words.split(), "--out", "first", "--save-config", "study.toml"]) == 0
    first, sent[:] = set(sent), []
    assert main(["bench", "--config", "study.toml", "--out", "second"]) == 0
    assert {run.experiment.hash for run in lab.load("second")} == {run.experiment.hash for run in lab.load("first")}
    assert set(sent) == first == {run.experiment.hash for run in lab.load("first")}
    assert len(first) == 2
    # As a file said it before.
    old = Path("study.toml").read_text().partition("[sweep.training]")[0]
    for line, rates in (('learning_rates = "1e-2,1e-5,1e-2"', [1e-2, 1e-5]), ('learning_rates = "1e-5"', [1e-5])):
        Path("old.toml").write_text(f"{line}\n{old}[settings]\nmodel.width = 8\ntraining.lr = 1e-4\n")
        old_study = read_study(Path("old.toml"))
        planned = lab.plan("parity", ["rnn"], settings=old_study["settings"], sweep=old_study["sweep"])
        assert [e.training.optimizer.lr for e in planned] == rates


@pytest.mark.slow
def test_a_sweep_chooses_on_validation_and_is_kept_in_a_file(tmp_path, capsys):
    quick = "-s training.steps=2 -s training.batch=4 -s training.validation_samples=4 -s tests.samples=2"
    words = "bench parity -m rnn,gru --train-length 4 --test-lengths 8 --workers 1 --device cpu --sweep rnn.width=4,8"
    words += " --sweep training.betas=(0.9,0.98),(0.9,0.9)"
    call = [*words.split(), *quick.split(), "--out", str(tmp_path / "runs")]
    assert main([*call, "--save-config", str(tmp_path / "a.toml")]) == 0
    out, err = capsys.readouterr()
    assert "sweep: 6 runs, 1 of each setting" in err
    assert "for all 6 runs" in err
    assert "Settings chosen on validation alone" in out
    assert "chosen of 4 settings on validation alone" in (tmp_path / "runs" / "index.html").read_text()
    assert main(["bench", "--config", str(tmp_path / "a.toml"), "--json", "--compare", "model"]) == 0
    out, err = capsys.readouterr()
    assert err.count("found finished, ") == 6
    assert "note: an interval of the difference needs --seeds 3 at least." in err
    panel, pairs = json.loads(out)["panels"]
    assert pairs["data"]["overall"][0]["pairs"] == 1
    assert [choice["settings"] for choice in panel["data"]] == [4, 2]
    assert [len(model["runs"]) for model in json.loads(out)["tasks"][0]["models"]] == [1, 1]
    assert main(["report", str(tmp_path / "runs"), "--json", "--sweep", "training.betas,rnn.width"]) == 0
    reported = json.loads(capsys.readouterr().out)
    chosen = {choice["model"]: choice["chosen"] for choice in panel["data"]}
    assert {choice["model"]: choice["chosen"] for choice in reported["panels"][0]["data"]} == {
        model: dict(sorted(values.items(), key=lambda item: item[0] != "training.betas"))
        for model, values in chosen.items()
    }
    assert main(["bench", "--config", str(tmp_path / "a.toml"), "--compare", "modle"]) == 2
    assert "Did you mean 'model'?" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "runs"), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["tasks"][0]["models"]) == 6, "nothing is chosen unasked"
