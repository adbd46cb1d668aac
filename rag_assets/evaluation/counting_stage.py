"""What the statistics read, and how the experiment wants them."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from rag_assets.engine.recipe import Input
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.experiment.experiment import Experiment
from rag_assets.statistics.resampling import Resampling
from rag_assets.store.artifacts import ArtifactKey

TableOf = Callable[[ArtifactKey], pa.Table]
"""Gives the table of a partition: of the context, or of a snapshot."""

COUNTING_INPUT = Input("counting", QUERY_FACTS_KEY, "counting")


def counting_of(table_of: TableOf) -> pa.Table:
    """Return query_id, weight, split and cluster of every query."""
    return table_of(QUERY_FACTS_KEY).select(["query_id", "weight", "split", "cluster"])


def resampling_of(experiment: Experiment) -> Resampling:
    """Return the experiment's ``statistics``: confidence, number and seed of resamples."""
    chosen = experiment.statistics
    return Resampling(chosen.confidence, chosen.resamples, chosen.seed)
