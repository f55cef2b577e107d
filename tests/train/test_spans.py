"""The answers of spans: what a tree says of every node, against the model's answer to the tokens under it alone."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from lengthwise import models, tasks
from lengthwise.errors import Error
from lengthwise.lab.job import Job, run_group
from lengthwise.models.depth import groups
from lengthwise.train import StringObjective
from lengthwise.train.settings import Training
from lengthwise.train.spans import EQUALS, LOUD, Spans, equal_rows, equals
from lengthwise.train.steady import steadied_parts, with_noise
from lengthwise.verify.prove.node import Node

PLUS = tasks.get("modular-arithmetic", modulus=3, leading_plus=True)
PARITY = tasks.get("parity")


def tree(task, chunk=2, **options):
    torch.manual_seed(0)
    settings = {"width": 8, "heads": 2, "chunk": chunk, **options}
    return models.build("regular-gpt", vocab_size=len(task.vocabulary), num_outputs=task.logits, **settings).double()


def states_of(task):
    return task.answered if task.answered is not None else torch.ones(task.machine.num_states, dtype=torch.bool)


def oracle(model, spans, task, tokens, chunk, products):
    """The mean over groups of the mean loss at the spans that are strings of the task, each read by itself; of what the
    nodes say of their spans in every context, asked of the machine symbol by symbol; and of the products drawn."""
    T, costs = tokens.shape[1], []
    for group in range(groups(T, chunk)):
        width = chunk ** (group + 1)
        answers, different = [], {}
        for end in range(T, 0, -width):
            span = tokens[:, max(0, end - width) : end]
            alone = groups(span.shape[1], chunk) == group + 1
            for row in span:
                state = task.machine.run(row[None])[0, -1]
                if alone and states_of(task)[state]:
                    answers.append(F.cross_entropy(model(row[None], last=True)[0], task.readout[state][None]))
                node = raised(model, row, group)
                begin = len(row) < width
                different.setdefault(tuple(row.tolist()), said_around(spans, task, row, node, begin))
        if answers:
            costs.append(torch.stack(answers).mean())
        made = [row for each in products[group - 1] for row in each.spans] if group else []
        drawn = [said_around(spans, task, row, raised(model, row, group)) for row in made]
        for each in different.values(), drawn:
            if losses := [loss for said in each for loss in said]:
                costs.append(torch.stack(losses).mean())
    return torch.stack(costs).mean()


def noted_products(spans):
    """What will be drawn, group after group."""
    draw, drawn = spans._products, []

    def noted(own, products, width):
        drawn.append(draw(own, products, width))
        return drawn[-1]

    spans._products = noted
    return drawn


def raised(model, row, group):
    """The node over these tokens alone, normed, so many groups up: in the first of all children may lack."""
    node, C = Node(model), model.inner.depth.chunk
    x = node.leaves(int(row.max()) + 1)[row]
    for _ in range(group + 1):
        x = torch.cat([node.of(x[max(0, end - C) : end][None]) for end in range(len(x), 0, -C)][::-1])
    return model.inner.norm(x[0])


def said_around(spans, task, row, node, begin=False):
    """The losses at one span's node, of the contexts in which it has an answer, and of what follows a beginning."""
    losses, S = [], task.outputs
    around = [*zip([spans.starts[each] for each in spans.place], spans.sizes.tolist(), spans.after, strict=True)]
    ends = [(task.machine.start, *end) for end in zip(spans.end_sizes.tolist(), spans.ends, strict=True)]
    for k, (state, size, after) in enumerate(around + ends if begin else around):
        for symbol in row.tolist():
            state = int(task.machine.delta[state, symbol])
        if after[state] >= 0 and size + len(row) <= spans.longest:
            losses.append(F.cross_entropy(node @ spans.maps[:, k * S : (k + 1) * S].double(), after[state]))
    return losses


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("task", "chunk", "length"),
    [*((PARITY, c, n) for c in (2, 3) for n in (1, 2, 7, 9, 13)), *((PLUS, c, n) for c in (2, 3) for n in (2, 8, 14))],
)
def test_the_loss_is_that_of_each_span_read_by_itself(task, chunk, length, shared, monkeypatch):
    monkeypatch.setattr("lengthwise.train.spans.DRAWN", 64)
    model = tree(task, chunk)
    tokens = task.draw(length, 5, torch.Generator().manual_seed(1))
    spans = Spans(model, task, longest=9)
    drawn = noted_products(spans)
    model.reuse_equal_tokens(shared)
    with spans.noted():
        model(tokens, last=True)
        loss = spans.loss(tokens)
    loss.backward()
    assert any(drawn) == (length > chunk)
    gradients = [p.grad for p in model.parameters()]
    model.zero_grad()
    model.reuse_equal_tokens(False)
    expected = oracle(model, spans, task, tokens, chunk, drawn)
    expected.backward()
    assert torch.allclose(loss, expected, atol=1e-12)
    for own, p in zip(gradients, model.parameters(), strict=True):
        own, got = (torch.zeros_like(p) if each is None else each for each in (own, p.grad))
        assert torch.allclose(own, got, atol=1e-12)
    assert model.inner.depth.noted is None


