"""Which prompts are read together, which not again, and where an answer ends."""

import pytest
import torch

from lengthwise import Error
from lengthwise.evaluate.written_answers import write_texts


class Copies(torch.nn.Module):
    """A model that writes the first token of each prompt, and remembers how it was asked."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.asked = []

    def generate(self, input_ids, **options):
        self.asked.append((list(input_ids.shape), options))
        return torch.cat([input_ids, input_ids[:, :1]], 1)


class Letters:
    eos_token_id = 3

    def batch_decode(self, rows, skip_special_tokens):
        return [f" {'abcdefgh'[int(row[0])]}\n" for row in rows]


PROMPTS = {
    "1": torch.tensor([1, 2]),
    "2": torch.tensor([2, 2, 2]),
    "3": torch.tensor([4, 2]),
    "4": torch.tensor([5, 5]),
}


def test_prompts_of_one_length_are_read_together_the_longest_first():
    model, told = Copies(), []
    found = write_texts(model, Letters(), PROMPTS, 4, tokens_at_once=12, after=lambda found: told.append(len(found)))
    assert found == {"1": "b", "2": "c", "3": "e", "4": "f"}
    assert list(found) == list(PROMPTS)
    assert [shape for shape, _ in model.asked] == [[1, 3], [2, 2], [1, 2]]
    assert told == [1, 3, 4]
    assert {(options["eos_token_id"], options["max_new_tokens"]) for _, options in model.asked} == {(3, 4)}


def test_what_is_known_is_not_asked_again():
    model = Copies()
    found = write_texts(model, Letters(), PROMPTS, 4, known={"1": "x", "2": "y"})
    assert found == {"1": "x", "2": "y", "3": "e", "4": "f"}
    assert [shape for shape, _ in model.asked] == [[2, 2]]


def test_a_model_that_cannot_write_is_refused():
    with pytest.raises(Error, match=r"Linear cannot write: it has no generate\(\)"):
        write_texts(torch.nn.Linear(1, 1), Letters(), PROMPTS, 4)
