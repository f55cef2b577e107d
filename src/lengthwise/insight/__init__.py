"""Look inside a model: the clusters its outputs fall into, how far back its answers reach, which tokens its heads link.

run = lab.load("runs/parity-regular-gpt-s0-…")[0]
task = tasks.get(run.experiment.task.name, **run.experiment.task.params)
found = insight.clusters(lab.load_model(run), insight.strings(task), task=task)
found.count, found.truth.agreement

Both work for any model: they listen to its blocks and to its embedding while it runs. `attention` is for models whose
layers are softmax or chain attention.
"""

from .answers import Answers, answered, answers
from .attention import Attention, attention
from .clusters import Clusters, clusters
from .field import ReceptiveField, receptive_field
from .links import Links, links
from .strings import readable, strings
from .truth import Truth

__all__ = [
    "Answers",
    "Attention",
    "Clusters",
    "Links",
    "ReceptiveField",
    "Truth",
    "answered",
    "answers",
    "attention",
    "clusters",
    "links",
    "readable",
    "receptive_field",
    "strings",
]
