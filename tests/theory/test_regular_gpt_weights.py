"""Built models against their machines: every answer at every length, and all that an ordinary model can do."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lengthwise import automata, tasks, theory
from lengthwise.automata import Semiautomaton
from lengthwise.errors import Error, ShapeError
from lengthwise.models import LengthwiseForCausalLM
from lengthwise.models.cache import LengthwiseCache
from lengthwise.theory import state_labels
from lengthwise.theory.rounding import EPS, MOST_STATES
from lengthwise.train.counting import count_right

from .machines import PATTERNS, random_machine, words

LENGTHS = [1, 2, 3, 5, 7, 13, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97, 100, 127, 128, 129, 1000, 1009, 1023, 1024, 1025]


MACHINES = {
    "parity": lambda: tasks.get("parity").machine,
    "cycle-navigation": lambda: tasks.get("cycle-navigation").machine,
    "S3": lambda: tasks.get("word-problem", group="S3").machine,
    "regex": lambda: automata.from_regex("(a|bb)*(ab|b)*"),
    "tomita-3": lambda: tasks.get("tomita-3").machine,
    "random": lambda: random_machine(5, 4, start=3),
    "one state": lambda: Semiautomaton([[0, 0]]),
}


@torch.no_grad()
def answers(model, tokens, last=False, **inputs):
    return model(tokens, logits_to_keep=int(last), **inputs).logits.argmax(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", MACHINES)
def test_right_at_every_position_of_every_length(name, dtype):
    machine = MACHINES[name]()
    model = theory.regular_gpt(machine).to(dtype)
    for T in LENGTHS:
        tokens = words(machine, 3, T, seed=T)
        states = machine.run(tokens)
        assert torch.equal(answers(model, tokens), states), T
        assert torch.equal(answers(model, tokens, last=True), states[:, -1:]), T


@pytest.mark.parametrize("name", MACHINES)
def test_right_at_ten_thousand(name):
    machine = MACHINES[name]()
    model, tokens = theory.regular_gpt(machine), words(machine, 1, 10_000)
    assert torch.equal(answers(model, tokens), machine.run(tokens))
    model.double()
    assert torch.equal(answers(model, tokens, last=True), machine.run(tokens)[:, -1:])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["parity", "cycle-navigation"])
def test_right_at_a_million(name):
    machine = MACHINES[name]()
    model, tokens = theory.regular_gpt(machine), words(machine, 1, 1_000_000)
    assert torch.equal(answers(model, tokens, last=True), machine.run(tokens)[:, -1:])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 10**6), st.integers(1, 200), st.data())
def test_any_machine_from_any_start_with_any_labels(n, symbols, seed, T, data):
    machine = random_machine(n, symbols, seed, start=data.draw(st.integers(0, n - 1)))
    labels = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    tokens = words(machine, 2, T, seed)
    model = theory.regular_gpt(machine, labels)
    assert model.config.outputs == max(labels) + 1
    assert torch.equal(answers(model, tokens), torch.tensor(labels)[machine.run(tokens)])


def test_accepting_nothing_is_an_answer_too():
    machine = random_machine(3, 2).with_accepting([])
    model = theory.regular_gpt(machine, machine.accepts_state)
    assert model.config.outputs == 2
    assert not answers(model, words(machine, 2, 9)).any()


@settings(max_examples=30, deadline=None)
@given(PATTERNS, st.integers(1, 300))
def test_any_regex(pattern, T):
    machine = automata.from_regex(pattern, "ab")
    assume(machine.num_states <= 8)
    tokens = words(machine, 4, T)
    accepts = torch.from_numpy(machine.accepts_state)[machine.run(tokens)]
    model = theory.regular_gpt(machine, torch.from_numpy(machine.accepts_state)[:, None])
    with torch.no_grad():
        assert torch.equal(model(tokens).logits[..., 0] > 0, accepts)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_batches(side):
    machine = MACHINES["S3"]()
    model, lengths = theory.regular_gpt(machine), torch.tensor([1, 2, 31, 32, 33, 100, 257])
    T = int(lengths.max())
    tokens, columns = words(machine, len(lengths), T), torch.arange(T)
    mask = columns >= T - lengths[:, None] if side == "left" else columns < lengths[:, None]
    states = torch.full_like(tokens, -1)
    for row, real in enumerate(mask):
        states[row, real] = machine.run(tokens[row, real][None])[0]
    found = answers(model, tokens, attention_mask=mask.long())
    assert torch.equal(found[mask], states[mask])
    final = torch.stack([row[real][-1] for row, real in zip(states, mask, strict=True)])
    assert torch.equal(answers(model, tokens, last=True, attention_mask=mask.long())[:, 0], final)


def test_by_position_it_decodes_with_a_cache():
    machine = MACHINES["cycle-navigation"]()
    model, tokens = theory.regular_gpt(machine, depth="position"), words(machine, 2, 300)
    states = machine.run(tokens)
    assert torch.equal(answers(model, tokens), states)
    cache, found = LengthwiseCache(), []
    for part in tokens.split([1, 1, 1, 60, 1, 1, *[1] * 235], 1):
        found.append(answers(model, part, past_key_values=cache))
    assert torch.equal(torch.cat(found, 1), states)


def test_it_is_an_ordinary_model():
    state = torch.get_rng_state()
    model = theory.regular_gpt(MACHINES["cycle-navigation"]())
    assert torch.equal(torch.get_rng_state(), state)
    assert type(model) is LengthwiseForCausalLM
    ordinary = LengthwiseForCausalLM(model.config)
    ordinary.load_state_dict(model.state_dict())
    tokens = words(MACHINES["cycle-navigation"](), 2, 300)
    assert torch.equal(ordinary(tokens).logits, model(tokens).logits)
    assert all(p.requires_grad and p.dtype == torch.float32 and p.isfinite().all() for p in model.parameters())
    assert not any(b.is_meta for b in model.buffers())
    assert model.config.width == 50
    assert model.config.mixer["heads"] == 2
    layer = model.depth.layers[0]
    assert layer.mixer_norm.eps == layer.feed_norm.eps == EPS
    # No unit of the feed-forward part is idle.
    assert (layer.up.weight != 0).any(1).all()
    assert (layer.down.weight != 0).any(0).all()


def train(model, parameters, tokens, targets, steps, lr):
    optimizer = torch.optim.Adam(parameters, lr=lr)
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(model(tokens).logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def test_it_trains_on_and_stays_right():
    machine = MACHINES["cycle-navigation"]()
    model, tokens = theory.regular_gpt(machine), words(machine, 16, 20)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    losses = train(model, model.parameters(), tokens, machine.run(tokens), steps=20, lr=1e-4)
    assert losses[-1] < losses[0] < 0.01
    moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert {"head.weight", "depth.layers.0.up.weight", "depth.layers.0.down.weight"} <= moved
    long = words(machine, 2, 1000)
    assert torch.equal(answers(model, long), machine.run(long))


def test_a_new_head_learns_another_question_from_short_strings():
    machine = MACHINES["S3"]()
    model = theory.regular_gpt(machine)
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.zero_()
    # From another start: another row of the matrix, which a linear map can read as well.
    short, long = words(machine, 32, 8), words(machine, 2, 1000)
    losses = train(model, model.head.parameters(), short, machine.run(short, start=4), steps=100, lr=0.1)
    assert losses[-1] < 0.01 < losses[0]
    assert torch.equal(answers(model, long), machine.run(long, start=4))


TASKS = {
    "parity": {},
    "even-pairs": {"symbols": 3},
    "cycle-navigation": {},
    "modular-arithmetic": {"modulus": 2, "supervision": "prefix"},
    "word-problem": {"group": "S3"},
    "d-4": {},
    "tomita-5": {"protocol": "next", "end": True},
    "regex:(ab|ba)*": {"protocol": "next"},
}


@pytest.mark.parametrize("name", TASKS)
def test_the_lab_scores_a_built_classifier_as_perfect(name):
    task = tasks.get(name, **TASKS[name])
    built = theory.exact_classifier(task)
    assert built.num_outputs == task.outputs
    for length in task.lengths(1, 3)[:1] + task.lengths(120, 130)[-1:] + task.lengths(998, 1000)[-1:]:
        batch = task.test_set(length, 20)
        right, loss, _ = count_right(built, task, batch, device=torch.device("cpu"))
        assert (right, loss < 0.05) == (20, True), length


@pytest.mark.slow
def test_modular_arithmetic_which_training_finds_hard():
    task = tasks.get("modular-arithmetic", modulus=3)
    batch = task.test_set(999, 4)
    assert count_right(theory.exact_classifier(task), task, batch, device=torch.device("cpu"))[0] == 4


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0], "one for each state"),
        ([0, 1, 0], "one for each state"),
        ([0.0, 1.0], "one for each state"),
        ([[0], [1]], "one for each state"),
        (torch.zeros(2, 0, dtype=torch.bool), "one for each state"),
        ([0, -1], "got -1"),
    ],
)
def test_labels_that_are_none(labels, message):
    with pytest.raises((Error, ShapeError), match=message):
        theory.regular_gpt(MACHINES["parity"](), labels)


def test_machines_too_large(monkeypatch):
    with pytest.raises(Error, match=f"up to {MOST_STATES} states, got {MOST_STATES + 1}.*minimise"):
        theory.regular_gpt(random_machine(MOST_STATES + 1, 2))
    monkeypatch.setattr(state_labels, "memory_free", lambda device: 10_000)
    with pytest.raises(Error, match=r"5 states make 0\.000112 GiB of weights"):
        theory.regular_gpt(random_machine(5, 2))


def test_a_task_without_a_machine():
    with pytest.raises(Error, match="this task has none"):
        theory.exact_classifier(tasks.get("modular-arithmetic", brackets=True))
