"""Machines made into networks without a string: right on long strings, proved, and never proved when changed."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from lengthwise import automata, lab, models, tasks, theory
from lengthwise.cli import main
from lengthwise.errors import Error
from lengthwise.evaluate import score_strings
from lengthwise.lab.collection import network_folder
from lengthwise.lab.statistics import accuracy
from lengthwise.models.token_classifier import PresetClassifier
from lengthwise.verify import Proved, certify, claim_of, compile_machine, consolidate_run, made_of
from lengthwise.verify.algebra import MachineAlgebra
from lengthwise.verify.checker import Rejected
from lengthwise.verify.claim import minimal
from lengthwise.verify.consolidate import compiling
from lengthwise.verify.consolidate.canonical_codes import canonical_codes
from lengthwise.verify.consolidate.closure import Closure, ClosureNetwork, close
from lengthwise.verify.consolidate.compiling import fitted
from lengthwise.verify.consolidate.element_codes import structured_codes
from lengthwise.verify.prove import node
from lengthwise.verify.prove.codes import prove_codes
from lengthwise.verify.verdict import Refuted, Unknown

from .proposals import accepted


@pytest.fixture(scope="module")
def parity():
    return compile_machine(tasks.get("parity"))


def right_everywhere(made, task, lengths):
    classifier = PresetClassifier(made.model, made.model.config.outputs, "compiled")
    classifier.reuse_equal_tokens()
    lengths = [n for n in lengths if task.problem(n) is None]
    scores = score_strings(classifier, task, lengths, 64, 0, device=torch.device("cpu"))
    assert scores.correct == dict.fromkeys(map(str, lengths), 64)


def check(made, name):
    task = tasks.get(name)
    assert made.closed
    right_everywhere(made, task, [1, 2, 3, 40, 1001, 10_000])
    proof = prove_codes(made.model.eval(), claim_of(task), 300)
    assert isinstance(proof, dict), proof
    assert proof["margin"] > 0.1
    assert json.loads(json.dumps(proof)) == proof


def test_parity(parity):
    check(parity, "parity")


def test_a_tree_of_three():
    made = compile_machine(tasks.get("parity"), chunk=3)
    assert len(made.gap) == 30
    check(made, "parity")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tomita-5", "cycle-navigation", "d-2"])
def test_compiled(name):
    check(compile_machine(tasks.get(name)), name)


def test_the_proof_lists_what_words_reach(parity):
    """Every code that a word's node has, with the map that the word is."""
    proof = prove_codes(parity.model, parity.claim, 60)["proof"]
    listed = {tuple(each["code"]): proof["elements"][each["element"]] for each in proof["codes"]}
    layer = parity.model.depth.layers[0]
    for n in range(1, 9):
        for word in range(2**n):
            tokens = torch.tensor([[word >> i & 1 for i in range(n)]])
            made = []
            hook = layer.register_forward_hook(lambda _, given, y, made=made: made.append(y))
            parity.model(tokens, logits_to_keep=1)
            hook.remove()
            last = made[-1][0, -1]
            known = torch.tensor(list(listed))
            code = known[(layer.nodes.vectors(known) - last).abs().amax(1).argmin()]
            assert torch.equal(layer.nodes.vectors(code), last)
            ones = int(tokens.sum()) % 2
            assert listed[tuple(code.tolist())] == [ones, 1 - ones]


@pytest.mark.parametrize("what", ["codebook", "head", "choose", "pad", "leaf"])
def test_what_is_changed_so_that_a_condition_fails_is_not_proved(parity, what):
    model = models.LengthwiseForCausalLM(parity.model.config).eval()
    model.load_state_dict(parity.model.state_dict())
    nodes = model.depth.layers[0].nodes
    with torch.no_grad():
        if what == "codebook":
            nodes.codebook[[0, 1]] = nodes.codebook[[1, 0]]
        elif what == "head":
            model.head.weight.neg_()
            model.head.bias.neg_()
        elif what == "choose":
            nodes.choose.bias[:2] += torch.tensor([100.0, 0.0])
        elif what == "pad":
            model.pad.copy_(model.embedding.weight[1])
        else:
            model.embedding.weight[[0, 1]] = model.embedding.weight[[1, 0]]
    closure = closure_of(parity)
    if what != "codebook":  # exchanged, its codes are others: the network may still be right with these
        assert not (closure.look(ClosureNetwork(model, closure.codes)) > 0).all()
    proof = prove_codes(model, parity.claim, 60)
    words = torch.tensor([[w >> i & 1 for i in range(7)] for w in range(128)])
    wrong = (model(words, logits_to_keep=1).logits[:, 0].argmax(-1) != words.sum(1) % 2).any()
    assert isinstance(proof, (Unknown, Refuted)) or not wrong
    assert what == "codebook" or isinstance(proof, (Unknown, Refuted))
    if isinstance(proof, Refuted):
        assert model(torch.tensor([proof.word])).logits[0, -1].argmax() == proof.said != proof.right


