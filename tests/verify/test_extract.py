"""What is extracted says what the model says, and where it differs from the machine the shortest word is found."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from lengthwise import Error, automata, models, tasks, theory, verify
from lengthwise.automata import Semiautomaton
from lengthwise.verify.claim import Claim, claim_of, minimal
from lengthwise.verify.extraction import Algebra, Moore
from lengthwise.verify.extraction.agreement import asked_words

PARITY = tasks.get("parity")
STUCK = Semiautomaton([[0, 1], [1, 2], [2, 0]], accepting={1})
"""Counts to three, and so is not parity."""


def trained(name, **options):
    """A recurrent network that has learned parity: two seconds."""
    torch.manual_seed(0)
    model = models.build(name, vocab_size=2, num_outputs=2, **options)
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    draw = torch.Generator().manual_seed(1)
    for _ in range(200):
        tokens = torch.randint(2, (32, 12), generator=draw)
        loss = F.cross_entropy(model(tokens).flatten(0, 1), (tokens.cumsum(1) % 2).flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.eval()


def evaluated(algebra, word):
    """The tree written down: pads on the left, groups of C, level by level."""
    nodes, S = list(word), len(algebra.symbols)
    while True:
        first = len(nodes) % algebra.chunk or algebra.chunk
        parts = [nodes[:first], *(nodes[i : i + algebra.chunk] for i in range(first, len(nodes), algebra.chunk))]
        nodes = [S + algebra.table[tuple(part)] for part in parts]
        if len(nodes) == 1:
            return nodes[0] - S


def random_algebra(chunk, elements, seed):
    draw = np.random.default_rng(seed)
    table = {
        inputs: int(draw.integers(elements))
        for m in range(1, chunk + 1)
        for inputs in product(range(2 + elements), repeat=m)
    }
    said = tuple(draw.integers(2, size=elements).tolist())
    return Algebra(("0", "1"), chunk, table, said, (1.0,) * elements, torch.zeros(elements, 1), 1.0, 0.0)


def maps_by_element(algebra, machine):
    """For each element what the words of up to 6 symbols that lead to it do to the states."""
    maps = {}
    for length in range(1, 7):
        words = list(product(range(machine.num_symbols), repeat=length))
        for word, element in zip(words, algebra.elements_of(np.array(words)).tolist(), strict=True):
            maps.setdefault(element, set()).add(tuple(automata.word_map(machine, word).tolist()))
    return maps


def test_parity_is_two_elements():
    found = verify.extract(theory.exact_classifier(PARITY), PARITY)
    algebra = found.algebra
    assert (found.method, len(algebra), found.agreement, found.equal) == ("tree", 2, 1.0, True)
    zero, one = algebra.leaf(0), algebra.leaf(1)
    assert [algebra.product(a, b) for a in (zero, one) for b in (zero, one)] == [zero, one, one, zero]
    assert [algebra.said[e] for e in (zero, one)] == [0, 1]
    assert maps_by_element(algebra, PARITY.machine) == {zero: {(0, 1)}, one: {(1, 0)}}
    assert 0 <= algebra.spread < 1e-5 < algebra.radius


@pytest.mark.parametrize("name", ["even-pairs"])
def test_a_built_model_is_its_machine(name):
    task = tasks.get(name)
    found = verify.extract(theory.exact_classifier(task), task)
    assert found.equal
    assert found.agreement == 1
    assert len(found.algebra) <= len(automata.transition_monoid(task.machine))
    assert all(len(maps) == 1 for maps in maps_by_element(found.algebra, task.machine).values())


def test_a_wrong_model_gives_its_shortest_word():
    model = theory.regular_gpt(STUCK, STUCK.accepts_state)
    found = verify.extract(model, PARITY)
    wanted = automata.difference(STUCK, PARITY.machine.with_accepting({1}))
    assert (found.equal, found.difference.length, found.raw) == (False, len(wanted), True)
    word = found.difference.word
    assert STUCK.accepts(word) == found.difference.said != found.difference.right == sum(word) % 2
    assert "the two machines differ first at length 3 (1 1 1)" in str(found)


@pytest.mark.parametrize(("chunk", "elements"), [(2, 2), (2, 4), (3, 2)])
def test_the_difference_of_any_algebra_is_the_first(chunk, elements):
    """Against all words up to length 10, most of whose algebras belong to no machine at all."""
    claim = claim_of(PARITY)
    for seed in range(25):
        algebra = random_algebra(chunk, elements, seed)
        words = (word for n in range(1, 11) for word in product(range(2), repeat=n))
        wrong = next((w for w in words if algebra.said[evaluated(algebra, w)] != sum(w) % 2), None)
        found = algebra.difference(claim)
        if wrong is None:
            assert found is None or found.length > 10
        else:
            assert found.length == len(wrong) == len(found.word)
            said = algebra.said[evaluated(algebra, found.word)]
            assert (said, sum(found.word) % 2) == (found.said, found.right)


def test_the_table_is_the_tree():
    for chunk in (2, 3):
        algebra = random_algebra(chunk, 3, chunk)
        for n in (*range(1, 12), 27, 28):
            words = torch.randint(2, (20, n), generator=torch.Generator().manual_seed(n))
            assert algebra.elements_of(words).tolist() == [evaluated(algebra, word) for word in words.tolist()]


def test_a_difference_far_away():
    """An algebra that counts levels: right to length 64 and never after."""
    table = {(s,): s for s in (0, 1)} | {(a, b): a ^ b for a in (0, 1) for b in (0, 1)}
    for level in range(1, 8):  # element 2 (level - 1) + p: parity p; level 7 stands for all above it too
        here, above = 2 + 2 * (level - 1), 2 * min(level, 6)
        table |= {(here + p,): above + p for p in (0, 1)}
        table |= {(here + p, here + q): above + (p ^ q) for p in (0, 1) for q in (0, 1)}
    said = (*[e % 2 for e in range(12)], 1, 0)
    algebra = Algebra(("0", "1"), 2, table, said, (1.0,) * 14, torch.zeros(14, 1), 1.0, 0.0)
    found = algebra.difference(claim_of(PARITY))
    assert found.length == 65
    assert len(found.word) == 65
    assert algebra.answers([found.word])[0] == found.said != found.right == sum(found.word) % 2


@pytest.fixture(scope="module")
def recurrence():
    return trained("rnn", width=8)


def test_a_trained_recurrence_is_the_machine(recurrence):
    found = verify.extract(recurrence, PARITY)
    assert (found.method, found.equal) == ("states", True)
    assert found.agreement > 0.99
    assert found.moore.machine.delta.tolist() == [[0, 1], [1, 0]]
    assert found.moore.said == (0, 1)
    with pytest.raises(Error, match="extracted by 'states'"):
        found.snap()


def test_a_wrong_recurrence_gives_its_shortest_word(recurrence):
    found = verify.extract(recurrence, STUCK)
    assert (found.difference.word, found.difference.said, found.difference.right) == ((1, 1, 1), 1, 0)
    assert (found.equal, found.raw) == (False, True)


def test_a_machine_is_learned():
    found = verify.extract(theory.regular_gpt(STUCK, STUCK.accepts_state), STUCK, method="learned")
    assert (found.method, found.agreement, found.equal) == ("learned", 1.0, True)
    assert found.moore.machine.delta.tolist() == STUCK.delta.tolist()
    assert found.moore.said == (0, 1, 0)


def test_a_transformer_is_learned():
    model = models.build("transformer", vocab_size=2, num_outputs=2, width=8, heads=2, layers=1)
    with torch.no_grad():
        model.inner.head.weight.zero_()
        model.inner.head.bias.copy_(torch.tensor([0.0, 1.0]))
    found = verify.extract(model, PARITY)
    assert (found.method, len(found.moore), found.difference.word) == ("learned", 1, (0,))


class Says(torch.nn.Module):
    """A model that says what a machine's states are, but for words from some length on."""

    def __init__(self, machine, answers, until=math.inf):
        super().__init__()
        self.machine, self.said, self.until = machine, torch.as_tensor(answers), until

    def forward(self, tokens):
        answers = self.said[self.machine.run(tokens)]
        answers = torch.where(torch.arange(1, tokens.shape[1] + 1) < self.until, answers, 0)
        return F.one_hot(answers, 3).float()