def test_a_span_is_asked_for_where_it_is_a_string():
    answers = Spans(tree(PLUS), PLUS, 40).answers
    tokens = torch.tensor([[3, 1, 4, 2, 3, 2, 5, 2]])  # +1-2+2*2
    assert answers(tokens, 0).tolist() == [[1, -1, 2, -1]]
    assert answers(tokens, 1).tolist() == [[2, 1]]
    assert answers(tokens[:, 2:], 2).tolist() == [[-1]]  # six tokens, of which the first is no +
    assert answers(tokens[:, 4:], 1).tolist() == [[1]]
    assert answers(tokens[:, :6], 1).tolist() == [[-1, -1]]  # +1 alone has one group; -2+2


def test_in_contexts_a_span_is_what_it_does_to_the_words_around_it():
    spans = Spans(tree(PLUS), PLUS, 40)
    assert spans.sizes.max() <= 8
    same = torch.tensor([[4, 2, 5, 2], [3, 1, 5, 2], [3, 0, 3, 2]])  # -2*2, +1*2, +0+2: all add 2 behind what was
    rows = spans.in_contexts(same)
    assert torch.equal(rows[0], rows[1])
    assert torch.equal(rows[1], rows[2])
    others = spans.in_contexts(torch.tensor([[5, 2, 5, 1], [5, 1, 5, 1], [3, 2, 3, 0], [3, 0, 3, 2], [3, 1, 4, 2]]))
    assert len(others.unique(dim=0)) == 5
    assert bool((Spans(tree(PLUS), PLUS, 7).in_contexts(same) >= 0).sum() < (rows >= 0).sum())


def test_a_task_that_asks_after_every_prefix_is_cut_at_one_of_them():
    task = tasks.get("modular-arithmetic", modulus=3, leading_plus=True, supervision="prefix")
    batch = task.sample(14, 5, torch.Generator().manual_seed(1))
    spans = Spans(tree(task), task, 14)
    lengths = [spans.drawn(batch).tokens.shape[1] for _ in range(200)]
    assert set(lengths) == {2, 4, 6, 8, 10, 12, 14}
    batch.mask[0, 3] = False  # where one of the strings has no question, none ends
    assert 4 not in [spans.drawn(batch).tokens.shape[1] for _ in range(100)]
    assert 80 < lengths.count(14) < 140
    for part in (spans.drawn(batch) for _ in range(9)):
        assert torch.equal(part.targets[:, -1], task.answer(part.tokens)[:, -1])
    whole = PARITY.sample(9, 5, torch.Generator())
    assert all(Spans(tree(PARITY), PARITY, 9).drawn(whole).tokens.shape == (5, 9) for _ in range(9))


@pytest.mark.parametrize(("task", "count"), [(PLUS, 29**2), (PARITY, 4)])
def test_products_are_of_elements_of_which_none_is_rare(task, count):
    model = tree(task)
    spans, tokens = Spans(model, task, 40), task.draw(32, 500, torch.Generator().manual_seed(1))
    torch.manual_seed(0)
    with spans.noted():
        model(tokens, last=True)
        (own,) = spans._different(tokens, 2, spans.depth.noted[2])
        alone, made = spans._products([own], [], 8)
        assert len(alone.spans) == count**0.5
        assert len(made.spans) == count
        factors, often = [], own.answers.unique(dim=0, return_counts=True)[1]
        for _ in range(40):
            for made in spans._products([own], [], 8):
                assert torch.equal(made.answers, spans.in_contexts(made.spans))
                factors.append(made.spans.view(-1, 8))
    factors = torch.cat(factors)
    classes = {"modular-arithmetic": 3**3 + 2, "parity": 2}[task.name]  # m, s, p; and factors 1 and 2
    counts = spans.in_contexts(factors).unique(dim=0, return_counts=True)[1]
    each = len(factors) / classes
    assert len(counts) == classes
    assert bool(((counts - each).abs() < 5 * each**0.5).all())
    assert len(factors.unique(dim=0)) > 0.5 * min(len(own.spans), len(factors))  # any of an element's spans
    if task is PLUS:
        assert often.max() > 10 * often.min()


