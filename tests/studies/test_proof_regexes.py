"""The study of random machines and absorbing patterns."""

import proof_regexes
import pytest
from proof_regexes import _panel, absorbing, absorbing_patterns, pattern_machine, random_machine

from lengthwise import lab, recipes
from lengthwise.errors import Error


def test_the_random_machines_are_smallest_and_different():
    machines = [random_machine(i) for i in range(10)]
    assert [m.num_states for m in machines] == list(range(3, 13))
    assert machines[0] != random_machine(10)
    assert all(m == random_machine(i) for i, m in enumerate(machines[:2]))


def test_the_42_patterns_are_of_different_languages_and_absorbing():
    machines = [pattern_machine(pattern) for pattern in absorbing_patterns()]
    assert len(machines) == 42
    assert all(map(absorbing, machines))
    assert not any(a.equivalent(b) for i, a in enumerate(machines) for b in machines[:i])


def test_regexes_are_counted_by_verdict():
    row = {"family": "random", "learned": True, "consolidated": None}
    rows = [
        {**row, "model": "RNN", "raw": "proved"},
        {**row, "model": "RNN", "raw": "unknown", "consolidated": "proved"},
        {**row, "model": "RNN", "raw": "refuted", "learned": False},
        {**row, "model": "automaton", "raw": "proved"},
        {**row, "family": "absorbing", "model": "automaton", "raw": "proved"},
    ]
    panel = _panel("laptop", rows)
    assert panel.rows == [
        ["random", "automaton", "1", "1", "1", "0", "0", "0"],
        ["random", "RNN", "3", "2", "1", "1", "1", "1"],
        ["absorbing", "automaton", "1", "1", "1", "0", "0", "0"],
    ]
    assert len(recipes.get(proof_regexes.__file__, scale="smoke").experiments) == 12


@pytest.mark.slow
def test_the_study_end_to_end(tmp_path):
    recipe = recipes.get(proof_regexes.__file__, scale="smoke")
    outcomes = lab.run(recipe.experiments, tmp_path, workers=1, device="cpu")
    panels = recipe.panels([o.run for o in outcomes if o.run])
    assert panels
    assert all(max(map(len, panel.text.splitlines())) <= 120 for panel in panels)


@pytest.mark.parametrize("name", ["regexes", "learning"])
def test_its_old_name_says_which_file_it_is(name):
    with pytest.raises(Error, match=f"lengthwise reproduce studies/proof_{name}.py$"):
        recipes.get("proof", name)
