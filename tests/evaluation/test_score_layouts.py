"""Scores of run files; runs and qrels as other tools write them: scored as TREC's, or refused."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_assets.errors import DataError
from rag_assets.evaluation.dialects import DIALECTS
from rag_assets.evaluation.dialects.tools import repetitions, tool_input
from rag_assets.evaluation.label_files import read_labels
from rag_assets.evaluation.run_files import UNIT_COLUMNS, read_run_file, read_run_rows, write_run
from rag_assets.evaluation.score import score
from tests.made_tables import Label, document_judgments, judgment_table, run_table
from tests.sources.files import json_lines

RUN = "q1 Q0 d1 1 3.5 t\nq1 Q0 d2 2 2.5 t\nq2 Q0 d3 1 1.5 t\nq2 Q0 d1 2 1 t\n"
QRELS = "q1 0 d2 2\nq1 0 d1 -1\nq2 0 d3 1\n"
METRICS = ["ndcg@10", "mrr@10", "map@10", "recall@1"]
SCORES = {"q1": {"d2": 2.5, "d1": 3.5}, "q2": {"d1": 1, "d3": 1.5}}
GRADES: dict[str, dict[str, float]] = {"q1": {"d2": 2, "d1": -1}, "q2": {"d3": 1.0}}

Made = Callable[[Path], Path]


def as_text(name: str, text: str) -> Made:
    def make(folder: Path) -> Path:
        path = folder / name
        content = text.encode()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return make


def as_parquet(name: str, **columns: Any) -> Made:
    def make(folder: Path) -> Path:
        path = folder / name
        pq.write_table(pa.table({key.replace("__", "-"): v for key, v in columns.items()}), path)
        return path

    return make


def exported(folder: Path) -> Path:
    """Write what `export-run` writes of chunks that are judged as their documents."""
    run = read_run_file(as_text("plain.trec", RUN)(folder))
    chunks = pa.array([f"{name}#0-9" for name in run["unit_id"].to_pylist()])
    run = run.set_column(run.schema.get_field_index("chunk_id"), "chunk_id", chunks)
    path = folder / "run.parquet"
    write_run(run, path, tag="t", failures={})
    return path


QUERY, DOCUMENT = ["q1", "q1", "q2", "q2"], ["d2", "d1", "d1", "d3"]
RUNS: dict[str, Made] = {
    "TREC": as_text("run.txt", RUN),
    "TREC with comments": as_text("run.txt", "# made today\n" + RUN),
    "TREC without an end": as_text("run.txt", RUN.strip()),
    "TREC with CRLF and BOM": as_text("run.txt", "\ufeff" + RUN.replace("\n", "\r\n")),
    "TREC with tabs": as_text("run.txt", RUN.replace(" ", "\t")),
    "TREC with blanks": as_text(
        "run.txt", "  " + RUN.replace(" 1 ", "  1   ").replace("\n", " \n\n ")
    ),
    ".parquet of another tool": as_parquet(
        "run.parquet", query_id=QUERY, document_id=DOCUMENT, score=[2.5, 3.5, 1.0, 1.5]
    ),
    "export-run .parquet": exported,
    "lists as JSON lines": as_text(
        "run.jsonl",
        '{"qid": "q1", "retrieved_ids": ["d1", "d2"], "retrieve_scores": [3.5, 2.5]}\n'
        '\n{"query_id": "q2", "retrieved_ids": ["d3", "d1"]}\n',
    ),
    "lists of AutoRAG's best module": as_parquet(
        "best_0.parquet",
        qid=["q1", "q2"],
        query=["x", "x"],
        retrieved_ids=[["d1", "d2"], ["d3", "d1"]],
        retrieve_scores=[[3.5, 2.5], [1.5, 1.0]],
        retrieval_f1=[0.5, 0.0],
    ),
    # Its ranks from 0 say nothing that the scores do not.
    "results of PyTerrier": as_parquet(
        "run.parquet", qid=QUERY, docno=DOCUMENT, rank=[1, 0, 1, 0], score=[2.5, 3.5, 1.0, 1.5]
    ),
}
OF_BEIR = "query-id\tcorpus-id\tscore\nq1\td2\t2\nq1\td1\t-1\nq2\td3\t1\n"
LABELS: dict[str, Made] = {
    "TREC": as_text("qrels.txt", QRELS),
    "TREC with comments": as_text("qrels.txt", f"# query iteration document\n{QRELS}#q9 0 d1 1\n"),
    "TREC with 1.0": as_text("qrels.txt.gz", QRELS.replace(" 2\n", " 2.0\n")),
    "TREC with CRLF and two blanks": as_text(
        "qrels.txt", QRELS.replace("\n", "\r\n\r\n").replace(" d1 ", "  d1\t").strip()
    ),
    "BEIR": as_text("test.tsv", OF_BEIR),
    "BEIR with CRLF and BOM": as_text("test.tsv", "\ufeff" + OF_BEIR.replace("\n", "\r\n")),
    "BEIR without header": as_text("test.tsv", OF_BEIR.partition("\n")[2]),
    "BEIR .jsonl": as_text(
        "test.jsonl",
        json_lines(
            [
                {"query-id": query, "corpus-id": document, "score": grade}
                for query, own in GRADES.items()
                for document, grade in own.items()
            ]
        ),
    ),
    "MTEB .parquet": as_parquet(
        "test-00000-of-00001.parquet",
        query__id=["q1", "q1", "q2"],
        corpus__id=["d2", "d1", "d3"],
        score=[2.0, -1.0, 1.0],
    ),
    "PyTerrier": as_parquet(
        "qrels.parquet", qid=["q1", "q1", "q2"], docno=["d2", "d1", "d3"], label=[2, -1, 1]
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_of_every_layout_has_the_same_scores(tmp_path: Path, name: str) -> None:
    trec = read_run_file(as_text("trec.txt", RUN)(tmp_path))
    labels = read_labels(as_text("qrels.txt", QRELS)(tmp_path))
    path = RUNS[name](tmp_path)
    run = read_run_file(path)
    expected, found = (score(one, labels.judgments, METRICS) for one in (trec, run))
    assert (found.means, found.per_query) == (expected.means, expected.per_query)
    assert run["unit_id"].to_pylist() == trec["unit_id"].to_pylist()
    hits = read_run_rows(path, UNIT_COLUMNS).hits
    assert {query: {item for item, _ in own} for query, own in hits.items()} == {
        query: set(own) for query, own in SCORES.items()
    }


@pytest.mark.parametrize("name", LABELS)
def test_labels_of_every_layout_are_the_same(tmp_path: Path, name: str) -> None:
    trec = read_labels(as_text("trec.txt", QRELS)(tmp_path))
    found = read_labels(LABELS[name](tmp_path))
    assert found.judgments.equals(trec.judgments)
    assert found.groups == trec.groups


LINE = "q1 Q0 d1 1 2.5 tag\n"
LINES = "a run line is 'query Q0 document rank score tag' (MS MARCO: 'query document rank')"
BROKEN_RUNS: dict[str, tuple[Made, str]] = {
    "a blank in an id": (as_text("r", RUN + "q2 Q0 d 9 3 0.5 t\n"), f":5: has 7 fields; {LINES}"),
    "MS MARCO, then TREC": (
        as_text("r", "q1 d1 1\nq1 Q0 d2 2 1 t\n"),
        f":2: has 6 fields; {LINES}",
    ),
    "no .gz": (lambda folder: _plain(folder / "r.gz"), ": cannot be read: Not a gzipped file"),
    "Parquet without a query": (
        as_parquet("r.parquet", document_id=["d1"], score=[1.0]),
        ": has the columns document_id, score; needs `query_id`, one of chunk_id, unit_id,",
    ),
    "duplicate": (
        as_text("r", f"{LINE}\n{LINE}"),
        ":3: `document`: 'd1' occurs twice for query 'q1', first",
    ),
    "rank 0": (as_text("r", "q1 d1 0\n"), ":1: `rank`: must be an integer from 1"),
    "rank twice": (
        as_text("r", "q1 d1 2\nq1 d2 2\n"),
        ":2: `rank`: rank 2 of query 'q1' is already on line 1",
    ),
    "lists of another module of AutoRAG": (
        as_parquet("0.parquet", retrieved_ids=[["a"]], retrieve_scores=[[1.0]]),
        ":1: `qid`: is missing; found keys: 'retrieved_ids'",
    ),
    "NaN": (as_text("r", LINE + "q1 Q0 d2 1 nan t\n"), ":2: `score`: must be a finite number"),
}
BROKEN_LABELS: dict[str, tuple[Made, str]] = {
    "half a grade": (as_text("q", "# x\nq1 0 d1 .5\n"), ":2: `grade`: is '.5'; must be a grade"),
    "a judgment twice": (
        as_parquet("q.parquet", query__id=["q", "q"], corpus__id=["a", "a"], score=[1, 1]),
        ":2: query 'q' and document 'a' are already on line 1",
    ),
    "of Git LFS": (
        as_text("q", "version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 9\n"),
        ": cannot be read: it is a pointer of Git LFS, not the file; run `git lfs pull`",
    ),
    "underscore": (
        as_text("q", "q 0 d 1_0\n"),
        ":1: `grade`: is '1_0'; must be a grade: an integer that fits",
    ),
    "Parquet of something else": (
        as_parquet("q.parquet", x=[1]),
        ": needs qid and retrieval_gt, or query_id and unit_id and grade",
    ),
    "no Parquet": (as_text("q.parquet", "no parquet"), ": cannot be read as Parquet"),
    "a question twice": (
        as_parquet("qa.parquet", qid=["q", "q"], retrieval_gt=[[["a"]], [["b"]]]),
        ":2: `qid`: query 'q' occurs twice",
    ),
    "no groups": (
        as_parquet("qa.parquet", qid=["q"], retrieval_gt=[["a"]]),
        ":1: `retrieval_gt`: must be a list of lists of ids",
    ),
}


BROKEN_LISTS = {
    "": ": holds no queries",
    "[1]\n": ":1: found a list; each line must be one JSON object",
    '{"qid": "q"}': ":1: `retrieved_ids`: is missing; found keys: 'qid'",
    '{"qid": "q", "retrieved_ids": ["a", 1]}': ":1: `retrieved_ids`: must be a list of texts",
    '{"qid": "q", "retrieved_ids": ["a"], "retrieve_scores": []}': (
        ":1: `retrieve_scores`: has 0 scores for 1 ids"
    ),
    '{"qid": "q", "retrieved_ids": ["a"]}\n' * 2: ":2: `qid`: query 'q' is already on line 1",
    '{"qid": "q", "error": "timed out"}': ": `error`: marks query 'q' as failed (timed",
}
BROKEN_JUDGMENTS = {
    "": ": holds no judgments",
    '{"doc_id": "a"}': ":1: `query_id`: is missing; found keys: 'doc_id'",
    '{"query_id": "q", "doc_id": ""}': (
        ":1: `doc_id`: is ''; must be an id: a text of one line that is not empty, or an integer"
    ),
    '{"query_id": "q", "doc_id": "a", "relevance": 1.5}': (
        ":1: `relevance`: is 1.5; must be a grade: an integer that fits 32 bits"
    ),
    '{"query_id": "q", "doc_id": "a", "quote": "..."}': (
        ":1: `quote`: quotes need the documents, which are not read here; use `evaluate`"
    ),
}
BROKEN_RUNS |= {text: (as_text("r.jsonl", text), problem) for text, problem in BROKEN_LISTS.items()}
BROKEN_LABELS |= {
    text: (as_text("q.jsonl", text), problem) for text, problem in BROKEN_JUDGMENTS.items()
}


def _plain(path: Path) -> Path:
    path.write_text("{}", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("read", "made", "message"),
    [(read_run_file, *one) for one in BROKEN_RUNS.values()]
    + [(read_labels, *one) for one in BROKEN_LABELS.values()],
)
def test_a_broken_file(
    tmp_path: Path, read: Callable[[Path], object], made: Made, message: str
) -> None:
    path = made(tmp_path)
    with pytest.raises(DataError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}{message}")
    assert "\n" not in str(caught.value)


def test_a_query_that_begins_a_comment_is_not_written_as_trec(tmp_path: Path) -> None:
    run = read_run_file(as_text("r.jsonl", '{"qid": "#q1", "retrieved_ids": ["d1"]}')(tmp_path))
    with pytest.raises(DataError, match=r"query_id '#q1': .*starts a comment; write .jsonl"):
        write_run(run, tmp_path / "out.trec", tag="t", failures={})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.txt"


def run_rows(path: Path) -> list[tuple[str, int, float, str]]:
    columns = ("query_id", "rank", "score", "unit_id")
    return [tuple(row[c] for c in columns) for row in read_run_file(path).to_pylist()]


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
    assert run_rows(file) == [("q1", 1, 2.0, "b"), ("q1", 2, 1.0, "a"), ("q2", 1, 1.0, "a")]


def test_ranks_of_ms_marco(file: Path) -> None:
    file.write_text("q d1 999999999\nq d2 1\np d1 1\n")
    last = ("q", 2, 1 / 999999999, "d1")
    assert run_rows(file) == [("q", 1, 1.0, "d2"), last, ("p", 1, 1.0, "d1")]


def test_no_file(tmp_path: Path) -> None:
    for read in (read_run_file, read_labels):
        with pytest.raises(DataError, match=r"gone: cannot be read: No such file"):
            read(tmp_path / "gone")
        with pytest.raises(DataError, match="cannot be read: Is a directory"):
            read(tmp_path)


LIST = '{"qid": "q1", "retrieved_ids": ["d3", "d1"], "retrieve_scores": [2.5, 1]}\n'


def run_file(folder: Path, text: str) -> Path:
    return as_text("run.jsonl", text)(folder)


def qa_file(folder: Path, ground_truth: dict[str, Any]) -> Path:
    truth = pa.array(list(ground_truth.values()), pa.list_(pa.list_(pa.string())))
    return as_parquet("qa.parquet", qid=list(ground_truth), retrieval_gt=truth)(folder)


def test_lists_keep_their_order(tmp_path: Path) -> None:
    path = run_file(tmp_path, LIST + '\n{"query_id": "q2", "retrieved_ids": ["b", "a"]}\n')
    run = read_run_rows(path)
    assert run.listed
    assert run.rows == {
        "q1": [(1, "d3", 2.5), (1, "d1", 1.0)],
        "q2": [(3, "b", 1.0), (3, "a", 0.5)],
    }
    table = read_run_file(path)
    assert table["unit_id"].to_pylist() == ["d3", "d1", "b", "a"]
    assert table["rank"].to_pylist() == [1, 2, 1, 2]
    lists = {"qid": ["q1", "q2"], "retrieved_ids": [["b"], []], "retrieve_scores": [[2.0], []]}
    pq.write_table(pa.table(lists), tmp_path / "run.parquet")
    assert read_run_rows(tmp_path / "run.parquet").hits == {"q1": (("b", 2.0),), "q2": ()}


def test_a_repeated_document_is_refused_with_its_query_and_how_often(tmp_path: Path) -> None:
    rows = [
        {"qid": "fine", "retrieved_ids": ["a"]},
        {"qid": "q1", "retrieved_ids": ["a", "b", "a", "b", "b"]},
        {"qid": "q2", "retrieved_ids": ["a", "a"]},
    ]
    path = run_file(tmp_path, json_lines(rows))
    with pytest.raises(DataError) as caught:
        read_run_file(path)
    assert str(caught.value) == (
        f"{path}:2: `retrieved_ids`: 'a' occurs twice for query 'q1', first on line 2; a unit can "
        "be retrieved only once (`score --dialect autorag` allows repetitions)"
    )
    run = read_run_rows(path, UNIT_COLUMNS, repeats=True)
    data = tool_input(run.hits, run.listed, read_labels(qa_file(tmp_path, {"q1": [["a"]]})))
    assert list(repetitions(data)) == [("q1", "a", 2), ("q1", "b", 3)]


def test_autorags_groups_are_evidences(tmp_path: Path) -> None:
    path = qa_file(tmp_path, {"q": [["a", "b"], ["c"]], "none": [[""]], "null": None})
    judgments, groups = read_labels(path)
    labels: list[Label] = [("q", "1", "a", 1), ("q", "1", "b", 1), ("q", "2", "c", 1)]
    labels += [("none", "1", None, 0), ("null", "1", None, 0)]
    assert judgments.equals(judgment_table(labels))
    assert groups == {"q": (("a", "b"), ("c",)), "none": (("",),), "null": ()}
    run = read_run_file(run_file(tmp_path, '{"qid": "q", "retrieved_ids": ["x", "b"]}'))
    found = score(run, judgments, ["recall@5", "full_recall@5", "group_mrr@5"])
    assert found.means == {"recall@5": 0.5, "full_recall@5": 0.0, "group_mrr@5": 0.25}
    assert (found.n_queries, found.n_unanswerable) == (1, 2)


def test_judgments_as_json_lines(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"query_id": "q", "doc_id": "a", "evidence_id": "e1"},
        {"query_id": "q", "doc_id": "b", "evidence_id": "e1", "relevance": 2},
        {"query_id": "q", "doc_id": "c", "relevance": 0},
        {"query_id": "q", "doc_id": "d"},
    ]
    judgments, groups = read_labels(as_text("judgments.jsonl", json_lines(rows))(tmp_path))
    assert groups == {"q": (("a", "b"), ("d",))}
    assert judgments["grade"].to_pylist() == [1, 2, 0, 1]
    run = read_run_file(run_file(tmp_path, '{"qid": "q", "retrieved_ids": ["b", "d"]}'))
    found = score(run, judgments, ["full_recall@2", "ndcg@2"])
    assert found.means == {"full_recall@2": 1.0, "ndcg@2": 1.0}


def test_judgments_of_the_pipeline(tmp_path: Path) -> None:
    table = judgment_table([("q", "e1", "a", 1), ("q", "e1", "b", 1), ("q", "e2", None, 1)])
    path = tmp_path / "judgments.parquet"
    pq.write_table(table, path)
    judgments, groups = read_labels(path)
    assert judgments.equals(table)
    assert groups == {"q": (("a", "b"), ())}


AUTORAG_RUNS = ("bm25_top10", "vectordb_top10", "hybrid_cc_top10", "tart_rerank_top5")


@pytest.mark.real_data
@pytest.mark.parametrize("name", AUTORAG_RUNS)
def test_autorags_runs_score_what_autorag_recorded(
    shared_data: Callable[[str], Path], name: str
) -> None:
    folder = shared_data("autorag_sample")
    path = folder / "runs" / f"{name}.jsonl"
    recorded = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    run = read_run_rows(path, UNIT_COLUMNS, repeats=True)
    data = tool_input(run.hits, run.listed, read_labels(folder / "qa_data_sample.parquet"))
    assert (len(recorded), len(data.judged), data.strangers) == (10, 10, ())
    autorag = DIALECTS["autorag"]
    for measure in ("retrieval_f1", "retrieval_recall", "retrieval_precision"):
        outcome = autorag.outcome(data, autorag.parse(measure))
        for row in recorded:
            assert outcome.per_query[row["qid"]] == pytest.approx(row[measure], abs=1e-12)
    repeating = {query for query, _, _ in repetitions(data)}
    if name in {"bm25_top10", "vectordb_top10"}:
        assert len(repeating) == 10
        assert max(count for _, _, count in repetitions(data)) == 5
        with pytest.raises(DataError, match="occurs twice for query"):
            read_run_file(path)
    else:
        assert not repeating
        assert read_run_file(path).num_rows == sum(len(row["retrieved_ids"]) for row in recorded)


@pytest.mark.real_data
def test_autorags_own_cases(shared_data: Callable[[str], Path], tmp_path: Path) -> None:
    """Under its names, and as evidence groups: all but nDCG, whose ideal list is another one."""
    file = shared_data("autorag_sample") / "metric_cases.json"
    listed = json.loads(file.read_text(encoding="utf-8"))["cases"]
    cases = {f"q{number}": case for number, case in enumerate(listed)}
    assert len(cases) == 8
    labels = read_labels(qa_file(tmp_path, {q: case["retrieval_gt"] for q, case in cases.items()}))
    rows = [{"qid": q, "retrieved_ids": case["retrieved_ids"]} for q, case in cases.items()]
    path = run_file(tmp_path, json_lines(rows))
    run, autorag = read_run_rows(path, UNIT_COLUMNS), DIALECTS["autorag"]
    data = tool_input(run.hits, run.listed, labels)
    theirs = {
        measure: autorag.outcome(data, autorag.parse(f"retrieval_{measure}")).per_query
        for measure in ("f1", "recall", "precision", "ndcg", "mrr", "map")
    }
    groups = [f"group_{measure}@10" for measure in ("f1", "recall", "mrr", "map", "ndcg")]
    found = score(read_run_file(path), labels.judgments, [*groups, "full_recall@10"])
    assert (found.n_queries, found.n_unanswerable) == (6, 2)
    for row in found.per_query:
        case = cases[str(row["query_id"])]
        if case["f1"] is None:
            assert [row[name] for name in groups] == [None] * 5
            continue
        for measure, values in theirs.items():
            expected = pytest.approx(case[measure], rel=1e-4)
            assert values[str(row["query_id"])] == expected
            assert row.get(f"group_{measure}@10", expected) == expected or measure == "ndcg"
        assert row["full_recall@10"] == (case["recall"] == 1)
        value = row["group_ndcg@10"]
        assert isinstance(value, float)
        assert 0 <= value <= 1


COMPARABLE = ("map", "ndcg", "recip_rank")
FAMILIES = ("P_", "recall_", "ndcg_cut_", "map_cut_", "success_")

THREE = run_table({"hit": ["x", "a"], "none": ["a"], "stranger": ["a"]})
JUDGED = document_judgments({"hit": {"a": 1}, "lost": {"a": 2}, "none": {"a": 0}})


def trec_eval_output(path: Path) -> dict[tuple[str, str], float]:
    """(query, measure) -> value, of the measures that both know."""
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    return {
        (query, name): float(value)
        for name, query, value in lines
        if name in COMPARABLE or (name.startswith(FAMILIES) and name.rsplit("_", 1)[1].isdigit())
    }


@pytest.fixture(scope="module")
def cranfield(shared_data: Callable[[str], Path]) -> tuple[Path, pa.Table, pa.Table]:
    """The folder of its runs, one of them, and its judgments."""
    runs = shared_data("cranfield") / "runs"
    run = read_run_file(runs / "bm25s_lucene_k1.2_b0.75_top100.trec")
    return runs, run, read_labels(runs / "qrels.test.trec").judgments


@pytest.mark.real_data
@pytest.mark.parametrize("trec_mean", [False, True])
def test_cranfield_equals_trec_eval(
    cranfield: tuple[Path, pa.Table, pa.Table], trec_mean: bool
) -> None:
    runs, run, qrels = cranfield
    expected = trec_eval_output(runs / "bm25s_top100.trec_eval-9.0.8.all.txt")
    names = [name for _, name in expected]
    assert len(names) == 3 + 4 * 9 + 3
    found = score(run, qrels, [*names, "mrr@100"], trec_mean=trec_mean)
    assert found.n_queries == 225
    assert (found.n_unanswerable, found.n_missing, found.n_unjudged_queries) == (0, 0, 0)
    for (_, name), value in expected.items():
        mean = found.means[name]
        assert mean is not None
        assert round(mean, 4) == pytest.approx(value, abs=1e-9), name
    assert found.means["mrr@100"] == found.means["recip_rank"]


@pytest.mark.real_data
def test_cranfield_equals_trec_eval_for_each_query(
    cranfield: tuple[Path, pa.Table, pa.Table],
) -> None:
    runs, run, qrels = cranfield
    expected = trec_eval_output(runs / "bm25s_top100.trec_eval-9.0.8.perquery.txt")
    names = sorted({name for _, name in expected})
    assert names == ["P_10", "map", "ndcg", "ndcg_cut_10", "recall_100", "recip_rank"]
    rows = score(run, qrels, names).per_query
    found = {(str(row["query_id"]), name): row[name] for row in rows for name in names}
    assert len(found) == len(expected) == 225 * 6
    for key, value in expected.items():
        # Printed with four decimals; a value half-way between two may go either way.
        assert found[key] == pytest.approx(value, abs=0.5e-4 + 1e-9), key


def test_names_are_echoed_as_asked() -> None:
    scores = score(THREE, JUDGED, ["RR", "recip_rank", "mrr@1", "P_1", "nDCG@10"])
    assert scores.means == {
        "RR": 0.25,
        "recip_rank": 0.25,
        "mrr@1": 0.0,
        "P_1": 0.0,
        "nDCG@10": pytest.approx(1 / math.log2(3) / 2),
    }


def test_accounting_and_trec_mean() -> None:
    """trec_mean counts queries without a relevant document."""
    scores = score(THREE, JUDGED, ["mrr"])
    counts = (scores.n_queries, scores.n_unanswerable, scores.n_missing, scores.n_unjudged_queries)
    assert counts == (2, 1, 1, 1)
    of_trec = score(THREE, JUDGED, ["mrr"], trec_mean=True)
    assert (of_trec.n_queries, of_trec.means) == (3, {"mrr": (0.5 + 0 + 0) / 3})
    for found, none in ((scores, None), (of_trec, 0.0)):
        values = {row["query_id"]: row["mrr"] for row in found.per_query}
        assert values == {"hit": 0.5, "lost": 0.0, "none": none}


def test_a_count_is_a_sum_under_trec_evals_name() -> None:
    qrels = document_judgments({"a": {"x": 1, "y": 1}, "b": {"x": 1}, "c": {"z": 1}})
    run = run_table({"a": ["x", "y"], "b": ["x"]})
    assert score(run, qrels, ["num_rel_ret", "tp"]).means == {"num_rel_ret": 3.0, "tp": 1.0}


def test_judged_has_no_value_where_nothing_is_retrieved() -> None:
    """A query that the run lacks is not judged by 0; ir_measures leaves it out too."""
    found = score(THREE, JUDGED, ["judged@5", "mrr"], trec_mean=True)
    values = {row["query_id"]: (row["judged@5"], row["mrr"]) for row in found.per_query}
    assert values["lost"] == (None, 0.0)
    assert found.means["judged@5"] == 0.5, "of the one query that is answerable and has hits"
