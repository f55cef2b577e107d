# %% [markdown]
# # From learned to proved
#
# For whoever wants to train a network that can be proved as it was learned.
#
# An RNN trained as usual may be right on every test string and still add up small errors; then no proof closes.
# What a proof needs is that errors fade, and training can ask for that with strings and answers alone:
# `training.steady` adds noise to the state after every token, and a penalty on how much of an error a step
# keeps.

# %%
import json
from pathlib import Path

from lengthwise import lab, report, verify

settings = {
    "task.supervision": "prefix",
    "model.width": 32,
    "training.batch": 64,
    "training.steady": "on",
    "training.varied": 0.5,
    "training.optimizer": "adamw",
    "training.lr": 3e-3,
    "training.steps": 600,
    "tests.samples": 32,
}
(run,) = lab.bench("parity", ["rnn"], train_length=20, test_lengths="500", settings=settings)
print(f"{lab.accuracy(run, 500):.0%} of the strings of 500 bits are right")

# %% [markdown]
# Training saw no machine and no state of one. Did the network find one? `extract` reads it off, without labels,
# and compares it with parity's at every length.

# %%
found = verify.extract(run)
print("equal at every length:", found.equal)
report.extracted(found, "this RNN")

# %% [markdown]
# The machine is what the network does on the words that were looked at. The proof is about the network itself,
# in float32, on every word: the state stays in boxes, each of which belongs to a state of the machine.

# %%
verdict = verify.certify(run, budget=60)
Path("proof.json").write_text(json.dumps(verdict.certificate))
print(verdict)
print(len(verdict.certificate["proof"]["sets"]), "boxes, the least margin is", round(verdict.certificate["margin"], 2))

# %% [markdown]
# Nobody has to believe the prover. The checker imports nothing of it, and needs numpy alone: `lengthwise
# certify --check proof.json --model RUN`, or `--theorem coq` for a theorem that Coq's kernel accepts. Where a
# network is right and not proved, a copy can be taught its own machine (*settled*) or its task's
# (*consolidated*): [which rung](certify.md#which-rung).
