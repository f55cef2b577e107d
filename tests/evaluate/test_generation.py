"""Greedy decoding: the cache writes what reading everything again writes, and the lab counts what of it is right."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lengthwise import lab, models, tasks
from lengthwise.errors import NonFiniteError
from lengthwise.evaluate import score_strings
from lengthwise.evaluate.generation import reread, write_answers
from lengthwise.tasks.base import Batch
from lengthwise.tasks.laws import _own_answers
from lengthwise.train.scoring import right

TASK = tasks.get("arithmetic-steps", modulus=3)
V = TASK.outputs
MODELS = [
    ("bipe", {"ends": [TASK.equals], "position": "rope", "layers": 1}),
    ("bipe", {"ends": [TASK.equals], "position": "alibi", "variant": "official", "layers": 1}),
    ("transformer", {"position": "xpos", "layers": 1}),
    ("regular-gpt", {}),
    ("lstm", {}),
]


class Mine(nn.Module):
    """A model from outside: no cache, no `generate`."""

    def __init__(self, vocab_size):
        super().__init__()
        self.read, self.mix, self.write = nn.Embedding(vocab_size, 32), nn.GRU(32, 32), nn.Linear(32, vocab_size)

    def forward(self, tokens):
        return self.write(self.mix(self.read(tokens.T))[0]).transpose(0, 1)


def learnt(classifier, batch: Batch):
    """One that knows the first half of these strings by heart, and no others."""
    optimizer = torch.optim.Adam(classifier.parameters(), lr=5e-3)
    half = Batch(*(part[: len(part) // 2] for part in batch))
    for _ in range(60):
        logits = classifier(half.tokens)
        loss = F.cross_entropy(logits[half.mask], half.targets[half.mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return classifier.eval()


def strings():
    """Problems of several lengths, so that prompts have to be padded."""
    batch = TASK.align([TASK.test_set(n, 8) for n in (1, 3)])
    return Batch(*(torch.cat(parts)[[0, 8, 1, 9, 2, 10, 3, 11]] for parts in zip(*batch, strict=True)))


@pytest.mark.parametrize(("name", "options"), MODELS)
def test_the_cache_writes_what_reading_again_writes(name, options):
    torch.manual_seed(0)
    width = {"width": 32} if name in ("lstm", "regular-gpt") else {"width": 32, "heads": 4}
    classifier = models.build(name, vocab_size=V, num_outputs=V, **width, **options)
    batch = strings()
    classifier = learnt(classifier, batch)
    written = write_answers(classifier, TASK, batch.tokens)
    with torch.no_grad():
        again = reread(classifier, TASK, batch.tokens)
    longest = max(written.shape[1], again.shape[1])
    one, other = (F.pad(each, (0, longest - each.shape[1]), value=TASK.padding) for each in (written, again))
    assert torch.equal(one, other)
    assert bool((written != TASK.padding).any(1).all())


def test_what_follows_the_prompts_is_not_looked_at():
    torch.manual_seed(0)
    batch = strings()
    classifier = learnt(models.build("bipe", vocab_size=V, num_outputs=V, width=32, ends=[TASK.equals]), batch)
    written = write_answers(classifier, TASK, batch.tokens)
    behind = torch.arange(batch.tokens.shape[1]) >= TASK.prompts(batch.tokens)[:, None]
    blind = batch.tokens.masked_fill(behind, TASK.padding)
    assert torch.equal(write_answers(classifier, TASK, blind), written)
    assert torch.equal(write_answers(classifier, TASK, batch.tokens.flip(0)).flip(0), written)
    by_heart = _own_answers(TASK, batch.tokens[:4])
    assert torch.equal(written[:4, : by_heart.shape[1]], by_heart)
    assert TASK.is_right(batch.tokens, written)[:4].all()
    assert not TASK.is_right(batch.tokens, written).all(), "or this would show nothing"


def test_a_model_from_outside_writes_too():
    torch.manual_seed(0)
    classifier = learnt(models.TokenClassifier(Mine(V), V, "mine"), strings())
    written = write_answers(classifier, TASK, strings().tokens)
    assert TASK.is_right(strings().tokens, written)[:4].all()


def test_the_test_counts_what_is_written_and_training_what_is_next():
    torch.manual_seed(0)
    batch = TASK.test_set(2, 16)
    classifier = learnt(models.build("bipe", vocab_size=V, num_outputs=V, width=32, ends=[TASK.equals]), batch)
    scores = score_strings(classifier, TASK, (2,), 16, seed=0, device=torch.device("cpu"))
    written = write_answers(classifier, TASK, batch.tokens)
    assert scores.correct == {"2": int(TASK.is_right(batch.tokens, written).sum())}
    assert 8 <= scores.correct["2"] < 16
    with torch.no_grad():
        logits = classifier(batch.tokens)
    share = (((logits.argmax(-1) == batch.targets) & batch.mask).sum(1) / batch.mask.sum(1)).double()
    assert torch.allclose(right(logits, batch, TASK), share)


def test_a_string_at_which_the_model_overflows_is_wrong_and_counted():
    torch.manual_seed(0)
    batch = TASK.test_set(1, 8)
    mine = learnt(models.TokenClassifier(Mine(V), V, "mine"), Batch(*(part.repeat(2, 1) for part in batch)))

    class Overflowing(nn.Module):
        def forward(self, tokens, last=False):
            if bool((tokens[:, 0] == batch.tokens[0, 0]).any()):
                raise NonFiniteError("too large")
            return mine(tokens, last=last)

    scores = score_strings(Overflowing(), TASK, (1,), 8, seed=0, device=torch.device("cpu"))
    refused = int((batch.tokens[:, 0] == batch.tokens[0, 0]).sum())
    assert 0 < refused < 8
    assert scores.overflowed == {"1": refused}
    assert scores.correct == {"1": 8 - refused}


def test_a_bench_has_the_accuracy_of_what_is_written(tmp_path):
    settings = {"training.steps": 2, "training.lengths": (1, 2), "tests.samples": 4, "model.width": 8}
    (run,) = lab.bench("arithmetic-steps", ["transformer"], test_lengths=[2, 3], settings=settings, root=tmp_path)
    last = run.result["checkpoints"]["last"]["correct"]
    task, model = lab.load_task(run), lab.load_model(run)
    for length, correct in last.items():
        tokens = task.test_set(int(length), 4).tokens
        assert correct == int(task.is_right(tokens, write_answers(model, task, tokens)).sum())


def test_an_answer_is_as_long_alone_as_beside_others():
    """A batch is cut where the memory ends, so what is beside a problem must not matter to its score."""
    torch.manual_seed(0)
    classifier = models.build("transformer", vocab_size=V, num_outputs=V, width=8, heads=2)
    tokens = TASK.test_set(3, 12).tokens
    together = write_answers(classifier, TASK, tokens)
    limits = [TASK.longest_answer(row) for row in tokens.split(1)]
    assert len(set(limits)) > 1, "or this would show nothing"
    for row, limit, answer in zip(tokens.split(1), limits, together, strict=True):
        (alone,) = write_answers(classifier, TASK, row)
        assert len(alone) <= limit
        assert torch.equal(answer[: len(alone)], alone)
        assert bool((answer[len(alone) :] == TASK.padding).all())
