"""``type: lancedb``: IVF-PQ, the index that LanceDB makes by default.

Vectors are put into ``partitions`` by k-means, and a query is compared with those of the ``probes``
nearest ones. A vector is kept as ``sub_vectors`` numbers of ``bits`` bits each (Jegou, Douze and
Schmid, Product Quantization for Nearest Neighbor Search, 2011), and scored by these, unless
``refine`` candidates are scored anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from rag_assets.errors import UsageError
from rag_assets.models.unit_vectors import Vectors
from rag_assets.ordering import Positions
from rag_assets.retrieval.dense.engine_search import Found, Scores, Similarity
from rag_assets.retrieval.dense.vector_engine import DatabaseRetriever

DISTANCES: Mapping[Similarity, str] = {"cosine": "cosine", "dot": "dot", "euclidean": "l2"}
"""What LanceDB calls them."""

TABLE = "chunks"


class LanceDb(DatabaseRetriever):
    """Embedding retrieval by LanceDB in this process, the package ``lancedb``.

    The index is IVF-PQ. Fewer than ``2 ** bits`` chunks, from which nothing can be learned, are
    searched exactly. LanceDB takes fewer ``partitions`` where there are too few chunks for them.
    ``refine`` is how many of the best by compressed vectors are scored by whole ones: then no query
    has more results. It is LanceDB's ``refine_factor`` times ``limit``.
    """

    search_kind: ClassVar[str | None] = "lancedb"
    search_options: ClassVar[frozenset[str]] = frozenset({"probes", "refine"})
    package: ClassVar[str] = "lancedb"
    module: ClassVar[str] = "lancedb"

    type: Literal["lancedb"]
    partitions: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] | None = None
    sub_vectors: Annotated[int, Field(ge=1, le=100_000, strict=True)] | None = None
    bits: Literal[4, 8] = 8
    probes: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] = 20
    refine: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] | None = None

    def most_results(self) -> tuple[str, int] | None:
        """Return ``refine``, where it is given."""
        return None if self.refine is None else ("refine", self.refine)

    def create(self, positions: Positions, vectors: Vectors, folder: Path) -> Mapping[str, Any]:
        """Write a table and its index.

        Raises:
            UsageError: ``sub_vectors`` does not divide the dimension, or there is no LanceDB.
        """
        count, dimension = vectors.shape
        if self.sub_vectors is not None and dimension % self.sub_vectors:
            problem = f"does not divide {dimension}, the dimension of the model's vectors"
            raise UsageError(f"type lancedb: sub_vectors {self.sub_vectors} {problem}")
        values = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
        lists = pa.FixedSizeListArray.from_arrays(values, dimension)
        library = self.library()
        table = library.connect(str(folder)).create_table(
            TABLE, pa.table({"position": pa.array(positions), "vector": lists})
        )
        trained = count >= 2**self.bits
        if trained:
            config = library.index.IvfPq(
                distance_type=DISTANCES[self.similarity],
                num_partitions=self.partitions,
                num_sub_vectors=self.sub_vectors,
                num_bits=self.bits,
            )
            table.create_index("vector", config=config)
        return {"index": "ivf_pq" if trained else "none"}

    def connect(self, folder: Path) -> tuple[LanceTable, Callable[[], object]]:
        """Open the table."""
        table = self.library().connect(str(folder)).open_table(TABLE)
        exact = not table.list_indices()
        opened = LanceTable(table, self.similarity, self.probes, self.refine, exact)
        return opened, lambda: None


@dataclass(frozen=True)
class LanceTable:
    """A table of LanceDB.

    Attributes:
        table: theirs.
        similarity: what it is searched by.
        probes: partitions that are looked at.
        candidates: how many are found by compressed vectors, to be scored anew.
        exact: whether it has no index.
    """

    table: Any
    similarity: Similarity
    probes: int
    candidates: int | None
    exact: bool

    @property
    def count(self) -> int:
        """How many vectors there are."""
        return int(self.table.count_rows())

    @property
    def rescored(self) -> bool:
        """Whether scores are those of whole vectors."""
        return self.exact or self.candidates is not None

    def nearest(self, queries: Vectors, limit: int) -> Sequence[Found]:
        """Return what LanceDB finds for each query."""
        asked = self.table.search(list(queries), vector_column_name="vector")
        asked = asked.distance_type(DISTANCES[self.similarity]).nprobes(self.probes).limit(limit)
        found = asked.select(["position", "_distance"]).to_arrow()
        # One query has no number.
        if len(queries) == 1:
            return [self._of(found)]
        numbers = found.column("query_index").to_numpy()
        return [self._of(found.filter(pa.array(numbers == row))) for row in range(len(queries))]

    def _of(self, rows: pa.Table) -> Found:
        distances = rows.column("_distance").to_numpy().astype(np.float64)
        positions = rows.column("position").to_numpy().astype(np.int64)
        return Found(positions, _scores(distances, self.similarity))


def _scores(distances: Scores, similarity: Similarity) -> Scores:
    """Return scores; ``l2`` is the square of the distance, the others 1 less the similarity."""
    if similarity == "euclidean":
        squares: Scores = -np.sqrt(np.maximum(distances, 0.0))
        return squares
    return 1.0 - distances
