"""Up to which length a model is usable: planted cliffs are found, and where there is none, none is."""

from __future__ import annotations

import copy
import math
import shutil

import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from lengthwise import Error, lab, report, text
from lengthwise.evaluate.long_context import losses_twice
from lengthwise.lab.cliff import Cliff, Step, _steps

from . import corpora

TRAINED = 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A corpus, and the tokenizer that was trained on it."""
    folder = tmp_path_factory.mktemp("cliff")
    corpora.write(folder / "corpus", documents=60)
    opened = text.corpora.open([folder / "corpus"])
    shutil.copytree(text.tokenizers.train(opened, size=300, root=folder), folder / "tokenizer")
    return folder


@pytest.fixture(scope="module")
def trained(folder):
    """A model without positions that was trained at 64 tokens, and its tokenizer."""
    read = text.tokenizers.load(folder / "tokenizer")
    tokens = text.tokens_of(text.corpora.open([folder / "corpus"], held_out=0), read, root=folder).train.tokens
    torch.manual_seed(0)
    ends = {"bos_token_id": None, "eos_token_id": None}
    config = GPT2Config(vocab_size=len(read), n_positions=512, n_embd=32, n_layer=2, n_head=2, **ends)
    model = GPT2LMHeadModel(config)
    model.transformer.wpe.weight.requires_grad_(False).zero_()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(250):
        starts = torch.randint(len(tokens) - TRAINED, (8,))
        batch = torch.stack([tokens[i : i + TRAINED] for i in starts.tolist()]).long()
        optimizer.zero_grad()
        model(batch, labels=batch).loss.backward()
        optimizer.step()
    return model, read


def planted(folder, trained, at):
    """The same where it knows no more than `at` tokens, and badly misled by what stands further."""
    model, read = copy.deepcopy(trained[0]), trained[1]
    with torch.no_grad():
        model.transformer.wpe.weight[at:] = 3 * torch.randn(512 - at, 32)
    model.save_pretrained(folder / f"gpt2-{at}")
    read.save_pretrained(folder / f"gpt2-{at}")
    return folder / f"gpt2-{at}"


def measure(folder, model, **options):
    how = {"trained": TRAINED, "needles": 0, "store": folder / "tokens", **options}
    return lab.measure_cliff(model, folder / "corpus", **how)


@pytest.mark.parametrize("at", [90, 150, 333])
def test_a_planted_cliff_is_found_within_a_tenth(folder, trained, at):
    cliff = measure(folder, planted(folder, trained, at), up_to=512, windows=12)
    assert 0.9 * at <= cliff.usable <= 1.1 * at
    assert cliff.limit == "loss"
    assert cliff.by_needles is None


def test_a_model_without_a_cliff_is_usable_as_far_as_it_was_tested(folder, trained):
    whole = planted(folder, trained, 512)
    cliff = measure(folder, whole, up_to=300, windows=6)
    assert (cliff.usable, cliff.limit, cliff.made_for, cliff.places) == (300, "tested", 512, 512)
    assert all(step.low <= 1 <= step.high + 0.02 for step in cliff.steps)
    end = measure(folder, whole, up_to=9000, windows=6)
    assert (end.usable, end.limit) == (512, "places"), "its table of places ends there"


def test_what_was_measured_stands_in_the_record(folder, trained):
    cliff = measure(folder, planted(folder, trained, 512), trained=128, up_to=256, windows=3, needles=2)
    record = cliff.to_json()
    assert {name: record[name] for name in ("window", "windows", "stride", "trained", "made_for", "usable")} == {
        "window": 256, "windows": 3, "stride": 64, "trained": 128, "made_for": 512, "usable": 256}  # fmt: skip
    needles = record["needles"]
    assert needles["settings"]["prompt"].startswith("The secret number of KEY is NUMBER.")
    assert {"scoring", "choices", "seed", "haystack", "budget"} <= set(needles["settings"])
    assert set(needles["intervals"]) == {"128", "256"}


class Reads(nn.Module):
    """Predicts each token wrongly, the worse the more stands before it."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, input_ids, use_cache=False):
        B, T = input_ids.shape
        logits = torch.zeros(B, T, 5)
        logits[..., 0] = torch.arange(T).float()
        return type("Output", (), {"logits": logits})()


