"""The command line: what it prints where, its exit codes, and its words when something goes wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lengthwise import Error, lab, recipes, report
from lengthwise.cli import console, main
from lengthwise.cli.progress import Lines, TimeLeft, names, verdict
from lengthwise.lab import plan
from lengthwise.recipes.common.grid import Cell, Grid

TINY = ["-s", "training.steps=12", "-s", "training.batch=8", "-s", "tests.samples=4", "-s", "model.width=8"]
TINY += ["-s", "training.validation_samples=8", "--test-lengths", "41:44,60", "--workers", "1", "--device", "cpu"]


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("runs")


def bench(root, *more):
    return main(["bench", "parity", "-m", "lstm", *TINY, "--out", str(root), *more])


def test_bench_then_again_then_report(tmp_path, capsys):
    root = tmp_path / "runs"
    assert bench(root, "--seeds", "2") == 0
    out, err = capsys.readouterr()
    assert "lstm" in out
    assert "2 seeds" in out
    assert str(root / "index.html") in out
    assert "[2/2] lstm seed 1:" in err
    assert "found finished" not in err
    assert (root / "index.html").read_text().startswith("<!doctype html>")

    assert bench(root, "--seeds", "2", "--json", "--html", str(root / "other.html")) == 0
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert data["failures"] == []
    assert data["page"] == str(root / "other.html")
    assert data["tasks"][0]["models"][0]["seeds"] == [0, 1]
    assert err.count("found finished, ") == 2

    assert main(["report", str(root), "--csv", str(root / "r.csv"), "--html", str(root)]) == 0
    out, _ = capsys.readouterr()
    assert "2 seeds" in out
    assert (root / "r.csv").read_text().count("\n") == 1 + 2 * 9
    command = lab.load(root)[0].result["command"]
    assert command.startswith("lengthwise bench parity -m lstm")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (["bench", "parityy", "-m", "lstm"], "Did you mean 'parity'?"),
        (["bench", "parity", "-m", "lstmm"], "Did you mean 'lstm'?"),
        (["bench", "parity"], "bench needs a model, as in -m lstm"),
        (["bench", "-m", "lstm"], "bench needs a TASK"),
        (["bench", "parity", "-m", "lstm", "--workers", "0"], "--workers must be a whole number at least 1, got 0."),
        (["bench", "parity", "-m", "lstm", "--workers", "1" * 400], "workers must be a whole number in 1..1024"),
        (["bench", "parity", "-m", "lstm", "--seeds", "1" * 400], "at most 10,000 runs in one grid"),
        (["bench", "parity", "-m", "lstm", "--train-length", "1" * 400], "at most 1,000,000 symbols in a string"),
        (["bench", "parity", "-m", "lstm", "-s", f"training.lr={'1' * 400}"], "training.lr must be a number above 0"),
        (["bench", "parity", "-m", "lstm", "--device", "gpu"], "device must be auto, cpu, cuda or cuda:N, got 'gpu'"),
        (["bench", "parity", "-m", "lstm", "--sedes", "2"], "Did you mean --seeds? See: lengthwise bench --help"),
        (["bench", "parity", "lstm"], "lengthwise bench has no use for lstm."),
        (["bench", "parity", "-m", "lstm", "-s", "training.stps=3"], "Did you mean 'training.steps'?"),
        (["bench", "parity", "-m", "lstm", "-s", "steps=5"], "Did you mean training.steps?"),
        (["bench", "parity", "-m", "lstm", "-s", "widht=5"], "Did you mean model.width?"),
        (["bench", "parity", "-m", "lstm", "-s", "task.name=x"], "Unknown setting of parity 'task.name'"),
        (["bench", "parity", "-m", "lstm", "-s", "task.probabilities=0.3"], "parity: probabilities must be 2 numbers"),
        (["bench", "parity", "-m", "lstm", "-s", "training.lr=1e400"], "training.lr must be a number above 0, got inf"),
        (["bench", "parity", "-m", "lstm", "-s", "training.threads=100000"], "training.threads must be a whole number"),
        (["bench", "parity", "-m", "lstm", "-s", "model.chunk=2"], "Unknown setting of lstm 'model.chunk'"),
        (["bench", "word-problem", "-m", "lstm", "-s", "task.group=5"], "group must be Zn, Sn or An"),
        (["bench", "machine", "-m", "lstm"], "machine needs delta. Add --set task.delta=…."),
        (["export", "machine", "--lengths", "4", "--out", "x"], "Add --set task.delta=…."),
        (["bench", "regex:a{2,1}", "-m", "lstm"], "Lower bound 2 cannot be greater than the upper bound. Correct"),
        (["bench", "parity", "-m", "gpt2"], "A Hugging Face model is hf:PATH"),
        (["bench", "parity", "-m", "hf:~nosuchuser"], "Could not determine home directory."),
        (["bench", "parity", "-m", "lstm", "--test-lengths", "7:3"], "empty"),
        (["bench", "parity", "-m", "lstm", "--seeds", "0"], "--seeds"),
        (["reproduce", "demo", "prity"], "Did you mean 'demo parity'?"),
        (["reproduce", "regulargpt", "table-1", "--scale", "smoke", "--only", "prity"], "Did you mean 'parity'?"),
        (["reproduce", "demo", "parity", "--scale", "big"], "--scale must be 'smoke', 'laptop' or 'paper', got 'big'."),
        (["export", "parity", "--lengths", "4", "--out", "/tmp/x", "-s", "model.width=3"], "model.width"),
        (["export", "parity", "--lengths", "0", "--out", "/tmp/x"], "at least 1"),
        (["report", "/no/such/place"], "/no/such/place"),
        (["nonsense"], "lengthwise --help"),
        (["doctor", "--nonsense"], "lengthwise doctor --help"),
    ],
)
def test_a_wrong_call_is_one_line_and_two(call, words, capsys):
    assert main(call) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert words in err


def test_debug_shows_where(capsys, monkeypatch):
    for call in (["--debug", "report", "/no/such/place"], ["report", "/no/such/place", "--debug"]):
        assert main(call) == 2
        assert "Traceback" in capsys.readouterr().err
    monkeypatch.setenv("LENGTHWISE_DEBUG", "1")
    assert main(["report", "/no/such/place"]) == 2
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.delenv("LENGTHWISE_DEBUG")
    assert main(["report", "/no/such/place"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_unwritable_places_are_named(root, tmp_path, capsys):
    if not list(root.glob("parity*")):
        bench(root)
    (tmp_path / "file").write_text("")
    assert main(["report", str(root), "--html", str(tmp_path / "file" / "x.html")]) == 2
    assert str(tmp_path / "file") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("codes", "exit_code"), [([0, 1], 1), ([0, 2], 1), ([2, 2], 2), ([1, 2], 1), ([0, 0], 0)], ids=str
)
def test_failed_runs_are_listed_and_the_others_reported(codes, exit_code, root, tmp_path, capsys, monkeypatch):
    bench(root, "--seeds", "2")
    capsys.readouterr()
    runs = lab.load(root)
    outcomes = [
        lab.Outcome(
            run.experiment, error="it broke", traceback="Traceback: here", exit_code=code, log=Path("error.txt")
        )
        if code
        else lab.Outcome(run.experiment, run)
        for run, code in zip(runs, codes, strict=True)
    ]

    def run(experiments, root, *, progress, **_):
        for outcome in outcomes:
            progress.end(outcome.experiment, outcome)
        return outcomes

    monkeypatch.setattr(lab, "run", run)
    assert bench(tmp_path, "--seeds", "2") == exit_code
    out, err = capsys.readouterr()
    failed = sum(map(bool, codes))
    assert err.count("error: lstm seed") == failed
    assert err.count("traceback: error.txt") == failed
    assert "Traceback: here" not in err
    assert ("majority answer" in out) == (failed < 2)
    again = ["bench", "parity", "-m", "lstm", *TINY, "--out", str(tmp_path), "--seeds", "2"]
    assert main(["--debug", *again, "--json"]) == exit_code
    out, err = capsys.readouterr()
    assert [f["error"] for f in json.loads(out)["failures"]] == ["it broke"] * failed
    assert err.count("Traceback: here") == failed


def panel(title="What <was> [found]"):
    return report.Panel(title, "a caption [dim]", "<p>body</p>", "the [bold]text  42", {"x": 42})


def recipe(monkeypatch, experiments, report):
    grid = Grid([Cell("all", lambda: experiments)] if experiments else [])
    monkeypatch.setitem(recipes.TABLES, ("demo", "mine"), lambda scale: recipes.Recipe("Mine", "Why", grid, report))


def test_a_recipe_may_be_a_measurement_alone(tmp_path, capsys, monkeypatch):
    recipe(monkeypatch, [], lambda finished, device: [panel(f"{len(finished)} runs [found]")])
    call = ["reproduce", "demo", "mine", "--out", str(tmp_path / "new")]
    assert main(call) == 0
    out, err = capsys.readouterr()
    assert out == f"\n0 runs [found]\nthe [bold]text  42\na caption [dim]\nPage:    {tmp_path / 'new' / 'index.html'}\n"
    assert err == ""
    assert "<p>body</p>" in (tmp_path / "new" / "index.html").read_text()
    assert main([*call, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["tasks"] == []
    assert data["panels"] == [{"title": "0 runs [found]", "caption": "a caption [dim]", "data": {"x": 42}}]
    assert main([*call, "--only", "parity"]) == 2
    assert "Leave --only out" in capsys.readouterr().err


def test_panels_hear_of_the_finished_runs_and_hold_no_result_back(root, tmp_path, capsys, monkeypatch):
    bench(root)
    capsys.readouterr()
    runs = lab.load(root)[:2]
    heard = []

    def report(finished, device):
        print("from a model's code")
        heard.append([run.experiment.hash for run in finished["all"]])
        if len(heard) == 2:
            raise Error("this panel fails")
        return [panel()]

    recipe(monkeypatch, [run.experiment for run in runs], report)
    call = ["reproduce", "demo", "mine", "--out", str(root), "--workers", "1", "--html", str(tmp_path), "--json"]
    assert main(call) == 0
    out, _ = capsys.readouterr()
    assert json.loads(out)["panels"][0]["title"] == "What <was> [found]"
    assert "What &lt;was&gt; [found]" in (tmp_path / "index.html").read_text()
    assert main(call) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["tasks"], "what was computed is told all the same"
    assert json.loads(out)["page"] is None
    assert "error: this panel fails" in err
    assert heard == [[run.experiment.hash for run in runs]] * 2

    failed = [lab.Outcome(run.experiment, error="it broke", exit_code=1) for run in runs]
    monkeypatch.setattr(lab, "run", lambda *_, **__: failed)
    assert main(call) == 1
    assert json.loads(capsys.readouterr().out)["panels"] == []
    assert len(heard) == 2, "without a single run there is nothing to draw"


def test_interruption_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    def run(*_, **__):
        raise lab.Interrupted("Stopped; all state is kept.")

    monkeypatch.setattr(lab, "run", run)
    assert bench(tmp_path) == 130
    err = capsys.readouterr().err
    assert "Stopped; all state is kept." in err
    assert f"lengthwise bench parity -m lstm {' '.join(TINY)} --out {tmp_path}" in err


def test_export_writes_the_strings_that_bench_tests_on(tmp_path, capsys):
    from lengthwise import tasks

    call = ["export", "modular-sum", "--lengths", "4:6", "--samples", "3", "--seed", "7", "-s", "task.modulus=3"]
    assert main([*call, "--out", str(tmp_path / "data"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["lengths"], said["directory"]) == ([4, 5, 6], str(tmp_path / "data"))
    lines = (tmp_path / "data" / "data" / "length_5.jsonl").read_text().splitlines()
    strings = tasks.get("modular-sum", modulus=3).test_set(5, 3, seed=7)
    assert [json.loads(line)["tokens"] for line in lines] == strings.tokens.tolist()
    assert main([*call, "--out", str(tmp_path / "data")]) == 2
    assert "not an empty directory" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["list", "doctor"])
def test_json_is_alone_on_stdout(name, capsys):
    assert main([name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert main([name]) == 0
    assert "{" not in capsys.readouterr().out


def test_list_has_every_name(capsys):
    from lengthwise import mixers, models, positions, recipes, tasks

    main(["list"])
    out = capsys.readouterr().out
    parts = (*positions.POSITIONS, *mixers.MIXERS, "training", "tests")
    for name in (*tasks.available(), *models.available(), *recipes.available(), *parts):
        assert f" {name} " in out


def test_the_help_of_list_names_what_can_be_listed(capsys):
    main(["list", "--help"])
    out = capsys.readouterr().out
    assert "list[str]" not in out
    for word in ("task", "model", "recipe", "position", "mixer", "training", "tests", "settings", "study"):
        assert word in out


def test_doctor_says_what_is_missing(capsys, monkeypatch):
    from lengthwise.cli import doctor

    monkeypatch.setattr(
        doctor, "_package", lambda name, purpose, required=False: doctor.Check(name, "bad", "x", purpose)
    )
    assert main(["doctor"]) == 1
    assert "✗" in capsys.readouterr().out


def test_doctor_cuts_nothing_on_a_narrow_terminal(capsys, monkeypatch):
    from rich.console import Console

    from lengthwise.cli import console, doctor

    long = doctor.Check("a part", "ok", "/a/path/that/is/longer/than/its/column", "training.precision=bf16-and-more")
    monkeypatch.setattr(doctor, "examine", lambda: [long])
    monkeypatch.setattr(console, "out", lambda: Console(width=60, file=sys.stdout))
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "…" not in out
    for word in (long.found, long.purpose):
        assert all(letter in out for letter in word)
    assert max(map(len, out.splitlines())) <= 60


@pytest.mark.parametrize("verb", [[], ["list"], ["bench"], ["reproduce"], ["report"], ["export"], ["doctor"]])
def test_help_has_an_example(verb, capsys):
    assert main([*verb, "--help"]) == 0
    out = capsys.readouterr().out
    assert "lengthwise " + " ".join(verb) in out
    assert "Example:" in out or not verb
    assert "--json" in out or not verb


VERBS = ("list", "bench", "reproduce", "report", "inspect", "export", "doctor")


@pytest.mark.parametrize("columns", ["60", "80"])
@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_shows_values_and_no_types(verb, columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert main([verb, "--help"] if verb else ["--help"]) == 0
    out = capsys.readouterr().out
    assert not re.search(r"<[a-zA-Z]", out), "a Python type such as <int range>"
    assert not re.search(r"\w…", out.replace("NAME[,NAME…]", "")), "a cut word"
    assert max(map(len, out.splitlines())) <= int(columns)


def test_several_models_with_a_comma(tmp_path, capsys):
    assert main(["bench", "parity", "-m", "lstm,gru", *TINY, "--out", str(tmp_path), "--json"]) == 0
    assert [each["model"] for each in json.loads(capsys.readouterr().out)["tasks"][0]["models"]] == ["lstm", "gru"]


def test_a_setting_that_some_models_lack_is_told_once(tmp_path, capsys):
    call = ["bench", "parity", "-m", "lstm,gru,regular-gpt", *TINY, "-s", "model.chunk=3", "--out", str(tmp_path)]
    assert main(call) == 0
    assert capsys.readouterr().err.count("note: model.chunk is no option of lstm, gru, and is used for the others") == 1
    chunks = {run.experiment.model.name: run.experiment.model.options.get("chunk") for run in lab.load(tmp_path)}
    assert chunks == {"lstm": None, "gru": None, "regular-gpt": 3}
    with pytest.raises(Error, match=r"Unknown setting of lstm 'model\.chunk'"):
        lab.plan("parity", ["lstm", "regular-gpt"], settings={"model.chunk": 3})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("task = 5", "task must be a text"),
        ('models = "lstm"', "models must be a list of texts, got 'lstm'"),
        ("seeds = 0", "seeds must be a whole number at least 1, got 0"),
        ("seeds = true", "seeds must be a whole number at least 1, got True"),
        ("settings = 3", "settings must be"),
        ("sedes = 3", "Did you mean 'seeds'?"),
        ("[settings]\nsteps = 3", "Did you mean training.steps?"),
        ("[settings]\ntraining.clip = []", "training.clip must be a number"),
        ("test_lengths = [1, 2]", "test_lengths must be"),
        ("x = ", "not a readable TOML file"),
        ('html = "\\u0000"', "null"),
    ],
)
def test_a_wrong_study_is_one_line(content, words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(content)
    typed = ["bench", "--config", "study.toml"]
    typed += [] if "task" in content else ["parity"]
    typed += [] if "models" in content else ["-m", "lstm"]
    assert main([*typed, *TINY]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert words in err


@pytest.mark.parametrize("option", [["--device", "cuda:99"], ["--device", "gpu"]])
def test_a_wrong_device_leaves_nothing_behind(option, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call = ["bench", "parity", "-m", "lstm", *TINY, *option, "--save-config", "study.toml"]
    assert main(call) == 2
    assert main(["reproduce", "demo", "parity", "--scale", "smoke", *option]) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("lengthwise bench pa", ["parity"]),
        ("lengthwise bench parity -m l", ["liquid-s4", "lru", "lstm"]),
        ("lengthwise reproduce l", ["lrnn"]),
        ("lengthwise reproduce regulargpt ", ["table-1", "table-2", "figure-3", "figure-4"]),
        ("lengthwise inspect runs c", ["clusters"]),
        ("lengthwise list mix", ["mixers"]),
        ("lengthwise list demo ", ["parity"]),
    ],
)
def test_a_shell_completes_names_without_torch(typed, completed):
    code = (
        "import sys; from lengthwise.cli import main\n"
        "try: main([])\n"
        "finally: print('torch' in sys.modules, file=sys.stderr)"
    )
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" ")), "_LENGTHWISE_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **words}, check=True
    )
    assert done.stdout.split() == completed
    assert done.stderr.strip() == "False"


def test_completed_names_are_those_that_are_listed():
    from lengthwise.cli.list import all_tables
    from lengthwise.cli.typed import REGISTRIES, names

    tables = all_tables()
    for table in REGISTRIES:
        assert sorted(names(table)) == sorted(tables[table])


NASTY = "\x1b]0;owned\x07\x1b[31mred\x9b1m\r"


def test_no_escape_sequence_reaches_the_terminal(root, tmp_path, capsys, monkeypatch):
    for call in (["bench", NASTY, "-m", "lstm"], ["bench", "parity", "-m", NASTY], ["report", NASTY], [NASTY]):
        for debug in ([], ["--debug"]):
            assert main([*call, *debug]) == 2
            assert not re.search(CONTROL, "".join(capsys.readouterr()))
    bench(root)
    run = lab.load(root)[0]
    named = replace(run.experiment, model=replace(run.experiment.model, name=NASTY))
    outcomes = [lab.Outcome(named, run._replace(experiment=named)), lab.Outcome(named, error=NASTY, exit_code=1)]
    for outcome in outcomes:
        monkeypatch.setattr(lab, "run", lambda *_, progress, outcome=outcome, **__: [outcome])
        monkeypatch.setattr(lab, "plan", lambda *_, **__: [named])
        for more in ([], ["--json"]):
            bench(tmp_path, *more)
            out, err = capsys.readouterr()
            assert "owned" in out + err
            assert not re.search(CONTROL, out + err)


CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from lengthwise.cli import main; main(['--help']); "
        "print([m for m in ('torch', 'transformers', 'pandas', 'matplotlib') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_lines_are_not_a_flood(root, capsys):
    bench(root)
    capsys.readouterr()
    run = lab.load(root)[0]
    e = run.experiment
    watch = Lines([e], lines := Recorder())
    watch.begin(e)
    for step in range(1, 1001):
        watch.advance(lab.Progress(e.hash, step, 1000, 0.5))
    for done in range(1, 51):
        watch.advance(lab.Progress(e.hash, done, 50, 0.0, "test last"))
    watch.end(e, lab.Outcome(e, run))
    assert 11 <= len(lines.said) <= 14
    assert "step 500/1000" in "\n".join(lines.said)
    assert "% at 41–44" in lines.said[-1]


class Recorder:
    def __init__(self):
        self.said = []

    def print(self, text, **_):
        self.said.append(text)


def test_pace_counts_from_where_it_was_resumed(monkeypatch):
    e = plan("parity", ["lstm"], settings={"training.steps": 1000})[0]
    left = TimeLeft([e])
    assert str(at(monkeypatch, 100, left, e, 700)) == ""
    assert str(at(monkeypatch, 102, left, e, 800)) == "50 steps/s"
    assert str(left) == "4.0 s left"


def at(monkeypatch, second, left, experiment, step):
    monkeypatch.setattr("time.monotonic", lambda: float(second))
    return left.advance(experiment.hash, step)


def test_the_time_left_is_that_of_all_runs(monkeypatch):
    a, b, c, done = plan("parity", ["lstm"], seeds=4, settings={"training.steps": 1000})
    left = TimeLeft([a, b, c, done])
    left.end(done.hash)  # found finished
    assert str(left) == ""
    at(monkeypatch, 0, left, a, 0)
    at(monkeypatch, 0, left, b, 0)
    at(monkeypatch, 10, left, a, 100)
    at(monkeypatch, 10, left, b, 100)
    # Two side by side took 200 of 3,000 steps in 10 seconds.
    assert str(left) == "2 min 20 s left for all 4 runs"
    at(monkeypatch, 100, left, a, 1000)
    at(monkeypatch, 100, left, b, 1000)
    assert left.seconds == 50
    left.end(a.hash)
    left.end(b.hash)
    at(monkeypatch, 100, left, c, 0)
    at(monkeypatch, 110, left, c, 100)
    assert left.seconds == 90, "alone it takes what it takes"
    at(monkeypatch, 120, left, c, 300)
    left.end(c.hash)
    assert str(left) == "", "stopped early, it has nothing left"


def test_lines_tell_variants_apart():
    wide, narrow = (plan("parity", ["lstm"], seeds=2, settings={"model.width": width}) for width in (32, 16))
    called = names([*wide, *narrow])
    assert list(called.values()) == [f"lstm width={w} seed {s}" for w in (32, 16) for s in (0, 1)]
    longer = plan("parity", ["lstm"], test_lengths="60", settings={"model.width": 32})
    assert len({*names([*wide, *longer]).values()}) == 3, "tested at other lengths"
    sums = plan("modular-sum", ["lstm"], settings={"task.modulus": 3, "model.width": 32})
    assert list(names([wide[0], *sums]).values()) == ["parity lstm seed 0", "modular-sum (modulus=3) lstm seed 0"]


def test_one_length_is_one():
    (e,) = plan("parity", ["lstm"])
    watch = Lines([e], lines := Recorder())
    watch.begin(e)
    watch.advance(lab.Progress(e.hash, 0, 1, 0.0, "test last"))
    assert lines.said == ["lstm seed 0: test last checkpoint, 1 length"]


def test_the_verdict_is_on_longer_strings(root):
    bench(root)
    run = lab.load(root)[0]
    trained = run.experiment.training.but(lengths=(42, 43))
    below = replace(run.experiment, training=trained)
    assert [part.split(" at ")[1] for part in verdict(lab.Outcome(below, run)).split(", ")] == ["44", "60"]
    none = replace(below, training=trained.but(lengths=(42, 60)))
    assert verdict(lab.Outcome(none, run)).endswith("at 42–60"), "with nothing longer, what there is"


def test_lines_tell_files_of_one_name_apart(root):
    bench(root)
    e = lab.load(root)[0].experiment
    here, there = (replace(e, model=replace(e.model, name=f"{place}/toys.py:Net")) for place in "ab")
    watch = Lines([here, there], lines := Recorder())
    for one in (here, there):
        watch.begin(one)
        watch.advance(lab.Progress(one.hash, 1, 100, 0.5))
    assert [line.split(" seed")[0] for line in lines.said] == ["a/toys.py:Net", "b/toys.py:Net"]


CHATTY = """
import os, sys
import torch

