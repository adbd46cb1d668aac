"""Small tables of runs and judgments, made from plain mappings."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from rag_assets.evaluation.measures import MEASURE_TYPES, GroupMeasure
from rag_assets.evaluation.metric_names import Metric
from rag_assets.evaluation.metrics import query_metrics
from rag_assets.schemas import RELEVANT_UNITS, RETRIEVER_CONTEXTS, RUNS

Row = dict[str, float | None]
Label = tuple[str, str, str | None, int]
"""Query, evidence, unit, grade."""

GROUP_MEASURES = tuple(n for n, kind in MEASURE_TYPES.items() if issubclass(kind, GroupMeasure))
RANKING_MEASURES = tuple(name for name in MEASURE_TYPES if name not in GROUP_MEASURES)
"""Those without groups, for which there is a second implementation of each."""

N_UNITS = 20
"""Units that a search could return, for ``tn``."""

ALL_METRICS = tuple(Metric(measure) for measure in RANKING_MEASURES)


def run_table(rankings: Mapping[str, Sequence[str]]) -> pa.Table:
    """A run that holds for each query these units, best first."""
    return _runs(
        (query_id, rank, 1.0 / rank, item)
        for query_id, items in rankings.items()
        for rank, item in enumerate(items, 1)
    )


def _runs(rows: Iterable[tuple[str, int, float, str]]) -> pa.Table:
    """A run of documents, by query, rank, score and document."""
    names = RUNS.arrow().names
    return RUNS.from_rows([dict(zip(names, (*row, *row[-1:] * 2), strict=True)) for row in rows])


def ranked(scores: Mapping[str, float]) -> list[str]:
    """Best first, as trec_eval reads a run: by score, then by id, both descending."""
    return sorted(scores, key=lambda item: (scores[item], item.encode()), reverse=True)


def scored_table(run: Mapping[str, Mapping[str, float]]) -> pa.Table:
    return _runs(
        (query_id, rank, scores[item], item)
        for query_id, scores in run.items()
        for rank, item in enumerate(ranked(scores), 1)
    )


def judgment_table(labels: Iterable[Label]) -> pa.Table:
    names = ("query_id", "evidence_id", "unit_id", "grade")
    return RELEVANT_UNITS.from_rows([dict(zip(names, label, strict=True)) for label in labels])


def document_judgments(qrels: Mapping[str, Mapping[str, int]]) -> pa.Table:
    """Every document is an evidence of its own, as in TREC."""
    return judgment_table(
        (query, document, document, grade)
        for query, grades in qrels.items()
        for document, grade in grades.items()
    )


def query_table(query_ids: Iterable[str]) -> pa.Table:
    return pa.table({"query_id": pa.array(list(query_ids), pa.string())})


def by_query(table: pa.Table) -> dict[str, Row]:
    return {row.pop("query_id"): row for row in table.to_pylist()}


def one_query(
    ranking: Sequence[str],
    labels: Iterable[tuple[str, str | None, int]],
    k: int,
    metrics: Iterable[Metric] = ALL_METRICS,
) -> Row:
    """Metrics at ``k`` of one query with these (evidence, unit, grade)."""
    judgments = judgment_table(("q", *label) for label in labels)
    runs, judged_by = {"r": run_table({"q": ranking})}, {"r": "j"}
    queries, cells = query_table(["q"]), [("r", k)]
    sizes = {"r": N_UNITS}
    found = query_metrics(runs, {"j": judgments}, judged_by, queries, cells, metrics, sizes)
    return by_query(found["r", k])["q"]


def word_tokenizer(folder: Path) -> Path:
    """Write a ``tokenizer.json`` whose tokens are the words between blanks; return its path."""
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def context_table(tokens: Mapping[str, int]) -> pa.Table:
    """Contexts of a retriever: units of so many characters; each is a document of its own."""
    return RETRIEVER_CONTEXTS.from_rows(
        [
            {"context_id": unit, "document_id": unit, "start": 0, "end": count, "text_digest": ""}
            for unit, count in tokens.items()
        ]
    )


def sheet_rows(sheet: Path | str) -> list[dict[str, str]]:
    """Read a sheet, of a file or as text, as a spreadsheet program does."""
    text = sheet.read_bytes().decode() if isinstance(sheet, Path) else sheet
    return list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline="")))


def write_sheet(file: Path, rows: Sequence[Mapping[str, str]]) -> None:
    """Write a sheet as such a program does."""
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0] if rows else ["query_id"])
        writer.writeheader()
        writer.writerows(rows)
