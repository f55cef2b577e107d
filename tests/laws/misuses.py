"""Wrong calls of the Python API, and words that the one line of their `lengthwise.Error` must have.

`MISUSES` maps a name to (call, words). Every call is quick and small in memory: what is asked for must be refused
before it is made. Whoever looks for further ways to be wrong may draw from here.
"""
# pyright: reportArgumentType=false

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from lengthwise import automata, insight, lab, models, ops, report, tasks
from lengthwise.automata import Semiautomaton, from_regex

PARITY = [[0, 1], [1, 0]]


def machine(delta: Any = PARITY, **options: Any) -> Semiautomaton:
    return Semiautomaton(delta, **options)


def answer(task: str, tokens: Any, **params: Any) -> Callable[[], Any]:
    return lambda: tasks.get(task, **params).answer(torch.as_tensor(tokens))


AUTOMATA: dict[str, tuple[Callable[[], Any], str]] = {
    "half a state": (lambda: machine([[0.5, 1], [1, 0]]), "delta must be a .* table of whole numbers"),
    "no state": (lambda: machine([[float("nan"), 1], [1, 0]]), "table of whole numbers"),
    "a state beyond all": (lambda: machine([[1e30, 1], [1, 0]]), "whole numbers|states 0..1"),
    "truths for states": (lambda: machine([[True, False], [False, True]]), "table of whole numbers"),
    "start in between": (lambda: machine(start=0.7), "start must be a whole number, got 0.7"),
    "accepting in between": (lambda: machine(accepting=[1.5]), "accepting must be a whole number, got 1.5"),
    "symbols without order": (lambda: machine(symbols={"a", "b"}), "symbols must have an order, got a set"),
    "alphabet without order": (lambda: from_regex("ab", alphabet={"a", "b"}), r"order, got a set.*\['a', 'b'\]"),
    "alphabet of numbers": (lambda: from_regex("ab", alphabet=[1, 2]), "different single characters"),
    "a word in between": (lambda: machine(accepting={0}).accepts([0.5]), "symbols must be a whole number, got 0.5"),
    "tokens in between": (lambda: machine().run([[0.5, 1.5]]), "tokens must be whole numbers"),
    "run from nowhere": (lambda: machine().run([[0, 1]], start=7), "start must be states, 0..1, got 7"),
    "labels of too few states": (lambda: automata.minimise(machine(), labels=[1]), "2 labels"),
    "negative weights": (lambda: automata.WordSampler(machine(accepting={0}), np.array([1.0, -1.0])), "at least 0"),
    "too few weights": (lambda: automata.WordSampler(machine(accepting={0}), np.array([1.0])), "needs 2 weights"),
    "no limit left": (lambda: automata.transition_monoid(machine(), limit=0), "more than 0 elements"),
    "infinitely many states": (
        lambda: Semiautomaton.from_function(lambda q, s: q + 1, 0, 1, limit=10),
        "more than 10 states .* limit=",
    ),
    "2^21 states": (lambda: from_regex("(a|b)*a(a|b){20}"), "at most 5,000 states.*LENGTHWISE_MAX_REGEX_STATES"),
    "a million times": (lambda: from_regex("a{1000000}"), "5,000 states .*, got 1,000,000"),
    "a million million times": (lambda: from_regex("((a{10000}){10000}){10000}"), "at most 5,000 states"),
    "times with 5,000 digits": (lambda: from_regex(f"a{{{'9' * 5000}}}"), "at most 5,000 states"),
    "sides that multiply": (lambda: from_regex("(a{100})&(a{100})&(a{100})"), "at most 5,000 states"),
    "repeated never": (lambda: from_regex("ab{0}"), r"\{0\} repeats nothing. Write \(\)"),
    "repeated at most never": (lambda: from_regex("ab{,0}"), "repeats nothing"),
    "all of Unicode": (lambda: from_regex("[ -\uffff]"), "at most 1,000 symbols in an alphabet"),
    "words of 10^9 symbols": (
        lambda: automata.WordSampler(machine(accepting={0})).count(10**9),
        "at most 1,048,576 symbols in a string, got 1,000,000,000",
    ),
}

