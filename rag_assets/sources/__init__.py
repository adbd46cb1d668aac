"""Datasets: documents, queries and qrels, read from the formats that people have them in.

:func:`open_dataset` recognises the format; every :class:`Dataset` reads the same three tables.
One module a format; a new one is added to :data:`FORMATS`. Whatever cannot be read or breaks its
format raises DataError, which names the file, the line and the key.
"""

from __future__ import annotations

from rag_assets.sources.dataset import Dataset, Read
from rag_assets.sources.formats import FORMATS, open_dataset

__all__ = ["FORMATS", "Dataset", "Read", "open_dataset"]
