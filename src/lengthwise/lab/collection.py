"""The zoo: small trained networks to pick up, each with a proof at every length or the string that breaks it.

    zoo()                          their names
    model, task = zoo("parity-rnn")

A network is a folder, as transformers saves it, with `network.json` (where it comes from, and its verdict), a card
`README.md`, and the certificate of its proof. Of a language model nothing is right or wrong at every length: it has its
curve of training, and how its loss stands at lengths beyond the trained one. The zoo lies in the wheel, or beside `src`
in a checkout; LENGTHWISE_ZOO names another folder.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from ..errors import Error, UnknownName
from ..files import read_json, whole_folder, write_text

if TYPE_CHECKING:
    from torch import nn

    from .records import Run

FILE, CARD, CERTIFICATE = "network.json", "README.md", "certificate.json"
FORMAT = 1
LANGUAGE_MODEL = "language model"
"""In the place of a verdict, which there is none of."""
TAUGHT = {"settled": "the machine that was extracted from it", "consolidated": "the algebra of the task's machine"}
PACKAGE = Path(__file__).parents[1]
PLACES = (PACKAGE / "networks", PACKAGE.parents[1] / "zoo")


def zoo_folder() -> Path:
    """Returns where the networks lie."""
    places = [Path(os.environ["LENGTHWISE_ZOO"])] if "LENGTHWISE_ZOO" in os.environ else PLACES
    for place in places:
        if place.is_dir():
            return place
    raise Error(f"There is no zoo in {' or '.join(map(str, places))}. Name its folder by LENGTHWISE_ZOO.")


def networks() -> dict[str, dict[str, Any]]:
    """Returns what `network.json` says of every network, by name."""
    return {file.parent.name: read_json(file) for file in sorted(zoo_folder().glob(f"*/{FILE}"))}


def network_folder(name: str) -> Path:
    if name not in (known := networks()):
        raise UnknownName("network of the zoo", name, known)
    return zoo_folder() / name


@overload
def zoo() -> list[str]: ...
@overload
def zoo(name: str) -> tuple[nn.Module, Any]: ...
def zoo(name: str | None = None) -> list[str] | tuple[nn.Module, Any]:
    """A network of the zoo, in eval mode, with its `Task`, or of a language model its tokenizer; without a name: all.

    >>> model, task = zoo("parity-rnn")
    >>> model(task.test_set(1000, 2).tokens).argmax(-1).shape
    torch.Size([2, 1000])
    """
    if name is None:
        return list(networks())
    from .. import tasks
    from ..models import pretrained
    from ..text import tokenizers

    folder, about = network_folder(name), networks()[name]
    model = pretrained.as_classifier(pretrained.find(str(folder)).model(), name).eval()
    if about["verdict"] == LANGUAGE_MODEL:
        return model, tokenizers.load(folder)
    return model, tasks.get(about["task"]["name"], **about["task"]["params"])


def copy_out(name: str, out: Path) -> Path:
    """Copies a network into a new folder."""
    if out.exists():
        raise Error(f"{out}: it is there already. Name a new folder.")
    with whole_folder(out) as folder:
        shutil.copytree(network_folder(name), folder, dirs_exist_ok=True)
    return out


def write_network(run: Run, out: Path, verdict: Mapping[str, Any] | None, name: str = "") -> Path:
    """Writes the network of a run of a task into a new folder, with its card. `verdict`: `Verdict.to_json()`."""
    from ..models.pretrained import quiet
    from .loading import load_model
    from .statistics import accuracy

    e = run.experiment
    if e.on_text:
        raise Error(f"{run.path}: it was trained on text. Give a run on strings of a task.")
    model: Any = load_model(run)
    told = dict(verdict or {"verdict": "unknown", "why": "nothing was decided"})
    certificate = told.pop("certificate", None)
    about = {
        "format": FORMAT,
        "task": {"name": e.task.name, "params": e.task.params},
        "model": {"name": e.model.name, "options": e.model.options},
        "made": "learned" if certificate is None else certificate["made"],
        "training": {"seed": e.seed, "steps": run.result["checkpoints"]["last"]["step"], **_training(e)},
        "command": run.result.get("command", ""),
        "accuracy": {str(length): round(accuracy(run, length), 4) for length in e.tests.lengths},
        **told,
    }
    with quiet(), whole_folder(out) as folder:
        model.inner.save_pretrained(folder)
        write_text(folder / FILE, json.dumps(about, indent=1) + "\n")
        if certificate is not None:
            write_text(folder / CERTIFICATE, json.dumps(certificate) + "\n")
        write_text(folder / CARD, card(name or out.name, about))
    return out


def _training(experiment: Any) -> dict[str, Any]:
    how = experiment.training
    return {"lengths": list(how.curriculum.lengths), "steady": how.steady.kind == "on", "spans": how.spans}


def card(name: str, about: Mapping[str, Any]) -> str:
    """The card of a network of a task, as a hub shows it."""
    return f"""---
library_name: transformers
license: apache-2.0
tags: [lengthwise, {about["model"]["name"]}, length-generalization]
---

# {name}

{sentence(about)}

{_origin(about)}

```python
from lengthwise import lab
model, task = lab.zoo("{name}")             # from the zoo, or:
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("{name}", trust_remote_code=True)
```

{_check(name, about)}

Made by `{about["command"]}`; `network.json` says the rest.
"""


def _origin(about: Mapping[str, Any]) -> str:
    """Returns how the weights came about."""
    model, task, training = about["model"]["name"], about["task"]["name"], about["training"]
    if about["made"] == "compiled":
        return f"The model is `{model}`, taught the algebra of the machine of `{task}` alone: it has read no string."
    how = f"{training['steps']:,} steps, seed {training['seed']}{', steady' * training['steady']}"
    answers = "on their answers" + " and those of every span" * training.get("spans", False)
    trained = f"The model is `{model}`, trained on strings of `{task}` of at most {training['lengths'][1]} symbols\n"
    if about["made"] in TAUGHT:
        return f"{trained}and {answers} ({how}). Then it was taught {TAUGHT[about['made']]}."
    return f"{trained}and {answers}, and on nothing else ({how}). This is the last checkpoint."


def sentence(about: Mapping[str, Any]) -> str:
    """Returns what is known of a network, in one sentence."""
    if about["verdict"] == "proved":
        return f"**Proved** right on every string of every length, as it was {about['made']}."
    if about["verdict"] == "refuted":
        answer = f"It says {about['said']} after it, and {about['right']} is right."
        return f"**Refuted**: wrong on a string of {len(about['word']):,} symbols. {answer}"
    if about["verdict"] == LANGUAGE_MODEL:
        where, read = about["reliably_worse_at"], about["read"]
        far = (
            f"Up to the {read['window']:,} that were read it is nowhere"
            if where is None
            else f"From {where:,} on it is"
        )
        return (
            f"**Language model**, trained in windows of {about['training']['window']:,} tokens. {far} reliably worse, "
            "by its loss, than behind so many."
        )
    return f"**Unknown** whether it is right at every length: {about['why']}."


def _check(name: str, about: Mapping[str, Any]) -> str:
    if about["verdict"] == "proved":
        return f"Check the proof: `lengthwise certify --check {name}/{CERTIFICATE} --model {name}`"
    if about["verdict"] == "refuted":
        word = " ".join(map(str, about["word"][:200])) + (" …" if len(about["word"]) > 200 else "")
        return f"The string that breaks it, in tokens: `{word}`"
    return f"Look for yourself: `lengthwise certify {name}`"
