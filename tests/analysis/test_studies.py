"""A metric over a parameter, from a grid to the page, Python and Dagster."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assets.analysis.studies import studies_of
from rag_assets.assets.metadata import result_of
from rag_assets.errors import UsageError
from rag_assets.report.evaluation_table import EvaluationTable
from rag_assets.report.html import render
from tests.tiny_experiment import Tiny

SMALL = "bm25-k1-0.2-max_characters-30"


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tiny, EvaluationTable]:
    """Two cuts, two k1 on each, and one of the four reranked with two values of lambda."""
    tiny = Tiny(Path(tmp_path_factory.mktemp("study")))
    cut = {"strategy": "recursive", "max_characters": [30, 60], "overlap": 0}
    tiny.config["chunking"] = {"parts": cut}
    tiny.config["retrievers"] = {
        "bm25": {"type": "bm25", "analyzer": "english", "k1": [0.2, 1.2]},
        "varied": {"type": "mmr", "input": SMALL, "lambda": [0.3, 0.7]},
        "other": {"type": "tfidf", "chunking": "parts-max_characters-30", "analyzer": "english"},
    }
    tiny.config["baseline"] = "other"
    tiny.write().run()
    return tiny, EvaluationTable(tiny.artifacts, tiny.snapshot())


def test_retrievers_that_differ_in_one_option_are_a_line(
    evaluated: tuple[Tiny, EvaluationTable],
) -> None:
    _, result = evaluated
    lines: dict[str, dict[str, list[float]]] = {}
    for parameter, rows in studies_of(result).items():
        for row in rows:
            assert row["parameter"] == parameter
            lines.setdefault(parameter, {}).setdefault(row["line"], []).append(row["value"])
    assert lines == {
        "k1": {"chunking.max_characters 30": [0.2, 1.2], "chunking.max_characters 60": [0.2, 1.2]},
        "chunking.max_characters": {"k1 0.2": [30, 60], "k1 1.2": [30, 60]},
        "lambda": {"": [0.3, 0.7]},
    }


def test_rows_are_those_of_the_leaderboard(evaluated: tuple[Tiny, EvaluationTable]) -> None:
    _, result = evaluated
    column = result.primary.column
    means = {row["retriever"]: row[column] for row in result.at_cutoff}
    for rows in studies_of(result).values():
        for row in rows:
            interval = result.intervals[row["retriever"], result.cutoff, column]
            assert row[column] == means[row["retriever"]]
            assert (row[f"{column}_low"], row[f"{column}_high"]) == (
                interval["low"],
                interval["high"],
            )


def test_page_python_and_dagster_show_them(evaluated: tuple[Tiny, EvaluationTable]) -> None:
    tiny, result = evaluated
    small, full = render(result), render(result, has_explorer=True)
    title = f"{result.primary} over chunking.max_characters"
    assert title in small
    assert title in full
    assert "chart-study-0" not in small
    assert 'id="chart-study-0"' in full
    (drawn,) = result.plot(over="lambda").to_dict()["data"]
    assert list(drawn["x"]) == [0.3, 0.7]
    assert list(drawn["text"]) == ["varied-lambda-0.3", "varied-lambda-0.7"]
    with pytest.raises(UsageError, match=r"'lambdo' \(did you mean 'lambda'\?\)"):
        result.plot(over="lambdo")
    table = result_of(tiny.pipeline())["over k1"].value
    assert {record.data["retriever"] for record in table.records} >= {SMALL}  # type: ignore[union-attr]
