# %% [markdown]
# # Certify, and read a refutation
#
# For whoever wants to know whether a network is right at every length, and if not, why.
#
# This LSTM of the zoo learned parity from strings of at most 40 bits, and is right on every test string, of up
# to 4,000 bits. Is it right at every length?

# %%
import torch

from lengthwise import lab, report, verify

model, task = lab.zoo("parity-lstm-refuted")
verdict = verify.certify(model, task, budget=60)
verdict

# %% [markdown]
# A refutation is one string: anybody can read it again. The search makes it shorter while it stays wrong.

# %%
word = torch.tensor([verdict.word])
print(len(verdict.word), "symbols, ones:", int(word.sum()))
print("it says", int(model(word)[0, -1].argmax()), "and right is", int(task.answer(word)[0, -1]))

# %% [markdown]
# Why? After a one only zeros come, which change nothing about parity. But every zero moves the state a little,
# and its margin (the right logit minus the other) fades until the LSTM has forgotten the one.

# %%
network, _ = lab.zoo("parity-rnn")
zeros = torch.zeros(1, 80, dtype=torch.long)
zeros[0, 0] = 1
margins = {}
for name, each in {"LSTM, refuted": model, "RNN, proved": network}.items():
    with torch.no_grad():
        logits = each(zeros)[0]
    margins[name] = (range(80), (logits[:, 1] - logits[:, 0]).tolist())
report.line_chart("A one, and zeros", "Below 0 the answer is wrong.", "zeros", "margin", margins)

# %% [markdown]
# The RNN was trained so that errors fade, from strings and answers alone. Its margin does not. That the picture
# goes on like this for ever is what a certificate proves: boxes that no symbol leads out of, checked with
# outward rounding.

# %%
proof = verify.certify(network, task, budget=60, made="learned")
print(proof)
print(proof.certificate["words"])

# %% [markdown]
# `verify.falsify(model, task, seconds=30)` is the search alone, for any module. The third verdict is `Unknown`,
# and says what was missing. What a proof assumes is [one page](proofs.md); [certify](certify.md) says how to
# get one.
