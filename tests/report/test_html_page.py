"""The page, in a real browser: it shows the curve, asks the network for nothing, and fits a telephone."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace

import pytest

from lengthwise import Error, report
from lengthwise.lab.experiment import TaskSpec
from lengthwise.recipes.common.comparison import ComparedCell, ComparedRow, comparison

from .pages import page

EVIL = '</script><script>alert("&")</script><b>'


def browser() -> str | None:
    named = os.environ.get("LENGTHWISE_CHROMIUM")
    return named or next(filter(None, map(shutil.which, ["chromium", "google-chrome", "chromium-browser"])), None)


@pytest.fixture(scope="module")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not browser():
        pytest.skip("no Chromium found; LENGTHWISE_CHROMIUM names one")
    with playwright.sync_playwright() as p:
        found = p.chromium.launch(executable_path=browser(), args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def path(runs, make_run, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "index.html"
    others = [make_run("lstm", 0, 900, TaskSpec("modular-sum", {"modulus": 3}), lengths=tuple(range(41, 90)))]
    # A machine whose name is an attack, and a command with markup in it.
    last = replace(runs[0], result={**runs[0].result, "command": EVIL})
    return report.html([*runs[1:], last, *others], path)


@pytest.fixture(params=["light", "dark"])
def scheme(request):
    return request.param


def opened(chromium, path, width, scheme="light"):
    tab = chromium.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    tab.problems, tab.asked = [], []
    tab.on("console", lambda m: tab.problems.append(m.text))
    tab.on("pageerror", lambda e: tab.problems.append(str(e)))
    tab.on("dialog", lambda d: tab.problems.append(d.message))
    tab.on("request", lambda r: tab.asked.append(r.url))
    tab.goto(path.as_uri(), wait_until="networkidle")
    return tab


def test_it_opens_without_errors_or_network(chromium, path):
    tab = opened(chromium, path, 1200)
    assert tab.problems == []
    assert [url for url in tab.asked if not url.startswith("data:")] == [path.as_uri()]
    assert tab.title() == tab.inner_text("h1")
    assert "lstm" in tab.inner_text("#task0 table")
    tab.close()


# Each model has a line over the whole range of lengths.
CURVES = """() => { const plane = document.querySelector('#task0 figure .plane');
  return [0, 1, 2].map(i => { const line = plane.querySelector(`.line[stroke="var(--s${i})"]`);
    return line ? line.getBoundingClientRect().width / plane.getBoundingClientRect().width : 0; }); }"""


@pytest.mark.parametrize("width", [1200, 375])
def test_the_curves_are_there(chromium, path, width):
    tab = opened(chromium, path, width)
    shown = tab.evaluate(CURVES)
    assert all(share > 0.97 for share in shown), shown
    tab.close()


def test_a_chart_stands_in_the_first_screen(chromium, path):
    tab = opened(chromium, path, 1200)
    assert tab.evaluate("document.querySelector('.plane').getBoundingClientRect().bottom") < 900
    tab.close()


# Where a model's line ends, read off the axis: two of its numbers give the scale.
END = """i => { const d = document.querySelector('#task0 figure'), middle = e => { const r = e.getBoundingClientRect();
    return (r.top + r.bottom) / 2; };
  const tick = t => middle([...d.querySelectorAll('.ys li')].find(e => e.textContent === t));
  const line = d.querySelector(`.line[stroke="var(--s${i})"]`);
  const end = line.getPointAtLength(line.getTotalLength()).matrixTransform(line.getScreenCTM());
  return 1 - (end.y - tick('100%')) / (tick('60%') - tick('100%')) * 0.4; }"""


def test_the_curve_shows_the_mean(chromium, path, runs):
    tab = opened(chromium, path, 1200)
    for i, model in enumerate(["regular-gpt", "lstm", "transformer"]):
        ends = [
            r.result["checkpoints"]["last"]["correct"]["4000"] / 512 for r in runs if r.experiment.model.name == model
        ]
        assert tab.evaluate(END, i) == pytest.approx(sum(ends) / 3, abs=0.003), model
    tab.close()


def test_a_line_has_its_name_at_its_end_and_its_values_where_it_is_pointed_at(chromium, path):
    tab = opened(chromium, path, 1200)
    apart = tab.evaluate(
        """() => { const d = document.querySelector('#task0 figure');
          const middle = e => { const r = e.getBoundingClientRect(); return (r.top + r.bottom) / 2; };
          return [...d.querySelectorAll('.ends li')].slice(0, 3).map((li, i) => {
          const line = d.querySelector(`.line[stroke="var(--s${i})"]`);
          const end = line.getPointAtLength(line.getTotalLength()).matrixTransform(line.getScreenCTM());
          return Math.abs(end.y - middle(li)); }); }"""
    )
    assert len(apart) == 3
    assert max(apart) < 25, "near enough to be seen as one, and apart enough to be read"
    last = tab.evaluate("document.querySelector('#task0 .hit title').textContent").splitlines()
    assert last[0] == "length in tokens: 4,000"
    assert re.fullmatch(r"lstm [\d.]+% \(seeds [\d.]+–[\d.]+\)", last[2])
    tab.close()


@pytest.mark.parametrize("width", [1200, 375, 360])
def test_no_sideways_scrolling(chromium, path, width):
    tab = opened(chromium, path, width)
    tab.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    beyond = """w => [...document.querySelectorAll('main *')].filter(e => !e.closest('.box, pre, svg')
        && e.getBoundingClientRect().right > w + 1).map(e => e.outerHTML.slice(0, 80))"""
    assert tab.evaluate(beyond, width) == []
    tab.close()


def test_text_in_figures_is_readable_on_a_telephone(chromium, path):
    tab = opened(chromium, path, 360)
    heights = tab.evaluate(
        "[...document.querySelectorAll('.plot li')].map(t => t.getBoundingClientRect().height).filter(h => h)"
    )
    assert len(heights) > 10
    assert min(heights) >= 10
    tab.close()


def test_a_chart_in_a_notebook_is_wide_on_a_telephone(chromium, tmp_path):
    """Its names stand below it there, and no room is kept for them beside it."""
    lines = {"a model with a long name": ([1, 2], [3, 4]), "another": ([1, 2], [4, 4])}
    chart = report.line_chart("A", "", "tokens", "seconds", lines)
    (tmp_path / "cell.html").write_text(chart._repr_html_())
    tab = opened(chromium, tmp_path / "cell.html", 375)
    assert tab.evaluate("document.querySelector('.plane').getBoundingClientRect().width") > 220


def test_a_long_label_wraps_in_the_legend(chromium, make_run, tmp_path):
    name = "custom_models.experimental_" * 4
    tab = opened(chromium, report.html([make_run(name)], tmp_path / "index.html"), 375)
    keys = """() => [...document.querySelectorAll('.legend')].map(l => [...l.children].map(
        k => [k.innerText, k.getBoundingClientRect().right <= l.getBoundingClientRect().right])).flat()"""
    found = tab.evaluate(keys)
    assert any(name in text for text, _ in found)
    assert all(inside for _, inside in found), found
    tab.close()


# WCAG contrast of every piece of text against what is painted behind it.
CONTRAST = """() => {
  const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b; };
  const rgb = s => (s.match(/[\\d.]+/g) || []).map(Number).map(v => s.startsWith('color(') ? 255 * v : v);
  const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] === 1) return c.slice(0, 3); } return [255, 255, 255]; };
  return [...document.querySelectorAll('main *')].filter(e => e.checkVisibility() && [...e.childNodes].some(
      n => n.nodeType === 3 && n.textContent.trim()) && !['title', 'desc'].includes(e.tagName)).map(e => {
    const style = getComputedStyle(e), ink = e.tagName === 'text' ? style.fill : style.color;
    const [a, b] = [light(rgb(ink).slice(0, 3)), light(behind(e))];
    return [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), e.tagName, e.textContent.trim().slice(0, 40)];
  });
}"""


def test_text_stands_out(chromium, path, scheme):
    tab = opened(chromium, path, 1200, scheme)
    found = tab.evaluate(CONTRAST)
    assert len(found) > 80
    assert min(found)[0] >= 4.5, min(found)
    tab.close()


def test_lines_stand_out(chromium, path, scheme):
    tab = opened(chromium, path, 1200, scheme)
    colours = tab.evaluate(
        """() => ['--card', ...Array(8).keys()].map(i => getComputedStyle(document.documentElement)
            .getPropertyValue(i === '--card' ? i : `--s${i}`).trim())"""
    )

    def light(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    card, *lines = map(light, colours)
    for line in lines:
        assert (max(card, line) + 0.05) / (min(card, line) + 0.05) >= 3
    assert len(set(colours)) == 9
    tab.close()


def test_dark_is_dark(chromium, path):
    tab = opened(chromium, path, 1200, "dark")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 28)"
    tab.close()


def test_the_records_inside_are_the_records(runs, path):
    data = report.inside(path)["records"]
    assert len(data) == 10
    commands = {entry["result"]["command"] for entry in data}
    assert EVIL in commands
    by_hash = {run.experiment.hash: run for run in runs}
    for entry in data[:3]:
        run = by_hash[entry["result"]["hash"]]
        assert entry["result"]["checkpoints"] == run.result["checkpoints"]
        assert entry["experiment"] == run.experiment.to_json()
    assert EVIL not in path.read_text()


def test_figures_have_words_and_own_ids(path):
    text = path.read_text()
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids)), "ids are unique over all figures"
    for used in re.findall(r'(?:url\(#|href="#)([^)"]+)', text):
        assert used in ids
    figures = re.findall(r'<svg [^>]*role="img" aria-labelledby="([^ ]+) ([^"]+)"', text)
    assert len(figures) == 6  # two sections of three charts
    assert all(f'<title id="{a}">' in text and f'<desc id="{b}">' in text for a, b in figures)


def test_same_runs_same_page(runs):
    assert page(runs) == page(runs)


def test_title_and_description_are_the_recipes(runs):
    text = page(runs, title="A <b>", description="Why & how")
    assert "<h1>A &lt;b&gt;</h1>" in text
    assert '<p class="lead">Why &amp; how</p>' in text


@pytest.fixture(scope="module")
def panelled(runs, tmp_path_factory):
    """A page of runs with three findings before them: a comparison, a drawing, and one that is an attack."""
    published = {"mean": 1.0, "max": 1.0}
    names = ["regular-gpt", "lstm", "transformer", "regular-gpt"]
    members = [[run for run in runs if run.experiment.model.name == name] for name in names]
    cells = {f"model {i}": ComparedCell.of(mine, published) for i, mine in enumerate(members)}
    rows = [ComparedRow("modular-arithmetic", 0.5, cells), ComparedRow("d-2", 0.5, {"model 0": cells["model 0"]})]
    panels = [
        comparison("Beside published", rows, list(cells)),
        report.line_chart("A drawing", "Its caption", "steps", "loss", {"a": ([1, 2, 3], [3, 2, 1])}),
        report.Panel(EVIL, EVIL, lead=EVIL, data={"evil": EVIL}),
    ]
    return report.html(runs, tmp_path_factory.mktemp("panels") / "index.html", panels=panels)


def test_the_finding_comes_first_and_long_pages_have_contents(chromium, panelled, path):
    tab = opened(chromium, panelled, 375)
    header = tab.evaluate("[...document.querySelector('header').children].map(e => e.className || e.tagName)")
    assert header == ["H1", "found"], "one finding"
    assert tab.inner_text(".found") == "Beside the published numbers, 3 of 5 cells agree. 2 differ."
    own = tab.inner_text("#task0 .found")
    assert own.startswith("At 4,000 tokens, 100 times the longest of training, regular-gpt is right")
    links = tab.evaluate("[...document.querySelectorAll('nav a')].map(a => [a.textContent, a.getAttribute('href')])")
    assert [name for name, _ in links] == ["Beside published", "A drawing", "parity", EVIL, "How it was run"]
    assert all(tab.query_selector(f"{to}") for _, to in links)
    assert not tab.is_visible("#reading dl")
    tab.click("#reading summary")
    assert tab.is_visible("#reading dl")
    tab.close()
    short = opened(chromium, path, 375)
    assert short.query_selector("nav") is None, "four parts need no list"
    short.close()


# Whether the words above a table that scrolls can be seen: they have a height only where it is wider than its box.
HINTS = """() => [...document.querySelectorAll('.box > table:not(.stack)')].filter(t => t.checkVisibility()).map(t => [
  t.getBoundingClientRect().width > t.parentElement.clientWidth + 1,
  (s => parseFloat(s.paddingBottom) > 0 && s.content !== 'none')(getComputedStyle(t, '::before'))])"""


@pytest.mark.parametrize("width", [1200, 375])
def test_a_table_that_scrolls_on_a_telephone_says_so(chromium, tmp_path, width):
    names = [f"column {i}" for i in range(6)]
    wide = report.heat_map("Wide", "", ["row"], names, [[1.0] * 6])
    small = report.heat_map("Small", "", ["row"], ["a"], [[1.0]])
    tab = opened(chromium, report.html([], tmp_path / "index.html", panels=[wide, small]), width)
    assert tab.evaluate(HINTS) == ([[True, True], [False, False]] if width < 640 else [[False, False]] * 2)
    tab.close()


@pytest.mark.parametrize("width", [1200, 375])
def test_panels_come_first_and_fit(chromium, panelled, width, scheme):
    tab = opened(chromium, panelled, width, scheme)
    assert tab.problems == []
    order = tab.evaluate("[...document.querySelectorAll('main > header, main > section')].map(e => e.id || e.tagName)")
    assert order == ["HEADER", "panel0", "panel1", "task0", "panel2", "run"]
    assert tab.inner_text("#panel2 h2") == EVIL
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    table = tab.evaluate("(e => [e.scrollWidth, e.clientWidth])(document.querySelector('#panel0 .box'))")
    assert table[0] == table[1], "four columns and their heads without scrolling, on a telephone as cards"
    assert min(tab.evaluate(CONTRAST))[0] >= 4.5
    tab.close()


def test_verdicts_and_model_names_are_there_on_a_telephone(chromium, panelled):
    tab = opened(chromium, panelled, 375)
    cell = tab.evaluate(
        """() => { const e = document.querySelector('#panel0 td');
        return [getComputedStyle(e, '::before').content, e.querySelector('.chip').innerText]; }"""
    )
    assert cell == ['"model 0"', "✓ agrees"]
    tab.close()


def test_panels_are_inside_as_data(panelled):
    first, _, last = report.inside(panelled)["panels"]
    assert first["data"][0]["cells"]["model 2"]["verdict"] == "differs"
    assert (last["title"], last["caption"], last["data"]) == (EVIL, EVIL, {"evil": EVIL})
    assert EVIL not in panelled.read_text()


def test_a_page_of_panels_alone(chromium, tmp_path):
    panel = report.Panel("ComparedCell", "a caption", lead="the finding", data=[1])
    path = report.html([], tmp_path / "new" / "index.html", panels=[panel])
    tab = opened(chromium, path, 375)
    assert tab.problems == []
    assert tab.title() == "ComparedCell"
    assert [e.get_attribute("id") for e in tab.query_selector_all("section")] == ["panel0", "run"]
    tab.close()
    with pytest.raises(Error, match="nothing to report"):
        report.html([], tmp_path / "none.html")