def test_what_is_drawn_are_nodes_of_the_next_group_and_no_longer_than_strings():
    model = tree(PLUS, nodes="discrete", groups=4, codes=3)
    model.reuse_equal_tokens()
    spans, tokens = Spans(model, PLUS, 15), PLUS.draw(14, 50, torch.Generator().manual_seed(1))
    with spans.noted():
        model(tokens, last=True)
        noted = list(spans.depth.noted)
        own = [spans._different(tokens, g, noted[g]) for g in range(3)]
        alone, both = spans._products(own[1], [], 4)
        assert [len(each.unique(dim=0)) > 1 for each in (alone.spans, both.spans)] == [True, True]
        assert [each.spans.shape[1] for each in (alone, both)] == [4, 8]
        assert [each.spans.shape[1] for each in spans._products(own[2], [], 8)] == [8]  # 16 tokens are no string
        assert spans._products(own[1][1:], [], 4) == []
        assert spans.depth.noted == noted
        assert spans.depth._logits is None
    nodes = model.inner.depth.layers[0].nodes
    for made in (alone, both):
        assert torch.equal(made.answers, spans.in_contexts(made.spans))
        for row, vector, logits in zip(made.spans[:50], made.vectors, made.logits, strict=False):
            assert torch.allclose(model.inner.norm(vector), raised(model, row, 2), atol=1e-12)
            assert torch.allclose(nodes.vectors(logits.argmax(-1)), vector)


def test_the_next_group_draws_from_its_own_nodes_and_from_products():
    model = tree(PARITY)
    spans, read = Spans(model, PARITY, 40), []
    draw = spans._products

    def noted(own, products, width):
        made = draw(own, products, width)
        read.append((own, products, made))
        return made

    spans._products = noted
    tokens = PARITY.draw(6, 3, torch.Generator().manual_seed(1))
    with spans.noted():
        model(tokens, last=True)
        spans.loss(tokens)
    (first, none, made), (own, products, further) = read  # the third group is the last
    assert [of.spans.shape[1] for of in first] == [2]
    assert none == []
    assert products is made
    assert [of.spans.shape[1] for of in own] == [4, 2]
    assert [of.spans.shape[1] for of in made] == [2, 4]
    assert [of.spans.shape[1] for of in further] == [4, 8]
    seen = {tuple(row.tolist()) for of in (own[0], made[1]) for row in of.spans}
    assert {tuple(row.tolist()) for of in further for row in of.spans.view(-1, 4)} <= seen
    only = {tuple(row.tolist()) for row in own[0].spans}
    spans._products = draw
    with spans.noted():
        model(tokens, last=True)
        many = [row for _ in range(50) for row in draw(own, made, 4)[1].spans.view(-1, 4)]
    assert any(tuple(row.tolist()) not in only for row in many)


def test_equal_rows_are_numbered_alike():
    rows = torch.tensor([[3, -1], [0, 2], [3, -1], [-1, 3], [0, 2], [3, -1]])
    place, number = equal_rows(rows)
    assert torch.equal(rows[place][number], rows)
    assert sorted(place.tolist()) == [0, 1, 3]
    many = torch.randint(-1, 5, (2000, 60), generator=torch.Generator().manual_seed(0))
    assert len(equal_rows(torch.cat([many, many]))[0]) == len(many.unique(dim=0))


def test_contexts_that_ask_the_same_are_one_and_the_shortest():
    spans = Spans(tree(PARITY), PARITY, 40)
    assert sorted(spans.sizes.tolist()) == [1, 1, 2, 2]  # behind 0 or 1; before nothing or a 1
    assert dict(zip(map(tuple, spans.ends.tolist()), spans.end_sizes.tolist(), strict=True)) == {(0, 1): 0, (1, 0): 1}
    assert abs(float(spans.maps.norm(dim=0).square().mean()) - LOUD**2) < 0.3 * LOUD**2


def test_equals_are_drawn_to_the_code_that_most_of_them_have():
    rows = torch.tensor([[0, -1], [0, -1], [0, -1], [1, 2], [-1, -1]])
    logits = torch.tensor([[[2.0, 0.0]], [[0.0, 1.0]], [[0.0, 0.5]], [[3.0, 0.0]], [[5.0, 0.0]]])
    own = F.cross_entropy(logits[:4, 0], torch.tensor([1, 1, 1, 0]), reduction="none")
    assert torch.allclose(equals(rows, logits), F.pad(own, (0, 1)))


