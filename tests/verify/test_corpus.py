"""The corpus for soundness: every false proof that the tests know, through all checkers, each of which says no.

Where one says yes, that is right, and it is written down beside the change and in docs/theorem.md.
"""

from __future__ import annotations

import re
import shutil

import pytest

from lengthwise.verify.checker import Rejected, check
from lengthwise.verify.theorem import folder as theorem

from ..site.conftest import build  # noqa: F401
from ..site.test_proof import in_javascript
from .corpus import NETWORKS, network
from .test_theorem import compiled, coq, development, head, is_written, parts_of  # noqa: F401

CHECKS = {
    "Recurrence": "check weights claim regions targets",
    "Gru": "gru_check weights claim places targets",
    "Lstm": "lstm_check weights claim places targets",
    "Automaton": "stack_check weights claim tuples",
    "RegularGpt": "gpt_check fineness weights claim codes",
}
LARGE = ("tree", "parity-regular-gpt")
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name for name in NETWORKS]


def asked(checker):
    return pytest.mark.parametrize("name", [name for name in NAMES if checker in known(name)])


def known(name):
    return NETWORKS[name if isinstance(name, str) else name.values[0]].checkers


def agree(checker, name, verdicts):
    """What this checker accepts, beside what it should."""
    own, changed = network(name)
    accepted = [case.what for case, verdict in zip([own, *changed], verdicts, strict=True) if verdict]
    assert accepted == [case.what for case in [own, *changed] if checker in case.accepted_by]


@asked("numpy")
def test_numpy(name):
    own, changed = network(name)

    def accepts(case):
        try:
            check(case.whole(), case.weights)
        except Rejected:
            return False
        return True

    agree("numpy", name, map(accepts, [own, *changed]))


@asked("javascript")
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_javascript(name, build):  # noqa: F811
    own, changed = network(name)
    proofs = [build.proof_of(case.whole(), case.weights) for case in [own, *changed]]
    agree("javascript", name, ["why" not in verdict for verdict in in_javascript(proofs)])


@coq
@pytest.mark.slow
@asked("coq")
def test_coq(name, tmp_path, development):  # noqa: F811
    """Of a network that no theorem is written about, too, the answer is no."""
    own, changed = network(name)
    file, parts = theorem.family_of(own.certificate).file, parts_of(own.certificate, own.weights)
    text = [f"{head(own.certificate)}Module Own.\n{''.join(parts)}\nEnd Own.\n"]
    cases = {case.what: case for case in [own, *changed]}
    written = [what for what, case in cases.items() if is_written(case, own)]
    for i, case in enumerate(map(cases.get, written)):
        other = parts_of(case.certificate, case.weights)
        new = [mine for mine, one in zip(other, parts, strict=True) if mine != one]  # to read weights takes long
        text += [f"Module M{i}.\nImport Own.\n{''.join(new)}\nEval vm_compute in {CHECKS[file]}.\nEnd M{i}.\n"]
    shutil.copytree(development, tmp_path, dirs_exist_ok=True)
    (tmp_path / "Changed.v").write_text("".join(text))
    said = re.findall(r"= (true|false)\s+: bool", compiled(tmp_path, "Changed"))
    verdicts = dict(zip(written, said, strict=True))
    agree("coq", name, [verdicts.get(what) == "true" for what in cases])
