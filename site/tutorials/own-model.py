# %% [markdown]
# # Your own model, or one of Hugging Face
#
# For whoever has a model: a module of their own, or one of Hugging Face.
#
# A model is any `nn.Module` from (batch, length) tokens to (batch, length, vocabulary) logits, in a file by which
# records know it. This one mixes tokens by a running mean, which forgets their order.

# %% running_mean.py
import torch
from torch import nn
from transformers import LlamaConfig

from lengthwise import lab, verify


class RunningMean(nn.Module):
    def __init__(self, vocab_size, width=32):
        super().__init__()
        self.read, self.write = nn.Embedding(vocab_size, width), nn.Linear(width, vocab_size)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, tokens):
        x = self.read(tokens)
        count = torch.arange(1, tokens.shape[1] + 1)
        mean = x.cumsum(1) / count[:, None]
        return self.write(mean + self.down(self.up(mean).relu()))


# %% [markdown]
# Any causal language model of Hugging Face stands beside it, here a Llama of two layers from its configuration;
# a folder or a name of the hub with weights in it would be trained on. Even pairs: are the first and the last
# symbol the same?

# %%
sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
LlamaConfig(vocab_size=4, **sizes).save_pretrained("llama")

settings = {"training.steps": 250, "training.lr": 3e-3, "tests.samples": 64}
models = [RunningMean, "hf:llama", "lstm"]
runs = lab.bench("even-pairs", models, train_length=12, test_lengths="12,24,48,96", settings=settings)
for run in runs:
    print(run.experiment.model.name, {length: lab.accuracy(run, length) for length in (12, 24, 48, 96)})

# %% [markdown]
# A score says nothing of other strings. `falsify` takes any of them and looks for one that is answered wrong:
# short ones first, then families of long ones.

# %%
for run in runs:
    wrong = verify.falsify(lab.load_model(run), lab.load_task(run), seconds=3)
    print(run.experiment.model.name, "→", wrong)

# %% [markdown]
# In a shell a class is named by its file: `lengthwise bench even-pairs -m running_mean.py:RunningMean -m hf:llama`.
# What the library can do with models of transformers (caches, generation, peft, layers of ours in theirs) is in
# [Hugging Face](hugging-face.md).
