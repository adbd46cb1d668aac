"""Means by slice: which retriever is best on which kind of question, or of document.

A slice is all queries that share one value of a criterion:

- ``tag``: a query has the tag;
- ``query.<field>``: a field of the query's metadata has the value;
- ``document.<field>``: a field of the metadata of one of its relevant documents has the value.

A list counts as each of its items. So a query can be in several slices, or in none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.analysis.evaluation_pairs import MetricSource
from rag_assets.analysis.metric_sources import Retrieval
from rag_assets.analysis.result import EvaluationResult, Row
from rag_assets.errors import UsageError, allowed_names
from rag_assets.evaluation.leaderboard import mean
from rag_assets.evaluation.query_facts import ALL
from rag_assets.pipeline.stored_evaluation import pairs_of
from rag_assets.schemas import column_values
from rag_assets.sheets.environment import shortened
from rag_assets.sheets.sheet import TEXT, Column, Sheet, better_of, form_of, of_split

TAG = "tag"
DOCUMENT = "document."

_METADATA = {"query": "queries", "document": "documents"}
"""What has fields -> the table that they stand in."""

Members = dict[str, set[str]]
"""Value -> the ids of the queries that have it."""

TableOf = Callable[[str], pa.Table]
"""Gives the table of ``queries``, ``documents`` or ``qrels``, read when it is needed."""


@dataclass(frozen=True)
class Slice:
    """One value: how many answerable queries have it, and each retriever's mean over them.

    A mean is over the queries on which the retriever did not fail; None where it failed on all.
    """

    value: str
    n_queries: int
    means: Mapping[str, float | None]


def members_by(criterion: str, table_of: TableOf) -> Members:
    """Return the queries of every slice.

    Args:
        criterion: ``tag``, ``query.<field>`` or ``document.<field>``; all behind the first point
            is the field's name.
        table_of: gives the tables that the criterion needs.

    Raises:
        UsageError: the criterion is none of these, or no row has the field.
    """
    if criterion == TAG:
        return _gathered(column_values(table_of("queries"), "query_id", "tags"))
    kind, _, field = criterion.partition(".")
    if kind not in _METADATA or not field:
        raise UsageError(f"slices by '{criterion}'; allowed: tag, query.<field>, document.<field>")
    values = _values(field, kind, pairs_of(table_of(_METADATA[kind]), f"{kind}_id", "metadata"))
    if kind == "query":
        return _gathered(values.items())
    qrels = table_of("qrels")
    relevant = qrels.filter(pc.greater(qrels.column("grade"), 0))
    pairs = column_values(relevant, "query_id", "document_id")
    return _gathered((query_id, values.get(document_id, ())) for query_id, document_id in pairs)


def slices_of(
    result: EvaluationResult,
    source: MetricSource | None = None,
    names: Collection[str] | None = None,
    by: str = TAG,
) -> list[Slice]:
    """Return a metric by query tag or by a field; empty when no answerable query is in any.

    Args:
        result: the evaluation.
        source: the metric; the primary one when absent.
        names: whose means to give, answerers as ``plain@5``; all when absent.
        by: ``tag``, ``query.<field>`` or ``document.<field>`` (of the relevant documents).

    Raises:
        UsageError: ``by`` is none of these, no query or document has the field, or single questions
            have no value of the metric.
    """
    source = source or Retrieval(result.primary)
    source.check_single()
    cells = {
        name: table
        for name, table in source.cells_with(result).items()
        if names is None or name in names
    }
    if not cells:
        return []
    if by.startswith(DOCUMENT):
        result.check_labels()
    members = members_by(by, result.table_of)
    return slices(cells, members, source.metric.column, result.weights(result.split))


def slices(
    cells: Mapping[str, pa.Table], members: Members, measure: str, weights: Mapping[str, float]
) -> list[Slice]:
    """Return the weighted means of one metric, in alphabetical order of the values.

    Args:
        cells: retriever -> its query metrics at one cut-off.
        members: the queries of every slice; one without an answerable query is left out.
        measure: the metric to average; queries without a value are not counted.
        weights: query id -> weight; queries that it lacks are not counted.
    """
    values = {name: pairs_of(table, "query_id", measure) for name, table in cells.items()}
    rows = []
    for name, ids in sorted(members.items()):
        of_slice = sorted(ids & weights.keys())
        counted = [i for i in of_slice if any(v.get(i) is not None for v in values.values())]
        if counted:
            each = [weights[i] for i in counted]
            means = {n: mean([v.get(i) for i in counted], each) for n, v in values.items()}
            rows.append(Slice(name, len(counted), means))
    return rows


def _values(field: str, kind: str, metadata: Mapping[str, str]) -> dict[str, list[str]]:
    """Return id -> the values of a field, for each row that has it."""
    values: dict[str, list[str]] = {}
    fields: set[str] = set()
    for row, text in metadata.items():
        parsed = json.loads(text)
        fields.update(parsed)
        if parsed.get(field) is not None:
            value = parsed[field]
            values[row] = [_text(item) for item in (value if isinstance(value, list) else [value])]
    if field not in fields:
        raise UsageError(f"no {kind} has the field {allowed_names(field, sorted(fields))}")
    return values


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _gathered(rows: Iterable[tuple[str, Iterable[str]]]) -> Members:
    members: Members = {}
    for query_id, values in rows:
        for value in values:
            members.setdefault(value, set()).add(query_id)
    return members


def slices_sheet(
    slices: Sequence[Slice],
    metric: str,
    by: str = TAG,
    split: str = ALL,
    *,
    order: Sequence[str] = (),
) -> Sheet:
    """Return a row a slice and a column a retriever, the best of each row marked."""
    columns = (
        Column("value", by, TEXT),
        Column("n_queries", "queries", "d"),
        *(
            Column(f"mean {name}", name, form_of(metric), better=better_of(metric))
            for name in order or slices[0].means
        ),
    )
    rows = [
        {
            "value": part.value,
            "n_queries": part.n_queries,
            **{f"mean {name}": mean for name, mean in part.means.items()},
        }
        for part in slices
    ]
    title = f"{metric} by {'query tag' if by == TAG else by}{of_split(split)}"
    return Sheet(title, columns, rows, best_of_row=True, name="slices")


MAX_TAGS = 200
"""Tags of the page; where there are more, those with the most queries."""


def tag_slices(result: EvaluationResult) -> Row | None:
    """Return the section of the page; None where no answerable query has a tag."""
    if not (every := slices_of(result) if result.has_metrics else []):
        return None
    largest = sorted(every, key=lambda part: -part.n_queries)[:MAX_TAGS]
    tags = [replace(part, value=shortened(part.value)) for part in every if part in largest]
    names = [name for name in result.retrievers if any(name in part.means for part in every)]
    sheet = slices_sheet(tags, result.evaluation.primary, TAG, result.split, order=names)
    return {"sheet": sheet, "n_tags": len(every)}
