"""The checker accepts what the paper prints, and says what is wrong with anything else."""

import pytest

from lengthwise.errors import Error
from lengthwise.tasks.boxes import dependency_depth, layers_needed, read, solve

from .boxes_rules import check

DEFAULT = (
    "The radio is in Box D, the bone and the clock and the television are in Box C, the bill and the computer and the "
    "tea are in Box B, there is nothing in Box E, the ice and the plant are in Box A, the game is in Box G, there is "
    "nothing in Box F. Move the computer and the tea from Box B to Box E. Put the milk into Box A. Put the cake into "
    "Box B. Remove the computer from Box E. Move the bone and the television from Box C to Box E. Remove the radio "
    "from Box D. Remove the bill from Box B. Remove the cake from Box B. Move the contents of Box E to Box F. Put the "
    "drug and the map into Box D. Move the contents of Box G to Box D. Move the tea from Box F to Box C. Move the tea "
    "from Box C to Box B. Move the ice from Box A to Box G. Remove the tea from Box B. Move the map from Box D to Box "
    "A. Move the drug from Box D to Box E. Move the contents of Box G to Box D. Move the contents of Box E to Box D. "
    "Remove the game and the ice from Box D. Put the cake into Box G. Put the disk into Box F. Remove the clock from "
    "Box C. Remove the drug from Box D. Remove the bone from Box F. Put the bell into Box E. Put the stone into Box F. "
    "Move the contents of Box G to Box C. Move the stone and the television from Box F to Box B. Put the magazine into "
    "Box G. Remove the disk from Box F. Remove the television from Box B.",
    "Box A contains the map and the milk and the plant, Box B contains the stone, Box C contains the cake, Box D is "
    "empty, Box E contains the bell, Box F is empty, Box G contains the magazine.",
)
ADVANCED = (
    "The television is in Box A, the cigarette is in Box B, the machine is in Box C, the cream is in Box H. Move the "
    "contents of Box B to Box F. Move the contents of Box F to Box E. Put the sheet into Box C. Remove the sheet from "
    "Box C. Put the coat into Box A. Remove the coat from Box A. Move the contents of Box H to Box F. Move the "
    "contents of Box E to Box G. Move the contents of Box G to Box E. Move the contents of Box A to Box D. Move the "
    "contents of Box D to Box G. Move the contents of Box C to Box D. Move the contents of Box G to Box C.",
    "Box C contains the television, Box D contains the machine, Box E contains the cigarette, Box F contains the "
    "cream.",
)
ORIGINAL = (
    "The tea is in Box B, there is nothing in Box A. Put the map into Box B. Move the map and the tea from Box B to "
    "Box A. Box A contains",
    "the map and the tea.",
)
SAMPLES = {"default": DEFAULT, "advanced": ADVANCED, "original": ORIGINAL}

