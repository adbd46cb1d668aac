"""What every metric keeps to."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest

from rag_assets.evaluation.measures import MEASURE_TYPES
from rag_assets.evaluation.metric_names import highest_value, parse_metric
from rag_assets.evaluation.metrics import query_metrics
from rag_assets.schemas import RELEVANT_UNITS, RUNS, column_values

Labels = Sequence[tuple[str, str | None, int]]
"""(evidence, unit, grade) of one query."""

K = 5


class MetricContract:
    """Values from 0 to 1, of each query by itself, whatever units and queries are called."""

    @pytest.fixture
    def name(self) -> str:
        """Give the name as in an ``experiment.yaml``, without a cut-off."""
        raise NotImplementedError

    def test_the_name_is_canonical_and_told(self, name: str) -> None:
        """The name is parsed to itself, and the class has a formula."""
        measure = parse_metric(name).measure
        assert parse_metric(f"{name}@{K}").cutoff == K
        if measure in MEASURE_TYPES:
            assert MEASURE_TYPES[measure].name == measure
            assert MEASURE_TYPES[measure].formula

    def test_values_lie_from_0_to_1(self, name: str) -> None:
        """Also of empty rankings; nothing relevant: no value; gains and counts can exceed 1."""
        rankings, labels = drawn()
        values = values_of(name, rankings, labels)
        for query, value in values.items():
            is_answerable = any(grade > 0 for _, _, grade in labels[query])
            is_allowed = value is None or (is_answerable and 0 <= value <= highest_value(name))
            assert is_allowed, (query, value)

    def test_a_query_is_measured_by_itself(self, name: str) -> None:
        """Other queries change no value, and measuring twice gives the same."""
        rankings, labels = drawn()
        together, names = values_of(name, rankings, labels), list(rankings)
        for part in (names[11:12], names[::2], names[1::2]):
            alone = values_of(name, {q: rankings[q] for q in part}, {q: labels[q] for q in part})
            assert alone == {query: together[query] for query in part}

    def test_the_order_of_rows_does_not_matter(self, name: str) -> None:
        """Labels in another order are the same labels."""
        rankings, labels = drawn()
        turned = {query: list(reversed(rows)) for query, rows in reversed(labels.items())}
        assert values_of(name, rankings, turned) == values_of(name, rankings, labels)

    def test_names_of_units_do_not_matter(self, name: str) -> None:
        """Ids are ids, in whatever script."""

        def renamed(unit: str) -> str:
            return f"\u6e2f \u202e'{unit}\U0001f600"

        rankings, labels = drawn()
        others = {query: [renamed(unit) for unit in units] for query, units in rankings.items()}
        other_labels = {
            query: [(e, None if u is None else renamed(u), grade) for e, u, grade in rows]
            for query, rows in labels.items()
        }
        assert values_of(name, others, other_labels) == values_of(name, rankings, labels)

    def test_what_is_below_the_cut_does_not_matter(self, name: str) -> None:
        """A ranking is measured as if it ended at the cut."""
        rankings, labels = drawn()
        cut = {query: units[:K] for query, units in rankings.items()}
        assert values_of(name, cut, labels) == values_of(name, rankings, labels)


def drawn(queries: int = 30) -> tuple[dict[str, list[str]], dict[str, Labels]]:
    """Return rankings and labels by query, always the same.

    They have empty rankings, grades from -1 to 3, evidences that several units satisfy or none, and
    queries without a relevant judgment.
    """
    draw = random.Random(0)
    units = [f"u{number}" for number in range(12)]
    rankings: dict[str, list[str]] = {}
    labels: dict[str, Labels] = {}
    for number in range(queries):
        query = f"q{number}"
        rankings[query] = draw.sample(units, draw.randrange(10))
        rows: dict[tuple[str, str | None], int] = {}
        for _ in range(draw.randrange(1, 9)):
            pair = f"e{draw.randrange(4)}", draw.choice([*units, None])
            rows[pair] = draw.randrange(-1, 4) if number % 7 else 0
        labels[query] = [(evidence, unit, grade) for (evidence, unit), grade in rows.items()]
    return rankings, labels


def values_of(
    name: str, rankings: Mapping[str, Sequence[str]], labels: Mapping[str, Labels], k: int = K
) -> dict[str, float | None]:
    """Return query -> its value of a metric at ``k``."""
    metric = parse_metric(name)
    queries = pa.table({"query_id": pa.array(list(labels), pa.string())})
    run = RUNS.from_rows(
        [
            {"query_id": query, "rank": rank, "score": 1 / rank}
            | dict.fromkeys(("unit_id", "chunk_id", "document_id"), unit)
            for query, ranking in rankings.items()
            for rank, unit in enumerate(ranking, start=1)
        ]
    )
    units = RELEVANT_UNITS.from_rows(
        [
            {"query_id": query, "evidence_id": evidence, "unit_id": unit, "grade": grade}
            for query, rows in labels.items()
            for evidence, unit, grade in rows
        ]
    )
    tables = query_metrics({"r": run}, {"j": units}, {"r": "j"}, queries, [("r", k)], [metric])
    return dict(column_values(tables["r", k], "query_id", metric.column))
