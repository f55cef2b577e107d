"""The extracted program: it accepts what Coq's kernel accepts, rejects each change, and says which condition fails."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lengthwise import tasks
from lengthwise.automata import Semiautomaton
from lengthwise.lab.collection import network_folder
from lengthwise.models import pretrained
from lengthwise.verify import certificate as certificates
from lengthwise.verify import compile_machine
from lengthwise.verify.checker.weights import read_model
from lengthwise.verify.claim import Claim, claim_of
from lengthwise.verify.prove.codes import prove_codes
from lengthwise.verify.theorem import folder as theorem

from .corpus import network
from .proposals import accepted
from .test_theorem import COMPILED, certificate_of, compiled, development, is_written  # noqa: F401

SOURCES = Path(__file__).parents[2] / "theorem" / "extracted"
WIDER = SOURCES.parent / "wider.py"


def can_extract():
    """Whether Coq, OCaml and zarith are there."""
    if not all(map(shutil.which, ("coqc", "ocamlfind"))):
        return False
    return subprocess.run(["ocamlfind", "query", "zarith"], capture_output=True).returncode == 0


extracts = pytest.mark.skipif(not can_extract(), reason="Coq, OCaml or zarith is not installed: make theorem does it")


def built(folder, *sources):
    """The program of these sources, in order."""
    command = ["ocamlfind", "ocamlopt", "-package", "zarith,unix", "-linkpkg", "-w", "-a", *sources, "-o", "checker"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / "checker"


@pytest.fixture(scope="module")
def checker(tmp_path_factory, development):  # noqa: F811
    """The extracted program, as `make extracted` builds it."""
    folder = tmp_path_factory.mktemp("extracted")
    shutil.copytree(development, folder, dirs_exist_ok=True)
    shutil.copytree(SOURCES, folder, dirs_exist_ok=True)
    (folder / "Extract.v").write_text(theorem.EXTRACT)
    compiled(folder, "Whole")
    compiled(folder, "Extract")
    return built(folder, "numbers.ml", "checked.mli", "checked.ml", "read.ml", "run.ml", "regulargpt.ml")


@pytest.fixture(scope="module")
def narrow():
    """The certificate of parity in 8 numbers a node, and the weights."""
    own = network("tree")[0]
    return own.certificate, own.weights


def decided(checker, folder, files, *options):
    """The exit code of the program over these files, and the line that it prints."""
    folder.mkdir(exist_ok=True)
    names = ("Network.v", "Claim.v", "Extracted.v")
    for name in names:
        (folder / name).write_text(files[name])
    done = subprocess.run([checker, *options, *names], cwd=folder, capture_output=True, text=True, timeout=300)
    [line] = done.stdout.splitlines()
    assert line.startswith("extracted, not kernel: ")
    return done.returncode, line


@extracts
@pytest.mark.slow
def test_it_accepts_what_the_kernel_accepts(checker, tmp_path):
    files = theorem.statement(certificate_of(COMPILED), read_model(network_folder(COMPILED))[1])
    for options in ((), ("--jobs", "3")):
        code, line = decided(checker, tmp_path, files, *options)
        assert code == 0
        assert "all 15 conditions hold" in line


@extracts
@pytest.mark.slow
def test_it_rejects_whatever_was_changed(checker, narrow, tmp_path):
    """The changes that Coq and the checker in numpy reject."""
    own, changes = network("tree")
    assert decided(checker, tmp_path, theorem.statement(*narrow))[0] == 0
    changes = [case for case in changes if "coq" not in case.accepted_by and is_written(case, own)]
    assert len(changes) >= 35
    for i, case in enumerate(changes):
        options = ("--jobs", "2") if i % 5 == 0 else ()
        code, line = decided(checker, tmp_path, theorem.statement(case.certificate, case.weights), *options)
        assert code == 1, case.what
        assert "rejected, for this does not hold: " in line, case.what


@extracts
@pytest.mark.slow
def test_a_network_taught_with_the_bounds_is_accepted(checker, tmp_path):
    """Sums and products modulo 2: `theorem/wider.py`, then numpy's checker, then the extracted one."""
    task = tasks.get("modular-arithmetic", modulus=2, leading_plus=True)
    compile_machine(task).save(tmp_path / "compiled")
    line = [WIDER, tmp_path / "compiled", tmp_path / "wider", task.name, "modulus=2", "leading_plus=true"]
    done = subprocess.run([sys.executable, *line], capture_output=True, text=True, timeout=600)
    assert "0 of 179 undecided" in done.stdout, done.stderr[-2000:]
    folder = str(tmp_path / "wider")
    model = pretrained.as_classifier(pretrained.find(folder).model(), folder).eval().inner
    certificate = certificates.accepted(model, claim_of(task), prove_codes(model, claim_of(task), 100.0))
    files = theorem.statement(certificate, read_model(tmp_path / "wider")[1])
    code, said = decided(checker, tmp_path / "files", files, "--jobs", "2")
    assert code == 0
    assert "all 193 conditions hold" in said