TASKS: dict[str, tuple[Callable[[], Any], str]] = {
    "brackets a million deep": (lambda: tasks.get("d-1000000"), "depth must be .* in 1..1000, got 1000000"),
    "a name of 5,000 digits": (lambda: tasks.get("d-" + "1" * 5000), "Unknown task"),
    "a group of a million points": (lambda: tasks.get("word-problem", group="S1000000"), "n in 2..9"),
    "a group of 5,000 digits": (lambda: tasks.get("word-problem", group="Z" + "1" * 5000), "group must be Zn or"),
    "modulo a million": (lambda: tasks.get("modular-sum", modulus=10**6), r"modulus must be .* in 2\.\.1000"),
    "a million symbols": (lambda: tasks.get("even-pairs", symbols=10**6), r"symbols must be .* in 2\.\.1000"),
    "a ring of 10^9 places": (lambda: tasks.get("cycle-navigation", size=10**9), r"size must be .* in 2\.\.100000"),
    "10^9 blocks": (lambda: tasks.get("reference-chains", blocks=10**9), r"blocks must be .* in 2\.\.1000"),
    "10^9 objects": (lambda: tasks.get("boxes", objects=10**9), "objects must be a whole number in 1..100"),
    "half a state": (lambda: tasks.get("machine", delta=[[0.5, 1], [1, 0]]), "delta must be a list of lists of whole"),
    "accepting in between": (lambda: tasks.get("machine", delta=PARITY, accepting=[1.5]), "accepting must be"),
    "alphabet without order": (lambda: tasks.from_regex("ab", alphabet={"a", "b"}), "alphabet must be a text"),
    "10^9 strings": (lambda: tasks.get("parity").test_set(1000, 10**9), "need at least 17.0 TB of memory"),
    "10^12 strings": (lambda: tasks.get("parity").sample(40, 10**12, torch.Generator()), "Ask for fewer strings"),
    "no strings": (lambda: tasks.get("parity").test_set(4, 0), "batch must be at least 1"),
    "half a string": (lambda: tasks.get("parity").sample(4, 3.5, torch.Generator()), "whole number of strings"),
    "half a symbol": (lambda: tasks.get("parity").sample(4.5, 3, torch.Generator()), "length must be a whole number"),
    "a baseline in between": (lambda: tasks.get("parity").baseline(4.5), "length must be a whole number, got 4.5"),
    "a string of 10^9 symbols": (lambda: tasks.get("parity").check(10**9), "at most 1,048,576 symbols in a string"),
    "lengths from a list on": (lambda: tasks.get("parity").lengths([1], 5), "length must be a whole number, got .1."),
    "lengths up to nowhere": (lambda: tasks.get("parity").lengths(1, None), "length must be a whole number, got None"),
    "lengths from 10^5000 down": (
        lambda: tasks.get("parity").lengths(10**5000, 1),
        "no possible length in a number of thousands of digits..1",
    ),
    "10^11 lengths": (lambda: tasks.get("parity").lengths(1, 10**11), "at most 1,048,576 symbols"),
    "parity of 7": (answer("parity", [[0, 7]]), "parity: tokens must be in 0..1, the vocabulary, got 7"),
    "parity of -1": (answer("parity", [[0, -1]]), "got -1"),
    "parity of a half": (answer("parity", [[0.5, 1.0]]), "tokens must be .* integers"),
    "parity of one row": (answer("parity", [0, 1]), "tokens must be .B, T. integers"),
    "even pairs of 7": (answer("even-pairs", [[0, 7]]), "in 0..1"),
    "a sum of 7": (answer("modular-sum", [[0, 7]]), "in 0..4"),
    "a step of 7": (answer("cycle-navigation", [[0, 7]]), "in 0..2"),
    "arithmetic of 70": (answer("modular-arithmetic", [[1, 5, 70]]), "in 0..7"),
    "a product of 700": (answer("word-problem", [[1, 700]]), "in 0..119"),
    "brackets of 7": (answer("d-2", [[0, 7]]), "tokens must be in 0..1"),
}