@pytest.mark.parametrize(
    ("task", "model", "why"),
    [
        (PARITY, models.build("lstm", vocab_size=2, num_outputs=2), "only trees of one layer"),
        (PARITY, tree(PARITY, thickness=2), "only trees of one layer"),
        (tasks.get("mqar"), tree(PARITY), "must have a machine"),
        (tasks.get("word-problem", group="S3xS3", held_out_pairs=[[0, 1]]), tree(PARITY), "holds strings out"),
    ],
)
def test_what_has_no_spans_says_why(task, model, why):
    with pytest.raises(Error, match=why):
        Spans(model, task, 40)


# whole spans of three groups, lacking ones of four, over one node and two of three; the longest lacks a context
@pytest.mark.parametrize(("longest", "count_of_kinds"), [(40, 3 + 4 + 6), (12, 3 + 3 + 5)])
def test_equals_are_looked_for_in_all_groups_together_and_where_all_contexts_fit(longest, count_of_kinds):
    model = tree(PARITY, nodes="discrete", groups=4, codes=3)
    model.reuse_equal_tokens()
    spans, tokens = Spans(model, PARITY, longest), PARITY.draw(11, 6, torch.Generator().manual_seed(2))
    drawn = noted_products(spans)
    with spans.noted():
        model(tokens, last=True)
        loss = spans.loss(tokens)
        noted = spans.depth.noted
        rows, logits = [], []
        for group, nodes in enumerate(noted):
            count, lacking = divmod(11, 2 ** (group + 1))
            parts = (tokens[:, lacking:].reshape(-1, 2 ** (group + 1)), nodes.ids[:, -count:].reshape(-1))
            lacks = (tokens[:, :lacking], nodes.ids[:, 0])
            for every, ids in (parts, lacks) if count else (lacks,):
                different = every.unique(dim=0)
                if different.shape[1] + 2 > longest:  # no context has more symbols than 2
                    continue
                rows.append(spans.in_contexts(different)[:, :4])
                places = [(every == span).all(1).nonzero()[0, 0] for span in different]
                logits.append(nodes.logits[ids[torch.stack(places)]])
        for made in (each for several in drawn for each in several):
            rows.append(made.answers[:, :4])
            logits.append(made.logits)
        kinds = [each.mean() for each in equals(torch.cat(rows), torch.cat(logits)).split([len(x) for x in rows])]
        spans.depth.noted = [nodes._replace(logits=None) for nodes in noted]
        again = iter(drawn.copy())
        spans._products = lambda *_: [each._replace(logits=None) for each in next(again)]
        others = spans.loss(tokens)
    # answers and contexts of four groups, contexts of the products of three, and equals
    alike = torch.stack(kinds).mean()
    assert torch.allclose(loss * 12, others * 11 + EQUALS * others.neg().exp() * alike)
    assert len(kinds) == count_of_kinds
    assert min(float(each.detach()) for each in kinds) > 0.1


@pytest.mark.parametrize("options", [{}, {"nodes": "discrete", "groups": 4, "codes": 3}], ids=str)
def test_nodes_are_noted_once_for_equal_subtrees_with_their_noise_and_what_they_were_chosen_by(options):
    model = tree(PARITY, **options)
    model.reuse_equal_tokens()
    tokens, depth = torch.zeros(4, 8, dtype=torch.long), model.inner.depth
    spans = Spans(model, PARITY, 8)
    with spans.noted(), with_noise(steadied_parts(model), 0.5):
        model(tokens, last=True)
        noisy = depth.noted
    with spans.noted():
        plain = model(tokens, last=True)
        quiet = depth.noted
    assert [len(nodes.vectors) for nodes in noisy] == [1, 1, 1]
    assert torch.equal(model.inner.head(model.inner.norm(quiet[-1].vectors[quiet[-1].ids])), plain)
    assert torch.equal(plain, model(tokens, last=True))
    if not options:
        assert not torch.allclose(noisy[0].vectors, quiet[0].vectors, atol=1e-3)
        return
    nodes = depth.layers[0].nodes
    for each in (*noisy, *quiet):
        assert torch.allclose(nodes.vectors(each.logits.argmax(-1)), each.vectors)
    assert depth._logits is None


SPANS = {"task": tasks.get("parity", supervision="prefix"), "steps": 7, "spans": True}
MODEL = {"width": 16, "heads": 2}


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
