"""Trees whose neurons serve one element each: what they are taught, what is proved of them, and what is refused."""

from __future__ import annotations

import copy
import itertools
import time

import pytest
import torch

from lengthwise import models, tasks, verify
from lengthwise.verify import certificate as certificates
from lengthwise.verify import checker
from lengthwise.verify.claim import claim_of
from lengthwise.verify.consolidate import neurons
from lengthwise.verify.consolidate.teaching import CannotBeTaught
from lengthwise.verify.prove.boxes import prove_tree_boxes

CYCLE = claim_of(tasks.get("cycle-navigation"))


def untrained(claim=CYCLE, **options):
    torch.manual_seed(0)
    outputs = int(claim.answers.max()) + 1
    built = models.build("regular-gpt", vocab_size=claim.machine.num_symbols, num_outputs=outputs, width=32, **options)
    return built.inner.eval()


@pytest.fixture(scope="module")
def made():
    model = untrained()
    before = copy.deepcopy(model.state_dict())
    found = neurons.teach_neurons(model, CYCLE, 120)
    assert all(torch.equal(before[name], p) for name, p in model.state_dict().items())
    return found


def test_it_is_proved_in_float32_and_the_checker_agrees(made):
    model, proof = made.model, made.proof
    assert isinstance(proof, dict)
    assert (proof["inference"], proof["arithmetic"]) == ("raw", "float32")
    certificate = certificates.make(model, CYCLE, proof, "consolidated")
    assert checker.check(certificate, certificates.weights(model)).margin > 1


@torch.no_grad()
def test_its_answers_are_right(made):
    model = made.model
    words = [torch.tensor(list(itertools.product(range(3), repeat=n))) for n in range(1, 7)]
    words += [torch.randint(3, (32, n), generator=torch.Generator().manual_seed(n)) for n in (17, 64, 501)]
    for each in words:
        right = torch.from_numpy(CYCLE.answers[CYCLE.machine.run(each)[:, -1].numpy()])
        assert torch.equal(model(each, logits_to_keep=1).logits[:, -1].argmax(-1), right)


def test_a_neuron_adds_the_direction_of_one_element_or_nothing(made):
    model = made.model
    columns = model.depth.layers[0].down.weight.detach().double()
    columns = columns[:, columns.norm(dim=0) > 0]
    alike = torch.corrcoef(columns.T).abs()
    assert torch.allclose(alike, alike.round(), atol=1e-4)
    assert 5 <= columns.shape[1] <= 64
    assert torch.linalg.matrix_rank(columns) == 5


def test_directions_are_orthogonal_and_near():
    draw = torch.Generator().manual_seed(0)
    n = neurons.orthogonal(torch.randn(5, 16, generator=draw, dtype=torch.float64))
    assert torch.allclose(n @ n.T, torch.eye(5, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(n.sum(1), n.new_zeros(5), atol=1e-12)
    assert torch.allclose(neurons.orthogonal(3 * n), n, atol=1e-12)
    # Two that are one are told apart.
    twice = neurons.orthogonal(n[[0, 0, 1]])
    assert torch.allclose(twice @ twice.T, torch.eye(3, dtype=torch.float64), atol=1e-12)


def test_what_cannot_be_taught_so_is_said():
    gated = untrained()
    gated.depth.layers[0].gate = copy.deepcopy(gated.depth.layers[0].up)
    narrow = models.build("regular-gpt", vocab_size=2, num_outputs=6, width=4, heads=2).inner
    words = claim_of(tasks.get("word-problem", group="S3", generators=[[1, 0, 2], [1, 2, 0]]))
    for model, claim, why in (
        (gated, CYCLE, "nothing uses: depth.layers.0.gate"),
        (untrained(norm="pre"), CYCLE, "layer norm"),
        (narrow, words, "width of 4 has no orthogonal places for the 6 elements"),
        (untrained(nodes="discrete"), CYCLE, "discrete"),
    ):
        with pytest.raises(CannotBeTaught, match=why):
            neurons.teach_neurons(model, claim)


def test_the_sets_of_a_network_that_learned_nothing_are_hardly_its_own(made):
    assert made.own <= 2 < made.all == 5
    images = torch.tensor([[0.0, 1.0], [0.1, 1.0], [5.0, 0.0], [0.0, 0.9], [5.1, 0.0]])
    owner, centres = torch.tensor([0, 0, 1, 1, 2]), torch.tensor([[0.0, 1.0], [5.0, 0.0], [5.0, 0.5]])
    # Of the first all, of the second one of two, and of the third none lie nearest to their own centre.
    assert neurons.own_sets(images, owner, centres) == 1


def test_no_time_is_no_proof():
    found = neurons.teach_neurons(untrained(), CYCLE, 0.0)
    assert isinstance(found.proof, verify.Unknown)
    began = time.process_time()
    assert isinstance(prove_tree_boxes(untrained(), CYCLE, 1), verify.Unknown)
    assert time.process_time() - began < 15