def closure_of(made):
    algebra = MachineAlgebra(made.claim, 2)
    return Closure(algebra, torch.from_numpy(structured_codes(algebra)), algebra.conditions())


@pytest.mark.parametrize("epsilon", [1e-3, 1e-6, 0.0])
def test_a_choice_within_rounding_is_not_proved(parity, epsilon):
    """The bias moves until the closest choice of some node is decided by this much alone."""
    model = models.LengthwiseForCausalLM(parity.model.config).eval()
    model.load_state_dict(parity.model.state_dict())
    closure = closure_of(parity)
    network = ClosureNetwork(model, closure.codes)
    with torch.no_grad():
        z = network.nodes(closure.taps)[:, 0]
        lead = (z[:, 0] - z[:, 1])[closure.codes[closure.results][:, 0] == 0].min()
        model.depth.layers[0].nodes.choose.bias[0] -= lead - epsilon
        z = network.nodes(closure.taps)[:, 0]
    assert float((z[:, 0] - z[:, 1]).abs().min()) < 2 * epsilon + 1e-5
    certificate = accepted(prove_codes, model, parity.claim, 60)
    assert isinstance(certificate, str) if epsilon < 1e-4 else True


def test_the_margin_covers_what_another_order_of_summation_does(parity):
    """In float64 and float32, by other kernels and other batches, the gaps agree to within what the proof allows."""
    closure = closure_of(parity)
    network = ClosureNetwork(parity.model, closure.codes)
    with torch.no_grad():
        single = network.nodes(closure.taps)
        alone = torch.cat([network.nodes(taps[None]) for taps in closure.taps])
    double = models.LengthwiseForCausalLM(parity.model.config).double().eval()
    double.load_state_dict(parity.model.state_dict())
    with torch.no_grad():
        exact = ClosureNetwork(double, closure.codes).nodes(closure.taps)
    proof = prove_codes(parity.model, parity.claim, 60)
    widest = closure.look(network).min()
    assert proof["margin"] <= widest + 1e-4
    assert max((single - exact).abs().max(), (alone - exact).abs().max()) < 1e-3


def test_other_methods_take_no_discrete_nodes(parity):
    """They reckon with the vector that a group makes, and not with what its codes make of it."""
    assert "discrete" in str(node.tree_of(parity.model))
    assert "discrete" in str(node.tree_of(parity.model, "snapped to centres"))


def test_another_machine_is_not_proved(parity):
    other = automata.Semiautomaton([[0, 1], [1, 1]], accepting={1})
    assert prove_codes(parity.model, claim_of(other), 60) == Refuted((1, 1), 0, 1)
    inverted = claim_of(tasks.get("parity").machine.with_accepting({0}))
    assert prove_codes(parity.model, inverted, 60) == Refuted((0,), 0, 1)


def test_a_machine_with_states_to_merge_is_compiled_and_says_so():
    twice = automata.Semiautomaton([[2, 1], [3, 0], [0, 3], [1, 2]], accepting={1, 3})
    claim = minimal(claim_of(twice))
    assert claim.machine.num_states == 2
    assert claim.answers.tolist() == [0, 1]


@pytest.mark.slow
def test_a_machine_with_states_to_merge_is_proved_by_what_is_compiled_of_it_and_by_what_is_written_down(parity):
    twice = automata.Semiautomaton([[0, 1], [1, 2], [2, 3], [3, 0]], accepting={1, 3})
    assert isinstance(certify(parity.model, twice, budget=60), Proved)
    written = theory.regular_gpt(twice, [0, 1, 0, 1])
    assert isinstance(certify(written, twice, budget=60), Proved)


