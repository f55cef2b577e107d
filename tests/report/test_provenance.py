"""Where numbers come from: the same fields in the JSON and on the page, whatever the records say."""

import json
import re

from lengthwise import report
from lengthwise.report.provenance import FIELDS, UNKNOWN, provenance

from .pages import page


def told(made: str) -> str:
    """The list of facts on the page."""
    return re.search(r'<section id="run" class="panel"><h2>How it was run</h2><dl>(.*?)</dl>', made, re.S).group(1)


def test_every_field_is_in_the_json_and_on_the_page(make_run):
    runs = [make_run(seed=seed) for seed in (1, 0)]
    runs[0].result["code"] = {"version": "0.1.0", "commit": "ab12" * 10, "clean": False}
    runs[0].result["machine"] |= {"cpu": "A fast one", "load": 1.5}
    runs[1].result["machine"] |= {"load": 0.25}
    found = json.loads(json.dumps(report.data(runs)))["provenance"]
    assert tuple(found) == FIELDS
    assert found["commit"] == ["ab12" * 10 + " with changes", UNKNOWN]
    assert found["seeds"] == ["0", "1"]
    assert found["load"] == ["0.25 to 1.5"]
    assert found["cpu"][0].startswith("A fast one; ")
    assert found["cpu"][1].startswith(UNKNOWN)
    shown = told(page(runs))
    assert all(value in shown for values in found.values() for value in values)


def test_what_no_record_says_is_said_to_be_unknown(make_run):
    run = make_run()
    for name in ("code", "command"):
        run.result[name] = None
    run.result["machine"] = {}
    found = provenance([run])
    assert [found[name] for name in ("command", "commit", "threads", "load")] == [[UNKNOWN]] * 4


def test_both_commits_of_a_run_that_other_code_began_are_named(make_run):
    run = make_run()
    run.result["code"] = {"commit": "new", "clean": True, "begun_by": {"commit": "old", "clean": True}}
    assert provenance([run])["commit"] == ["old", "new"]


def test_panels_without_runs_name_the_call_and_this_machine(monkeypatch):
    panel = report.Panel("Seconds", "", lead="1", data={"seconds": 1})
    found = report.data([], [panel], command="lengthwise measure")["provenance"]
    assert tuple(found) == FIELDS
    assert found["command"] == ["lengthwise measure"]
    assert UNKNOWN not in [*found["date"], *found["versions"], *found["cpu"], *found["threads"]]
    assert found["seeds"] == [UNKNOWN]
    assert "lengthwise measure" in told(page([], panels=[panel], command="lengthwise measure"))
