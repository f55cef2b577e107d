"""The scores of SCROLLS against numbers that were calculated by hand, and the file for its site."""

import math
import random

import pytest

from lengthwise import Error
from lengthwise.evaluate import answer_scores, written_answers
from lengthwise.evaluate.answer_scores import exact_match, f1, normalised, score

PAIRS = [
    # written, reference, exact, F1: words in common over the mean number of words
    ("Yes", "yes.", 100, 100),
    ("The cat", "a cat!", 100, 100),
    ("a cat sat", "the cat sat down", 0, 100 * 2 * 2 / (2 + 3)),
    ("cat cat dog", "cat bird", 0, 100 * 2 * 1 / (3 + 2)),
    ("cat cat", "cat cat dog dog", 0, 100 * 2 * 2 / (2 + 4)),
    ("dog", "cat", 0, 0),
    ("", "cat", 0, 0),
    ("the", "a", 100, 0),  # nothing is left of either
    ("U.S.-born", "us born", 0, 0),  # punctuation leaves no space: usborn
]


@pytest.mark.parametrize(("written", "reference", "exact", "shared"), PAIRS)
def test_words_are_compared(written, reference, exact, shared):
    assert exact_match(written, reference) == exact
    assert f1(written, reference) == pytest.approx(shared)
    assert f1(reference, written) == pytest.approx(shared)


def test_the_best_reference_counts_and_questions_are_averaged():
    references = [["a dog", "one cat"], ["cat"]]
    assert score("f1", ["the cat", "cat dog"], references) == {"score": pytest.approx(100 * 2 / 3)}
    assert score("exact match", ["one cat", "cat dog"], references) == {"score": 50}
    assert normalised("An  apple a\tday") == "apple day"


def test_rouge_by_hand():
    """Of "the cat sat" against "the cat lay down": 2 of 3 and of 4 words, 1 of 2 and of 3 pairs, 2 in a row."""
    pytest.importorskip("rouge_score")
    found = score("rouge", ["the cat sat"], [["the cat lay down"]])
    r1, r2, rl = 2 * 2 / 7, 2 * 1 / 5, 2 * 2 / 7
    parts = {"rouge1": 100 * r1, "rouge2": 100 * r2, "rougeL": 100 * rl}
    assert found == pytest.approx({"score": 100 * (r1 * r2 * rl) ** (1 / 3), **parts})
    assert score("rouge", ["running dogs"], [["run dog"]])["rouge1"] == 0, "words are not stemmed"


def test_the_geometric_mean_is_that_of_means_over_questions_and_each_kind_has_its_best_reference():
    pytest.importorskip("rouge_score")
    # The first question: R1 is best by the first reference (all words, other order), R2 by the second.
    found = score("rouge", ["a b c d", "x"], [["d c b a", "a b e f g h"], ["x y z"]])
    means = {"rouge1": (1 + 1 / 2) / 2, "rouge2": (2 * 1 / (3 + 5) + 0) / 2, "rougeL": (2 * 2 / 10 + 1 / 2) / 2}
    assert found["score"] == pytest.approx(100 * math.prod(means.values()) ** (1 / 3))
    assert {kind: found[kind] for kind in means} == pytest.approx({kind: 100 * m for kind, m in means.items()})


def in_common(a, b, n):
    """F of the rows of n words in two texts: each row of one strikes out a row of the other."""
    first, second = ([text[i : i + n] for i in range(len(text) - n + 1)] for text in (a, b))
    rows, common = len(first) + len(second), 0
    for row in first:
        if row in second:
            second.remove(row)
            common += 1
    return 200 * common / rows if common else 0.0


def longest(a, b):
    """The longest row of words that stand in both in one order."""
    if not a or not b:
        return 0
    return 1 + longest(a[1:], b[1:]) if a[0] == b[0] else max(longest(a[1:], b), longest(a, b[1:]))


def test_rouge_by_counting():
    pytest.importorskip("rouge_score")
    draw = random.Random(0)
    for _ in range(30):
        a, b = ([draw.choice("abcde") for _ in range(draw.randint(1, 8))] for _ in range(2))
        found = score("rouge", [" ".join(a)], [[" ".join(b)]])
        assert found["rouge1"] == pytest.approx(in_common(a, b, 1))
        assert found["rouge2"] == pytest.approx(in_common(a, b, 2))
        assert found["rougeL"] == pytest.approx(200 * longest(a, b) / (len(a) + len(b)))


def test_what_cannot_be_scored_is_refused(monkeypatch):
    for written, references in (([], []), (["a"], [[]]), (["a"], [["a"], ["b"]])):
        with pytest.raises(Error, match="Every answer needs a reference"):
            score("f1", written, references)
    monkeypatch.setattr("lengthwise.errors.find_spec", lambda name: None)
    with pytest.raises(Error, match=r"ROUGE needs rouge_score.*pip install 'lengthwise\[scrolls\]'"):
        answer_scores.check_metric("rouge")
    answer_scores.check_metric("f1")


def test_a_submission_is_read_as_it_was_written_and_grows_by_tasks(tmp_path):
    path = tmp_path / "scrolls.csv"
    odd = {"1": 'He said "no",\nand left.', "2": "", "3": "NA", "4": "a\rb, é"}
    left = written_answers.write_submission(path, {"quality": odd, "qasper": {"7": "yes"}})
    assert left == ["contract_nli", "qmsum", "narrative_qa", "summ_screen_fd", "gov_report"]
    assert path.read_text().splitlines()[:2] == ["Task,ID,Prediction", "qasper,7,yes"]
    written_answers.write_submission(path, {"qmsum": {"8": "so"}, "qasper": {"7": "no"}})
    found = written_answers.read_submission(path)
    assert found == {"qasper": {"7": "no"}, "qmsum": {"8": "so"}, "quality": {**odd, "4": "a b, é"}}
    path.write_text("a,b\n1,2\n")
    with pytest.raises(Error, match="no submission to SCROLLS, whose columns are Task, ID, Prediction"):
        written_answers.write_submission(path, {"qmsum": {"8": "so"}})