def plan(task: Any = "parity", architectures: Any = ("lstm",), **options: Any) -> Callable[[], Any]:
    return lambda: lab.plan(task, architectures, **options)


def training(**settings: Any) -> Callable[[], Any]:
    return lambda: lab.Training.of(**settings)


def experiment(**parts: Any) -> Callable[[], Any]:
    sound = {
        "data": lab.TaskSpec("parity"),
        "model": lab.ModelSpec("lstm"),
        "training": lab.Training(),
        "tests": lab.LengthTests((3,)),
    }
    return lambda: lab.Experiment(**{**sound, **parts})


LAB: dict[str, tuple[Callable[[], Any], str]] = {
    "a range of 10^11": (lambda: lab.lengths("1:100000000000"), "range '1:100000000000': at most 1,000,000 different"),
    "many ranges": (lambda: lab.lengths("1:600000,600001:1300000"), "at most 1,000,000 different lengths"),
    "a sequence of 10^11": (plan(test_lengths=range(10**11)), "test_lengths: at most 1,000,000 different lengths"),
    "a length of 10^11": (plan(test_lengths=[10**11]), "at most 1,048,576 symbols in a string"),
    "half a length": (plan(test_lengths=[50.5]), "test_lengths must be a list of whole numbers .*, got .50.5"),
    "a length of True": (plan(train_length=1, test_lengths=[True, 3]), "test_lengths must be a list of whole numbers"),
    "no text of lengths": (lambda: lab.lengths([3]), "written as a text"),
    "a length that is a mapping": (plan(test_lengths={"a": 1}), "test_lengths must be"),
    "training on 10^11 lengths": (plan(train_length=10**11), "at most 1,048,576 symbols"),
    "a training length in between": (plan(train_length=4.5), "train_length must be a whole number at least 1, got 4.5"),
    "10^9 seeds": (plan(seeds=10**9), "at most 10,000 runs in one grid, got 1,000,000,000.*LENGTHWISE_MAX_EXPERIMENTS"),
    "half a seed": (plan(seeds=1.5), "seeds must be a whole number at least 1, got 1.5"),
    "seeds in words": (plan(seeds="3"), "seeds must be a whole number at least 1, got '3'"),
    "a batch of 10^9": (plan(settings={"training.batch": 10**9}), "at most 67,108,864 tokens in a step"),
    "10^10 validation strings": (plan(settings={"training.validation_samples": 10**11}), "need at least .* of memory"),
    "10^8 test strings": (plan(settings={"tests.samples": 10**8}), r"tests.samples must be .* in 1\.\.10000000"),
    "10^12 steps": (training(steps=10**12), r"training.steps must be a whole number in 1\.\."),
    "an infinite rate": (plan(settings=["training.lr=1e400"]), "training.lr must be a number above 0, got inf"),
    "no rate": (training(lr=None), "training.lr must be a number above 0, got None"),
    "no optimiser": (lambda: lab.Training(optimizer=None), "training.optimizer must be Optimizer, got None"),
    "a negative test length": (lambda: lab.LengthTests(lengths=(-1,)), "tests.lengths must be a list of whole numbers"),
    "no task": (plan(None), "A task is a name, .* got None"),
    "no model": (plan(architectures=None), "A model is a name or an nn.Module class, got None"),
    "a number for a model": (plan(architectures=[3]), "A model is a name or an nn.Module class, got 3"),
    "settings that are a number": (plan(settings=3), "settings must be texts NAME=VALUE, or a mapping"),
    "an unknown nested setting": (plan(settings={"training": {"stpes": 3}}), "Did you mean 'training.steps'"),
    **{
        f"{workers!r} workers": (lambda w=workers: lab.run([], workers=w), f"workers must be .*, got {workers!r}")
        for workers in (-1, 0, 1.5, "2", True, 10**9)
    },
    "an engine of -1 workers": (lambda: lab.Processes(-1), "workers must be a whole number in 1..1024, got -1"),
    "experiments in words": (lambda: lab.run("parity"), "run takes a list of experiments"),
    "a device in numbers": (lambda: lab.run([], device=0), "device must be a text"),
    "runs of nowhere": (lambda: lab.load(None), "load takes the path of a run"),
    "runs of a list of numbers": (lambda: lab.load([1]), "load takes the path of a run .*, got .1."),
    "10^400 seeds": (plan(seeds=10**400), "at most 10,000 runs in one grid|seeds must be"),
    "a load of 10^5000": (lambda: lab.load(10**5000), "got a number of thousands of digits"),
    "a model of 10^5000": (plan(architectures=10**5000), "A model is a name .*, got a number of thousands of digits"),
    "10^5000 samples": (plan(settings={"training.validation_samples": 10**5000}), "strings of length 40 need at least"),
    "a rate of 10^5000": (training(lr=10**5000), "training.lr must be a number above 0, got a number of thousands"),
    "a record of newer schema": (lambda: lab.Experiment.from_json({"schema": 2}), "schema 2.* Use a newer"),
    "a record with a format": (
        lambda: lab.Experiment.from_json({"schema": 1, "format": 2, "data": {"task": {}}}),
        "format|Not an",
    ),
    "an experiment's seed in between": (experiment(seed=1.5), "experiment.seed must be a whole number, got 1.5"),
    "an experiment on a name": (experiment(data="parity"), "experiment.data must be TaskSpec or TextSpec"),
}

