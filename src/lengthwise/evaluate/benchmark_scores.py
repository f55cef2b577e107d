"""How RULER and BABILong score an answer, for lm-eval: this file is copied beside the tasks that name its functions.

    RULER      the share of the references that the answer contains, upper or lower case alike; of its question
               answering 1 if it contains any
    BABILong   1 if the first sentence of the answer names the target and no other label of the task; labels that the
               question names do not count

It imports nothing but Python's own, since lm-eval may run where this library is not installed.
"""

import re

PLACES = {"bathroom", "bedroom", "garden", "hallway", "kitchen", "office"}
YES_NO = {"yes", "no"}
LABELS = {
    **dict.fromkeys(("qa1", "qa2", "qa3", "qa4", "qa11", "qa12", "qa13"), PLACES),
    "qa5": {"bill", "fred", "jeff", "mary", "apple", "football", "milk"},
    **dict.fromkeys(("qa6", "qa9", "qa17", "qa18"), YES_NO),
    "qa7": {"none", "one", "two", "three"},
    "qa8": {"apple", "football", "milk", "nothing"},
    "qa10": {"yes", "no", "maybe"},
    "qa14": {"bedroom", "cinema", "kitchen", "office", "park", "school"},
    "qa15": {"cat", "mouse", "sheep", "wolf"},
    "qa16": {"gray", "green", "white", "yellow"},
    "qa20": {"bedroom", "bored", "garden", "hungry", "kitchen", "thirsty", "tired"},
}
"""What can be answered in each task of BABILong."""


def contained(text, answers):
    """The share of the answers that stand in the text.

    >>> contained("They are QWERT, and asdfg.", ["Asdfg", "ZXCVB"])
    0.5
    """
    written = re.sub(r"[\x00-\x1f]", "\n", text.strip()).lower()
    return sum(answer.lower() in written for answer in answers) / len(answers)


def names_only(text, target, question, labels):
    """Returns whether the first sentence names the target's labels and no others.

    >>> names_only("In the Kitchen. Or the garden.", "kitchen", "Where is Mary?", PLACES)
    True
    >>> names_only("The kitchen or the garden", "kitchen", "Where is Mary?", PLACES)
    False
    """
    first = re.split(r"\.|<context>|<example>", text.lower())[0]
    named = {label for label in labels if label in first and label not in question.lower()}
    return named == {part.strip() for part in target.lower().split(",")}


def ruler(doc, results):
    return {"found": contained(results[0], doc["outputs"])}


def ruler_any(doc, results):
    return {"found": float(contained(results[0], doc["outputs"]) > 0)}


def babilong(task):
    """The function that scores a task of BABILong."""

    def score(doc, results):
        return {"right": float(names_only(results[0], doc["target"], doc["question"], LABELS[task]))}

    return score


# lm-eval finds a function by its name in this file: babilong_qa1, babilong_qa2, …
globals().update({f"babilong_{task}": babilong(task) for task in LABELS})
