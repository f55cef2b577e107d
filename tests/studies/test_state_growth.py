"""How states and gradients grow: against a loop and its gradients, and where the answer is known."""

import pytest
import torch
from linear_rnn_stability import _last_mixer, growth, places

from lengthwise import models, tasks
from lengthwise.mixers.block_lrnn import BlockLRNN

TASK = tasks.get("modular-sum", modulus=5, supervision="prefix")
T = 12


def tagger(**settings):
    torch.manual_seed(0)
    given = {"width": 6, "readout": "linear", **settings}
    return models.build("block-lrnn", vocab_size=5, num_outputs=5, settings=given).double()


def by_hand(net):
    """States, and the gradients of the last one by every state and input, of a state of one number."""
    mixer, u = _last_mixer(net, TASK.test_set(T, 2).tokens)
    u = u.detach().requires_grad_()
    A, v = mixer.transitions(u)
    assert mixer.initial is not None
    x = mixer.initial.detach().expand(2, 1, 1)
    states = []
    for t in range(T):
        x = (A[:, t] @ x.unsqueeze(-1)).squeeze(-1) + v[:, t]
        x.retain_grad()
        states.append(x)
    states[-1].sum().backward()
    norms = [[x.norm(dim=(1, 2)) for x in (s.detach(), s.grad)] for s in states]
    assert u.grad is not None
    return (*(torch.stack(each, 1) for each in zip(*norms, strict=True)), u.grad.norm(dim=-1))


@pytest.mark.parametrize("settings", [{}, {"layers": 2}, {"normalisation": "none"}])
def test_one_number_by_hand(settings):
    """With a state of one number each projection is exact."""
    net = tagger(blocks=1, block=1, transition="linear", **settings)
    if settings.get("layers"):
        mixer = [m for m in net.modules() if isinstance(m, BlockLRNN)][-1]
        assert mixer.initial is not None
        torch.nn.init.constant_(mixer.initial, 0.5)
    states, by_state, by_input = (x.log().mean(0).exp() for x in by_hand(net))
    found = growth(net, TASK, T)
    assert found.lengths == places(T)
    assert found.lengths[-1] == T - 1
    expected = [(states[n - 1], by_state[T - 1 - n], by_input[T - 1 - n]) for n in found.lengths]
    for mine, values in zip((found.states, found.by_state, found.by_input), zip(*expected, strict=True), strict=True):
        assert mine == pytest.approx([float(x) for x in values])


def test_reflections_neither_fade_nor_grow():
    found = growth(tagger(blocks=2, block=3, normalisation="orthogonal"), TASK, 300)
    assert found.by_state == pytest.approx([1.0] * len(found.lengths))


def test_what_over_or_underflows_is_none():
    net = tagger(blocks=2, block=3, normalisation="none")
    mixer, _ = _last_mixer(net, TASK.test_set(4, 2).tokens)
    last = mixer.transition.get_submodule("2")
    weight, bias = last.get_parameter("weight"), last.get_parameter("bias")
    with torch.no_grad():
        weight.mul_(100)
    grows = growth(net, TASK, 400)
    assert grows.states[0] is not None
    assert grows.states[-1] is None
    assert grows.by_state[0] is not None
    assert grows.by_state[-1] is None
    with torch.no_grad():
        weight.mul_(1e-4)
        bias.zero_()
    fades = growth(net, TASK, 400)
    assert all(x is not None for x in fades.states)
    assert fades.by_state[-1] is None
