from __future__ import annotations

import json

import pyarrow as pa

from rag_assets.labels.health.findings import ERROR, WARNING, rows
from rag_assets.labels.health.unusable_labels import unmatched_filters
from rag_assets.schemas import DOCUMENTS, QUERIES

METADATA = {"a": {"year": 2024, "lang": "en"}, "b": {"year": 2023, "lang": ["cs", "de"]}}
FILTERS: dict[str, object] = {
    "sound": {"year": [2024, 2023], "lang": "de"},
    "field": {"yaer": 2024},
    "value": {"lang": ["en", "fr"]},
    "together": {"year": 2024, "lang": "cs"},
    "nothing": {},
    "no filter": "winter",
}


def found(*, used: bool) -> list[tuple[str, str | None, str]]:
    documents: list[dict[str, object]] = [
        {"document_id": name, "title": "", "text": "t", "metadata": json.dumps(fields)}
        for name, fields in METADATA.items()
    ]
    asked: list[dict[str, object]] = [
        {"query_id": n, "text": "t", "tags": [], "metadata": json.dumps({"filter": one})}
        for n, one in FILTERS.items()
    ]
    table: pa.Table = unmatched_filters(
        QUERIES.from_rows(asked), DOCUMENTS.from_rows(documents), used=used
    )
    return sorted((one.severity, one.query_id, one.message) for one in rows(table))


def test_fields_values_and_combinations_that_no_document_has() -> None:
    field = "no document has the field 'yaer' (did you mean 'year'?); allowed: lang, year"
    value, together = "no document has 'fr' under 'lang'", "no document has all that the filter"
    unused = [(severity, name) for severity, name, _ in found(used=False)]
    assert unused == [(WARNING, "field"), (WARNING, "together"), (WARNING, "value")]
    used = found(used=True)
    assert [(severity, name) for severity, name, _ in used] == [
        (ERROR, "field"),
        (ERROR, "no filter"),
        (WARNING, "together"),
        (WARNING, "value"),
    ]
    assert used[0][2] == field
    assert "'no filter' has \"winter\"" in used[1][2]
    assert used[2][2].startswith(together)
    assert used[3][2] == value
