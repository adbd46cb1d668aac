"""What a file of TREC topics gives, in whatever form it is written."""

from __future__ import annotations

from typing import NamedTuple

from rag_assets.sources.fields import Place


class Topic(NamedTuple):
    """One query: its place, id and text, and its other fields as canonical JSON."""

    place: Place
    query_id: str
    text: str
    metadata: str
