"""Documents that hold the same text."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa

from rag_assets.labels.health.findings import WARNING, Finding, findings_table
from rag_assets.sources.fields import shown

SAME = "duplicate_document"


def same_texts(documents: pa.Table) -> list[list[str]]:
    """Return the groups of documents with the same text but for white space, titles apart.

    Args:
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`; blank texts are passed over.
    """
    groups: dict[int, dict[str, list[str]]] = defaultdict(dict)
    ids, texts = documents.column("document_id"), documents.column("text")
    # Hashes first: the texts of a large corpus are held one at a time, unless hashes agree.
    hashes = [hash(" ".join(text.as_py().split())) for text in texts]
    blank = hash("")
    counted: dict[int, int] = defaultdict(int)
    for found in hashes:
        counted[found] += 1
    for row, found in enumerate(hashes):
        if counted[found] > 1 and found != blank:
            text = " ".join(texts[row].as_py().split())
            groups[found].setdefault(text, []).append(ids[row].as_py())
    return [members for group in groups.values() for members in group.values() if len(members) > 1]


def duplicate_documents(documents: pa.Table) -> pa.Table:
    """Return a warning for each document whose text an earlier one has.

    Args:
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
    """
    return findings_table(
        Finding(WARNING, SAME, f"has the same text as {shown(first)}", document_id=other)
        for first, *others in same_texts(documents)
        for other in others
    )
