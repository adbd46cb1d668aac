from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import DataError, UsageError
from rag_assets.schemas import DOCUMENTS, QRELS, QUERIES, column_values
from rag_assets.sources import open_dataset
from rag_assets.sources.writers import Tables, write_dataset
from rag_assets.store.canonical import canonical_json

PATHS = {"llamaindex": "dataset.json"}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SPACED_ID = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n\0"), min_size=1, max_size=4
).filter(lambda text: text == text.strip(" "))
TREC_ID = SPACED_ID.filter(
    lambda text: not any(c.isspace() for c in text) and text[0] not in "<#\ufeff"
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | TEXT
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
METADATA = st.dictionaries(TEXT.filter(lambda key: key != "tags"), JSON, max_size=3)


def tables(
    documents: list[tuple[Any, ...]], queries: list[tuple[Any, ...]], qrels: list[tuple[Any, ...]]
) -> Tables:
    def table(schema: Any, rows: list[tuple[Any, ...]]) -> pa.Table:
        names = schema.arrow().names
        return schema.from_rows([dict(zip(names, row, strict=True)) for row in rows])

    return Tables(table(DOCUMENTS, documents), table(QUERIES, queries), table(QRELS, qrels))


@st.composite
def datasets(
    draw: st.DrawFn, ids: st.SearchStrategy[str] = SPACED_ID, *, plain: bool = False
) -> Tables:
    """Draw tables with whole documents as evidence, each pair judged once."""
    metadata = st.just("{}") if plain else METADATA.map(canonical_json)
    tags = st.just([]) if plain else st.lists(TEXT.filter(bool), max_size=2, unique=True)
    document_ids = draw(st.lists(ids, min_size=1, max_size=4, unique=True))
    query_ids = draw(st.lists(ids, min_size=1, max_size=4, unique=True))
    title = st.just("") if plain else TEXT
    documents = [(i, draw(title), draw(TEXT), draw(metadata)) for i in document_ids]
    queries = [(i, draw(TEXT), draw(tags), draw(metadata)) for i in query_ids]
    pair = st.tuples(st.sampled_from(query_ids), st.sampled_from(document_ids))
    pairs = draw(st.lists(pair, min_size=1, max_size=6, unique=True))
    grade = st.just(1) if plain else st.integers(-(2**31), 2**31 - 1)
    return tables(documents, queries, [(q, d, d, None, None, draw(grade)) for q, d in pairs])


def written(form: str, given_tables: Tables, folder: Path) -> tuple[Tables, list[str]]:
    """Write tables, read them back, and return them with the writer's notes."""
    try:
        notes = write_dataset(given_tables, form, folder)
        dataset = open_dataset(folder / PATHS.get(form, ""))
        assert dataset.format == form
        documents, queries = dataset.read_documents().table, dataset.read_queries().table
        qrels = dataset.read_qrels(documents, queries).table
        return Tables(documents, queries, qrels), notes
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def in_order(qrels: pa.Table) -> list[Any]:
    return sorted((tuple(row.values()) for row in qrels.to_pylist()), key=repr)


@settings(deadline=None, max_examples=60)
@given(given_tables=datasets(), plain=datasets(plain=True))
def test_beir_and_llamaindex_keep_all_that_they_can_hold(
    tmp_path_factory: pytest.TempPathFactory, given_tables: Tables, plain: Tables
) -> None:
    """LlamaIndex ids, texts and relevance; BEIR everything but evidence."""
    read, notes = written("beir", given_tables, tmp_path_factory.mktemp("w") / "out")
    assert (read, notes) == (given_tables, [])
    read, notes = written("llamaindex", plain, tmp_path_factory.mktemp("w") / "out")
    assert notes == []
    assert (read.documents, read.queries) == (plain.documents, plain.queries)
    assert in_order(read.qrels) == in_order(plain.qrels)


@settings(deadline=None, max_examples=60)
@given(given_tables=datasets(), data=st.data())
def test_jsonl_keeps_everything(
    tmp_path_factory: pytest.TempPathFactory, given_tables: Tables, data: st.DataObject
) -> None:
    texts = dict(column_values(given_tables.documents, "document_id", "text"))
    rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for row in given_tables.qrels.to_pylist():
        text = texts[row["document_id"]]
        span = data.draw(st.none() | st.tuples(st.integers(0, 12), st.integers(0, 12)))
        if span is not None and text[slice(*span)].strip():
            row["start"], row["end"] = span[0], min(span[1], len(text))
            row["evidence_id"] = f"{row['document_id']}#{row['start']}-{row['end']}"
        if data.draw(st.booleans()):
            row["evidence_id"] = data.draw(st.sampled_from(["e1", "e2"]))
        values = tuple(row.values())
        rows[values[:-1]] = values
    full = given_tables._replace(qrels=tables([], [], list(rows.values())).qrels)
    read, notes = written("jsonl", full, tmp_path_factory.mktemp("w") / "out")
    assert (read, notes) == (full, [])


@settings(deadline=None, max_examples=60)
@given(given_tables=datasets(TREC_ID))
def test_trec_keeps_documents_texts_and_grades(
    tmp_path_factory: pytest.TempPathFactory, given_tables: Tables
) -> None:
    read, notes = written("trec", given_tables, tmp_path_factory.mktemp("w") / "out")
    assert read.documents == given_tables.documents
    assert read.qrels == given_tables.qrels
    texts = given_tables.queries.column("text").to_pylist()
    lines = [text for text in texts if "\n" in text or "\r" in text]
    rows = given_tables.queries.to_pylist()
    tagged = [row for row in rows if row["tags"]]
    counts = (len(lines), len(tagged), sum(row["metadata"] != "{}" for row in rows))
    assert [line.rpartition(" ")[2] for line in notes] == [str(n) for n in counts if n]
    for before, after in zip(texts, read.queries.column("text").to_pylist(), strict=True):
        assert after == before or before in lines


LOSSY = tables(
    [
        ("d1", "Title", "some text", '{"a":1,"b":null}'),
        ("d2", "", "other", '{"a":"x","title":"t"}'),
        ("d3", "Third", "third", '{"title":"u"}'),
    ],
    [
        ("q1", "one\ntwo", ["tag"], '{"tags":"y","answers":["a"]}'),
        ("q2", "three", [], '{"tags":["z"],"m":1}'),
    ],
    [
        ("q1", "e1", "d1", 0, 4, 2),
        ("q1", "e1", "d2", None, None, 1),
        ("q1", "e2", "d1", 5, 9, 3),
        ("q2", "named", "d3", None, None, 1),
        ("q2", "d1", "d1", None, None, 0),
    ],
)
PAIR_NOTES = [
    "spans, written as whole documents: 2",
    "judgments of a document that is judged already; the highest grade is kept: 1",
    "groups of alternatives, written as separate judgments: 1",
    "evidence ids, left out: 2",
]
NO_GRADES = ["judgments of grades below 1, left out: 1", "grades above 1, written as 1: 1"]


@pytest.mark.parametrize(
    ("form", "notes"),
    [
        ("jsonl", []),
        ("beir", [*PAIR_NOTES, "metadata fields `tags`, replaced by the tags: 2"]),
        (
            "trec",
            [
                *PAIR_NOTES,
                "queries of several lines, written as one line each: 1",
                "queries without their tags: 1",
                "queries without their metadata: 2",
            ],
        ),
        (
            "llamaindex",
            [
                *PAIR_NOTES,
                *NO_GRADES,
                "documents without their title: 2",
                "documents without their metadata: 3",
                "queries without their tags: 1",
                "queries without their metadata: 2",
            ],
        ),
    ],
)
def test_what_is_lost_is_said(tmp_path: Path, form: str, notes: list[str]) -> None:
    read, said = written(form, LOSSY, tmp_path / "out")
    assert sorted(said) == sorted(notes)
    grades = {(row["query_id"], row["document_id"]): row["grade"] for row in read.qrels.to_pylist()}
    if form in ("beir", "trec"):  # of judgments that become one the highest grade is kept
        assert [*grades.values()] == [3, 1, 1, 0]
    assert read.documents.num_rows == 3
    assert read.queries.num_rows == 2


def test_what_jsonl_cannot_hold(tmp_path: Path) -> None:
    blank = tables(
        [("d", "", "a  b", "{}")], [("q", "t", ["", "x"], "{}")], [("q", "e", "d", 1, 3, 1)]
    )
    read, said = written("jsonl", blank, tmp_path / "out")
    assert sorted(said) == [
        "blank spans, written as whole documents: 1",
        "queries whose empty tag is dropped: 1",
    ]
    assert read.qrels["start"].null_count == 1
    assert read.queries["tags"].to_pylist() == [["x"]]


OF_TREC = "holds white space or begins with '<', '#' or a byte order mark"


@pytest.mark.parametrize(
    ("form", "found", "problem"),
    [
        ("beir", "a\tb", "holds a tab or begins or ends with a blank: qrels cannot hold it"),
        ("trec", "a b", f"{OF_TREC}: TREC files cannot hold it"),
        ("trec", "<a", f"{OF_TREC}: TREC files cannot hold it"),
    ],
)
def test_ids_that_do_not_fit(tmp_path: Path, form: str, found: str, problem: str) -> None:
    bad = tables([(found, "", "t", "{}")], [("q", "t", [], "{}")], [])
    with pytest.raises(DataError) as caught:
        write_dataset(bad, form, tmp_path / "out")
    assert str(caught.value) == f"document id {found!r} {problem}"
    assert list(tmp_path.iterdir()) == []


def test_only_into_a_new_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write_dataset(LOSSY, "beir", tmp_path / "out")
    with pytest.raises(UsageError, match="out: already exists; choose a new folder"):
        write_dataset(LOSSY, "beir", tmp_path / "out")
    with pytest.raises(UsageError, match="unknown format to write 'squad'; allowed: jsonl, beir"):
        write_dataset(LOSSY, "squad", tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
