"""Texts by which chunks are found: which there are, who writes them, what of it is taken."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rag_assets.chunking.index_texts import (
    OF_CHUNK,
    IndexText,
    Kind,
    chunk_requests,
    index_rows,
    index_texts,
    indexed_texts,
    parsed_texts,
    texts_from_file,
)
from rag_assets.errors import ConfigError, DataError
from rag_assets.experiment import load_experiment
from rag_assets.llm.client import Answer, Completion
from rag_assets.query_sets.model_output import Unusable
from rag_assets.schemas import CHUNKS
from rag_assets.servers.failures import Failed
from tests.sources.files import json_lines
from tests.tiny_experiment import Tiny


def chunks_of(*rows: tuple[str, int, int, str, str, str]) -> pa.Table:
    """Chunks by document, span, title, headings and text."""
    names = ("document_id", "start", "end", "title", "heading_path", "text")
    table: list[dict[str, object]] = [
        {**dict(zip(names, row, strict=True)), "chunk_id": f"{row[0]}#{row[1]}-{row[2]}"}
        for row in rows
    ]
    return CHUNKS.from_rows(table)


CHUNKED = chunks_of(
    ("a", 0, 10, "Fares", "Fares > Dogs", "Ten crowns"),
    ("a", 10, 16, "Fares", "", "Card."),
    ("b", 0, 0, "", "", ""),
)


def test_texts_of_each_chunk_written_out() -> None:
    written = {
        "questions": [["What is it?", "What is it?", "How much?"], [" "], []],
        "context": [["Of dogs."], [], []],
    }
    kinds = ["text", "headings", "questions", "context"]
    table = index_texts(CHUNKED, indexed_texts(CHUNKED).to_pylist(), kinds, written)
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        ("a#0-10", "text", 0, "Fares\nTen crowns"),
        ("a#0-10", "headings", 0, "Fares\nDogs"),
        ("a#0-10", "questions", 0, "What is it?"),
        ("a#0-10", "questions", 2, "How much?"),
        ("a#0-10", "context", 0, "Fares\nOf dogs.\nTen crowns"),
        ("a#10-16", "text", 0, "Fares\nCard."),
        ("a#10-16", "headings", 0, "Fares"),
        ("b#0-0", "text", 0, ""),  # nothing else is there: it keeps a row
    ]
    rows = index_rows(CHUNKED, table)
    assert rows[OF_CHUNK].to_pylist() == table["chunk_id"].to_pylist()
    assert len(set(rows["chunk_id"].to_pylist())) == len(rows)
    for title, text, document, of in zip(
        *(rows[name].to_pylist() for name in ("title", "text", "document_id", OF_CHUNK)),
        strict=True,
    ):
        assert text.startswith(title)  # what is said of titles is true of what is indexed
        assert of.startswith(document)
    assert rows["title"].to_pylist() == ["Fares"] * 2 + [""] * 2 + ["Fares"] * 3 + [""]


def test_without_its_own_text_a_chunk_is_found_by_what_was_written() -> None:
    table = index_texts(CHUNKED, ["own"] * 3, ["summary"], {"summary": [["short"], [], []]})
    assert table["text"].to_pylist() == ["short", "own", "own"]


def says(text: str, finish: str = "stop") -> Completion:
    return Completion(text, None, None, finish)


@pytest.mark.parametrize(
    ("kind", "answer", "expected"),
    [
        ("summary", says("Fares\x1b[31m of\u202edogs\n\nor\x00"), "Fares [31m of dogs or"),
        ("summary", says("half \ud83d here"), "half here"),
        ("summary", says("Passage: About dogs."), "About dogs."),
        ("summary", says("\u200b \x07"), "the answer holds no text"),
        ("summary", says(""), "the answer is empty"),
        ("summary", says("I'm sorry, but I can't help with that."), "the model refused: I'm"),
        ("summary", says("a" * 4001), "the answer has 4001 characters; 4000 are taken"),
        ("summary", Failed("time-out", retryable=True), "time-out"),
        ("questions", says('["What?", "\\u0000", "Why?", "Who?", "One too many?"]'), "What?|Why?"),
        ("questions", says(json.dumps(["b" * 5000, "Short?"])), "Short?"),
        ("questions", says('["Whole?", "Hal', "length"), "Whole?"),
    ],
)  # fmt: skip
def test_what_a_model_wrote_is_data(kind: Kind, answer: Answer, expected: str) -> None:
    parsed = parsed_texts(IndexText(kind=kind), answer)
    if isinstance(parsed, Unusable):
        assert parsed.reason.startswith(expected)
    else:
        assert parsed == expected.split("|")


def test_what_a_model_is_shown() -> None:
    """Passages stand between marks that none of them can write; of a document a window."""
    document = "x" * 500 + "Ten crowns" + "y" * 500
    chunks = chunks_of(
        ("a", 500, 510, "Fares", "Fares > Dogs", "Ten crowns"), ("a", 0, 1, "", "", " ")
    )
    option = IndexText(kind="context", document_characters=100)
    (request,) = chunk_requests(option, chunks, {"a": document})  # nothing is asked of blanks
    prompt = request.messages[-1].content
    assert "x" * 45 + "Ten crowns" + "y" * 45 in prompt
    assert "x" * 46 not in prompt
    assert "Fares\nDogs\nTen crowns" in prompt
    assert prompt.count(" [1]\n") == 2
    (first,) = chunk_requests(IndexText(kind="questions", count=7), chunks[:1], {})
    assert "Write 7 different questions" in first.messages[-1].content


def rows_of(path: Path, *rows: Mapping[str, object]) -> Path:
    path.write_text(json_lines(rows), encoding="utf-8")
    return path


def test_a_file_outlives_another_chunking(tmp_path: Path) -> None:
    """A row belongs to chunks that hold half of its span, or lie half inside it."""
    row = {"document_id": "a", "start": 0, "end": 20, "texts": ["of  both\n", "B"]}
    others = {"document_id": "gone", "start": 0, "end": 5, "texts": ["nobody's"]}
    file = rows_of(tmp_path / "texts.jsonl", row, others)
    option = IndexText(kind="questions", file=file)
    spans = [(0, 12), (12, 30), (30, 40)]
    small = chunks_of(*(("a", start, end, "", "", "x") for start, end in spans))
    found = texts_from_file(option, file, small)
    # The second shares 8 of 18 and of 20 characters.
    assert found.texts == [["of both", "B"], [], []]
    assert found.notes == [
        "2 chunks without questions: found by their other indexed texts: a#12-30, a#30-40",
        "1 row matches no chunk: line 2",
    ]
    whole = chunks_of(("a", 0, 1000, "", "", "x"), ("b", 0, 9, "", "", "x"))
    assert texts_from_file(option, file, whole).texts == [["of both", "B"], []]
    with pytest.raises(DataError, match=r"texts.jsonl: none of its 2 rows matches a chunk"):
        texts_from_file(option, file, whole[1:])


GOOD = {"document_id": "a", "start": 0, "end": 5, "texts": ["t"]}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (GOOD | {"start": "0"}, r"start.*is '0'; must be an integer from 0 on"),
        (GOOD | {"end": 0}, r"end.*is 0; must be above start, 0"),
        (GOOD | {"texts": "t"}, r"texts.*is 't'; must be a list of one or more texts"),
        (GOOD | {"texts": ["t", "\u0007 "]}, r"texts.*text 2 has 0 characters; 1 to 4,000"),
        (GOOD | {"texts": ["t" * 4001]}, r"texts.*text 1 has 4001 characters"),
        (GOOD | {"text": "t"}, r"text.*unknown key; allowed: document_id, start, end, texts"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: Mapping[str, object], problem: str) -> None:
    file = rows_of(tmp_path / "texts.jsonl", GOOD, row)
    with pytest.raises(DataError, match=rf"(?s)texts.jsonl:2: .*{problem}"):
        texts_from_file(IndexText(kind="summary", file=file), file, CHUNKED)


BM25 = {"type": "bm25", "chunking": "parts"}


def refusal(root: Path, chunking: dict[str, Any], **retrievers: Any) -> str:
    """What is said of an experiment with some chunkings and retrievers beside a plain one."""
    tiny = Tiny(root)
    tiny.config["chunking"] |= chunking
    tiny.config["retrievers"] = {"bm25": {**BM25}, **retrievers}
    tiny.config["llms"] = {"a": {"model": "m", "base_url": "http://127.0.0.1:9/v1"}}
    tiny.write()
    (tiny.folder / "p.txt").write_text("version: 1\n[user]\nhello\n")
    for name in ("c.npy", "q.npy", "c.txt", "q.txt"):
        (tiny.folder / name).touch()
    with pytest.raises(ConfigError) as error:
        load_experiment(tiny.folder)
    assert "experiment.yaml:" in str(error.value) or "p.txt" in str(error.value)
    return str(error.value)


def parts(*texts: object) -> dict[str, Any]:
    block = {"strategy": "recursive", "max_tokens": 16, "overlap": 0}
    return {"parts": {**block, "index_texts": list(texts)}}


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["text", "sumary"], "index_texts.1`: should be 'text', 'headings', .*found 'sumary'"),
        (["text", "text"], "'text' occurs twice"),
        ([{"kind": "summary", "count": 2}], "count: not an option of summary"),
        (["text", {"kind": "questions", "file": "f", "llm": "a"}], "llm: not an option of ques"),
        ([{"kind": "summary", "file": "gone.jsonl"}], "index_texts.0.file`: no such file: .*gone"),
        (["summary"], "index_texts.0`: needs a language model; name one of `llms`: `llm: a`"),
        ([{"kind": "summary", "llm": "b"}], "index_texts.0.llm`: unknown model 'b'"),
        ([{"kind": "summary", "template": "p.txt", "llm": "a"}], r"write \{chunk\}"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_the_yaml_is_named(
    tmp_path: Path, texts: list[object], problem: str
) -> None:
    assert re.search(problem, refusal(tmp_path, parts(*texts)))


VECTORS = {"chunk_vectors": "c.npy", "query_vectors": "q.npy"}


@pytest.mark.parametrize(
    "options",
    [
        {"expand": {"type": "rm3"}},
        {"type": "vectors", **VECTORS, "chunk_ids": "c.txt", "query_ids": "q.txt"},
        {"type": "qdrant", "url": "http://127.0.0.1:9", "collection": "c"},
    ],
)
def test_who_cannot_index_several_texts_says_so(tmp_path: Path, options: dict[str, Any]) -> None:
    said = refusal(tmp_path, parts("text", "headings"), other={**BM25, **options})
    assert "other.chunking`: 'parts' has index_texts, which" in said


def test_parts_of_a_parent_chunking_have_none(tmp_path: Path) -> None:
    part = {"strategy": "fixed", "max_characters": 40, "overlap": 0}
    nested = {"strategy": "parent", "child": {**part, "index_texts": ["text"]}, "parent": part}
    said = refusal(tmp_path, {"nested": nested})
    assert "nested`: put index_texts next to child and parent" in said
