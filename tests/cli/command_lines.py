"""Command lines and calls of the library, drawn from a seed: right, wrong, and odd.

Most are nearly right, for those reach deepest. All are small: a line that is right is done within a second or two.
`drawn` gives lists of words: `["bench", "parity", …]`, `["python", "tasks.get('parity')"]`, `["misuse", NAME]`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from ..laws.misuses import MISUSES

VERBS = {"bench": 8, "report": 4, "inspect": 4, "export": 4, "list": 2, "reproduce": 2, "certify": 2, "compile": 1}
VERBS |= {"doctor": 0.1, "zoo": 0.5}
"""The verbs, and how often each is drawn."""

HUGE = ["9" * 30, "1" * 400, "1" * 5000, "1e400", "100000000"]
ODD = ["", "x", "parity even", ":", "../..", "\x1b[31m", "\x1b]0;x\x07", "é\u202e", "\udcff", '"', "[[[[", "-1", "0"]
TASKS = "parity even-pairs cycle-navigation modular-sum modular-arithmetic word-problem d-2 d-3 tomita-5 regex machine "
TASKS += "reference-chains boxes regex:(ab|ba)* regex:a{2,1} regex:( regex: d-0 d-99999999999 tomita-9 parityy "
TASKS += "regex:a{9999999} regex:(a|b)*a(a|b){20} json:JSONDecoder nowhere.py:Task sound.toml:Task"
MODELS = "lstm gru rnn transformer regular-gpt block-lrnn s4d lru chacal lstm,gru lstmm gpt2 hf:nowhere hf:~nobody "
MODELS += "hf:one os:path nowhere.py:Net json:JSONDecoder torch.nn:Linear"
PARTS = ["training", "model", "tests", "task", "lstm"]
NAMES = "steps lr batch width layers heads dropout lengths samples seed clip curriculum precision modulus group "
NAMES += "probabilities supervision pattern delta name chunk variant threads optimizer warmup patience protocol widht "
NAMES += "position normalisation self betas validation_samples size symbols accepting depth blocks objects form"
VALUES = "1 2 3 1.5 nan inf none true [] {} [[0,1],[1,0]] [[0.5]] 1,2 0.5,0.5 1e30 null S3 Z0 softmax learned a|b"
LENGTHS = "41,42 50 41:44 42,41,42 1: 5:3 1:9:0 1e9 1:1000000000 1:2:3:4 41: ,"
PLACES = "runs one links runs/broken runs/odd nowhere . /dev/null sound.toml one/nothing"
VIEWS = ["clusters", "receptive-field", "attention"]
STUDIES = Path(__file__).parents[2] / "studies"
REPRODUCE = f"demo parity|{STUDIES}/tree_and_scan.py|lrnn table-2|chacal table-3|chacal figure-5|x y|demo|nowhere.py"
LISTED = "tasks models recipes positions mixers settings training tests regulargpt softmax learned alibi chain "
LISTED += "demo parity nothing"
FLAGS = "--json --debug --help --nope --version --seeds --set -m --out --workers -- --log --task -t --trust"
SMALL = "-s training.steps=1 -s training.batch=2 -s tests.samples=2 -s training.validation_samples=2 "
SMALL += "--workers 1 --device cpu"

FLAGS, SMALL = FLAGS.split(), SMALL.split()
TASKS, MODELS, NAMES, PLACES, LISTED = ([*each.split(), *ODD] for each in (TASKS, MODELS, NAMES, PLACES, LISTED))
VALUES, LENGTHS = ([*each.split(), *ODD, *HUGE] for each in (VALUES, LENGTHS))
WORDS = [*VERBS, *TASKS, *MODELS, *PARTS, *VALUES, *LENGTHS, *PLACES, *LISTED]


def drawn(seed: int, count: int) -> list[list[str]]:
    draw = random.Random(seed)
    return [one(draw) for _ in range(count)]


def one(draw: random.Random) -> list[str]:
    kind = draw.random()
    if kind < 0.05:
        return ["misuse", draw.choice(sorted(MISUSES))]
    return ["python", call(draw)] if kind < 0.25 else command_line(draw)


def command_line(draw: random.Random) -> list[str]:
    (verb,) = draw.choices(list(VERBS), list(VERBS.values()))
    line = [verb, *AFTER.get(verb, any_words)(draw)]
    if draw.random() < 0.15:
        line.insert(draw.randrange(len(line) + 1), draw.choice(FLAGS))
    if draw.random() < 0.05:
        draw.shuffle(line)
    return line


def bench(draw: random.Random) -> list[str]:
    line = [usually(draw, "parity", TASKS), "-m", usually(draw, "lstm", MODELS), *SMALL]
    line += ["--test-lengths", usually(draw, "41", LENGTHS), "--out", "made"]
    for _ in range(draw.choice([0, 1, 1, 2])):
        line += ["--set", setting(draw)]
    return line + options(
        draw,
        {
            "--config": ["sound.toml", "wrong.toml", "odd.toml", *PLACES],
            "--save-config": ["saved.toml", *PLACES],
            "--sweep": [f"training.lr={values}" for values in ("1e-3,1e-2", "1e-3,1e-3", "0,1", "1e-3,", *VALUES)],
            "--log": ["tensorboard", "tensorboardd", "tensorboard,x", *ODD],
            "--seeds": VALUES,
            "--train-length": VALUES,
            "--workers": VALUES,
            "--device": ["cpu", "cuda:99", *VALUES],
            "--html": PLACES,
        },
    )


def report(draw: random.Random) -> list[str]:
    line = [usually(draw, "runs", PLACES) for _ in range(draw.choice([1, 1, 2]))]
    names = [*NAMES, "training.lr", "model", "model.width", "task", "tests.samples", "training.", ".", "seed"]
    return line + options(draw, {"--html": PLACES, "--csv": PLACES, "--compare": names, "--json": []})


def inspect(draw: random.Random) -> list[str]:
    line = [draw.choice(["one", "links"]) if draw.random() < 0.7 else draw.choice(PLACES), draw.choice(VIEWS)]
    line = [*line[:1], draw.choice(WORDS)] if draw.random() < 0.05 else line
    heads = ["0.0", "1.1", "9.9", "1", "1.", ".1", "-1.0", "0.0.0", "².0", *VALUES]
    return line + options(
        draw,
        {
            "--length": ["5", "12", "1", "1000000", *VALUES],
            "--strings": ["1", "3", "10000000", *VALUES],
            "--checkpoint": ["last", "best", "first", *ODD],
            "--head": heads,
            "--html": PLACES,
            "--json": [],
            "--trust": [],
        },
        often=0.35,
    )


def export(draw: random.Random) -> list[str]:
    line = [draw.choice(TASKS), "--lengths", usually(draw, "5,8", LENGTHS), "--samples", usually(draw, "2", VALUES)]
    line += ["--out", f"data/{draw.randrange(10**9)}" if draw.random() < 0.8 else draw.choice(PLACES)]
    line += ["--set", f"task.{setting(draw).rpartition('.')[2]}"] if draw.random() < 0.5 else []
    asked = {"--format": ["jsonl", "parquet", "csv", *ODD], "--set": ["model.width=3", "x", "=", *ODD], "--json": []}
    numbers = dict.fromkeys(("--train", "--validation", "--train-length", "--seed"), VALUES)
    return line + options(draw, {**numbers, **asked})


def reproduce(draw: random.Random) -> list[str]:
    # A row that no table has: the recipe is read, its options checked, and nothing is run.
    line = [*draw.choice(REPRODUCE.split("|")).split(), "--only", draw.choice(["\x1b", "nothing", "-1", "[x]"])]
    line += ["--scale", "smoke" if draw.random() < 0.6 else draw.choice(["big", "laptop", "paper", *ODD])]
    asked = {"--set": [setting(draw), "checkpoint=nowhere", "rows=0", "checkpoint=", *ODD], "--device": VALUES}
    return line + options(draw, {**asked, "--workers": VALUES, "--out": PLACES, "--log": ["x", *ODD]})


def certify(draw: random.Random) -> list[str]:
    # Every value of a time is small, whichever option it ends up behind.
    made = f"made-{draw.randrange(10**9)}"
    line = [usually(draw, "one", PLACES)] if draw.random() < 0.9 else []
    line += ["--budget", usually(draw, "0.2", ["0", "-1", "nan", "inf", "x", ""])]
    asked = {"--task": TASKS, "--checkpoint": ["last", "best", *ODD], "--word": ["0:37 1", "0:9999999", "2", *ODD]}
    asked |= {"--out": [f"{made}.json", *PLACES], "--consolidate": [], "--save": [made, *PLACES], "--json": []}
    return line + options(
        draw, {**asked, "--check": PLACES, "--model": PLACES, "--exact": ["5", "0", "x"], "--trust": []}
    )


def compiled(draw: random.Random) -> list[str]:
    line = [usually(draw, "parity", TASKS), "--out", f"made-{draw.randrange(10**9)}", "--seconds", "1"]
    widths, seeds = ["8", "0", "-1", "100000000", "x"], ["1", "-1", "x", "1e400"]
    return line + options(draw, {"--width": widths, "--seed": seeds, "--set": [setting(draw), *ODD], "--json": []})


def names_listed(draw: random.Random) -> list[str]:
    words = draw.choice([LISTED, TASKS, MODELS, WORDS])
    return [draw.choice(words) for _ in range(draw.choice([0, 1, 1, 1, 2, 3]))] + options(draw, {"--json": []})


def any_words(draw: random.Random) -> list[str]:
    return [draw.choice(WORDS) for _ in range(draw.choice([0, 1, 1, 2]))]


AFTER = {
    "bench": bench,
    "report": report,
    "inspect": inspect,
    "export": export,
    "reproduce": reproduce,
    "certify": certify,
    "compile": compiled,
    "list": names_listed,
}


def usually(draw: random.Random, sound: str, others: Sequence[str]) -> str:
    return sound if draw.random() < 0.4 else draw.choice(others)


def options(draw: random.Random, values: dict[str, list[str]], often: float = 0.15) -> list[str]:
    """Some of these options, each with one of its values; a flag has none."""
    chosen = [(name, each) for name, each in values.items() if draw.random() < often]
    return [word for name, each in chosen for word in ([name, draw.choice(each)] if each else [name])]


def setting(draw: random.Random) -> str:
    part = draw.choice(PARTS) if draw.random() < 0.9 else draw.choice(["trainng", "", "model.model", "gru"])
    name = draw.choice(NAMES)
    name = name if draw.random() < 0.1 else f"{part}.{name}"
    return name if draw.random() < 0.05 else f"{name}={draw.choice(VALUES)}"


def call(draw: random.Random) -> str:
    """One call of the library, as Python."""
    values = "3|0|-1|1.5|None|'x'|[]|{}|[[0, 1], [1, 0]]|True|float('nan')|10**400|10**5000|b'x'|{1}|(1,)|object()"
    name, (value, other) = draw.choice(NAMES), draw.choices(values.split("|"), k=2)
    task, model = draw.choice(TASKS), draw.choice(MODELS)
    option = "size" if name == "name" else name  # `name` is said by position
    mixer = draw.choice(
        ["softmax", "chain", "lru", "s4d", "block-lrnn", "lstm", "sliding-dilated", "diagonal-lrnn", "x"]
    )
    position = draw.choice(["learned", "rotary", "alibi", "sinusoidal", "fire", "transformer-xl", "none", "x"])
    return draw.choice(
        [
            f"tasks.get({task!r}, **{{{name!r}: {value}}})",
            f"tasks.get('parity').test_set({value}, {other})",
            f"tasks.get('parity').lengths({value}, {other})",
            f"tasks.from_regex({draw.choice(VALUES)!r}, alphabet={value})",
            f"tasks.get('machine', delta={value}, accepting={other})",
            f"automata.from_regex({draw.choice(ODD + TASKS)!r})",
            f"models.build({model!r}, vocab_size=2, num_outputs=2, settings={{{name!r}: {value}}})",
            f"models.build('lstm', vocab_size={value}, num_outputs={other})",
            f"models.build('transformer', vocab_size=2, num_outputs=2, **{{{option!r}: {value}}})",
            f"lab.plan({task!r}, [{model!r}], settings={{{f'model.{name}'!r}: {value}}})",
            f"lab.plan('parity', ['lstm'], settings={{{f'training.{name}'!r}: {value}}})",
            f"lab.plan('parity', {value}, seeds={other})",
            f"lab.plan('parity', ['lstm'], test_lengths={value}, sweep={other})",
            f"lab.lengths({draw.choice(LENGTHS)!r})",
            f"lab.find({draw.choice(PLACES)!r})",
            f"lab.load({value})",
            f"lab.run({value}, workers={other})",
            f"report.table({value})",
            f"report.frame({value})",
            f"report.paired({value}, {other})",
            f"report.compare(lab.find('runs').runs, {name!r})",
            f"mixers.get({mixer!r}, **{{{option!r}: {value}, 'width': 8}})",
            f"positions.get({position!r}, **{{{option!r}: {value}, 'width': 8, 'heads': 2}})",
            f"insight.probe_strings(tasks.get('parity'), {value}, {other})",
            f"ops.chain_attention(*[torch.zeros(1, 2, 3, 4)] * 3, {value})",
        ]
    )