@pytest.mark.parametrize("seed", range(6))
def test_any_machine_is_learned_by_asking(seed):
    draw = np.random.default_rng(seed)
    Q = 5 + 2 * seed
    delta, answers = draw.integers(Q, size=(Q, 3)), draw.integers(3, size=Q)
    if seed == 0:  # states that only long suffixes tell apart
        delta, answers = (np.arange(Q) + 1)[:, None] % Q * np.ones((1, 3), int), np.arange(Q) // (Q - 1)
    machine = Semiautomaton(delta)
    found = verify.extract(Says(machine, answers), Claim(machine, answers, np.ones(Q, dtype=bool)), method="learned")
    assert (found.agreement, found.equal, found.refused) == (1.0, True, None)
    assert len(found.moore) == minimal(Claim(machine, answers, np.ones(Q, dtype=bool))).machine.num_states


def test_a_model_that_forgets_long_words_is_the_machine_of_its_short_ones():
    answers = PARITY.readout.numpy()
    found = verify.extract(Says(PARITY.machine, answers, until=41), PARITY, method="learned")
    assert (found.equal, len(found.moore)) == (True, 2)
    assert found.agreement < 1


def test_of_a_model_that_is_no_small_machine_the_best_is_taken(monkeypatch):
    """A counter of 60 symbols, with room for 20 states."""
    counter = Semiautomaton([[min(q + 1, 59)] * 2 for q in range(60)])
    answers = np.random.default_rng(0).integers(3, size=60)
    claim = Claim(counter, answers, np.ones(60, dtype=bool))
    monkeypatch.setenv("LENGTHWISE_MAX_LEARNED_STATES", "20")
    found = verify.extract(Says(counter, answers), claim, method="learned")
    assert found.agreement < 1
    assert "at most 20 states of a machine that is learned" in found.refused
    monkeypatch.setenv("LENGTHWISE_MAX_LEARNED_STATES", "1")
    with pytest.raises(Error, match="at most 1 states of a machine that is learned"):
        verify.extract(Says(counter, answers), claim, method="learned")


