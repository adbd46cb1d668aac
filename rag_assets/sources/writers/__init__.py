"""Writers: from documents, queries and qrels to the formats of other tools.

One module a format; a new one is added to :data:`WRITERS`.
"""

from __future__ import annotations

from rag_assets.sources.writers.registry import WRITERS, write_dataset
from rag_assets.sources.writers.tables import Tables

__all__ = ["WRITERS", "Tables", "write_dataset"]
