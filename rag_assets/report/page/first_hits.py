"""Without labels: some questions with the first passages that each retriever returned."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from markupsafe import Markup

from rag_assets.evaluation.units import unit_spans
from rag_assets.report.page.explorer import Unit
from rag_assets.report.question_hits import EXCERPT, Excerpt, excerpt, marks
from rag_assets.report.view import Context, View
from rag_assets.retrieval.lexical.analyzers import AUTO, resolve_analyzer
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey

SHOWN, FIRST = 30, 3
"""Questions, the first of the file, and passages of each retriever."""


class Passage(NamedTuple):
    """A passage, and the rank that each retriever gives it among its first ones."""

    document_id: str
    title: str
    place: str
    text: Markup
    ranks: list[int | None]


def first_hits(view: View) -> Context | None:
    """Return the questions; None where there are labels, which tell more, or nothing was found."""
    result = view.result
    runs = [key for key in _runs(view) if key["top_k"] == _cutoff(view)]
    path = result.path(DOCUMENTS_KEY)
    if result.has_metrics or not runs or path is None:
        return None
    queries = result.table(QUERIES_KEY)
    asked = queries.slice(0, SHOWN)
    tables = {key["retriever"]: _first(result.table(key), asked["query_id"]) for key in runs}
    units = _units(view, tables.values(), path)
    documents = result.documents(unit.document_id for unit in units.values())
    texts = {
        name: documents[unit.document_id][1][unit.start : unit.end] for name, unit in units.items()
    }
    analyzer = resolve_analyzer(AUTO, list(texts.values()))
    rows = []
    for query_id, text in zip(
        asked["query_id"].to_pylist(), asked["text"].to_pylist(), strict=True
    ):
        ranks: dict[str, list[int | None]] = {}
        for number, table in enumerate(tables.values()):
            for row in table.filter(pc.field("query_id") == query_id).to_pylist():
                own = ranks.setdefault(row["unit_id"], [None] * len(tables))
                own[number] = row["rank"]
        found = []
        for unit_id, own in ranks.items():
            unit = units.get(unit_id)
            if unit is None:
                continue
            title, passage = documents[unit.document_id][0], texts[unit_id]
            shown = _marked(excerpt(passage, marks(passage, text, analyzer), EXCERPT))
            place = f"{unit.start}-{unit.end}"
            found.append(Passage(unit.document_id, title, place, shown, own))
        rows.append({"query_id": query_id, "text": text, "passages": found})
    return {
        "retrievers": list(tables),
        "rows": rows,
        "first": FIRST,
        "n_queries": queries.num_rows,
    }


def _runs(view: View) -> list[ArtifactKey]:
    entries = view.result.evaluation.entries
    return [entry.key for entry in entries if entry.asset.endswith("_runs")]


def _cutoff(view: View) -> str:
    """Return the least cut-off that holds the passages shown, as it stands in a key."""
    cutoffs = sorted({int(key["top_k"]) for key in _runs(view)})
    return str(next((k for k in cutoffs if k >= FIRST), cutoffs[-1] if cutoffs else 0))


def _first(run: pa.Table, query_ids: pa.ChunkedArray) -> pa.Table:
    is_asked = pc.is_in(run["query_id"], value_set=query_ids.combine_chunks())
    return run.filter(pc.and_(is_asked, pc.less_equal(run["rank"], FIRST)))


def _units(view: View, tables: Iterable[pa.Table], documents: Path) -> dict[str, Unit]:
    """Return id -> span of the units of some runs; a whole document where documents are judged."""
    ids = pc.unique(pa.concat_tables(tables)["unit_id"])
    units: dict[str, Unit] = {}
    for asset in ("chunks", "external_units"):
        for entry in view.result.evaluation.entries_of(asset):
            spans = unit_spans(view.result.table(entry.key))
            spans = spans.filter(pc.is_in(spans["unit_id"], value_set=ids))
            names = ("unit_id", "document_id", "start", "end")
            for item, *unit in zip(*(spans[name].to_pylist() for name in names), strict=True):
                units[item] = Unit(*unit)
    whole = ds.dataset(documents).to_table(
        {"document_id": ds.field("document_id"), "end": pc.utf8_length(ds.field("text"))},
        filter=ds.field("document_id").isin(ids),
    )
    for name, end in zip(whole["document_id"].to_pylist(), whole["end"].to_pylist(), strict=True):
        units.setdefault(name, Unit(name, 0, end))
    return units


def _marked(shown: Excerpt) -> Markup:
    """Return an excerpt, escaped, whose marked words are ``<mark>``."""
    pieces, last = Markup(), 0
    for start, end in shown.marks:
        word = Markup("<mark>{}</mark>").format(shown.text[start:end])
        pieces += Markup.escape(shown.text[last:start]) + word
        last = end
    return pieces + Markup.escape(shown.text[last:])
