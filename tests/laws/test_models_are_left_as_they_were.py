"""What only looks at a caller's model changes nothing of it: modes, weights, gradients, hooks, config, random state."""

import importlib
import inspect
from typing import Any

import pytest
import torch
from torch import nn

from lengthwise import Error, evaluate, insight, models, tasks, theory, verify
from lengthwise.verify.consolidate.compiling import teach_codes

PARITY = tasks.get("parity")
BOXES = tasks.get("boxes", boxes=2, objects=7)
STEPS = tasks.get("arithmetic-steps")
CPU = torch.device("cpu")
ROOMS = [
    "models",
    "convert",
    "tasks",
    "text",
    "train",
    "evaluate",
    "lab",
    "insight",
    "theory",
    "verify",
    "report",
]
DRAWING = {"width": 8, "dropout": 0.5}


class Drawn(nn.Module):
    """A model of somebody else's that draws in evaluation too, and whose parts are in different modes."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(2, 4), nn.Linear(4, 2)

    def forward(self, tokens):
        return self.head(self.embedding(tokens).cumsum(1) + 1e-3 * torch.rand(()))


def build(name="regular-gpt", task=PARITY, **options):
    size = max(task.outputs, len(task.vocabulary))
    return models.build(name, vocab_size=size, num_outputs=task.outputs, **{**DRAWING, **options})


def tree():
    return build(heads=2)


def inner():
    return tree().inner


def discrete():
    return build(nodes="discrete", groups=2, codes=2, activation="relu", dropout=0.0, heads=1)


def attention():
    return build("transformer", heads=2)


def strings(model, task=PARITY):
    return task.test_set(6, 3).tokens


def refused_and_then_taught(model):
    """It has learned nothing, so it is refused; what would teach it is called all the same."""
    with pytest.raises(Error, match="cannot be taught a machine"):
        verify.consolidate_run(model, PARITY, seconds=0.2)
    teach_codes(model.inner, verify.claim_of(PARITY), seconds=0.2)


TEXT = torch.randint(2, (64,), generator=torch.Generator().manual_seed(0))
CALLS: dict[str, tuple[Any, Any]] = {
    "verify.certify of a tree": (inner, lambda m: verify.certify(m, PARITY, budget=0.3)),
    "verify.certify of a classifier": (tree, lambda m: verify.certify(m, PARITY, budget=0.3)),
    "verify.certify of a recurrence": (lambda: build("lstm"), lambda m: verify.certify(m, PARITY, budget=0.3)),
    "verify.certify of codes": (lambda: discrete().inner, lambda m: verify.certify(m, PARITY, budget=0.3)),
    "verify.certify of a foreign model": (Drawn, lambda m: verify.certify(m, PARITY, budget=0.3)),
    "verify.falsify": (inner, lambda m: verify.falsify(m, PARITY, 0.2)),
    "verify.extract of a tree": (lambda: theory.regular_gpt(PARITY.machine), lambda m: verify.extract(m, PARITY)),
    "verify.extract of states": (
        lambda: build("lstm"),
        lambda m: verify.extract(m, PARITY, method="states"),
    ),
    "verify.consolidate_run": (discrete, lambda m: refused_and_then_taught(m)),
    "evaluate.score_strings": (
        attention,
        lambda m: evaluate.score_strings(m, PARITY, (4,), 4, 0, device=CPU),
    ),
    "evaluate.score_strings of what is written": (
        lambda: build("transformer", STEPS, heads=2),
        lambda m: evaluate.score_strings(m, STEPS, (2,), 2, 0, device=CPU),
    ),
    "evaluate.losses_by_length": (attention, lambda m: evaluate.losses_by_length(m, TEXT, [8], device=CPU)),
    "evaluate.losses_by_length of last tokens": (
        attention,
        lambda m: evaluate.losses_by_length(m, TEXT, [8], device=CPU, way="last-token", samples=4),
    ),
    "insight.find_clusters": (tree, lambda m: insight.find_clusters(m, strings(m))),
    "insight.find_links": (
        lambda: build("chacal", BOXES, heads=2),
        lambda m: insight.find_links(m, BOXES, BOXES.test_set(2, 2).tokens),
    ),
    "insight.measure_receptive_field": (tree, lambda m: insight.measure_receptive_field(m, strings(m))),
    "insight.read_attention": (attention, lambda m: insight.read_attention(m, strings(m)[0])),
    "insight.score_chains": (
        lambda: build("transformer", STEPS, heads=2),
        lambda m: insight.score_chains(m, STEPS, 2, 2),
    ),
}
ELSEWHERE = {
    "convert.apply": "converts in place, which its docstring says",
    "convert.to_bipe": "converts in place",
    "convert.to_chain": "converts in place",
    "convert.to_yarn": "converts in place",
    "convert.to_drope": "converts in place",
    "evaluate.score_far_tokens": "needs a tokenizer: tests/evaluate/test_far_tokens.py",
    "models.TokenClassifier": "holds the model",
    "models.equal_tokens": "changes it within a block",
    "train.TrainState": "trains it",
    "train.sequence_parallel": "changes it within a block",
    "verify.Extracted": "holds it",
    "verify.Made": "holds it",
}


def fingerprint(model: nn.Module) -> dict[str, Any]:
    """All that a caller can see of a model and of the random state, by name."""
    seen: dict[str, Any] = {"random": torch.get_rng_state(), "grad": torch.is_grad_enabled()}
    for name, module in model.named_modules():
        seen[f"{name} is"] = (type(module), id(module), module.training, list(module._modules))
        hooks = {key: [*value] for key, value in vars(module).items() if key.endswith("hooks") and value}
        plain = {k: v for k, v in vars(module).items() if isinstance(v, (bool, int, float, str, tuple, type(None)))}
        plain["reuses_equal_tokens"] = getattr(module, "reuses_equal_tokens", None)  # of the class, until it is set
        seen[f"{name} has"] = (hooks, {key: value for key, value in plain.items() if not key.startswith("_")})
        for own in ("config", "generation_config"):
            if hasattr(module, own):
                seen[f"{name} {own}"] = repr(getattr(module, own).to_dict())
    for name, p in model.named_parameters():
        seen[f"{name} is"] = (id(p), p.requires_grad, p.dtype, p.device, p.data_ptr(), id(p.grad))
        seen[f"{name} holds"] = p.detach().clone()
        seen[f"{name} gradient"] = torch.zeros(()) if p.grad is None else p.grad.clone()
    for name, b in model.named_buffers():
        seen[name] = b.clone()
    return seen


def differing(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    def same(a: Any, b: Any) -> bool:
        return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b

    return [key for key in before.keys() | after.keys() if not same(before.get(key), after.get(key))]


@pytest.mark.parametrize("modes", ["eval", "train", "mixed"])
@pytest.mark.parametrize("name", CALLS)
def test_it_is_left_as_it_was(name, modes):
    torch.manual_seed(0)
    make, call = CALLS[name]
    model = make().train(modes != "eval")
    if modes == "mixed":
        first, *others = list(model.parameters())
        first.requires_grad_(False)
        for weight in others:
            weight.grad = torch.full_like(weight, 0.5)
        for module in [*model.modules()][1::2]:
            module.training = False
    before = fingerprint(model)
    call(model)
    assert differing(before, fingerprint(model)) == []


def test_every_public_function_of_a_model_is_tried():
    public = set()
    for room in ROOMS:
        module = importlib.import_module(f"lengthwise.{room}")
        for name in module.__all__:
            try:
                parameters = inspect.signature(getattr(module, name)).parameters.values()
            except (TypeError, ValueError):
                continue
            written = " ".join(str(p.annotation) for p in parameters if "type[" not in str(p.annotation))
            if any(word in written for word in ("Module", "TokenClassifier", "ForCausalLM", "PreTrainedModel")):
                public.add(f"{room}.{name}")
    public.add("convert.apply")  # whose model may be anything
    tried = {name.split(" of ")[0] for name in CALLS}
    assert public == tried | ELSEWHERE.keys()


def test_a_look_that_fails_leaves_it_as_it_was():
    class Broken(Drawn):
        def forward(self, tokens):
            raise RuntimeError(f"{torch.rand(())}")

    model = Broken()
    model.head.eval()
    before = fingerprint(model)
    with pytest.raises(Exception, match="failed"):
        verify.certify(model, PARITY, budget=0.2)
    assert differing(before, fingerprint(model)) == []
