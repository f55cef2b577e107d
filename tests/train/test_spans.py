"""The answers of spans: what a tree says of every node, against the model's answer to the tokens under it alone."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from lengthwise import models, tasks
from lengthwise.errors import Error
from lengthwise.lab.job import Job, run_group
from lengthwise.models.depth import groups
from lengthwise.train import Interrupted, Stop, StringObjective
from lengthwise.train.settings import Training
from lengthwise.train.spans import Spans
from lengthwise.train.steady import steadied_parts, with_noise

PLUS = tasks.get("modular-arithmetic", modulus=3, leading_plus=True)
PARITY = tasks.get("parity")


def tree(task, chunk=2, **options):
    torch.manual_seed(0)
    settings = {"width": 8, "heads": 2, "chunk": chunk, **options}
    return models.build("regular-gpt", vocab_size=len(task.vocabulary), num_outputs=task.logits, **settings).double()


def oracle(model, task, tokens, chunk):
    """The mean over groups of the mean loss at the spans that are strings of the task, each read by itself."""
    T, each = tokens.shape[1], []
    for group in range(groups(T, chunk)):
        losses = []
        for end in range(T, 0, -(chunk ** (group + 1))):
            span = tokens[:, max(0, end - chunk ** (group + 1)) : end]
            if groups(span.shape[1], chunk) != group + 1:
                continue
            states = task.machine.run(span)[:, -1]
            for row, state in zip(span, states, strict=True):
                if task.answered is None or task.answered[state]:
                    answer = model(row[None], last=True)[0]
                    losses.append(F.cross_entropy(answer, task.readout[state][None]))
        if losses:
            each.append(torch.stack(losses).mean())
    return torch.stack(each).mean()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("task", "chunk", "length"),
    [*((PARITY, c, n) for c in (2, 3) for n in (1, 2, 7, 9, 13)), *((PLUS, c, n) for c in (2, 3) for n in (2, 8, 14))],
)
def test_the_loss_is_that_of_each_span_read_by_itself(task, chunk, length, shared):
    model = tree(task, chunk)
    tokens = task.draw(length, 5, torch.Generator().manual_seed(1))
    expected = oracle(model, task, tokens, chunk)
    expected.backward()
    gradients = [p.grad for p in model.parameters()]
    model.zero_grad()
    model.reuse_equal_tokens(shared)
    loss = Spans(model, task).loss(model(tokens, last=True, nodes=True), tokens)
    loss.backward()
    assert torch.allclose(loss, expected, atol=1e-12)
    for own, p in zip(gradients, model.parameters(), strict=True):
        assert (own is None) == (p.grad is None)
        assert own is None or torch.allclose(own, p.grad, atol=1e-12)
    assert not model.inner.depth.answers_for_all
    assert model(tokens, last=True).shape[1] == 1


def test_a_span_is_asked_for_where_it_is_a_string():
    asked = Spans(tree(PLUS), PLUS).answers
    tokens = torch.tensor([[3, 1, 4, 2, 3, 2, 5, 2]])  # +1-2+2*2
    answers, asks = asked(tokens, 0)
    assert (answers * asks).tolist() == [[1, 0, 2, 0]]
    assert asks.tolist() == [[True, False, True, False]]
    answers, asks = asked(tokens, 1)
    assert (answers.tolist(), asks.tolist()) == ([[2, 1]], [[True, True]])
    answers, asks = asked(tokens[:, 2:], 2)  # six tokens, a tree of eight
    assert asks.tolist() == [[False]]
    assert asked(tokens[:, 4:], 1)[1].tolist() == [[True]]


@pytest.mark.parametrize(
    ("task", "model", "why"),
    [
        (PARITY, models.build("lstm", vocab_size=2, num_outputs=2), "only trees of one layer"),
        (PARITY, tree(PARITY, thickness=2), "only trees of one layer"),
        (tasks.get("parity", supervision="prefix"), tree(PARITY), "supervision=last"),
        (tasks.get("mqar"), tree(PARITY), "with a machine"),
    ],
)
def test_what_has_no_spans_says_why(task, model, why):
    with pytest.raises(Error, match=why):
        Spans(model, task)


def test_noise_is_drawn_once_for_equal_subtrees_and_the_root_is_the_last_node():
    model = tree(PARITY)
    model.reuse_equal_tokens()
    tokens = torch.zeros(4, 8, dtype=torch.long)
    with with_noise(steadied_parts(model), 0.5):
        noisy = model(tokens, last=True, nodes=True)
    plain = model(tokens, last=True, nodes=True)
    assert torch.equal(plain[:, -1:], model(tokens, last=True))
    assert (noisy - plain).abs().amin() > 1e-3
    assert torch.equal(noisy[:, 0], noisy[:, 1])


SPANS = {"task": PARITY, "steps": 7, "spans": True}
MODEL = {"width": 16, "heads": 2}


def test_stopped_and_started_again_is_the_same(tmp_path, quick):
    experiments = quick("regular-gpt", **SPANS, steady="on", contraction=0.0, model_settings=MODEL)
    whole = run_group(experiments, Job(tmp_path / "whole"))[0].run.tensors("model")
    stop = Stop()

    def hear(progress):
        stop.asked = progress.step >= 4

    with pytest.raises(Interrupted):
        run_group(experiments, Job(tmp_path / "pieces", hear=hear, stop=stop))
    pieces = run_group(experiments, Job(tmp_path / "pieces"))[0].run.tensors("model")
    assert all(torch.equal(whole[name], pieces[name]) for name in whole)


def test_seeds_that_are_run_together_are_those_that_are_run_alone(tmp_path, quick):
    first, *_ = quick("regular-gpt", **SPANS, model_settings=MODEL)
    both = [replace(first, seed=seed) for seed in (0, 1)]
    together = [outcome.run.tensors("model") for outcome in run_group(both, Job(tmp_path / "together"))]
    for experiment, weights in zip(both, together, strict=True):
        (alone,) = run_group([experiment], Job(tmp_path / "alone"))
        assert all(torch.equal(weights[name], each) for name, each in alone.run.tensors("model").items())
    (plain,) = run_group([replace(first, training=first.training.but(spans=False))], Job(tmp_path / "plain"))
    assert not torch.equal(plain.run.tensors("model")["head.weight"], together[0]["head.weight"])


def test_where_it_cannot_be_it_says_so():
    batch = PARITY.sample(4, 2, torch.Generator())
    with pytest.raises(Error, match=r"training\.spans is for a training in one process"):
        StringObjective(PARITY, spans=True).split(batch, 0, 2)
    with pytest.raises(Error, match=r"training\.spans goes with neither"):
        Training.of(spans=True, compile=True)
