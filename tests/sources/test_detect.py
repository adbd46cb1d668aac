from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from rag_assets.errors import DataError, UsageError
from rag_assets.sources import FORMATS, open_dataset
from rag_assets.sources.formats import unread_files

Write = Callable[[Mapping[str, str | bytes]], Path]

BEIR = {"corpus.jsonl": '{"_id": 1, "text": "t"}', "queries.jsonl": "", "qrels/test.tsv": "1 1 1"}
NAMES = ["llamaindex", "squad", "beir", "autorag", "trec", "jsonl", "csv"]
NAMES += ["parquet", "markdown"]
LOOKED_FOR = (
    "looked for: a .json file with the keys queries, corpus, relevant_docs (llamaindex); a SQuAD "
    ".json file with data, paragraphs and qas (squad); a folder with corpus.jsonl, "
    "queries.jsonl and qrels/ (beir); a folder with corpus.parquet and qa.parquet (autorag); a "
    "folder with topics.* or queries.tsv, qrels*, corpus.*, corpus/ or collection.tsv (trec); a "
    "folder with documents.jsonl, or corpus.jsonl and no qrels/ (jsonl); a folder with "
    "documents.csv (csv); a folder with documents.parquet (parquet); a folder with .md, "
    ".markdown, .txt, .html, .htm or .pdf files (markdown)"
)


@pytest.mark.parametrize(
    ("files", "name", "format"),
    [
        (BEIR, ".", "beir"),
        ({**BEIR, "notes/a.md": "stray"}, ".", "beir"),
        ({"deep/er/a.txt": ""}, ".", "markdown"),
        ({"A.MD": ""}, ".", "markdown"),
        ({"a.json": '\n { "queries" : {'}, "a.json", "llamaindex"),
        ({"a.json": '{"mode": "text"'}, "a.json", "llamaindex"),
        ({"a.json": '{"version": "1.1", "data": [{"title":'}, "a.json", "squad"),
        ({"a.json": '{"data":[ { "paragraphs":'}, "a.json", "squad"),
        ({"topics.x.gz": "", "qrels-x": "", "docs/deep/a.txt": ""}, ".", "trec"),
        ({"topics.tsv": "", "qrels.txt": "", "corpus.jsonl": ""}, ".", "trec"),
        ({"topics.tsv": "", "qrels.txt": "", "a.md": ""}, ".", "markdown"),
        ({"Corpus_1.parquet": "", "my_qa.parquet": "", "a.md": ""}, ".", "autorag"),
        ({**BEIR, "topics.tsv": "", "qrels.txt": ""}, ".", "beir"),
    ],
)
def test_layout_decides(write: Write, files: dict[str, str], name: str, format: str) -> None:
    assert open_dataset(write(files) / name).format == format


def test_beir_wins_over_stray_files_and_says_so(write: Write) -> None:
    notes = unread_files(open_dataset(write({**BEIR, "notes/a.md": "stray"})), [])
    assert notes == ["1 file beside the documents is not read: notes/a.md"]


def test_format_can_be_said(write: Write) -> None:
    folder = write({**BEIR, "notes/a.md": "stray"})
    assert open_dataset(folder, "markdown").format == "markdown"
    assert list(FORMATS) == NAMES


@pytest.mark.parametrize(
    ("files", "name", "problem"),
    [
        ({}, ".", "an empty folder"),
        ({"README.md": "x", ".git/a.md": "x"}, ".", "a folder of no known format"),
        ({"a.pdf": "x"}, "a.pdf", "a file of no known format"),
    ],
)
def test_unrecognised(write: Write, files: dict[str, str], name: str, problem: str) -> None:
    path = write(files) / name
    with pytest.raises(DataError) as caught:
        open_dataset(path)
    assert str(caught.value) == f"{path}: {problem}; {LOOKED_FOR}"


NEAR = {
    "queries missing": (
        {"corpus.jsonl": "", "qrels/test.tsv": ""},
        ".",
        "a folder of no known format; nearest: a folder with corpus.jsonl, queries.jsonl "
        "and qrels/ (beir), where there is no queries.jsonl",
    ),
    "documents missing": (
        {"queries.csv": "", "judgments.csv": ""},
        ".",
        "a folder of no known format; nearest: a folder with documents.jsonl, or corpus.jsonl and "
        "no qrels/ (jsonl), where there is no documents.jsonl",
    ),
    "corpus missing": (
        {"queries.dev.tsv": "", "qrels.dev.tsv": ""},
        ".",
        "a folder of no known format; nearest: a folder with topics.* or queries.tsv, qrels*, "
        "corpus.*, corpus/ or collection.tsv (trec), where there is no corpus.*, corpus/ or "
        "collection.tsv",
    ),
    "questions missing": (
        {"corpus.parquet": ""},
        ".",
        "a folder of no known format; nearest: a folder with corpus.parquet and qa.parquet "
        "(autorag), where there is no qa.parquet",
    ),
    "keys missing": (
        {"a.json": '{"data": []}'},
        "a.json",
        "a file of no known format; nearest: a SQuAD .json file with data, paragraphs and qas "
        "(squad), where there is no `paragraphs`, no `qas`",
    ),
    "another beginning": (
        {"a.json": '{"name": "x", "queries": {}, "corpus": {}, "relevant_docs": {}}'},
        "a.json",
        "a file of no known format; nearest: a .json file with the keys queries, corpus, "
        "relevant_docs (llamaindex), but it begins otherwise; say `format: llamaindex`",
    ),
    "one file of a folder": (
        {"my.csv": "id,text"},
        "my.csv",
        "a file of no known format; nearest: a folder with documents.csv (csv); a folder is read, "
        "not one file of it",
    ),
}


@pytest.mark.parametrize(("files", "name", "message"), NEAR.values(), ids=NEAR)
def test_the_nearest_layout_and_what_it_lacks(
    write: Write, files: dict[str, str], name: str, message: str
) -> None:
    path = write(files) / name
    with pytest.raises(DataError) as caught:
        open_dataset(path)
    assert str(caught.value) == f"{path}: {message}"


def test_wrong_use(write: Write) -> None:
    folder = write({"a.md": "x", "b.json": '{"queries":{}}'})
    cases: list[tuple[Path, dict[str, str], type[Exception], str]] = [
        (folder / "no", {}, UsageError, f"{folder}/no: no such file or folder"),
        (
            folder,
            {"format": "beer"},
            UsageError,
            f"unknown dataset format 'beer' (did you mean 'beir'?); allowed: {', '.join(NAMES)}",
        ),
        (
            folder,
            {"format": "beir"},
            DataError,
            f"{folder}: not a BEIR folder: corpus.jsonl, queries.jsonl, qrels/ missing",
        ),
        (
            folder,
            {"format": "llamaindex"},
            DataError,
            f"{folder}: not a .json file with the keys queries, corpus, relevant_docs",
        ),
        (
            folder / "b.json",
            {"format": "markdown"},
            DataError,
            f"{folder}/b.json: not a folder with .md, .markdown, .txt, .html, .htm or .pdf files",
        ),
        (
            folder,
            {"subset": "test"},
            UsageError,
            f"{folder}: subset 'test': a markdown folder has no subsets",
        ),
        (
            folder / "b.json",
            {"subset": "test"},
            UsageError,
            f"{folder}/b.json: subset 'test': a llamaindex file has no subsets",
        ),
    ]
    for path, arguments, kind, message in cases:
        with pytest.raises(kind) as caught:
            open_dataset(path, **arguments)
        assert str(caught.value) == message


def test_name_too_long_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: File name too long"):
        open_dataset(tmp_path / ("x" * 5000))
