"""``query_sets[query_set]``: what is really searched for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.stage import Input, Stage, TableProduct
from rag_assets.pipeline.stages.sources import QUERIES_KEY
from rag_assets.query_sets import original
from rag_assets.retrievers.base import ORIGINAL
from rag_assets.schemas import QUERY_VARIANTS
from rag_assets.store.artifacts import ArtifactKey

if TYPE_CHECKING:
    from rag_assets.pipeline.pipeline import Pipeline


class QuerySets(Stage):
    """One partition a query set; ``original`` always exists."""

    name = "query_sets"
    dimensions: ClassVar[tuple[str, ...]] = ("query_set",)
    schema = QUERY_VARIANTS
    row = "One variant of one query; variant 0 is the query as it was asked."
    group = "queries"
    code_version = "1"
    implementation: ClassVar[tuple[str, ...]] = ("rag_assets.query_sets",)
    projections: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [query_set_key(ORIGINAL)]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [Input("queries", QUERIES_KEY, "text")]

    def compute(
        self, pipeline: Pipeline, keys: Sequence[ArtifactKey]
    ) -> Iterator[tuple[ArtifactKey, TableProduct]]:
        for key in keys:
            yield key, TableProduct(original.variants(pipeline.artifact(QUERIES_KEY).table()))


def query_set_key(query_set: str) -> ArtifactKey:
    """Return the partition of one query set."""
    return ArtifactKey.of("query_sets", query_set=query_set)