def test_each_token_is_read_behind_all_and_behind_the_short_length():
    long, short = losses_twice(Reads(), torch.ones(3, 41, dtype=torch.long), 8, device=torch.device("cpu"))
    assert long.shape == short.shape == (3, 40)
    assert torch.equal(long[:, :7], short[:, :7])
    before = (long[0].exp() - 4).log().round().int().tolist()
    assert before == list(range(40)), "every place once, in its order"
    before = (short[0].exp() - 4).log().round().int().tolist()
    assert min(before[7:]) == 3, "half of the short length at least is read before it"
    assert max(before) == 6, "and never more than all of it"


def test_an_interval_holds_for_all_steps_together():
    """Where nothing is worse, fewer than one measurement of twenty says that something is."""
    draw, wrong = torch.Generator().manual_seed(0), 0
    for _ in range(200):
        noise = torch.log(torch.tensor(1.1)) + torch.randn(4, 255, generator=draw)
        wrong += any(step.low > 1.1 for step in _steps(noise, torch.zeros(4, 255), TRAINED))
    assert wrong <= 10


def test_a_loss_that_is_no_number_is_a_cliff():
    long = torch.zeros(2, 255)
    long[:, 99:] = math.nan
    cliff = Cliff("m", (), "t", "unknown", 64, None, None, 2, 256, "fp32", tuple(_steps(long, torch.zeros(2, 255), 64)))
    assert 90 <= cliff.usable <= 100
    assert cliff.to_json()["steps"][-1]["times"] is None


def needles(*shares):
    from lengthwise.evaluate import FarScores

    lengths = tuple(64 << k for k in range(len(shares)))
    return FarScores("needle", lengths, (0.0, 1.0), tuple((s, s) for s in shares), 20, 0.1, {})


@pytest.mark.parametrize(
    ("shares", "usable", "limit"),
    [
        ((1.0, 0.95, 0.2), 128, "needles"),
        ((0.15, 0.1, 0.1), 256, "tested"),  # it finds none where it was trained: nothing is lost
        ((0.9, 0.85, 0.8), 256, "tested"),  # the intervals meet
    ],
)
def test_a_model_that_no_longer_finds_needles_is_not_usable(shares, usable, limit):
    steps = (Step(256, 1.0, 1.0, 0.9, 1.05),)
    cliff = Cliff("m", (), "t", "unknown", 64, None, None, 8, 256, "fp32", steps, needles(*shares))
    assert (cliff.usable, cliff.limit) == (usable, limit)


def test_the_chart_draws_the_number_that_is_said(folder, trained):
    """The line at the usable length is its value there, still within 1.1 times; the next is drawn above."""
    cliff = measure(folder, planted(folder, trained, 150), up_to=512, windows=12)
    chart = report.cliff([cliff])[0]
    (name,) = (name for name in chart.series if name != chart.base)
    xs, ys = chart.series[name]
    low, high = chart.bands[name]
    at = xs.index(cliff.usable)
    assert chart.marks == {"usable": cliff.usable}
    step = next(step for step in cliff.steps if step.length == cliff.usable)
    assert (ys[at], low[at], high[at]) == (step.times, step.low, step.high)
    assert low[at] <= 1.1 < low[at + 1]
    assert chart.series[chart.base][1] == [1.1, 1.1]
    assert len(chart.below[0].rows) == 1


def test_calls_that_are_wrong_say_what_to_do(folder, trained):
    model = planted(folder, trained, 512)
    with pytest.raises(Error, match="it has places for 512 tokens"):
        measure(folder, model, trained=None)
    with pytest.raises(Error, match="up_to is 32"):
        measure(folder, model, up_to=32)
    with pytest.raises(Error, match="needs two windows"):
        lab.measure_cliff(model, folder / "corpus" / "000.txt", trained=64, needles=0, store=folder, up_to=90)
