"""Training that makes states steady: its noise, its slopes, and that it is resumed exactly."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch.autograd.functional import jacobian

from lengthwise import lab, models, tasks
from lengthwise.errors import Error
from lengthwise.lab.job import Job, run_group
from lengthwise.mixers import Layout
from lengthwise.mixers.block_lrnn import GAP, BlockLRNN, BlockState
from lengthwise.mixers.recurrent import projected, transition
from lengthwise.train import Interrupted, Stop, StringObjective, objectives
from lengthwise.train.settings import Steadiness, Training
from lengthwise.train.state import TrainState
from lengthwise.train.steady import Silencing, penalty, steadied_parts, with_noise
from lengthwise.verify.prove.node import Node

PREFIX = {"task": tasks.get("parity", supervision="prefix"), "steps": 7}
STEADY = {**PREFIX, "steady": "on", "varied": 0.5}


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("length", [1, 2, 7])
def test_with_next_to_no_noise_it_is_the_recurrence_itself(cell, length):
    model = models.build(cell, vocab_size=3, num_outputs=2, width=5, layers=2).double()
    tokens = torch.randint(3, (4, length))
    whole = model(tokens)
    with with_noise(steadied_parts(model), 1e-12):
        assert torch.allclose(model(tokens), whole, atol=1e-9)
        model(tokens).sum().backward()
    noisy = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(tokens).sum().backward()
    for a, b in zip(noisy, model.parameters(), strict=True):
        assert torch.allclose(a, b.grad, atol=1e-9)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_gates_that_let_go_leave_what_is_computed_anew(cell):
    model = models.build(cell, vocab_size=2, num_outputs=2, width=8)
    (part,) = steadied_parts(model)
    x, state = torch.randn(5000, 8), (torch.full((5000, 8), 1.5),) * (2 if cell == "lstm" else 1)
    held, anew = (transition(part.cell, projected(part.cell, x), state, forget)[0][-1] for forget in (0.0, 0.3))
    let_go = anew != held
    assert abs(float(let_go.float().mean()) - 0.3) < 0.02
    assert bool((anew[let_go].abs() <= 1).all())
    with with_noise([part], 1e-12, forget=0.3):
        torch.manual_seed(0)
        assert not torch.allclose(model(torch.ones(1, 9, dtype=torch.long)), whole_without(part, model), atol=1e-3)


def whole_without(part, model):
    with with_noise([part], 1e-12):
        return model(torch.ones(1, 9, dtype=torch.long))


def test_noise_is_there_while_a_batch_is_measured_and_not_after():
    model = models.build("gru", vocab_size=2, num_outputs=2, width=8)
    tokens = torch.zeros(1, 9, dtype=torch.long)
    whole = model(tokens)
    with with_noise(steadied_parts(model), 0.2):
        assert not torch.allclose(model(tokens), whole, atol=1e-3)
    assert torch.equal(model(tokens), whole)


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_unsteadiness_is_what_rows_of_the_jacobian_have_above_the_slope(cell):
    model = models.build(cell, vocab_size=2, num_outputs=2, width=4).double()
    (part,) = steadied_parts(model)
    with with_noise([part], 0.3):
        model(torch.randint(2, (3, 5)))
    tokens, parts = part._met
    torch.manual_seed(3)
    got = part.unsteadiness(0.1, 6)
    torch.manual_seed(3)
    token, at = torch.randint(len(tokens), (2, 6))
    W, U, d = part.cell.weight_ih_l0, part.cell.weight_hh_l0, part.cell.bias_ih_l0 + part.cell.bias_hh_l0
    torch_cell = {"rnn": torch.rnn_tanh_cell, "gru": torch.gru_cell, "lstm": torch.lstm_cell}[cell]
    costs = []
    for t, s in zip(token, at, strict=True):
        state = torch.cat([h[s] for h in parts])

        def after(h, x=tokens[t]):
            own = tuple(p[None] for p in h.chunk(len(parts)))
            new = torch_cell(x[None], own if len(own) == 2 else own[0], *part.cell.parameters())
            return torch.cat(new if len(own) == 2 else (new,), 1)[0]

        gates = (W @ tokens[t] + U @ parts[0][s] + d).sigmoid()
        held = {"rnn": torch.zeros(4), "gru": gates[4:8], "lstm": torch.cat([torch.zeros(4), gates[4:8]])}[cell]
        rows = jacobian(after, state).abs().sum(1) / (1 - held)
        costs.append((rows - 0.1).clamp(min=0).square().sum())
    assert torch.allclose(got, torch.stack(costs).mean())
    got.backward()
    assert part.cell.weight_hh_l0.grad.abs().sum() > 0


def test_unsteadiness_of_an_automaton_is_what_its_argmaxes_lack():
    torch.manual_seed(0)
    model = models.build("block-lrnn", vocab_size=3, num_outputs=2, width=8, block=4, layers=2, variant="automaton")
    parts, tokens = steadied_parts(model), torch.randint(3, (3, 5))
    whole = model(tokens)
    with with_noise(parts, 0.3):
        assert torch.equal(model(tokens), whole)  # its states are exact: noise adds nothing to them
    for part, layer in zip(parts, model.inner.depth.layers, strict=True):
        met = part._met
        torch.manual_seed(3)
        got = part.unsteadiness(0.5, 6)
        torch.manual_seed(3)
        lacking = []
        for M in met[torch.randint(len(met), (6,))]:
            first, second = M.sort(-2, descending=True).values[:, :2].unbind(1)
            lacking.append((1 - (first - second) / GAP).clamp(min=0).sum())
        assert torch.allclose(got, torch.stack(lacking).mean())
        got.backward(retain_graph=True)
        assert layer.mixer.transition[2].weight.grad.abs().sum() > 0


def test_an_automaton_made_steady_has_no_argmax_near_a_tie():
    torch.manual_seed(0)
    model = models.build("block-lrnn", vocab_size=2, num_outputs=2, width=16, variant="automaton")
    (part,), tokens = steadied_parts(model), torch.arange(2)[None]
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def least() -> float:
        best = part._met.detach().topk(2, -2).values
        return float((best[..., 0, :] - best[..., 1, :]).min())

    gaps = []
    for _ in range(60):
        with with_noise([part], 0.2):
            model(tokens)
        gaps.append(least())
        optimizer.zero_grad()
        part.unsteadiness(0.5, 16).backward()
        optimizer.step()
    assert gaps[0] < 0.02
    assert gaps[-1] > 0.9 * GAP


def test_each_string_begins_without_a_share_of_x_0_of_its_own():
    torch.manual_seed(0)
    model = models.build("block-lrnn", vocab_size=2, num_outputs=2, width=16, variant="automaton", readout="identity")
    (part,) = steadied_parts(model)
    assert isinstance(part, BlockLRNN)
    assert part.initial is not None
    tokens, layout = torch.zeros(4096, 1, 16), Layout.of(torch.zeros(4096, 1))

    def sums(state: BlockState | None = None) -> torch.Tensor:
        """(B,h) of the entries of each block, which no function that moves them changes."""
        return part(tokens, layout=layout, state=state)[0].detach().unflatten(-1, part.shape).sum(-1)[:, 0]

    whole = part.initial.detach().sum(-1).expand(4096, -1)
    with with_noise([part], 0.25):
        assert torch.allclose(sums(), whole, atol=1e-5)
    with with_noise([part], 0.2, leave_out=0.25):
        lacking = sums()
        assert len(lacking.unique(dim=0)) > 1000, "each string draws its own"
        part(tokens[:4], layout=Layout.of(torch.zeros(4, 1)))[0].square().sum().backward()
        assert part.initial.grad.count_nonzero() > 8, "what is not left out is trained"
        assert torch.allclose(lacking.mean(0), 0.75 * whole[0], atol=0.1)
        first = BlockState(part.initial.detach().expand(4096, -1, -1))
        assert torch.allclose(sums(first), whole, atol=1e-5), "a string that goes on has all that it had"
    assert torch.allclose(sums(), whole, atol=1e-5)


def test_the_share_that_is_left_out_is_what_the_training_asks_for(monkeypatch, tmp_path, quick):
    shares = []

    def told(self, x, **others):
        shares.append((self.training, self.leave_out))
        return forward(self, x, **others)

    forward = BlockLRNN.forward
    monkeypatch.setattr(BlockLRNN, "forward", told)
    settings = {**PREFIX, "steady": "on", "silence": False, "leave_out": 0.3}
    run_group(quick("block-lrnn", **settings, model_settings={"variant": "automaton", "width": 16}), Job(tmp_path))
    assert {share for training, share in shares if training} == {0.3}
    assert {share for training, share in shares if not training} == {0.0}, "nothing is left out of what is tested"


def silencing(steps: int = 2, step: int = 2, **options):
    """What silences an automaton that is trained on up to 8 symbols and stands at this step; and its state."""
    torch.manual_seed(0)
    model = models.build("block-lrnn", vocab_size=2, num_outputs=2, width=16, variant="automaton", **options)
    state = TrainState(model, Training.of(steps=steps, lr=3e-3, lengths=(1, 8)), [*range(1, 9)])
    state.step = step
    return Silencing(steadied_parts(model), state), state


def test_what_the_answers_do_not_hang_on_is_silenced_by_blocks_and_by_entries():
    silencer, _ = silencing(layers=2)
    firsts = [first.detach() for first in silencer.first_states]
    whole = [first.clone() for first in firsts]
    for _ in range(40):
        silencer.try_one(8, lambda: False)
    assert all(torch.equal(*each) for each in zip(firsts, whole, strict=True))

    def one_entry_of_each_layer_is_there() -> bool:
        return all(bool(first[1, 3]) for first in firsts)

    counts = [32]
    for _ in range(400):
        silencer.try_one(8, one_entry_of_each_layer_is_there)
        counts.append(sum(int(first.count_nonzero()) for first in firsts))
    assert counts[-1] == 2
    at_once = {a - b for a, b in itertools.pairwise(counts)}
    assert at_once >= {0, 1}
    assert max(at_once) > 1
    assert all(torch.equal(first[1, 3], other[1, 3]) for first, other in zip(firsts, whole, strict=True))
    for _ in range(40):
        silencer.try_one(8, lambda: True)
    assert not any(bool(first.any()) for first in firsts)


def test_it_waits_for_the_last_quarter_of_training_and_for_strings_of_half_the_length():
    for step, length, left in ((8, 8, 16), (9, 4, 16), (9, 5, 0)):
        silencer, _ = silencing(steps=12, step=step)
        for _ in range(100):
            silencer.try_one(length, lambda: True)
        assert int(silencer.first_states[0].count_nonzero()) == left


@pytest.mark.parametrize(("step", "late"), [(8, False), (9, True)])
def test_what_is_silent_stays_so_though_adam_remembers_and_what_is_small_moves(step, late):
    silencer, state = silencing(steps=12, step=step)
    (first,) = silencer.first_states
    first.data[1] = 1e-3
    for i in range(30):
        (first - 2).square().sum().backward()
        if i == 9:
            first.data[0] = 0
        state.optimizer.step()
        state.optimizer.zero_grad()
        if i >= 9:
            assert bool(first[0].any()) != late
    assert bool((first[1] > 0.05).all())


def test_only_a_first_state_that_is_trained_and_all_there_is_to_move_is_silenced():
    assert silencing()[0].first_states
    assert not silencing(inputs="linear", learned_initial=True)[0].first_states
    model = models.build("block-lrnn", vocab_size=2, num_outputs=2, width=16, variant="automaton")
    (part,) = steadied_parts(model)
    part.initial.requires_grad_(False)
    assert part.moved is None


def test_only_a_batch_that_is_surely_all_right_silences():
    task = tasks.get("parity", supervision="prefix")
    silencer, state = silencing()
    objective, batch = StringObjective(task, steady=Steadiness("on")), task.test_set(8, 16)
    objective.prepare(state, stacked=False)

    def left(wrong: int, lead: float) -> int:
        """Returns how many entries are left after 20 batches with so many wrong answers; right ones lead by `lead`."""
        said, leads = batch.targets.clone(), torch.full((16, 8, 1), lead)
        said[0, :wrong] = 1 - said[0, :wrong]
        leads[0, :wrong] = 0.1

        def forward(tokens, last=False):
            state.model(tokens)
            answers = leads * F.one_hot(said.clamp(min=0), 2) + 0 * silencer.first_states[0].sum()
            return answers[:, -1:] if last else answers

        for _ in range(20):
            objective.measure([batch])(forward, *batch)
        return int(silencer.first_states[0].count_nonzero())

    assert left(1, 9.0) == 16
    assert left(0, 3.0) == 16
    objective.task = tasks.get("parity")  # which asks for the last answer alone
    assert left(0, 9.0) == 16
    objective.task = task
    objective.steady = Steadiness("on", silence=False)
    objective.prepare(state, stacked=False)
    assert left(0, 9.0) == 16
    objective.steady = Steadiness("on")
    objective.prepare(state, stacked=False)
    assert left(0, 9.0) < 16


def test_only_blocks_of_one_hot_columns_are_made_steady():
    model = models.build("block-lrnn", vocab_size=2, num_outputs=2, width=8)
    with (
        with_noise(steadied_parts(model), 0.2),
        pytest.raises(Error, match=r'normalisation "paper" cannot be made steady.*variant=automaton'),
    ):
        model(torch.zeros(1, 1, dtype=torch.long))


def test_a_model_that_cannot_be_made_steady_is_told_which_can():
    with pytest.raises(Error, match=r"this model has nothing .* rnn, gru and lstm, the nodes of regular-gpt and"):
        steadied_parts(models.build("transformer", vocab_size=2, num_outputs=2, width=8, heads=2))


def test_the_penalty_waits_until_answers_are_right():
    model = models.build("rnn", vocab_size=2, num_outputs=2, width=8)
    parts, settings = steadied_parts(model), Steadiness("on", slope=0.0)
    with with_noise(parts, 0.2):
        model(torch.randint(2, (3, 5)))
    assert all(penalty(parts, settings, 0.9) == 0 for _ in range(20))
    paid = [float(torch.as_tensor(penalty(parts, settings, 1.0)).detach()) for _ in range(40)]
    assert 0 < sum(each > 0 for each in paid) < 40


TREES = [{"chunk": 2}, {"chunk": 3, "missing": "drop"}, {"nodes": "discrete"}]


@pytest.mark.parametrize("options", TREES, ids=str)
@pytest.mark.parametrize("last", [True, False])
def test_with_next_to_no_noise_a_tree_is_itself(options, last):
    torch.manual_seed(0)
    model = models.build("regular-gpt", vocab_size=3, num_outputs=2, width=16, heads=4, **options).double()
    tokens = torch.randint(3, (4, 9))
    whole = model(tokens, last=last)
    model.reuse_equal_tokens()
    with with_noise(steadied_parts(model), 1e-12):
        assert torch.allclose(model(tokens, last=last), whole, atol=1e-8)
    with with_noise(steadied_parts(model), 0.5):
        assert not torch.allclose(model(tokens, last=last), whole, atol=1e-3)
    assert torch.allclose(model(tokens, last=last), whole, atol=1e-8)


@pytest.mark.parametrize("options", TREES[:2], ids=str)
def test_unsteadiness_of_a_tree_is_what_rows_of_its_jacobian_have_above_the_slope(options):
    torch.manual_seed(0)
    model = models.build("regular-gpt", vocab_size=3, num_outputs=2, width=8, heads=2, **options).double()
    (part,) = steadied_parts(model)
    with with_noise([part], 0.3):
        model(torch.randint(3, (3, 9)), last=True)
    got = part.unsteadiness(0.5, 400)
    node, expected = Node(model), []
    for taps in range(1, part.chunk + 1):
        for met in part._met:
            drawn = met[torch.randint(len(met), (60, taps))].detach()
            rows = jacobian(lambda x: node.of(x).sum(0), drawn).abs().sum((2, 3)).T
            expected.append((rows - 0.5).clamp(min=0).square().sum(1).mean())
    assert torch.allclose(got, torch.stack(expected).mean(), rtol=0.1)
    got.backward()
    assert part.layers[0].down.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("preset", "asked"),
    [("rnn", {}), ("gru", {}), ("lstm", {}), ("regular-gpt", {}), ("regular-gpt", {"spans": True})],
    ids=str,
)
def test_stopped_and_started_again_is_the_same(preset, asked, tmp_path, quick):
    experiments = quick(preset, **STEADY, **asked)
    whole = run_group(experiments, Job(tmp_path / "whole"))[0].run.tensors("model")
    stop = Stop()

    def hear(progress):
        stop.asked = progress.step >= 4

    with pytest.raises(Interrupted):
        run_group(experiments, Job(tmp_path / "pieces", hear=hear, stop=stop))
    pieces = run_group(experiments, Job(tmp_path / "pieces"))[0].run.tensors("model")
    assert all(torch.equal(whole[name], pieces[name]) for name in whole)
    plain = run_group(quick(preset, **PREFIX), Job(tmp_path / "plain"))
    assert not torch.equal(plain[0].run.tensors("model")["head.weight"], whole["head.weight"])


def test_what_was_silenced_is_so_after_a_stop(tmp_path, quick, monkeypatch):
    monkeypatch.setattr(objectives, "right", lambda answers, *_: torch.ones(len(answers), dtype=torch.bool))
    monkeypatch.setattr(objectives, "SURE", float("inf"))
    experiments = quick("block-lrnn", **{**STEADY, "steps": 16}, model_settings={"variant": "automaton", "width": 16})
    whole = run_group(experiments, Job(tmp_path / "whole"))[0].run.tensors("model")
    stop = Stop()

    def hear(progress):
        stop.asked = progress.step >= 14

    with pytest.raises(Interrupted):
        run_group(experiments, Job(tmp_path / "pieces", hear=hear, stop=stop))
    pieces = run_group(experiments, Job(tmp_path / "pieces"))[0].run.tensors("model")
    assert all(torch.equal(whole[name], pieces[name]) for name in whole)
    assert int(whole["depth.layers.0.mixer.initial"].count_nonzero()) < 16


def test_gates_of_a_run_let_go_by_its_settings(tmp_path, quick):
    ways = {f"{forget}": {**STEADY, "forget": forget} for forget in (0.0, 0.5)}
    runs = [run_group(quick("gru", **way), Job(tmp_path / name))[0].run.tensors("model") for name, way in ways.items()]
    assert not torch.equal(*(run["head.weight"] for run in runs))


def test_what_cannot_be_made_steady_is_refused_in_a_line(tmp_path, quick):
    outcome = lab.run(quick("transformer", **STEADY), tmp_path)[0]
    assert "training.steady: " in str(outcome.error)
    assert "rnn, gru and lstm" in str(outcome.error)
    with pytest.raises(Error, match=r"training\.compile"):
        Training.of(steady="on", compile=True)
    task = tasks.get("parity")
    with pytest.raises(Error, match="one process"):
        StringObjective(task, steady=Steadiness("on")).split(task.test_set(3, 2), 0, 2)


def test_off_it_is_no_part_of_an_experiment(quick):
    assert "steady" not in quick("rnn")[0].to_json()["training"]
