"""Built block-diagonal LRNNs against their machines: every answer, in every precision and order of summation."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from lengthwise import automata, tasks, theory
from lengthwise.automata import Semiautomaton
from lengthwise.errors import Error, ShapeError
from lengthwise.mixers.transitions import bounded
from lengthwise.models import LengthwiseForCausalLM
from lengthwise.models.cache import LengthwiseCache
from lengthwise.ops import block_scan
from lengthwise.theory import state_labels
from lengthwise.train.counting import count_right

from .machines import PATTERNS, random_machine, words


def arithmetic(T, count=2):
    return tasks.get("modular-arithmetic").sample(T - 1 + T % 2, count, torch.Generator().manual_seed(T)).tokens


S5 = tasks.get("word-problem", group="S5", generators=[[1, 0, 2, 3, 4], [1, 2, 3, 4, 0]])
POINTS = [S5.permutations[:, i] for i in range(4)]
MACHINES = {
    "parity": lambda: tasks.get("parity").machine,
    "cycle-navigation": lambda: tasks.get("cycle-navigation").machine,
    "modular-arithmetic": lambda: tasks.get("modular-arithmetic").machine,
    "S5": lambda: S5.machine,
    "regex": lambda: automata.from_regex("(a|bb)*(ab|b)*"),
    "d-12": lambda: tasks.get("d-12").machine,
    "random": lambda: random_machine(7, 4, start=3),
    "one state": lambda: Semiautomaton([[0, 0]]),
}


@torch.no_grad()
def logits(model, tokens, **inputs):
    return model(tokens, **inputs).logits


def exact(machine, tokens):
    """4 for the state, -4 for all others."""
    return 8.0 * F.one_hot(machine.run(tokens), machine.num_states) - 4.0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", MACHINES)
def test_every_logit_is_exact_at_every_length(name, dtype):
    machine = MACHINES[name]()
    model = theory.block_lrnn(machine).to(dtype)
    for T in (1, 2, 3, 16, 97):
        tokens = words(machine, 2, T, seed=T)
        assert torch.equal(logits(model, tokens).float(), exact(machine, tokens)), T
        last = logits(model, tokens, logits_to_keep=1)
        assert torch.equal(last.float(), exact(machine, tokens)[:, -1:]), T


@pytest.mark.parametrize("name", MACHINES)
def test_right_at_ten_thousand(name):
    machine = MACHINES[name]()
    tokens = arithmetic(10_000, 1) if name == "modular-arithmetic" else words(machine, 1, 10_000)
    assert torch.equal(logits(theory.block_lrnn(machine), tokens).argmax(-1), machine.run(tokens))


def test_right_at_a_hundred_thousand():
    tokens = words(S5.machine, 1, 100_000)
    model = theory.block_lrnn(S5.machine, parts=POINTS)
    assert torch.equal(logits(model, tokens).argmax(-1), S5.machine.run(tokens))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_modular_arithmetic_at_a_hundred_thousand(dtype):
    machine, tokens = MACHINES["modular-arithmetic"](), arithmetic(100_000, 1)
    values = tasks.get("modular-arithmetic").readout
    model = theory.block_lrnn(machine, values).to(dtype)
    assert torch.equal(logits(model, tokens).argmax(-1), values[machine.run(tokens)])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 5), st.integers(0, 10**6), st.integers(1, 400), st.data())
def test_any_machine_from_any_start_with_any_labels(n, symbols, seed, T, data):
    machine = random_machine(n, symbols, seed, start=data.draw(st.integers(0, n - 1)))
    labels = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    tokens = words(machine, 2, T, seed)
    found = logits(theory.block_lrnn(machine, labels), tokens)
    assert found.shape[-1] == max(labels) + 1
    assert torch.equal(found.argmax(-1), torch.tensor(labels)[machine.run(tokens)])


@settings(max_examples=30, deadline=None)
@given(PATTERNS, st.integers(1, 300))
def test_any_regex(pattern, T):
    machine = automata.from_regex(pattern, "ab")
    tokens = words(machine, 4, T)
    found = logits(theory.block_lrnn(machine, torch.from_numpy(machine.accepts_state)[:, None]), tokens)
    assert torch.equal(found[..., 0] > 0, torch.from_numpy(machine.accepts_state)[machine.run(tokens)])


@pytest.mark.parametrize("p", [1, 1.2, 2, torch.inf])
def test_the_bound_of_the_paper_leaves_every_transition_alone(p):
    model = theory.block_lrnn(MACHINES["modular-arithmetic"]())
    with torch.no_grad():
        A, v = model.mixers()[0].transitions(model.embedding.weight)
    assert torch.equal(A.sum(-2), torch.ones_like(A[..., 0, :]))
    assert set(A.unique().tolist()) == {0, 1}
    assert torch.equal(bounded("paper", p)(A), A)
    assert not v.any()


@pytest.mark.parametrize("backend", ["reference", "torch", "hillis-steele", "blelloch"])
def test_composing_transitions_rounds_nothing(backend):
    machine, tokens = MACHINES["modular-arithmetic"](), arithmetic(301)
    model = theory.block_lrnn(machine)
    mixer = model.mixers()[0]
    with torch.no_grad():
        A, v = mixer.transitions(model.embedding.weight)
        x, _ = block_scan(A, v, mixer.initial[None].expand(2, -1, -1), index=tokens, backend=backend)
    assert torch.equal(x[:, :, 0], F.one_hot(machine.run(tokens), machine.num_states).float())


@pytest.mark.parametrize("name", ["S5", "modular-arithmetic"])
def test_reading_a_text_in_any_way(name):
    machine = MACHINES[name]()
    model, tokens = theory.block_lrnn(machine), words(machine, 2, 60)
    mask = (torch.arange(60) >= torch.tensor([[0], [7]])).long()
    states = machine.run(tokens[1:, 7:])
    assert torch.equal(logits(model, tokens, attention_mask=mask)[1, 7:].argmax(-1), states[0])
    cache, found = LengthwiseCache(), []
    for part in tokens.split([1, 30, 1, 28], 1):
        found.append(logits(model, part, past_key_values=cache))
    assert torch.equal(torch.cat(found, 1), exact(machine, tokens))
    packed = logits(model, tokens[:1], sequence_ids=(torch.arange(60) >= 23).long()[None])
    assert torch.equal(packed[0, 23:], exact(machine, tokens[:1, 23:])[0])
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(logits(model, tokens).float(), exact(machine, tokens))


def test_a_wide_batch():
    """From 64 blocks side by side on the scan has another way."""
    machine = MACHINES["regex"]()
    tokens = words(machine, 70, 30)
    assert torch.equal(logits(theory.block_lrnn(machine), tokens), exact(machine, tokens))


def test_five_points_are_as_good_as_120_permutations():
    model, tokens = theory.block_lrnn(S5.machine, parts=POINTS), words(S5.machine, 2, 5000)
    assert (model.config.mixer["blocks"], model.config.mixer["block"]) == (4, 5)
    assert torch.equal(logits(model, tokens).argmax(-1), S5.machine.run(tokens))
    odd = torch.tensor([is_odd(p) for p in S5.permutations.tolist()])
    found = logits(theory.block_lrnn(S5.machine, odd, parts=POINTS), tokens)
    assert set(found.unique().tolist()) == {-4.0, 4.0}
    assert torch.equal(found.argmax(-1), odd[S5.machine.run(tokens)].long())


def is_odd(p):
    return sum(p[i] > p[j] for i in range(len(p)) for j in range(i + 1, len(p))) % 2 == 1


def test_it_is_an_ordinary_model(tmp_path):
    state = torch.get_rng_state()
    model = theory.block_lrnn(S5.machine, parts=POINTS)
    assert torch.equal(torch.get_rng_state(), state)
    ordinary = LengthwiseForCausalLM(model.config)
    assert {n: p.shape for n, p in model.named_parameters()} == {n: p.shape for n, p in ordinary.named_parameters()}
    model.save_pretrained(tmp_path)
    tokens = words(S5.machine, 1, 50)
    again = LengthwiseForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(logits(again, tokens), exact(S5.machine, tokens))


def test_it_trains_on():
    machine = MACHINES["cycle-navigation"]()
    model, tokens = theory.block_lrnn(machine), words(machine, 16, 20)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    losses = []
    for _ in range(20):
        loss = F.cross_entropy(model(tokens).logits.flatten(0, 1), machine.run(tokens).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] < 0.01


@pytest.mark.parametrize(
    ("name", "params"),
    [("modular-arithmetic", {}), ("word-problem", {"group": "S5"}), ("d-12", {}), ("even-pairs", {})],
)
def test_the_lab_scores_a_built_classifier_as_perfect(name, params):
    task = tasks.get(name, **params)
    built = theory.exact_classifier(task, construction=theory.block_lrnn)
    batch = task.test_set(task.lengths(495, 500)[-1], 20)
    right, loss, _ = count_right(built, task, batch, device=torch.device("cpu"))
    assert (right, loss < 0.05) == (20, True)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([0, 1, 2, 3], "parts must be"),
        ([[0, 1, 2]], "parts must be"),
        ([[0.0, 1.0, 2.0, 3.0]], "parts must be"),
        ([[0, 1, 2, 4]], "classes are 0..3, got 0..4"),
        ([[0, 1, 0, 1]], "two states have the same class in each"),
        ([[0, 0, 1, 1]], "in part 0 states 0 and 1 are of one class and symbol 0 takes them to classes 0 and 1"),
    ],
)
def test_parts_that_are_none(parts, message):
    with pytest.raises((Error, ShapeError), match=message):
        theory.block_lrnn(Semiautomaton([[1], [2], [3], [0]]), parts=parts)


def test_labels_and_machines_that_cannot_be(monkeypatch):
    with pytest.raises(ShapeError, match="labels must be 2"):
        theory.block_lrnn(MACHINES["parity"](), [0])
    monkeypatch.setattr(state_labels, "memory_free", lambda device: 100)
    with pytest.raises(Error, match=r"5 states make .* GiB of weights"):
        theory.block_lrnn(MACHINES["cycle-navigation"]())
