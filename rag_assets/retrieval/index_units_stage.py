"""Which document and parent each chunk of an index belongs to, kept inside the index's folder.

So a search needs the index and nothing else, and what a run depends on is what Dagster shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rag_assets.store.parquet_files import read_parquet

UNITS_FILE = "units.parquet"


def save_units(folder: Path, chunks: pa.Table) -> None:
    """Write the ids of all chunks, their documents and parents, in the order of the chunks' ids."""
    units = chunks.select(["chunk_id", "document_id", "parent_chunk_id"]).sort_by("chunk_id")
    pq.write_table(units, folder / UNITS_FILE, compression="zstd", write_statistics=False)


def load_units(folder: Path, chunk_ids: Sequence[str]) -> pa.Table:
    """Return the ids of these chunks, of their documents and parents, in the same order."""
    units = read_parquet(folder / UNITS_FILE)
    wanted = pa.array(chunk_ids, pa.string())
    rows = pc.index_in(wanted, units.column("chunk_id").combine_chunks())
    return units.take(rows)
