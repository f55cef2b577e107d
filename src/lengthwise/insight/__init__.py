"""Look inside a model: the clusters its outputs fall into, how far back its answers reach, which tokens its heads link.

run = lab.load("runs/parity-regular-gpt-s0-…")[0]
task = lab.load_task(run)
clusters = insight.find_clusters(lab.load_model(run), insight.probe_strings(task), task=task)
clusters.count, clusters.truth.agreement

`find_clusters` and `measure_receptive_field` work for any model: they listen to its blocks and to its embedding while
it runs. `read_attention` and `find_links` are for models whose layers are softmax or chain attention, `score_chains` is
about arithmetic with its steps written down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from .attention import Attention, Links, find_links, read_attention
    from .clusters import Clusters, find_clusters
    from .machine_truth import MachineTruth
    from .probing import probe_strings, readable_length
    from .receptive_field import ReceptiveField, measure_receptive_field
    from .written_steps import ChainScores, add_chains, count_chains, score_chains

__all__ = [
    "Attention",
    "ChainScores",
    "Clusters",
    "Links",
    "MachineTruth",
    "ReceptiveField",
    "add_chains",
    "count_chains",
    "find_clusters",
    "find_links",
    "measure_receptive_field",
    "probe_strings",
    "read_attention",
    "readable_length",
    "score_chains",
]

__getattr__, __dir__ = lazy_names(__name__)
