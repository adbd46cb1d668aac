from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rag_assets.errors import DataError
from rag_assets.query_sets.file import read_variants
from rag_assets.sources.json_datasets import LlamaIndexDataset
from tests.query_sets.queries import queries_of, texts_of

QUERIES = queries_of({"1": "Who wrote it?", "2": "Who  WROTE it?", "3": "When?"})

WITHOUT = "queries without a variant in the file keep their original alone"
OF_OTHERS = "entries of the file are for other queries"


def write(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_json_lines(tmp_path: Path) -> None:
    lines = '{"query_id": 3, "variants": ["At what time?", "when?"]}\n\n'
    lines += (
        '{"query_id": "1", "variants": [], "note": "none"}\n{"query_id": "9", "variants": ["x"]}'
    )
    found = read_variants(write(tmp_path, "rewritten.jsonl", lines), QUERIES)
    assert texts_of(found.table) == {
        "1": ["Who wrote it?"],
        "2": ["Who  WROTE it?"],
        "3": ["When?", "At what time?"],
    }
    assert found.notes == [f"1 {WITHOUT}", f"1 {OF_OTHERS}"]


def test_llamaindex(tmp_path: Path) -> None:
    content = {"queries": {"1": "Who is the author?", "8": "x"}, "corpus": {}, "relevant_docs": {}}
    found = read_variants(write(tmp_path, "rewritten.json", content), QUERIES)
    assert texts_of(found.table)["1"] == ["Who wrote it?", "Who is the author?"]
    assert found.notes == [f"2 {WITHOUT}", f"1 {OF_OTHERS}"]


def test_by_text(tmp_path: Path) -> None:
    content = {"who wrote it?": ["By whom?", "Author?"], "When?": "Which year?", "Where?": ["x"]}
    found = read_variants(write(tmp_path, "rewritten.json", content), QUERIES)
    assert texts_of(found.table) == {
        "1": ["Who wrote it?", "By whom?", "Author?"],
        "2": ["Who  WROTE it?", "By whom?", "Author?"],
        "3": ["When?", "Which year?"],
    }
    assert found.notes == [f"1 {OF_OTHERS}"]


def test_a_query_may_be_the_word_queries(tmp_path: Path) -> None:
    found = read_variants(
        write(tmp_path, "a.json", {"queries": ["x"]}), queries_of({"1": "queries"})
    )
    assert texts_of(found.table) == {"1": ["queries", "x"]}


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.jsonl", '{"query_id": "1"}', ":1: `variants`: is null; must be a list of strings"),
        ("a.jsonl", '{"variants": []}', ":1: `query_id`: is missing"),
        ("a.jsonl", '\n{"query_id": "1", "variants": "x"}', ":2: `variants`: is a string; must be"),
        (
            "a.jsonl",
            '{"query_id": "1", "variants": ["x", 1]}',
            r":1: `variants\[1\]`: is an integer",
        ),
        ("a.jsonl", '{"query_id": "1", "variants": [" "]}', r":1: `variants\[0\]`: is blank"),
        (
            "a.jsonl",
            '{"query_id": "1", "variants": []}\n{"query_id": 1, "variants": []}',
            ":2: `query_id`: '1' was on line 1 already",
        ),
        ("a.jsonl", "[1]", ":1: found a list; each line must be one JSON object"),
        ("a.json", {"queries": {"1": ["x"]}}, r"`queries\.1`: is a list; must be a string"),
        ("a.json", {"When?": [None]}, r"`'When\?'\[0\]`: is null; must be a string"),
        ("a.json", {"When?": 3}, r"`'When\?'`: is an integer; must be a list of strings"),
        ("a.json", {"When?": [], "when?": []}, r"`'when\?'`: is the same query as 'When\?'"),
        ("a.json", '{"When?": [],\n}', ":2: malformed JSON"),
        ("a.json", ["x"], "found a list; must be JSON lines"),
        ("a.json", {"else": ["x"]}, "fits no query: it names 1, such as 'else'; query ids are '1'"),
        ("a.json", {}, "fits no query: it names 0; query ids"),
    ],
)
def test_broken_files(tmp_path: Path, name: str, content: object, problem: str) -> None:
    path = write(tmp_path, name, content)
    with pytest.raises(DataError, match=problem) as raised:
        read_variants(path, QUERIES)
    assert str(raised.value).startswith(str(path))


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_variants(tmp_path / "gone.json", QUERIES)


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["doc_qa_dataset.json", "doc_qa_test_demo.json"])
def test_published_rewritings(shared_data: Callable[[str], Path], name: str) -> None:
    folder = shared_data("seed_doc_qa")
    queries = LlamaIndexDataset.open(folder / name).read_queries().table
    found = read_variants(folder / "query_rewrite.json", queries)
    n_others = 321 - queries.num_rows
    assert found.notes == ([f"{n_others} {OF_OTHERS}"] if n_others else [])
    sizes = [len(texts) for texts in texts_of(found.table).values()]
    assert len(sizes) == queries.num_rows
    assert set(sizes) <= {2, 3, 4}  # a few of the three rewritings are alike
    assert sizes.count(4) > 0.9 * len(sizes)
    itself = read_variants(folder / name, queries)
    assert itself.table.num_rows == queries.num_rows
