# %% [markdown]
# # A language model beyond its length
#
# For whoever trains a language model on short texts and will have it read long ones.
#
# Two small Transformers that differ in how they know where a token is, trained on texts of 16 tokens and tested
# on texts of up to 256. The corpus is the source of one module of Python; any files, folders or `hf:NAME` will
# do.

# %%
import argparse

from lengthwise import lab, report

experiments = lab.plan_language_models(
    argparse.__file__,
    ["transformer position=rope", "transformer position=alibi"],
    train_length=16,
    test_lengths="16,32,64,128,256",
    vocabulary=300,
    settings={
        "training.steps": 300,
        "training.lr": 3e-3,
        "training.batch": 16,
        "model.width": 32,
        "model.layers": 2,
        "model.heads": 4,
        "text.held_out": 0.3,
    },
)
runs = [outcome.run for outcome in lab.run(experiments, "runs", workers=1)]
print(report.table(runs))

# %% [markdown]
# Rows have all numbers. Less is better: a model that only stands the longer text is as good at 256 as at 16,
# and one that uses it is better.

# %%
curves = {}
for row in report.rows(runs):
    lengths, values = curves.setdefault(row["model.position"], ([], []))
    lengths.append(row["length"])
    values.append(row["perplexity"])
title, caption = "Perplexity of held-out code", "Windows of each length, one behind the other in the same text."
report.line_chart(title, caption, "tokens", "perplexity", curves, log_x=True, marks={"trained to": 16})

# %% [markdown]
# Up to which length is it usable? Every token is read behind its whole window and behind the trained length
# alone, and the longer context must not make it reliably worse (more than 1.1 times the perplexity).

# %%
cliffs = [lab.measure_cliff(run.path, up_to=256, windows=8, needles=0) for run in runs]
for cliff in cliffs:
    print(cliff.name, "is usable up to", cliff.usable, "tokens")
report.cliff(cliffs)[0]

# %% [markdown]
# The same in a shell, of any checkpoint of Hugging Face: `lengthwise cliff ./my-llama --corpus book.txt`. What
# can be done about a short reach (YaRN, BiPE, training further) is in [language models](language-models.md).