def test_a_folder_is_a_checkpoint(parity, tmp_path):
    folder = parity.save(tmp_path / "parity")
    assert made_of(folder) == "compiled"
    assert made_of(tmp_path) is None
    assert [made_of(network_folder(f"parity-{name}")) for name in ("rnn", "gru-settled")] == [
        "learned",
        "settled",
    ]
    loaded = models.pretrained.find(str(folder)).model()
    tokens = torch.randint(2, (3, 50))
    assert torch.equal(loaded(tokens).logits, parity.model(tokens).logits)
    with pytest.raises(Error, match="there is something already"):
        parity.save(folder)


def test_the_command(tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["compile", "regex:(aa)*", "--out", str(out), "--json"]) == 0
    captured = capsys.readouterr()
    said = json.loads(captured.out)
    assert (said["made"], said["wrong"]) == ("compiled", 0)
    assert "wrong, margin" in captured.err
    assert (out / "model.safetensors").exists()
    assert main(["compile", "regex:(aa)*", "--out", str(out)]) == 0
    assert "it is there already, unchanged" in capsys.readouterr().out
    assert main(["compile", "regex:(aaa)*", "--out", str(out)]) == 2
    assert "there is something already" in capsys.readouterr().err
    assert main(["compile", "reference-chains", "--out", str(tmp_path / "none")]) == 2
    assert "only a task with a machine" in capsys.readouterr().err
    assert main(["compile", "parity", "--width", "100000000", "--out", str(tmp_path / "wide")]) == 2
    assert "Use a smaller --width." in capsys.readouterr().err