def test_without_a_machine_nothing_is_compared():
    found = verify.extract(theory.regular_gpt(STUCK))
    assert (len(found.algebra), found.equal, found.difference) == (3, None, None)
    assert str(found) == f"an algebra of 3 elements; the model says the same of {found.words:,} words"


def test_only_words_that_are_asked_count():
    """Modular arithmetic asks after digits at even places alone; no other word is extracted, drawn or compared."""
    claim = claim_of(tasks.get("modular-arithmetic"))
    for words in asked_words(claim, lengths=(1, 5, 9)):
        assert claim.asked[claim.machine.run(words)[:, -1]].all()


@pytest.mark.parametrize(("model", "limit"), [("tree", "ELEMENTS"), ("rnn", "EXTRACTED_STATES")])
def test_a_coarse_cut_says_that_finer_ones_met_a_limit(model, limit, monkeypatch, recurrence):
    built = theory.exact_classifier(PARITY) if model == "tree" else recurrence
    monkeypatch.setenv(f"LENGTHWISE_MAX_{limit}", "1")
    found = verify.extract(built, PARITY)
    assert found.agreement < 1
    assert "; more clusters were refused (extract: at most 1 clusters of " in str(found)
    assert f"LENGTHWISE_MAX_{limit}=…)" in str(found)
    assert found.to_json()["refused"] == found.refused
    monkeypatch.delenv(f"LENGTHWISE_MAX_{limit}")
    assert "refused" not in str(verify.extract(built, PARITY))


def test_seconds_that_are_over(recurrence):
    for model in (theory.exact_classifier(PARITY), recurrence):
        with pytest.raises(Error, match="extract: the time was over"):
            verify.extract(model, PARITY, seconds=1e-9)
        assert verify.extract(model, PARITY, seconds=100).equal
    with pytest.raises(Error, match="finite number of seconds above 0"):
        verify.extract(recurrence, PARITY, seconds=0)


def test_what_cannot_be_extracted():
    with pytest.raises(Error, match="method of extract"):
        verify.extract(theory.regular_gpt(STUCK), PARITY, method="trees")
    deep = models.build("regular-gpt", vocab_size=2, num_outputs=2, width=8, heads=2, thickness=2)
    with pytest.raises(Error, match="'tree' cannot take this model: its groups have 2 layers"):
        verify.extract(deep, PARITY, method="tree")
    with pytest.raises(Error, match="'states' cannot take this model: it has no fixed stack"):
        verify.extract(deep, PARITY, method="states")


@pytest.mark.parametrize("seed", range(10))
def test_the_smallest_machine_has_the_same_answers(seed):
    draw = np.random.default_rng(seed)
    machine = Semiautomaton(draw.integers(6, size=(6, 2)))
    moore = Moore(machine, tuple(draw.integers(2, size=6).tolist()))
    small = moore.smallest()
    words = torch.randint(2, (200, 12), generator=torch.Generator().manual_seed(seed))
    for n in range(1, 13):
        assert moore.answers(words[:, :n]) == small.answers(words[:, :n])
    reference = automata.minimise(machine.with_accepting([q for q in range(6) if moore.said[q]]))
    assert len(small) <= reference.num_states


def test_a_claim_of_several_outputs():
    machine = PARITY.machine
    claim = Claim(machine, np.array([[True, False], [True, True]]), np.ones(2, dtype=bool))
    found = verify.extract(theory.regular_gpt(machine, claim.answers), claim)
    assert found.equal
    assert set(found.algebra.said) == {(0,), (0, 1)}
