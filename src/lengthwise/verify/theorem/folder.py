"""The folder that a theorem stands in: the part of the development that it needs, and three files about this network.

Its weights stand there as exact numbers, its machine, and sets of its states with the theorem. Nothing that is written
here is believed: Coq checks every set. Of some networks a program that Coq extracts goes through the conditions, too
(*extracted, not kernel*): it reads the very text of `Network.v` and `Claim.v`, and `Extracted.v` with the sets and what
follows if all hold.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import Error
from ...files import whole_folder, write_text
from ..checker.check import check
from ..checker.intervals import Array
from ..checker.weights import digest, read_model
from . import automaton, recurrences, regulargpt
from .coq import listed, ns, scale_of
from .family import CLAIMED, Family

PACKAGE = Path(__file__).parents[2]
PLACES = (PACKAGE / "theorem", PACKAGE.parents[1] / "theorem")
FAMILIES: tuple[Family, ...] = (
    *recurrences.FAMILIES,
    *(automaton.FAMILY, regulargpt.FAMILY, regulargpt.WHERE_IT_IS_ASKED),
)
NEEDS = {
    "Words": (),
    "Rounding": (),
    "Dyadic": ("Rounding",),
    "Machine": ("Dyadic",),
    "Affine": ("Machine",),
    "Intervals": ("Dyadic",),
    "Norm": ("Affine", "Intervals"),
    "Tanh": ("Intervals",),
    "Recurrence": ("Words", "Affine", "Tanh"),
    "Places": ("Words", "Machine"),
    "Gates": ("Recurrence",),
    "Lstm": ("Gates", "Places"),
    "Gru": ("Gates", "Places"),
    "Automaton": ("Words", "Norm"),
    "Trees": (),
    "Balls": ("Affine",),
    "Attention": ("Balls", "Intervals"),
    "RegularGpt": ("Words", "Trees", "Norm", "Attention"),
    "Conditions": ("RegularGpt",),
}
"""The files of the development, and which others each needs, in an order in which Coq can read them."""
EXTRACTED = ("Whole.v", "numbers.ml", "read.ml", "run.ml", "regulargpt.ml")
"""The files of `theorem/extracted/` that the extracted program is built with, which is of RegularGPTs alone."""
SOURCES = "numbers.ml checked.mli checked.ml read.ml run.ml regulargpt.ml"
"""What the program is compiled from, in order; Coq writes `checked`."""
QUIET = "-w -extraction-opaque-accessed,-extraction-axiom-to-realize,-extraction-logical-axiom"
EXTRACT = """From Coq Require Import Extraction.
From Lengthwise Require Import Conditions Whole.

Extraction "checked.ml" gpt_conditions.
"""
"""What has Coq extract the program that lists the conditions."""
RULES = f"""
# Goes through the conditions by a program that Coq extracts: faster, and more to believe. JOBS=N takes N processes.
# It needs OCaml and zarith as well (Debian: ocaml-findlib libzarith-ocaml-dev).
.PHONY: extracted
extracted: checker Extracted.vo
\t./checker --jobs $(or $(JOBS),1) Network.v Claim.v Extracted.v

checker: Extract.v Conditions.vo Whole.vo {" ".join(EXTRACTED[1:])}
\tcoqc -q {QUIET} -Q . Lengthwise Extract.v >/dev/null
\tocamlfind ocamlopt -package zarith,unix -linkpkg -w -a {SOURCES} -o checker
Extracted.vo: Conditions.vo Network.vo Claim.vo
Conditions.vo: RegularGpt.vo
"""
"""What the Makefile says of the extracted program."""


def write_theorem(certificate: dict[str, Any], model: str | Path, out: str | Path) -> Path:
    """The folder, in which `make` lets Coq check the theorem; refused where no theorem speaks of such a network."""
    check(certificate, model)
    if (why := refusal(certificate)) is not None:
        raise Error(f"No theorem is written: {why}.")
    tensors = read_model(Path(model))[1]
    files = statement(certificate, tensors)
    places = [place for place in PLACES if place.is_dir()]
    if not places:
        raise Error(f"The Coq development lies in neither {PLACES[0]} nor {PLACES[1]}.")
    with whole_folder(Path(out)) as folder:
        family = family_of(certificate)
        for name in development("Conditions" if family.extracted else family.file):
            shutil.copyfile(places[0] / f"{name}.v", folder / f"{name}.v")
        for name in EXTRACTED if family.extracted else ():
            shutil.copyfile(places[0] / "extracted" / name, folder / name)
        for name, text in files.items():
            write_text(folder / name, text)
    return Path(out)


def refusal(certificate: dict[str, Any]) -> str | None:
    """Why no theorem speaks of this certificate's network, or None."""
    why = [family.refusal(certificate) for family in FAMILIES if family.kind == certificate["kind"]]
    if not why:
        return f"no theorem is of a proof by {certificate['kind']} so far"
    return None if None in why else why[0]