OPS: dict[str, tuple[Callable[[], Any], str]] = {
    "a gamma of 10^5000": (
        lambda: ops.chain_attention(*[torch.zeros(1, 1, 2, 1)] * 3, 10**5000),
        "gamma must be .*, got a number of thousands of digits",
    ),
    "a true gamma": (lambda: ops.chain_attention(*[torch.zeros(1, 1, 2, 1)] * 3, False), "gamma must be at least 0"),
}


def build(name: Any, **options: Any) -> Callable[[], Any]:
    return lambda: models.build(name, **{"vocab_size": 2, "num_outputs": 2, **options})


def config(**fields: Any) -> Callable[[], Any]:
    return lambda: models.LengthwiseConfig(**fields)


def whole_model(**fields: Any) -> Callable[[], Any]:
    given = {"width": 4, "mixer": {"name": "lstm"}, "depth": {"name": "fixed", "layers": 1}, "block": {"kind": "bare"}}
    return lambda: models.LengthwiseForCausalLM(models.LengthwiseConfig(**{**given, **fields}))


def foreign_cache() -> Any:
    one, other = (models.build("transformer", vocab_size=2, num_outputs=2, width=8, heads=2).inner for _ in range(2))
    tokens = torch.zeros(1, 3, dtype=torch.long)
    return other(tokens, past_key_values=one(tokens, use_cache=True).past_key_values)