CORRUPTED = [
    # sample, prompt or answer, what stands there, what shall, what the message says
    ("default", 1, "the map and the milk", "the milk and the map", "the answer must be"),
    ("default", 1, "Box B contains the stone", "Box B is empty", "the answer must be"),
    ("default", 1, "Box E contains the bell, ", "", "the answer must be"),
    ("default", 0, "Remove the cake from Box B", "Remove the map from Box B", r"map is not in Box B\. \(operation 8\)"),
    ("default", 0, "Put the bell into", "Put the stone and the bell into", "sorted"),
    ("default", 0, "Put the bell into", "Put the game and the milk into", "milk is in Box A"),
    ("default", 0, "contents of Box E to Box F", "contents of Box D to Box F", "Box D is empty"),
    ("default", 0, "the contents of Box E to Box F", "the bone and the tea and the television from Box E to Box F",
     "says 'the contents of'"),
    ("default", 0, "into Box E", "into Box J", "known box .* got Box J"),
    ("default", 0, "from Box C to Box E", "from Box C to Box C", "another box"),
    ("default", 0, "the ice and the plant are", "the ice and the plant is", "'the ice and the plant is in Box A'"),
    ("default", 0, "The radio", "the radio", "with a capital"),
    ("default", 0, "the bone and", "The bone and", "The bone"),
    ("default", 0, "the game is in Box G", "the ice is in Box G", "the ice is in Box A and Box G"),
    ("default", 0, "in Box G", "in Box H", "go from A to G"),
    ("default", 0, "in Box G", "in Box A", "described once"),
    ("default", 0, "The radio is", "The card and the chain and the lamp and the radio are", "at most 3"),
    ("default", 0, "Put the milk into", "Throw the milk into", "operation 2 must be"),
    ("default", 0, "Box B.", "Box B", "operation"),
    ("default", 0, "the television from Box B.", "the television from Box B", "end with a full stop"),
    ("advanced", 1, "Box F contains the cream", "Box F is empty", "the answer must be"),
    ("advanced", 0, "Box B to Box F", "Box B to Box C", "into an empty box, got Box C with the machine"),
    ("advanced", 0, "the contents of Box B to", "the cigarette from Box B to", "always says"),
    ("advanced", 0, "Put the sheet into Box C", "Put the sheet into Box B", "into occupied boxes, got the empty Box B"),
    ("advanced", 0, "Remove the coat from", "Remove the coat and the television from", "never empties"),
    ("advanced", 0, "the cream is in Box H", "there is nothing in Box H", "go from A to D"),
    ("advanced", 0, "the cream is in Box H", "the cream is in Box K", "go from A to H"),
    ("original", 1, "the map and the tea.", "nothing.", "the answer must be"),
    ("original", 0, "the map and the tea from", "the contents of", "never says"),
    ("original", 0, " Box A contains", " Box C contains", "question must name a known box"),
]  # fmt: skip


@pytest.mark.parametrize("form", list(SAMPLES))
def test_samples_are_accepted_and_their_form_is_found(form):
    assert check(*SAMPLES[form]).form == form
    assert check(*SAMPLES[form], form=form).operations


def test_the_papers_samples_have_the_operations_it_says():
    assert len(read(DEFAULT[0]).operations) == 32
    assert len(read(ADVANCED[0]).operations) in range(1, 32)
    assert [dependency_depth(prompt) for prompt, _ in (DEFAULT, ADVANCED)] == [10, 5]
    assert [layers_needed(depth) for depth in (10, 5)] == [4, 3]


@pytest.mark.parametrize(("form", "part", "old", "new", "message"), CORRUPTED)
def test_a_corrupted_copy_is_refused_and_told_why(form, part, old, new, message):
    texts = list(SAMPLES[form])
    assert old in texts[part]
    texts[part] = texts[part].replace(old, new, 1)
    with pytest.raises(Error, match=message):
        check(*texts)


@pytest.mark.parametrize("form", list(SAMPLES))
def test_solving_a_prompt_gives_its_answer(form):
    prompt, answer = SAMPLES[form]
    assert solve(prompt).answer() == answer


def test_more_boxes_than_half_the_alphabet_cannot_be_half_of_all():
    boxes = "ABCDEFGHIJKLMNOP"
    items = ["tea", "map", "cup", "cake", "bell", "milk", "coat", "disk", "drum", "egg", "fan", "file", "flag", "fork",
             "game", "gift"]  # fmt: skip
    clauses = [f"the {item} is in Box {box}" for item, box in zip(items, boxes, strict=True)]
    prompt = "T" + ", ".join(clauses)[1:] + ". Move the contents of Box A to Box Z."
    with pytest.raises(Error, match="the answer must be 'Box B"):
        check(prompt, "Box Z contains the tea.", "advanced")


def test_a_box_is_described_once():
    twice = "The tea is in Box A, the cup is in Box A. Move the contents of Box A to Box B."
    with pytest.raises(Error, match="described once, but Box A is twice"):
        solve(twice)


def test_a_form_that_is_none_is_refused():
    with pytest.raises(Error, match="Did you mean 'default'"):
        check(*DEFAULT, form="defult")
