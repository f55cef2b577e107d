"""The propositions on every linear RNN: forced where they say so, broken where they are silent, and what follows."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from lengthwise import models, tasks, theory
from lengthwise.errors import Error, ShapeError
from lengthwise.models import LengthwiseForCausalLM, presets
from lengthwise.theory.affine_layer import FirstLayer
from lengthwise.theory.commuting import prefix_identity, subtraction_answers, subtraction_identity, subtraction_prefixes

ARITHMETIC = tasks.get("modular-arithmetic")
SUBJECTS = [
    ("s4", {}, 1),
    ("s4d", {}, 1),
    ("s4d", {"initial": "inv", "discretisation": "bilinear"}, 1),
    ("lru", {}, 1),
    ("liquid-s4", {}, 1),
    ("diagonal-lrnn", {}, 2),
    ("diagonal-lrnn", {"numbers": "real"}, 2),
    ("block-lrnn", {"block": 1}, 2),
    ("liquid-s4", {"kernel": "exact"}, None),
    ("liquid-s4", {"kernel": "kb"}, None),
    ("block-lrnn", {"block": 4}, None),
    ("block-lrnn", {"block": 4, "variant": "official"}, None),
    ("block-lrnn", {"block": 4, "normalisation": "orthogonal", "layers": 2}, None),
]


def model(name, **options):
    torch.manual_seed(0)
    return LengthwiseForCausalLM(presets.PRESETS[name](8, 5, **{"width": 8, **options}))


def train(subject, steps=5):
    optimizer = torch.optim.Adam(subject.parameters(), lr=1e-2)
    for step in range(steps):
        batch = ARITHMETIC.sample(9, 16, torch.Generator().manual_seed(step))
        loss = F.cross_entropy(subject(batch.tokens).logits[:, -1], batch.targets[:, -1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return subject


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize(("name", "options", "proposition"), SUBJECTS)
def test_the_identity_holds_where_a_proposition_forces_it(name, options, proposition, trained):
    subject = model(name, **options)
    found = subtraction_identity(train(subject) if trained else subject)
    assert found.proposition == proposition
    forced = found.residual < 1e-12 * found.scale
    assert forced == (proposition is not None)
    assert found.scale > 1e-3
    # x(0-0-1) - x(0-1-0) = x(0-1) - x(1-0), as the paper has it: equal values as far apart as different ones.
    assert (max(found.gaps) - min(found.gaps) < 1e-9 * max(found.gaps)) == forced


@pytest.mark.parametrize(("name", "options", "proposition"), SUBJECTS)
def test_the_general_identity(name, options, proposition):
    """[x(w s) - x(w s')] - [x(w' s) - x(w' s')] = (A_s - A_s') (x(w) - x(w')), which no premise is needed for."""
    layer = FirstLayer(model(name, **options))
    s, other, w, v = [0, 6, 1], [1, 6, 0], [3, 5], [2, 6, 4, 7]
    D = [layer.states([[*start, *s], [*start, *other]]) for start in (w, v)]
    apart = layer.states([w]) - layer.states([v])
    along = []
    for word in (s, other):
        x = apart
        for u in word:
            x = layer.apply(x, u)
        along.append(x[0])
    left = (D[0][0] - D[0][1]) - (D[1][0] - D[1][1])
    assert torch.allclose(left, along[0] - along[1], atol=1e-12)


def test_one_diagonal_suffices_only_for_the_same_tokens_in_another_order():
    lru, diagonal = model("lru"), model("diagonal-lrnn")
    words = [0, 5, 1], [2, 6, 3]
    assert prefix_identity(lru, *words, subtraction_prefixes()).proposition == 1
    found = prefix_identity(diagonal, *words, subtraction_prefixes())
    assert found.proposition is None
    assert found.commutes < 1e-12
    assert not found.reordered
    assert found.residual > 1e-2 * found.scale


@pytest.mark.parametrize("name", ["s4", "lru", "diagonal-lrnn", "block-lrnn", "liquid-s4"])
def test_transitions_are_read_off_as_matrices(name):
    layer = FirstLayer(model(name, **({} if name == "block-lrnn" else {"state": 2})))
    x = layer.states([[0, 5, 3]])
    for token in range(8):
        A, v = layer.transition(token)
        assert torch.allclose(x @ A.T + v, layer.states([[0, 5, 3, token]]), atol=1e-12)
        if name == "diagonal-lrnn":
            # Complex entries are 2×2 blocks of real ones.
            assert not A.unflatten(0, (-1, 2)).unflatten(2, (-1, 2)).transpose(1, 2)[~torch.eye(2).bool()].any()


def test_a_block_is_read_off_as_it_was_written():
    machine = ARITHMETIC.machine
    layer = FirstLayer(theory.block_lrnn(machine))
    A, v = layer.transition(6)
    assert torch.equal(A.argmax(0), torch.tensor(machine.delta[:, 6]))
    assert A.sum() == 51
    assert not v.any()


def linear_readout(states, targets):
    """How many of the strings a linear readout gets right: fitting it is convex, so it is next to the best."""
    x = (states - states.mean(0)) / states.std(0).clamp(min=1e-9)
    readout = torch.nn.Linear(x.shape[1], 5).double()
    optimizer = torch.optim.LBFGS(readout.parameters(), max_iter=100, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        found = F.cross_entropy(readout(x), targets)
        found.backward()
        return found

    optimizer.step(loss)
    return int((readout(x).argmax(-1) == targets).sum())


@pytest.mark.parametrize(
    ("name", "options", "all_right"),
    [("s4", {}, False), ("lru", {}, False), ("diagonal-lrnn", {}, False), ("block-lrnn", {"width": 64}, True)],
)
def test_no_linear_readout_of_commuting_states_subtracts(name, options, all_right):
    """Ten strings a+0-1 and a+1-0: l_{a+1} > l_{a-1} for all a modulo 5 is a circle."""
    layer = FirstLayer(model(name, **options))
    words = torch.tensor([[a, 5, *pair] for a in range(5) for pair in ([0, 6, 1], [1, 6, 0])])
    targets = ARITHMETIC.answer(words)[:, -1]
    assert (linear_readout(layer.states(words), targets) == 10) == all_right


def test_answers_of_a_model_that_is_right_and_of_one_that_says_one_thing():
    built = theory.exact_classifier(ARITHMETIC, construction=theory.block_lrnn)
    for found, length in zip(subtraction_answers(built, [5, 9, 101], count=20), [5, 9, 101], strict=True):
        assert found == (length, 1.0, 0.0, 0.0)
    silent = models.build("lstm", vocab_size=8, num_outputs=5, width=4)
    torch.nn.init.zeros_(silent.inner.head.weight)
    (found,) = subtraction_answers(silent, [9], count=50)
    assert found.right < 0.5
    assert (found.equal_apart, found.different_alike) == (0.0, 1.0)


def test_answers_that_follow_the_last_token():
    """They tell all pairs apart, equal values too."""

    class Last(torch.nn.Module):
        def forward(self, tokens, last):
            return F.one_hot(tokens[:, -1:], 8).float()[..., :5]

    (found,) = subtraction_answers(Last(), [7], count=30)
    assert (found.equal_apart, found.different_alike) == (1.0, 0.0)
    assert found.right < 0.5


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("lstm", {}, "goes through a tanh or gates"),
        ("transformer", {}, "adds a position"),
        ("transformer", {"position": "none"}, "keeps what it read of every token"),
        ("regular-gpt", {}, "keeps what it read of every token"),
        ("chacal", {"position": "none", "chain_layers": "all"}, "keeps what it read of every token"),
        ("liquid-s4", {"kernel": "kb", "order": 3}, "what token 0 does to its state is not affine"),
    ],
)
def test_mixers_that_are_not_linear_in_their_state(name, options, message):
    with pytest.raises(Error, match=message):
        subtraction_identity(model(name, **options))


def test_calls_that_are_wrong():
    lru = model("lru")
    with pytest.raises(ShapeError, match="the same length, at least 1, got 3 and 2"):
        prefix_identity(lru, [0, 6, 1], [1, 6], [[]])
    with pytest.raises(Error, match="at least one prefix"):
        prefix_identity(lru, [0], [1], [])
    with pytest.raises(Error, match=r"tokens of this model are 0\.\.7, got 0\.\.9"):
        prefix_identity(lru, [0], [1], [[9]])
    with pytest.raises(Error, match="without brackets"):
        subtraction_identity(lru, tasks.get("parity"))
    with pytest.raises(Error, match="at least 5"):
        subtraction_answers(lru, [3])
    with pytest.raises(Error, match="got Linear"):
        FirstLayer(torch.nn.Linear(2, 2))
