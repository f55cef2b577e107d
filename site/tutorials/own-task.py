# %% [markdown]
# # A task of your own
#
# For whoever has a task that no regular expression says.
#
# A task draws strings and knows the exact answer to each. This one asks whether a word is the same backwards:
# no finite machine knows that at every length, so it is a class rather than a regular expression.

# %% palindrome.py
import torch

from lengthwise import lab, report, tasks


class Palindrome(tasks.Task):
    """Is the string the same when it is read backwards?"""

    vocabulary, outputs = ("a", "b"), 2

    def draw(self, length, batch, generator):
        tokens = torch.randint(2, (batch, length), generator=generator)
        half = length // 2
        mirrored = torch.rand(batch, generator=generator) < 0.5
        tokens[:, length - half :] = torch.where(
            mirrored[:, None], tokens[:, :half].flip(1), tokens[:, length - half :]
        )
        return tokens

    def answer(self, tokens):
        prefixes = range(1, tokens.shape[1] + 1)
        return torch.stack([(tokens[:, :n] == tokens[:, :n].flip(1)).all(1) for n in prefixes], 1).long()

    def baseline(self, length):
        return 0.5 + 0.5 ** (length // 2 + 1)  # half are mirrored, and of the others some are so by chance


# %% [markdown]
# `check` tries what the bench relies on: shapes and types, the same strings from the same seed, an oracle that
# judges each string by itself, a baseline that is the score of the best constant answer. Nothing is said if all
# is well.

# %%
task = Palindrome()
tasks.check(task)
task

# %% [markdown]
# From here on it is a task like any other: train on short strings, test on long ones.

# %%
settings = {"training.steps": 250, "training.lr": 3e-3, "model.width": 32, "tests.samples": 64}
runs = lab.bench(task, ["lstm", "transformer"], train_length=10, test_lengths="2:40:2", settings=settings)
runs

# %% [markdown]
# Every record is a row for each test length, here as a chart. Two models learn something of the lengths they
# saw; it is the part beyond 10 that tells whether they found the rule.

# %%
curves = {}
for row in report.rows(runs):
    lengths, shares = curves.setdefault(row["model"], ([], []))
    lengths.append(row["length"])
    shares.append(row["accuracy"])
curves["a guess"] = (range(2, 41, 2), [task.baseline(length) for length in range(2, 41, 2)])
report.line_chart(
    "Palindromes", "Right answers of 64 strings at each length.", "length", "right", curves,
    percent=True, marks={"trained to": 10},
)  # fmt: skip