def family_of(certificate: dict[str, Any]) -> Family:
    """The family of a certificate that is not refused."""
    same = (family for family in FAMILIES if family.kind == certificate["kind"])
    return next(family for family in same if family.refusal(certificate) is None)


def statement(certificate: dict[str, Any], tensors: dict[str, Array]) -> dict[str, str]:
    """The files about one network, by name."""
    family = family_of(certificate)
    names = family.names(certificate)
    weights = {part: tensors.get(name, tensors["embedding.weight"]) for part, name in names.items()}
    numbers = {part: x.astype(np.float64) for part, x in weights.items()}
    scale = scale_of(numbers.values())
    sums = ",\n    ".join(f"{names[part]} {digest(x)}" for part, x in weights.items())
    network = f"""(** The weights, k 2^-{scale} each. They are exactly the float32 numbers with these digests:
    {sums}. *)

{head(family)}{family.network(certificate, numbers, scale)}"""
    claim = certificate["claim"]
    machine = f"""(** The machine. Its symbols are {", ".join(claim["symbols"])}. *)

{head(family)}Definition claim : machine := Machine {claim["start"]} {len(claim["symbols"])}
  {listed(ns(row) for row in claim["delta"])}
  {ns(claim["answers"])}.
"""
    theorem = f"""(** {certificate["words"]} *)

{head(family)}From Lengthwise Require Import Network Claim.

{family.proof(certificate, numbers, scale)}
{CLAIMED}{family.theorem.replace("NAME", certificate["digest"][:16])}"""
    files = {"Network.v": network, "Claim.v": machine, "Theorem.v": theorem, "Makefile": makefile(family)}
    if family.extracted:
        sets = f"{head(family)}From Lengthwise Require Import Conditions Network Claim.\n\n"
        sets += family.proof(certificate, numbers, scale).split("Lemma checked")[0]
        files["Extracted.v"] = sets + family.extracted.replace("NAME", certificate["digest"][:16])
        files["Extract.v"] = EXTRACT
    return files


def development(file: str) -> list[str]:
    """A file of `theorem/` and all that it needs, in order."""
    needed = {file}
    for name in reversed(NEEDS):
        needed.update(NEEDS[name] if name in needed else ())
    return [name for name in NEEDS if name in needed]


def head(family: Family) -> str:
    """How each file about a network of this family begins."""
    files = " ".join(development(family.file))
    return f"From Coq Require Import ZArith List.\nFrom Lengthwise Require Import {files}.\nImport ListNotations.\n\n"


def makefile(family: Family) -> str:
    """How `make` lets Coq read the folder, and `make extracted` goes through the conditions by an extracted program."""
    file = family.file
    rules = [
        f"{name}.vo: {' '.join(f'{need}.vo' for need in NEEDS[name])}" for name in development(file) if NEEDS[name]
    ]
    return f"""# Lets Coq 8.16 check the theorem, with Flocq and Interval (Debian: coq libcoq-flocq libcoq-interval).
Theorem.vo: Network.vo Claim.vo
Network.vo Claim.vo: {file}.vo
{chr(10).join(reversed(rules))}

%.vo: %.v
\tcoqc -q -Q . Lengthwise $<
{RULES if family.extracted else ""}"""
