"""Records that are damaged, or forged and signed again, met by every verb that reads a run.

Each ends with one line that names the file and says what to do. Where a verb takes several runs, the others are shown.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from lengthwise import Error, lab
from lengthwise.cli import main
from lengthwise.files import canonical, digest, digest_of
from lengthwise.models import pretrained

from ..lab import corpora
from .test_text import LENGTHS, SETTINGS

TINY = {"training.steps": 2, "training.batch": 4, "training.validation_samples": 4, "tests.samples": 4}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("made")
    settings = {**TINY, "model.width": 4}
    lab.bench("parity", ["lstm"], seeds=2, test_lengths="41", settings=settings, root=root / "strings", device="cpu")
    corpus = corpora.write(root / "corpus")
    call = ["train", str(corpus), "-m", "transformer layers=1 heads=2 width=8", *LENGTHS, "--seeds", "2"]
    call += ["--workers", "1", "--device", "cpu", *(word for each in SETTINGS for word in ("-s", each))]
    assert main([*call, "--out", str(root / "text")]) == 0
    return root


@pytest.fixture
def root(made, tmp_path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "made"))


def run_of(root: Path, kind: str, seed: int = 1) -> Path:
    return next((root / kind).glob(f"*-s{seed}-*"))


def sign(run: Path, change=lambda result: None) -> None:
    """Make the digests those of what lies there, as only somebody who means to could."""
    result = json.loads((run / "result.json").read_text())
    result.pop("sha256")
    result["files"] = {name: digest_of(run / name) for name in result["files"]}
    for name in result.get("folders", {}):
        result["folders"][name] = pretrained.folder_digest(run / name)
    change(result)
    (run / "result.json").write_text(json.dumps({**result, "sha256": digest(canonical(result))}))


def set_to(*path, value):
    def change(run: Path) -> None:
        def at(result):
            for key in path[:-1]:
                result = result[key]
            if value is None:
                del result[path[-1]]
            else:
                result[path[-1]] = value

        sign(run, at)

    return change


def metrics(content: bytes):
    def change(run: Path) -> None:
        (run / "metrics.jsonl").write_bytes(content)
        sign(run)

    return change


def weights(spoil):
    def change(run: Path) -> None:
        spoil(next(file for file in (run / "model.safetensors", run / "model/model.safetensors") if file.exists()))
        sign(run)

    return change


def halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def header(**fields):
    def spoil(file: Path) -> None:
        content = file.read_bytes()
        size = int.from_bytes(content[:8], "little")
        said = json.loads(content[8 : 8 + size])
        said[next(name for name in said if name != "__metadata__")] |= fields
        new = json.dumps(said).encode()
        file.write_bytes(len(new).to_bytes(8, "little") + new + content[8 + size :])

    return spoil


def tensors(change):
    def spoil(file: Path) -> None:
        save_file({name: change(x).contiguous() for name, x in load_file(file).items()}, file, {"format": "pt"})

    return spoil


def a_device(name: str):
    def change(run: Path) -> None:
        (run / name).unlink()
        (run / name).symlink_to("/dev/zero")

    return change


RECORDS = {
    "broken JSON": lambda run: (run / "result.json").write_text("{"),
    "deep JSON": lambda run: (run / "result.json").write_text("[" * 100_000),
    "no object": lambda run: (run / "result.json").write_text("[]"),
    "no config": lambda run: (run / "config.json").unlink(),
    "edited metrics": lambda run: (run / "metrics.jsonl").write_text("x"),
    "another format": set_to("format", value=99),
    "no checkpoints": set_to("checkpoints", value=None),
    "checkpoints a list": set_to("checkpoints", value=[]),
    "no last": set_to("checkpoints", "last", value=None),
    "last a number": set_to("checkpoints", "last", value=3),
    "step a text": set_to("checkpoints", "last", "step", value="many"),
    "no seconds": set_to("seconds", value=None),
    "seconds without end": set_to("seconds", "train", value=float("inf")),
    "no machine": set_to("machine", value=None),
    "machine deep": set_to("machine", value={"torch": [[]]}),
    "date a number": set_to("date", value=3),
    "command a list": set_to("command", value=["lengthwise"]),
    "code a text": set_to("code", value="mine"),
    "parameters below 0": set_to("parameters", value=-1),
    "steps of 400 digits": set_to("steps", value=10**400),
    "files elsewhere": lambda run: sign(run, lambda r: r["files"].update({"../../../etc/hostname": "0"})),
    "files a list": lambda run: sign(run, lambda r: r.update(files=[])),
    "metrics no JSON": metrics(b"{\n"),
    "metrics no UTF-8": metrics(b'{"kind": "\xff"}\n'),
    "metrics deep": metrics(b"[" * 100_000 + b"\n"),
    "metrics a list": metrics(b"[]\n"),
    "loss a text": metrics(b'{"kind": "train", "step": 1, "loss": "low", "length": 3}\n'),
    "loss without end": metrics(b'{"kind": "train", "step": 1, "loss": 1e999, "length": 3}\n'),
    "accuracy null": metrics(b'{"kind": "validation", "step": 1, "loss": 1.0, "accuracy": null}\n'),
    "result a device": a_device("result.json"),
    "metrics a device": a_device("metrics.jsonl"),
    "config a device": a_device("config.json"),
    "config all null": lambda run: (
        (run / "config.json").write_text(json.dumps(dict.fromkeys(json.loads((run / "config.json").read_text())))),
        sign(run),
    ),
}
STRINGS = {
    "truncated weights": lambda run: halve(run / "model.safetensors"),
    "no best weights": lambda run: (run / "best.safetensors").unlink(),
    "samples a text": set_to("samples", value="many"),
    "no baseline": set_to("baseline", value=None),
    "baseline of another length": set_to("baseline", value={"7": 0.5}),
    "samples 0": set_to("samples", value=0),
    "more right than asked": set_to("checkpoints", "best", "correct", "41", value=9),
    "right a text": set_to("checkpoints", "last", "correct", "41", value="all"),
}
TEXT = {
    "no losses": set_to("checkpoints", "last", "losses", value=None),
    "a loss a text": set_to("checkpoints", "last", "losses", "16", value="low"),
    "a length left out": set_to("checkpoints", "last", "losses", "16", value=None),
    "folders a number": lambda run: sign(run, lambda r: r.update(folders=3)),
}
WEIGHTS = {
    "half": weights(halve),
    "empty": weights(lambda file: file.write_bytes(b"")),
    "no safetensors": weights(lambda file: file.write_text("<html>" * 99)),
    "overlapping": weights(header(data_offsets=[0, 4])),
    "a dtype unknown": weights(header(dtype="F99")),
    "another shape": weights(tensors(lambda x: x[..., :1])),
    "whole numbers": weights(tensors(lambda x: x.to(torch.int64))),
}


def config_of_model(**fields):
    def change(run: Path) -> None:
        file = run / "model/config.json"
        content = json.loads(file.read_text())
        content = {**content, **fields} if fields else dict.fromkeys(content)
        file.write_text(json.dumps(content))
        sign(run)

    return change


FOLDERS = {
    "config all null": config_of_model(),
    "config names code": config_of_model(_attn_implementation="evil/kernel"),
    "config of another width": config_of_model(width=10**9),
    "config of another type": config_of_model(model_type="evil"),
    "tokenizer no JSON": lambda run: ((run / "model/tokenizer.json").write_text("{"), sign(run)),
}


def names_the_run(root: Path, run: Path, call: list[str], capsys, code: tuple[int, ...] = (2,)) -> None:
    got = main([*call, *(["--device", "cpu"] if call[0] == "eval" else [])])
    err = capsys.readouterr().err
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert got in code, line
    assert "unexpected" not in line
    assert "Traceback" not in err
    assert run.name in line
    assert line.rstrip(".").count(".") >= 1 or "Delete" in line


def others_are_shown(root: Path, run: Path, kind: str, capsys, page: bool) -> None:
    assert main(["report", str(root / kind), *(["--html", str(root / "index.html")] if page else [])]) == 1
    out, err = capsys.readouterr()
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert run.name in line
    assert "unexpected" not in line
    assert "lstm" in out or "transformer" in out
    assert not page or "<svg" in (root / "index.html").read_text()


@pytest.mark.parametrize(
    ("kind", "damage"),
    [*(("strings", each) for each in (*RECORDS, *STRINGS)), *(("text", each) for each in ("no checkpoints", *TEXT))],
)
def test_a_damaged_record_is_named_by_every_verb(kind, damage, root, capsys):
    run = run_of(root, kind)
    {**RECORDS, **STRINGS, **TEXT}[damage](run)
    others_are_shown(root, run, kind, capsys, page=damage == "loss a text")
    names_the_run(root, run, ["report", str(run)], capsys)
    names_the_run(root, run, ["report", str(run), "--html", str(root / "one.html")], capsys)
    names_the_run(root, run, ["inspect", str(run), "clusters"], capsys)
    names_the_run(root, run, ["inspect", str(run), "clusters", "--html", str(root / "one.html")], capsys)
    names_the_run(root, run, ["certify", str(run)], capsys)
    names_the_run(root, run, ["eval", "perplexity", str(run)], capsys)


@pytest.mark.parametrize("damage", WEIGHTS)
def test_weights_that_are_none_are_named(damage, root, capsys):
    run = run_of(root, "strings")
    WEIGHTS[damage](run)
    for call in (["inspect", str(run), "clusters", "--html", str(root / "one.html")], ["certify", str(run)]):
        names_the_run(root, run, call, capsys)


@pytest.mark.parametrize("damage", [*WEIGHTS, *FOLDERS])
def test_the_folder_of_a_model_is_named(damage, root, capsys):
    run = run_of(root, "text")
    {**WEIGHTS, **FOLDERS}[damage](run)
    names_the_run(root, run, ["eval", "perplexity", str(run)], capsys)
    if not damage.startswith("tokenizer"):
        names_the_run(root, run, ["certify", str(run / "model"), "--task", "parity"], capsys)


def test_a_file_of_settings_that_is_a_device_is_refused(refused):
    refused(["bench", "--config", "/dev/full"], "/dev/full: is a device")


def test_more_strings_than_memory_are_refused(tmp_path, refused):
    call = ["export", "parity", "--lengths", "8", "--train", "100000000000", "--out", tmp_path / "out"]
    refused(call, "100,000,000,000 strings (train) need")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["best.safetensors", "config.json"])
def test_a_missing_file_names_the_remedy(name, root):
    run = run_of(root, "strings")
    (run / name).unlink()
    with pytest.raises(Error, match=f"Restore it, or delete {run} to run it again"):
        lab.load(root / "strings")


def test_what_is_left_out_is_in_the_data_too(root, capsys, told):
    run, other = (run_of(root, "strings", seed) for seed in (1, 0))
    halve(run / "model.safetensors")
    data = told("report", root / "strings", code=1)
    assert data["tasks"][0]["models"][0]["seeds"] == [0]
    assert f"{run}/model.safetensors: truncated or edited" in data["left_out"][0]
    halve(other / "model.safetensors")
    assert main(["report", str(root / "strings")]) == 2
    *left_out, last = capsys.readouterr().err.splitlines()
    assert len(left_out) == 2
    assert last == "error: There is nothing to report: none of 2 finished runs here can be read."


def test_a_renamed_run_is_called_renamed(root, capsys):
    run = run_of(root, "strings")
    new = run.rename(run.parent / "my favourite")
    assert main(["report", str(root / "strings")]) == 1
    assert f"left out: {new}: renamed, and otherwise whole. Name it {run.name} again" in capsys.readouterr().err


def test_runs_that_are_not_finished_are_told(root, capsys, told):
    run = run_of(root, "strings")
    (run / "result.json").unlink()
    assert main(["report", str(root / "strings")]) == 0
    assert f"note: left out 1 run that is not finished: {run.name}." in capsys.readouterr().err
    assert told("report", root / "strings")["unfinished"] == [str(run)]