print("imported")

class Chatty(torch.nn.Module):
    def __init__(self, vocab_size, width=8):
        super().__init__()
        self.table = torch.nn.Embedding(vocab_size, vocab_size)
        print("built")

    def forward(self, tokens):
        print("called")
        print("beneath", file=sys.__stdout__)
        os.write(1, b"raw\\n")
        return self.table(tokens)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_model_that_prints_leaves_json_alone(workers, tmp_path):
    (tmp_path / "chatty.py").write_text(CHATTY)
    start = "import sys; from lengthwise.cli import main; sys.exit(main())"
    call = [sys.executable, "-c", start, "bench", "parity", "-m", "chatty.py:Chatty", "--seeds", "2"]
    call = [*call, *TINY, "--workers", str(workers), "--json"]
    done = subprocess.run(call, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(done.stdout)["failures"] == []
    for word in ("imported", "built", "called", "beneath", "raw"):
        assert word in done.stderr


def test_a_setting_is_compared_pair_by_pair(tmp_path, capsys):
    root = tmp_path / "runs"
    for lr in ("0.001", "0.01"):
        assert bench(root, "--seeds", "2", "--set", f"training.lr={lr}") == 0
    capsys.readouterr()
    assert main(["report", str(root), "--compare", "training.lr"]) == 0
    assert "training.lr: 0.01 instead of 0.001" in capsys.readouterr().out
    assert main(["report", str(root), "--compare", "training.lr", "--json", "--html", str(root)]) == 0
    (panel,) = json.loads(capsys.readouterr().out)["panels"]
    assert [pair["seed"] for pair in panel["data"]["pairs"]] == [0, 1]
    assert "training.lr: 0.01 instead of 0.001" in (root / "index.html").read_text()
    assert main(["report", str(root), "--compare", "training.lrr"]) == 2
    assert "Did you mean 'training.lr'?" in capsys.readouterr().err


def test_everything_that_can_be_listed_says_what_its_options_are_for():
    from lengthwise.cli.list import all_tables, described

    tables = all_tables()
    entries = [entry for lines in tables.values() for name in lines for entry in described(name, tables)]
    silent = [f"{e.room} {e.name}: {o.name}" for e in entries for o in e.options.values() if not o.line]
    assert silent == []


def test_bytes_that_are_no_utf8_reach_neither_terminal_nor_page(tmp_path, capsys):
    name = "runs\udcc2\udc9b1m"
    assert console.clean(name) == "runs1m"
    assert main(["report", name]) == 2
    assert not re.search("[\ud800-\udfff]", "".join(capsys.readouterr()))
    assert r"\udc9b" in console.command
    console.command.encode()
    console.emit({"name": name})
    out = capsys.readouterr().out
    assert out.isascii()
    assert json.loads(out) == {"name": name}
    bench(tmp_path / "more")
    run = lab.load(tmp_path / "more")[0]
    run.result["command"] = f"lengthwise bench {name}"
    page = report.html([run], tmp_path / "page.html").read_text(encoding="utf-8")
    assert r"runs\udcc2\udc9b1m" in page


def test_runs_are_not_searched_for_each_name():
    experiments = lab.plan("parity", ["lstm"], seeds=50, train_length=8, test_lengths="8")
    calls = []
    sys.setprofile(lambda frame, event, what: calls.append(event == "c_call" and what.__name__ == "count"))
    try:
        called = names(experiments)
    finally:
        sys.setprofile(None)
    assert len(set(called.values())) == 50
    assert sum(calls) < 50
