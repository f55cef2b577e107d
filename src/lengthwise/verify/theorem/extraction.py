"""A program that Coq extracts, which goes through the conditions about one network: *extracted, not kernel*.

It reads the very text of `Network.v` and `Claim.v`, and `Extracted.v` with the sets and what follows if all hold.
"""

from __future__ import annotations

from .family import ConditionProgram, Family

SHARED = ("numbers.ml", "read.ml", "run.ml")
QUIET = "-w -extraction-opaque-accessed,-extraction-axiom-to-realize,-extraction-logical-axiom"


def files(family: Family) -> list[str]:
    """The files of `theorem/extracted/` that the folder about a network needs."""
    return ["Whole.v", *SHARED, f"{family.extracted.reader}.ml"] if family.extracted else []


def statement(extracted: ConditionProgram, sets: str, name: str) -> dict[str, str]:
    """The sets with what follows, and what is extracted."""
    extract = f"""From Coq Require Import Extraction.
From Lengthwise Require Import {extracted.file} Whole.

Extraction "checked.ml" {extracted.listing}.
"""
    return {"Extracted.v": sets + extracted.theorem.replace("NAME", name), "Extract.v": extract}


def rules(extracted: ConditionProgram, file: str) -> str:
    """What the Makefile says of it."""
    sources = ["numbers.ml", "checked.mli", "checked.ml", "read.ml", "run.ml", f"{extracted.reader}.ml"]
    written = " ".join(name for name in sources if not name.startswith("checked"))
    return f"""
# Goes through the conditions by a program that Coq extracts: faster, and more to believe. JOBS=N takes N processes.
# It needs OCaml and zarith as well (Debian: ocaml-findlib libzarith-ocaml-dev).
.PHONY: extracted
extracted: checker Extracted.vo
\t./checker --jobs $(or $(JOBS),1) Network.v Claim.v Extracted.v

checker: Extract.v {extracted.file}.vo Whole.vo {written}
\tcoqc -q {QUIET} -Q . Lengthwise Extract.v >/dev/null
\tocamlfind ocamlopt -package zarith,unix -linkpkg -w -a {" ".join(sources)} -o checker
Extracted.vo: {extracted.file}.vo Network.vo Claim.vo
{extracted.file}.vo: {file}.vo
"""
