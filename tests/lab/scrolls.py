"""A small copy of SCROLLS, of the same schema: inputs that name a colour, and questions after it."""

import json

COLOURS = ("red", "green", "blue")
FILLER = "The hall was long and the lamp was low. "
ANSWERS = {
    "qasper": lambda colour: [f"It is {colour}.", colour],
    "quality": lambda colour: [colour],
    "contract_nli": lambda colour: [{"red": "Entailment", "green": "Contradiction", "blue": "Not mentioned"}[colour]],
    "gov_report": lambda colour: [f"The door was {colour}. The hall was long."],
}


def rows(task, count, seed=0, answered=True):
    found = []
    for n in range(count):
        colour = COLOURS[(n * 7 + seed) % 3]
        text = f"What colour is the door?\n\n{FILLER * (n % 3)}The door is {colour}. {FILLER * 2}"
        for output in ANSWERS[task](colour):
            row = {"id": f"{task}-{seed}-{n}", "pid": f"{task}-{seed}-{n}-p", "input": text}
            found.append({**row, "output": output if answered else None})
    return found if answered else list({row["id"]: row for row in found}.values())


def write(folder, tasks=("qasper", "quality"), train=12, others=4):
    for task in tasks:
        (folder / task).mkdir(parents=True, exist_ok=True)
        splits = {"train": rows(task, train), "validation": rows(task, others, 1), "test": rows(task, others, 2, False)}
        for split, each in splits.items():
            (folder / task / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in each))
    return folder