@extracts
@pytest.mark.slow
def test_it_says_which_condition_fails(checker, narrow, tmp_path):
    content, tensors = narrow
    wrong = {**tensors, "head.weight": -tensors["head.weight"]}
    assert "the head is right on code 0" in decided(checker, tmp_path, theorem.statement(content, wrong))[1]
    without = {**content, "proof": {**content["proof"], "codes": content["proof"]["codes"][:1]}}
    assert "the node of symbols " in decided(checker, tmp_path, theorem.statement(without, tensors))[1]


@extracts
@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new", "why"),
    [
        ("Network.v", "Definition weights", "Definition others", "a definition is missing"),
        ("Network.v", "chunk := 2", "chunk := two", "a whole number was to stand there"),
        ("Network.v", "heads :=", "hands :=", "a record has not the fields"),
        ("Network.v", "chunk := 2", "chunk := 2 + 0", "was to stand in a term"),
        ("Claim.v", "[0; 1].", "[0; -1].", "a count was to stand there"),
        ("Claim.v", "Machine 0 2", "Machine 2", "Machine with 4 parts"),
        ("Extracted.v", "Definition heeded", "Definition asked", "asked is defined twice"),
        ("Extracted.v", "bool := [].", "bool := [maybe].", "true or false was to stand there"),
    ],
)
def test_it_reads_nothing_else(file, old, new, why, checker, narrow, tmp_path):
    files = theorem.statement(*narrow)
    changed = files[file].replace(old, new, 1)
    assert changed != files[file]
    code, line = decided(checker, tmp_path, {**files, file: changed})
    assert code == 1
    assert why in line


@pytest.fixture(scope="module")
def asked():
    """The certificate of parity that is asked after words of even length alone, and the weights."""
    machine = Semiautomaton(np.array([[2, 3], [3, 2], [0, 1], [1, 0]]), 0, symbols=["0", "1"])
    made = compile_machine(Claim(machine, np.array([0, 1, 0, 0]), np.array([True, True, False, False])), width=16)
    assert made.closed
    return accepted(prove_codes, made.model.eval(), made.claim), certificates.weights(made.model)


@extracts
@pytest.mark.slow
def test_of_a_machine_that_is_not_always_asked(checker, asked, tmp_path, development):  # noqa: F811
    """By Coq's kernel and by the program; neither believes which states are heeded, nor asks less than it says."""
    content, tensors = asked
    files = theorem.statement(content, tensors)
    assert "gpt_right_where_asked weights claim asked." in files["Theorem.v"]
    assert decided(checker, tmp_path, files)[0] == 0
    claimed, heeded = (
        files["Extracted.v"].split(f"Definition {name} : list bool := ")[1].split(".\n")[0]
        for name in ("asked", "heeded")
    )
    assert claimed.count("true") == sum(content["claim"]["asked"])
    none, everything = (claimed.replace(*change) for change in (("true", "false"), ("false", "true")))
    for old, new in ((f"heeded : list bool := {heeded}", f"heeded : list bool := {none}"), (claimed, everything)):
        changed = files["Extracted.v"].replace(old, new, 1)
        assert changed != files["Extracted.v"]
        code, line = decided(checker, tmp_path, {**files, "Extracted.v": changed})
        assert (code, "the network's shape, or which states are heeded" in line) == (1, True)
    shutil.copytree(development, tmp_path, dirs_exist_ok=True)
    for name in ("Network", "Claim", "Theorem"):
        (tmp_path / f"{name}.v").write_text(files[f"{name}.v"])
        said = compiled(tmp_path, name)
    assert "sig_forall_dec" in said
    compiled(tmp_path, "Extracted")


