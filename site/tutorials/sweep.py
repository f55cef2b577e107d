# %% [markdown]
# # A sweep on a cluster
#
# For whoever has many runs, and more than one machine.
#
# Runs are experiments with a hash, and records are directories that one process holds at a time. So the
# simplest cluster is the same call on every machine, with one directory that all of them see: they share the
# work, and each ends with all runs. Here two processes stand for two machines.

# %%
import subprocess
import sys

from lengthwise import lab, report

call = [sys.executable, "-m", "lengthwise", "bench", "even-pairs", "-m", "rnn", "-m", "gru", "--out", "runs"]
call += ["--sweep", "training.lr=1e-2,3e-4", "--train-length", "10", "--test-lengths", "20,40,80", "--launch", "here"]
call += ["--set", "training.steps=150", "--set", "model.width=16", "--set", "tests.samples=64"]
machines = [subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(2)]
print("exit codes:", [machine.wait() for machine in machines])

# %% [markdown]
# Four experiments, each done once. A process that is killed loses nothing: the same call goes on from its last
# checkpoint.

# %%
runs = lab.load("runs")
print(report.table(runs))

# %% [markdown]
# Which learning rate stands for a model is chosen by validation strings alone, never by the tests that are
# shown.

# %%
for choice in lab.choose(runs, ["training.lr"]):
    print(choice.experiment.model.name, choice.chosen.values, *choice.edges)

# %% [markdown]
# On a real cluster the call says where runs go, and the records and the page stay the same:
#
# ```sh
# lengthwise bench … --launch 'slurm partition=gpu' --gpus-per-run 0.25
# lengthwise bench … --launch 'ray address=HOST:6379' --cpus-per-run 2
# lengthwise bench … --launch 'slurm cluster=local'      # try here what would be sent
# ```
#
# [Past one machine](clusters.md) has the rest: nodes that die, time limits, what a run takes. One run on several
# GPUs is [another page](several-devices.md), and so is [Optuna's search](searching.md).