def test_what_was_not_compiled_does_not_say_it_was(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(compiling, "ROUNDS", (1,))
    out = tmp_path / "out"
    assert main(["compile", "parity", "--out", str(out)]) == 1
    said = capsys.readouterr().out
    assert said.startswith("Not compiled: ")
    assert "of 14 conditions fail" in said
    assert "Nothing was written." in said
    assert main(["compile", "parity", "--out", str(out), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["directory"] is None
    assert not out.exists()


def test_a_proof_that_meets_the_limit_of_nodes_names_it(parity, monkeypatch):
    monkeypatch.setenv("LENGTHWISE_MAX_PROOF_NODES", "5")
    found = prove_codes(parity.model, parity.claim, 10)
    assert isinstance(found, Unknown)
    assert "more than 5 nodes that are looked at." in found.why
    assert found.why.endswith("LENGTHWISE_MAX_PROOF_NODES=…")


def test_refusals(parity):
    continuous = models.build("regular-gpt", vocab_size=2, num_outputs=2, width=8, heads=2)
    with pytest.raises(Error, match="nodes are continuous"):
        consolidate_run(continuous, tasks.get("parity"))
    with pytest.raises(Error, match="a model needs a machine"):
        consolidate_run(parity.model)
    assert "continuous" in str(prove_codes(continuous.inner, parity.claim, 1))
    lstm = models.build("lstm", vocab_size=2, num_outputs=2, width=8)
    with pytest.raises(Error, match="no RegularGPT"):
        consolidate_run(lstm, tasks.get("parity"))


@pytest.mark.slow
def test_a_spoiled_model_is_consolidated(parity):
    """Weights are disturbed until conditions fail; its own codes, and the closure loss, make it right again."""
    model = models.LengthwiseForCausalLM(parity.model.config)
    model.load_state_dict(parity.model.state_dict())
    torch.manual_seed(1)
    with torch.no_grad():
        model.depth.layers[0].up.weight.add_(torch.randn_like(model.depth.layers[0].up.weight) * 0.5)
        model.head.bias += torch.tensor([30.0, 0.0])
    with pytest.raises(Error, match="has not learned the machine"):
        consolidate_run(model, tasks.get("parity"))
    made = compiling.teach_codes(model, claim_of(tasks.get("parity")))
    assert made.made == "consolidated"
    check(made, "parity")


@pytest.mark.slow
def test_a_network_that_learned_parity_from_strings_is_consolidated_and_proved(tmp_path):
    """Its nodes have more codes than the algebra has elements, so it is proved only once it was taught the algebra."""
    settings = {
        "model.width": 64,
        "model.nodes": "discrete",
        "training.steps": 600,
        "training.curriculum": "growing",
        "training.lengths": (1, 40),
        "training.validation_samples": 256,
        "tests.samples": 64,
    }
    experiments = lab.plan("parity", ["regular-gpt"], seeds=1, test_lengths=[41, 500], settings=settings)
    (outcome,) = lab.run(experiments, tmp_path, workers=1, device="cpu")
    run = outcome.run
    assert run
    assert run.result["baseline"].keys() >= {"41", "500"}
    assert accuracy(run, 500) == 1
    before = certify(run, budget=5)
    assert isinstance(before, (Proved, Unknown))
    made = consolidate_run(run)
    assert made.made == "consolidated"
    check(made, "parity")
    proved = certify(made.model, tasks.get("parity"), budget=20, made="consolidated")
    assert isinstance(proved, Proved)
    assert proved.certificate["made"] == "consolidated"


def test_a_model_s_own_codes_are_those_it_was_compiled_with(parity):
    algebra = MachineAlgebra(parity.claim, 2)
    found, own = canonical_codes(parity.model, algebra, algebra.conditions())
    assert own.all()
    assert torch.equal(found, torch.from_numpy(structured_codes(algebra)))


def test_a_model_whose_codes_say_nothing_takes_structured_ones_and_is_compiled(monkeypatch):
    """However right it may be. Groups that are left over repeat the others."""
    codes = np.array([[0, 1], [1, 0], [2, 1]])
    assert fitted(codes, 5, 3).tolist() == [[0, 1, 0, 1, 0], [1, 0, 1, 0, 1], [2, 1, 2, 1, 2]]
    assert fitted(codes, 1, 3) is fitted(codes, 5, 2) is None
    given = []
    monkeypatch.setattr(
        compiling,
        "close",
        lambda model, closure, **_: given.append(closure) or closure.look(ClosureNetwork(model, closure.codes)),
    )
    torch.manual_seed(0)
    model = models.build("regular-gpt", vocab_size=3, num_outputs=5, width=16, nodes="discrete", groups=7, codes=6)
    task = tasks.get("cycle-navigation")
    with pytest.raises(Error, match=r"it answers [0-9.]+% of held-out words .* It has not learned the machine"):
        consolidate_run(model, task)
    monkeypatch.setattr(compiling, "checked_to_have_learned", lambda *_: 0.99)
    made = consolidate_run(model, task)
    assert (made.made, str(made.kept)) == ("compiled", "none of its own 5 codes")
    structured = structured_codes(MachineAlgebra(claim_of(task), 2))
    assert given[0].codes.tolist() == fitted(structured, 7, 6).tolist()


def test_descending_ends_by_itself_and_looks_at_all(parity):
    closure = closure_of(parity)
    gap = close(parity.model, closure, rounds=[200], lr=1e-5)
    assert (gap > 0).all()
    assert len(gap) == len(closure.taps) + len(np.flatnonzero(parity.claim.asked))


def test_conditions_that_are_not_wide_are_drawn_again(parity):
    closure = closure_of(parity)
    network = ClosureNetwork(parity.model, closure.codes)
    gap = closure.look(network)
    assert len(closure.failing) == 0
    closure.wide = float(np.sort(gap[: len(closure.taps)])[2])
    closure.look(network)
    assert len(closure.failing) == 3
    assert (gap[closure.failing] <= closure.wide).all()


def test_consolidating_goes_on_until_rounding_leaves_a_proof(parity, monkeypatch):
    proofs, said = iter([False, True]), []
    monkeypatch.setattr(compiling, "provable", lambda *_: next(proofs))
    made = consolidate_run(parity.model, tasks.get("parity"), hear=said.append)
    (wider,) = [line for line in said if "rounding leaves no proof" in line]
    assert made.gap.min() >= float(wider.split()[-1]) > closure_of(parity).wide + 1
    assert next(proofs, None) is None


def test_what_is_provable_is_so_to_the_checker_too(parity, monkeypatch):
    assert compiling.provable(parity, 60)

    def reject(*_):
        raise Rejected("no")

    monkeypatch.setattr(compiling.certificates, "accepted", reject)
    assert not compiling.provable(parity, 60)
    monkeypatch.setattr(compiling, "prove_codes", lambda *_: Unknown("no"))
    assert not compiling.provable(parity, 60)
