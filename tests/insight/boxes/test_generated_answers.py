"""Answers by greedy decoding with the cache, held to the lab's score of the same strings."""

from __future__ import annotations

import json

import pytest
import torch
import torch.nn.functional as F

from lengthwise import insight, models
from lengthwise.errors import Error
from lengthwise.insight.boxes import Score, add_scores, count_answers, generate_answers, score_answers
from lengthwise.tasks.base import Batch
from lengthwise.tasks.boxes import Boxes
from lengthwise.train.counting import count_right

TASK = Boxes(form="advanced", boxes=4, objects=10)


def learnt(model: str, task: Boxes, batch: Batch, **options):
    """A small model that knows the first half of these strings by heart, and no others."""
    torch.manual_seed(0)
    V = task.outputs
    classifier = models.build(model, vocab_size=V, num_outputs=V, width=32, heads=4, layers=2, **options)
    optimizer = torch.optim.Adam(classifier.parameters(), lr=3e-3)
    half = Batch(*(part[: len(part) // 2] for part in batch))
    for _ in range(100):
        logits = classifier(half.tokens)
        loss = F.cross_entropy(logits[half.mask], half.targets[half.mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return classifier.eval()


CASES = [
    ("chacal", TASK, {}),
    ("chacal", TASK, {"position": "transformer-xl", "chain_layers": "all"}),
    ("transformer", TASK, {"position": "none"}),
    ("chacal", Boxes(boxes=2, objects=10), {"position": "sinusoidal"}),
    ("transformer", Boxes(form="original", boxes=2, objects=10), {"position": "learned"}),
]


@pytest.mark.parametrize(("model", "task", "options"), CASES)
def test_exact_match_is_the_lab_s_score(model, task, options):
    """Row by row: teacher-forced right at every place is greedily decoded word by word."""
    batch = task.align([task.test_set(n, 8) for n in (2, 4)])
    batch = Batch(*(torch.cat(parts)[::2] for parts in zip(*batch, strict=True)))
    classifier = learnt(model, task, batch, **options)
    exact = task.score_answers(batch.tokens, generate_answers(classifier, task, batch.tokens)).exact
    rows = [Batch(*(part[i : i + 1] for part in batch)) for i in range(len(exact))]
    forced = [count_right(classifier, task, row, device=torch.device("cpu"))[0] for row in rows]
    assert exact.tolist() == [bool(n) for n in forced]
    assert 0 < exact.sum() < len(exact), "some must be right and some wrong, or this would show nothing"


def test_the_answer_given_is_not_looked_at():
    batch = TASK.test_set(3, 6)
    classifier = learnt("chacal", TASK, batch)
    found = generate_answers(classifier, TASK, batch.tokens)
    blind = batch.tokens.masked_fill(TASK.asked(batch.tokens).roll(1, 1), 0)
    prompts = [TASK.parts(row)[0] for row in batch.tokens]
    assert [TASK.parts(row) for row in blind] == [(prompt, "") for prompt in prompts]
    assert torch.equal(generate_answers(classifier, TASK, blind), found)
    assert torch.equal(generate_answers(classifier, TASK, batch.tokens.flip(0)).flip(0), found)
    alone = [generate_answers(classifier, TASK, row[None]) for row in batch.tokens]
    for row, one in zip(found, alone, strict=True):
        said = row[: one.shape[1]]
        assert torch.equal(said[said != 0], one[0][: int((said != 0).sum())])


def test_answers_are_counted():
    tokens = torch.stack([
        torch.tensor(TASK.tokenize(text))
        for text in (
            "The bag is in Box A, the ball is in Box B. Move the contents of Box A to Box C.",
            "The bag is in Box C, the ball is in Box B. Move the contents of Box B to Box D.",
        )
    ])  # fmt: skip
    said = ["Box B contains the ball, Box C contains the bag.", "Box B contains the bag, Box D contains the ball."]
    found = count_answers(TASK.score_answers(tokens, torch.tensor([TASK.tokenize(text) for text in said])))
    assert found.exact == Score(1, 2)
    assert found.boxes == Score(6, 8), "of the second story C is empty and B is not"
    assert found.touched == {0: Score(3, 4), 1: Score(3, 4)}
    assert found.depths == {1: Score(1, 2)}
    assert found.layers == {1: Score(1, 2)}
    twice = add_scores([found, found])
    assert twice.exact == Score(2, 4)
    assert twice.touched == {0: Score(6, 8), 1: Score(6, 8)}
    assert json.loads(json.dumps(twice.to_json()))["depths"] == {"1": [2, 4]}


def test_layers_gather_their_depths():
    scores = {n: Score(n, 10) for n in range(5)}
    found = insight.boxes.AnswerScores(Score(1, 1), Score(1, 1), {}, scores)
    assert found.layers == {0: Score(0, 10), 1: Score(1, 10), 2: Score(5, 20), 3: Score(4, 10)}


def test_a_set_of_test_stories():
    found = score_answers(learnt("chacal", TASK, TASK.test_set(2, 8)), TASK, 2, 8)
    assert found.exact.asked == 8
    assert found.boxes.asked == 32
    assert 4 <= found.exact.right < 8
    assert sum(score.asked for score in found.touched.values()) == 32


def test_refuses_what_cannot_go_on():
    foreign = models.TokenClassifier(torch.nn.Embedding(TASK.outputs, TASK.outputs), TASK.outputs, "foreign")
    with pytest.raises(Error, match="foreign: to answer by itself"):
        generate_answers(foreign, TASK, TASK.test_set(2, 1).tokens)
