from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_assets.errors import DataError
from rag_assets.evaluation.label_files import read_labels
from rag_assets.evaluation.run_files import read_run_file

LINE = "q1 Q0 d1 1 2.5 tag\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.txt"


def run_rows(path: Path) -> list[tuple[str, int, float, str]]:
    columns = ("query_id", "rank", "score", "unit_id")
    return [tuple(row[c] for c in columns) for row in read_run_file(path).to_pylist()]


def qrels_rows(path: Path) -> list[tuple[str, str, str, int]]:
    return [tuple(row.values()) for row in read_labels(path).judgments.to_pylist()]


def test_rank_column_is_ignored(file: Path) -> None:
    file.write_text("q Q0 a 1 0.5 t\nq Q0 b 2 2.5 t\nq Q0 c 9 1e-3 t\n")
    assert run_rows(file) == [("q", 1, 2.5, "b"), ("q", 2, 0.5, "a"), ("q", 3, 0.001, "c")]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.dictionaries(
        st.sampled_from(["q1", "q2"]),
        st.dictionaries(st.sampled_from(["a", "b", "B", "\u00e9", "10", "9"]), st.floats(-2, 2)),
        min_size=1,
    )
)
def test_order_is_the_naive_sort(file: Path, run: dict[str, dict[str, float]]) -> None:
    lines = [f"{q} Q0 {d} 0 {score!r} t" for q, docs in run.items() for d, score in docs.items()]
    if not lines:
        return
    file.write_text("\n".join(lines), encoding="utf-8")
    expected = []
    for query, scores in run.items():
        best = sorted(scores, key=lambda d: (scores[d], d.encode()), reverse=True)
        expected += [(query, rank, scores[d], d) for rank, d in enumerate(best, 1)]
    assert run_rows(file) == expected


def test_lines_of_two_queries_may_alternate(file: Path) -> None:
    file.write_text("q1 Q0 a 1 1 t\nq2 Q0 a 1 1 t\nq1 Q0 b 1 2 t\n")
    assert [row[:2] + row[3:] for row in run_rows(file)] == [
        ("q1", 1, "b"),
        ("q1", 2, "a"),
        ("q2", 1, "a"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "q1 Q0 d1 1 2.5 tag",  # no newline at the end
        "q1 Q0 d1 1 2.5 tag\r\n",
        "q1\tQ0\td1\t1\t2.5\ttag\n",
        "  q1  Q0 d1 1   2.5 tag  \n\n   \n",
        "\ufeffq1 Q0 d1 1 2.5 tag\n",
    ],
)
def test_white_space_and_line_ends(file: Path, text: str) -> None:
    file.write_bytes(text.encode())
    assert run_rows(file) == [("q1", 1, 2.5, "d1")]


def test_ranks_of_ms_marco(file: Path) -> None:
    file.write_text("q d1 999999999\nq d2 1\np d1 1\n")
    last = ("q", 2, 1 / 999999999, "d1")
    assert run_rows(file) == [("q", 1, 1.0, "d2"), last, ("p", 1, 1.0, "d1")]


RUN_PROBLEMS = {
    "duplicate": (LINE + "\n" + LINE, ":3: `document`: 'd1' stands twice for query 'q1', first"),
    "five fields": (
        "q1 Q0 d1 1 2.5\n",
        ":1: has 5 fields; a run line is 'query Q0 document rank score tag', of MS MARCO "
        "'query document rank'",
    ),
    "rank 0": ("q1 d1 0\n", ":1: `rank`: must be an integer from 1"),
    "rank twice": (
        "q1 d1 2\nq1 d2 2\n",
        ":2: `rank`: rank 2 of query 'q1' stands already on line 1",
    ),
    "blank in id": (LINE + "q1 Q0 d 2 1 2.5 t\n", ":2: has 7 fields; a run line is "),
    "NaN": (LINE + "q1 Q0 d2 1 nan t\n", ":2: `score`: must be a finite number"),
    "underscore": ("q1 Q0 d2 1 1_0 t\n", ":1: `score`: must be a finite number"),
}


@pytest.mark.parametrize(("text", "problem"), RUN_PROBLEMS.values(), ids=RUN_PROBLEMS)
def test_bad_run(file: Path, text: str, problem: str) -> None:
    file.write_bytes(text.encode())
    with pytest.raises(DataError) as caught:
        read_run_file(file)
    assert str(caught.value).startswith(f"{file}{problem}")


def test_no_file(tmp_path: Path) -> None:
    for read in (read_run_file, read_labels):
        with pytest.raises(DataError, match=r"gone: cannot be read: No such file"):
            read(tmp_path / "gone")
        with pytest.raises(DataError, match="cannot be read: Is a directory"):
            read(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "q1 0 d1 2\nq1 0 d2 -1\nq2 0 d1 0\n",
        "q1 0 d1 2\r\nq1 0 d2  -1\r\n\r\nq2\t0\td1\t0",
        "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t-1\nq2\td1\t0\n",
        "\ufeffquery-id\tcorpus-id\tscore\r\nq1\td1\t2\r\nq1\td2\t-1\r\nq2\td1\t0\r\n",
        "q1\td1\t2\nq1\td2\t-1\nq2\td1\t0\n",
    ],
    ids=["trec", "trec CRLF, two blanks", "BEIR", "BEIR CRLF, BOM", "BEIR without header"],
)
def test_qrels_layouts(file: Path, text: str) -> None:
    file.write_bytes(text.encode())
    assert qrels_rows(file) == [
        ("q1", "d1", "d1", 2),
        ("q1", "d2", "d2", -1),
        ("q2", "d1", "d1", 0),
    ]


QRELS_PROBLEMS = {
    "duplicate": (
        "q 0 d 1\nq 0 e 1\nq 0 d 2\n",
        ":3: query 'q' and document 'd' stand already on line 1",
    ),
    "of Git LFS": (
        "version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 9\n",
        ": cannot be read: it is a pointer of Git LFS, not the file; run `git lfs pull`",
    ),
    "underscore": ("q 0 d 1_0\n", ":1: `grade`: is '1_0'; must be a grade: an integer that fits"),
    "empty": ("", ": holds no judgments"),
}


@pytest.mark.parametrize(("text", "problem"), QRELS_PROBLEMS.values(), ids=QRELS_PROBLEMS)
def test_bad_qrels(file: Path, text: str, problem: str) -> None:
    file.write_text(text)
    with pytest.raises(DataError) as caught:
        read_labels(file)
    assert str(caught.value).startswith(f"{file}{problem}")