MODELS: dict[str, tuple[Callable[[], Any], str]] = {
    "no name": (build(None), "A model is built by its name, got None"),
    "a stick that turns": (
        build("stick-breaking", position="rope"),
        "rope.*takes no positions: .* Use the position 'none'",
    ),
    "a path with slopes": (build("path", position="alibi"), "alibi.*takes no positions: every token between"),
    "a count in segments": (build("cope", position="bilevel"), "bilevel"),
    "a stick in front of softmax": (build("stick-breaking", curent=True), "Did you mean 'current'"),
    "no row to count in": (build("cope", rows=0), "rows must be a whole number at least 1, got 0"),
    "no outputs": (build("lstm", num_outputs=0), "must be at least 1, got 2 and 0"),
    "outputs in between": (build("lstm", num_outputs=1.5), "must be at least 1, got 2 and 1.5"),
    "a config without outputs": (lambda: models.presets.lstm(2, 0), "num_outputs must be a whole number at least 1"),
    "10^30 tokens": (build("lstm", vocab_size=10**30), "lstm: its weights need more memory than any machine has"),
    "10^18 tokens": (build("lstm", vocab_size=10**18), "lstm: its weights need more memory than any machine has"),
    "outputs of 10^5000": (build("lstm", vocab_size=0.5, num_outputs=10**5000), "got 0.5 and a number of thousands"),
    "10^12 tokens": (build("lstm", vocab_size=10**12), "lstm: its weights need at least 256 TB of memory"),
    "a width of 10^7": (build("lstm", width=10**7), "need at least .* of memory"),
    "a transformer 10^7 wide": (build("transformer", width=10**7, heads=1), "need at least .* of memory"),
    "10^9 layers": (build("lstm", layers=10**9), "at most 10,000 layers, got 1,000,000,000"),
    "a state of 10^6": (build("s4", state=10**6), r"state must be a whole number in 1\.\.4096"),
    "half a layer": (whole_model(depth={"name": "fixed", "layers": 1.5}), "must be a whole number, got 1.5"),
    "layers in words": (whole_model(depth={"name": "fixed", "layers": "x"}), "must be a whole number, got 'x'"),
    "a vocabulary in words": (config(vocab_size="x"), "config: vocab_size must be a whole number, got 'x'"),
    "a width in words": (config(width="x"), "config: width must be a whole number, got 'x'"),
    "a mixer by name": (config(mixer="lstm"), "config: mixer must be dict, list or None, got 'lstm'"),
    "dropout in words": (config(dropout="a"), "config: dropout must be a number, got 'a'"),
    "a scale in words": (config(embedding_scale="a"), "config: embedding_scale must be a number, got 'a'"),
    "a truth in words": (config(final_norm="no"), "config: final_norm must be True or False, got 'no'"),
    "a negative range": (config(initializer_range=-1), "config: initializer_range must be a number at least 0"),
    "half an output": (
        config(num_outputs=1.5),
        "num_outputs must be a whole number at least 1 or None, got 1.5",
    ),
    "nobody's home": (build("hf:~nosuchuser/x"), "hf:~nosuchuser/x: must be a folder"),
    "a cache of another model": (foreign_cache, "past_key_values: was made by another model"),
}

LOOKS: dict[str, tuple[Callable[[], Any], str]] = {
    "no strings": (lambda: insight.probe_strings(tasks.get("parity"), 5, 0), "count must be .* at least 1, got 0"),
    "strings in words": (lambda: insight.probe_strings(tasks.get("parity"), 5, "x"), "count must be .*, got 'x'"),
    "10^8 strings": (
        lambda: insight.probe_strings(tasks.get("parity"), 5, 10**8),
        "at most 500,000 tokens to look at, got 500,000,000.*LENGTHWISE_MAX_PROBED",
    ),
    **{
        f"{name} of {given!r}": (lambda show=show, given=given: show(given), "takes a list of runs, .* got")
        for name, show in (
            ("table", report.table),
            ("rows", report.rows),
            ("data", report.data),
            ("a comparison", lambda given: report.compare(given, "seed")),
            ("pairs", lambda given: report.paired(given, [])),
        )
        for given in (3, None, "x", [3], b"x")
    },
    "a table of 10^5000": (lambda: report.table(10**5000), "takes a list of runs, .* got a number of thousands"),
}

MISUSES = {
    f"{room}: {name}": misuse
    for room, table in (
        ("automata", AUTOMATA),
        ("tasks", TASKS),
        ("lab", LAB),
        ("ops", OPS),
        ("models", MODELS),
        ("looks", LOOKS),
    )
    for name, misuse in table.items()
}