AGREES = """
module Whole = Z
open Plain
let rec draw size =
  if size <= 0 then Whole.zero else Whole.add (Whole.of_int (Random.bits ())) (Whole.shift_left (draw (size - 30)) 30)
let number size = Whole.succ (Whole.extract (draw size) 0 size)
let same what one other = if one <> other then (print_endline what; exit 1)
let side = function Pos_Eq -> 0 | Pos_Lo -> 1 | Pos_Mi -> 2 | Pos_Up -> 3
let replaced = function Realised.Pos_Eq -> 0 | Realised.Pos_Lo -> 1 | Realised.Pos_Mi -> 2 | Realised.Pos_Up -> 3
let () =
  for k = 1 to 20_000 do
    let size = 1 + (k mod 150) in
    let m = Whole.shift_left (number size) (if k mod 3 = 0 then k mod 40 else 0) in
    let by = Whole.of_int (Random.int 165 - 5) in
    let y = Whole.sub (number size) (number size) and x = Whole.sub (number size) (number (1 + (k mod 70))) in
    same "bits" (StdZRadix2.mantissa_digits m) (Realised.StdZRadix2.mantissa_digits m);
    same "shl" (StdZRadix2.mantissa_shl m by) (Realised.StdZRadix2.mantissa_shl m by);
    same "power" (Z.pow x by) (Realised.Z.pow x by);
    same "quotient" (zfast_div_eucl x y) (Realised.zfast_div_eucl x y);
    same "quotient by nothing" (zfast_div_eucl x Whole.zero) (Realised.zfast_div_eucl x Whole.zero);
    List.iter2
      (fun a b ->
        let q, s = StdZRadix2.mantissa_shr m by a and q', s' = Realised.StdZRadix2.mantissa_shr m by b in
        same "shr" (q, side s) (q', replaced s'))
      [ Pos_Eq; Pos_Lo; Pos_Mi; Pos_Up ]
      Realised.[ Pos_Eq; Pos_Lo; Pos_Mi; Pos_Up ]
  done
"""


@extracts
@pytest.mark.slow
def test_what_was_replaced_does_what_was_extracted(tmp_path):
    """Functions of Whole.v that are not Coq's, against what Coq extracts without them."""
    wanted = "StdZRadix2.mantissa_digits StdZRadix2.mantissa_shl StdZRadix2.mantissa_shr Zaux.Zfast_div_eucl Z.pow"
    shutil.copytree(SOURCES, tmp_path, dirs_exist_ok=True)
    compiled(tmp_path, "Whole")
    common = "From Coq Require Import ZArith Reals Extraction ExtrOcamlBasic ExtrOcamlZBigInt.\n"
    common += "From Flocq Require Import Core.\nFrom Interval Require Import Float.Specific_stdz.\n"
    for name, how in (("Plain", ""), ("Realised", "From Lengthwise Require Import Whole.\n")):
        text = f'{common}{how}Extraction "{name.lower()}.ml" {wanted}.\n'
        (tmp_path / f"{name}.v").write_text(text)
        compiled(tmp_path, name)
    (tmp_path / "agrees.ml").write_text(AGREES)
    program = built(tmp_path, "numbers.ml", "plain.mli", "plain.ml", "realised.mli", "realised.ml", "agrees.ml")
    done = subprocess.run([program], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "")


def test_what_the_folder_holds():
    """Trees have an extracted program; the sets that it reads are those of the theorem."""
    files = theorem.statement(certificate_of(COMPILED), read_model(network_folder(COMPILED))[1])
    sets = files["Theorem.v"].split("Definition fineness")[1].split("Lemma checked")[0]
    assert sets in files["Extracted.v"]
    assert "Lemma checked" not in files["Extracted.v"]
    assert "extracted: checker Extracted.vo" in files["Makefile"]
    assert all((SOURCES / name).is_file() for name in theorem.EXTRACTED)
    assert "Extracted.v" not in theorem.statement(
        certificate_of("parity-rnn"), read_model(network_folder("parity-rnn"))[1]
    )
