"""What never reaches the terminal, the page or `--json`: escape sequences, and bytes that are no UTF-8."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace

from lengthwise import lab, report
from lengthwise.cli import console, main

from .tiny import bench

NASTY = "\x1b]0;owned\x07\x1b[31mred\x9b1m\r"

CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"


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


def test_an_output_that_knows_few_characters_gets_question_marks(monkeypatch):
    for call in (["doctor"], ["list"], ["list", "regular-gpt"], ["list", "--json"], ["bench", "pärity…", "-m", "lstm"]):
        stdout, stderr = (io.TextIOWrapper(io.BytesIO(), encoding="ascii") for _ in range(2))
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdout", stdout)
            patch.setattr("sys.stderr", stderr)
            code = main(call)
        stdout.flush(), stderr.flush()
        written, remarks = stdout.buffer.getvalue().decode(), stderr.buffer.getvalue().decode()  # pyright: ignore
        assert code == (2 if call[0] == "bench" else 0), remarks
        assert written or "'p?rity?'" in remarks
        if "--json" in call:
            assert "…" in json.dumps(json.loads(written), ensure_ascii=False)


def test_closed_outputs_are_no_mistake(monkeypatch):
    for closed in (["stdout"], ["stdout", "stderr"]):
        with monkeypatch.context() as patch:
            for each in closed:
                patch.setattr(f"sys.{each}", None)
            assert main(["doctor"]) == main(["doctor", "--json"]) == 0


def test_a_home_of_nobody_is_a_wrong_call(capsys):
    assert main(["train", "~nosuch/x", "-m", "lstm"]) == 2
    assert "~" in capsys.readouterr().err
