"""Tables of bad inputs of every format, each with the whole line that it must give."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_assets.errors import DataError
from rag_assets.sources import Dataset, Read, open_dataset
from rag_assets.sources.labelled_folder import NO_QUESTIONS, template_text

Write = Callable[[Mapping[str, str | bytes]], Path]
ReadAll = Callable[[Dataset], tuple[Read, Read, Read]]

BEIR: dict[str, str | bytes] = {
    "corpus.jsonl": '{"_id": "d1", "text": "t"}\n{"_id": "d2", "text": "t"}\n',
    "queries.jsonl": '{"_id": "q1", "text": "t"}\n',
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
}
MARKDOWN: dict[str, str | bytes] = {
    "a.md": "# The Title\nOne fee is 40 kr.\nAnother fee\nis 50 kr.\n",
    "guides/b.md": "Dogs pay half.\n",
    "queries.jsonl": '{"query_id": "q1", "text": "t"}\n',
    "judgments.jsonl": '{"query_id": "q1", "doc_id": "a.md"}\n',
}


def jsonl(line: str | bytes) -> tuple[str, str | bytes]:
    """A BEIR corpus whose second line is ``line``."""
    raw = line.encode() if isinstance(line, str) else line
    return "corpus.jsonl", b'{"_id": "d1", "text": "t"}\n' + raw + b"\n"


def qrels(rows: str) -> tuple[str, str]:
    return "qrels/test.tsv", rows


def judgment(rest: str, query_id: str = '"q1"', doc_id: str = '"a.md"') -> tuple[str, str]:
    line = f'{{"query_id": {query_id}, "doc_id": {doc_id}{rest}}}\n'
    return "judgments.jsonl", f"\n{line}"


BEIR_CASES = [
    (
        qrels("q1 d1 1\n\nq1 d1 2\n"),
        "qrels/test.tsv:3: query 'q1' and document 'd1' are judged twice, first on line 1",
    ),
    (
        qrels("q1\td3\t1\n"),
        "qrels/test.tsv:1: `corpus-id`: unknown document 'd3'"
        "; `dataset: {unknown_documents: keep}` keeps such judgments",
    ),
    (
        qrels("q1,d1,1\n"),
        "qrels/test.tsv:1: found 1 columns; must be query, iteration, document, grade, with or "
        "without the iteration",
    ),
]

NEEDED = (
    "no such file; besides documents, the folder needs queries.jsonl, and judgments.jsonl "
    "where there are labels"
)
EXAMPLE = (
    "is still an example from `rag-assets init`; put your own question in its place, or "
    "delete the line"
)
MARKDOWN_CASES: list[tuple[tuple[str, str | bytes | None], str]] = [
    (("queries.jsonl", template_text().splitlines()[0]), f"queries.jsonl:1: `text`: {EXAMPLE}"),
    (("judgments.jsonl", None), f"judgments.jsonl: {NEEDED}"),
    (("a.md", "---\n? [a]\n: 1\n---\n"), "a.md:2: front matter keys must be text"),
    (
        ("a.md", "---\na: &x [1]\nb: *x\n---\n"),
        "a.md:2: front matter with an alias (*name) of this value; write it out",
    ),
    (
        ("a.md", "---\na: 1\nb: \x07\n---\n"),
        "a.md:3: invalid front matter: character U+0007 is not allowed in YAML",
    ),
    (
        ("a.md", '---\na: "\\ud800"\n---\n'),
        "a.md:2: front matter with a lone surrogate, half of a character",
    ),
    (
        judgment("", query_id='"q11"'),
        "judgments.jsonl:2: `query_id`: unknown query 'q11' (did you mean 'q1'?)",
    ),
    (
        judgment(', "quote": "Another  fee is"'),
        "judgments.jsonl:2: `quote`: 'Another fee is' is not in 'a.md' as written, only with "
        "other white space, at characters 18-32",
    ),
    (
        judgment(', "quote": "Dogs pay"'),
        "judgments.jsonl:2: `quote`: 'Dogs pay' is not in 'a.md'; it is in 'guides/b.md'",
    ),
    (
        ("judgments.jsonl", '{"query_id": "q1", "doc_id": "a.md", "quote": "One"}\n' * 2),
        "judgments.jsonl:2: query 'q1' and document 'a.md', characters 0-3 are judged twice, "
        "first on line 1",
    ),
]

LLAMAINDEX_CASES = [
    ("[]", "a.json: found a list; must be an object"),
    ('{"queries": {}}\n', "a.json: `corpus`: is missing; found keys: 'queries'"),
    (
        '{\n"queries": {"q": "t"},,\n}',
        "a.json:2: malformed JSON at byte 23 (object keys must be strings)",
    ),
    (
        '{"queries": {"q": "t"}, "corpus": {"n1": "a"}, "relevant_docs": {"q": ["n1", "n2"]}}',
        "a.json: `relevant_docs.q[1]`: unknown document 'n2'"
        "; `dataset: {unknown_documents: keep}` keeps such judgments",
    ),
    (
        '{"queries": {"q": "t"}, "corpus": {"n": "a"}, "relevant_docs": {"x": ["n"]}}',
        "a.json: `relevant_docs.x`: unknown query 'x'",
    ),
]


def refusal(path: Path, form: str, read_all: ReadAll) -> str:
    with pytest.raises(DataError) as caught:
        read_all(open_dataset(path, form))
    return str(caught.value)


@pytest.mark.parametrize(("broken", "message"), BEIR_CASES)
def test_beir(
    write: Write, read_all: ReadAll, broken: tuple[str, str | bytes], message: str
) -> None:
    name, content = broken
    folder = write({**BEIR, name: content})
    assert refusal(folder, "beir", read_all) == f"{folder}/{message}"


@pytest.mark.parametrize(("broken", "message"), MARKDOWN_CASES)
def test_markdown(
    write: Write, read_all: ReadAll, broken: tuple[str, str | bytes | None], message: str
) -> None:
    name, content = broken
    files = {**MARKDOWN, name: content}
    folder = write({key: value for key, value in files.items() if value is not None})
    assert refusal(folder, "markdown", read_all) == f"{folder}/{message}"


def test_documents_and_nothing_else(write: Write, read_all: ReadAll) -> None:
    folder = write({"a.md": "fine\n"})
    expected = NO_QUESTIONS.format(path=folder)
    assert refusal(folder, "markdown", read_all) == f"{folder}/queries.jsonl: {expected}"


@pytest.mark.parametrize(("content", "message"), LLAMAINDEX_CASES)
def test_llamaindex(write: Write, read_all: ReadAll, content: str, message: str) -> None:
    folder = write({"a.json": content})
    assert refusal(folder / "a.json", "llamaindex", read_all) == f"{folder}/{message}"


TREC: dict[str, str | bytes | None] = {
    "topics.txt": "q1 text\n",
    "qrels.txt": "q1 0 d1 1\n",
    "corpus.tsv": "d1\tt\n",
}
REMEDY = "; `dataset: {unknown_documents: keep}` keeps such judgments"
LINE = "must be query, iteration, document, grade, with or without the iteration"

TREC_CASES: list[tuple[str, str | bytes | None, str]] = [
    (
        "qrels.txt",
        None,
        ": no trec folder: qrels* missing",
    ),
    (
        "topics.txt",
        None,
        ": no trec folder: topics.* or queries.tsv missing",
    ),
    (
        "corpus.tsv",
        None,
        ": no trec folder: corpus.jsonl, corpus/ or collection.tsv missing",
    ),
    ("docs.jsonl", "", ": more than one file for the corpus: corpus.tsv, docs.jsonl; keep one"),
    (
        "topics.b.txt",
        "",
        ": more than one file for topics: topics.b.txt, topics.txt; choose a subset",
    ),
    ("qrels.txt", "q1 d1\n", f"/qrels.txt:1: found 2 columns; {LINE}"),
    ("topics.txt", "q1\n", "/topics.txt:1: found no text; must be 'id<TAB>text' or 'id text'"),
    (
        "topics.txt",
        "\n<top><num>1<title>t\n",
        "/topics.txt:2: is SGML or XML, which is not supported; write topics as lines "
        "'id<TAB>text'",
    ),
    (
        "corpus.tsv",
        "d1\n",
        "/corpus.tsv:1: found 1 columns, separated by tabs; must be id<TAB>text or "
        "id<TAB>text<TAB>title",
    ),
]


def squad(qas: Any, context: Any = "One two one.") -> str:
    paragraph = {"context": context, "qas": qas}
    return json.dumps({"data": [{"title": "T", "paragraphs": [paragraph]}]})


def answer(text: Any, start: Any = 0, **more: Any) -> str:
    found = [{"text": text, "answer_start": start}]
    return squad([{"id": "q", "question": "?", "answers": found, **more}])


QA = "data[0].paragraphs[0].qas[0]"
SQUAD_CASES = [
    ('{"data": {}}', "`data`: is an object; must be a list of objects"),
    ('{"data": [1]}', "`data[0]`: is 1; must be an object"),
    ('{"data": [{"title": "T"}]}', "`data[0].paragraphs`: is missing; found keys: 'title'"),
    (squad(5), "`data[0].paragraphs[0].qas`: is 5; must be a list of objects"),
    (
        squad([{"id": "q", "question": "?"}] * 2),
        f"`data[0].paragraphs[0].qas[1].id`: query id 'q' occurs twice, first at `{QA}.id`",
    ),
    (answer("three"), "holds no judgment; labels are required"),
    (answer("two", "4"), f"`{QA}.answers[0].answer_start`: is '4'; must be an integer"),
    (answer("One", is_impossible=True), f"`{QA}.is_impossible`: is true, but there are answers: 1"),
    (
        squad([{"id": "q", "question": "?", "is_impossible": 1}]),
        f"`{QA}.is_impossible`: is 1; must be true or false",
    ),
]

CORPUS: dict[str, Any] = {"doc_id": ["d1", "d2"], "contents": ["a", "b"]}
ASKED: dict[str, Any] = {"qid": ["q1"], "query": ["t"], "retrieval_gt": [[["d1"]]]}
AUTORAG_CASES: list[tuple[str, dict[str, Any], str]] = [
    (
        "qa",
        {**ASKED, "retrieval_gt": ["[['d1']]"]},
        ":1: `retrieval_gt`: is \"[['d1']]\"; must be a list of lists of ids",
    ),
    (
        "qa",
        {**ASKED, "retrieval_gt": [["d1", "d2"]]},
        ":1: `retrieval_gt[0]`: is 'd1'; must be a list of ids",
    ),
    (
        "qa",
        {**ASKED, "retrieval_gt": [[["d1"], ["x"]]]},
        f":1: `retrieval_gt[1]`: unknown document 'x'{REMEDY}",
    ),
    (
        "qa",
        {**ASKED, "retrieval_gt": [[["d1", "a\nb"]]]},
        (
            ":1: `retrieval_gt[0][1]`: is 'a\\nb'; must be an id: a text of one "
            "line that is not empty, or an integer"
        ),
    ),
]


@pytest.mark.parametrize(("name", "content", "message"), TREC_CASES)
def test_trec(
    write: Any, read_all: Any, name: str, content: str | bytes | None, message: str
) -> None:
    files = {**TREC, name: content}
    folder = write({key: value for key, value in files.items() if value is not None})
    assert refusal(folder, "trec", read_all) == f"{folder}{message}"


@pytest.mark.parametrize("name", ["topics.txt", "qrels.txt", "corpus.tsv"])
def test_damaged_gzip(write: Any, read_all: Any, name: str) -> None:
    whole = gzip.compress(str(TREC[name]).encode())
    files = {key: value for key, value in TREC.items() if key != name}
    folder = write({**files, f"{name}.gz": whole[:-4]})
    assert refusal(folder, "trec", read_all).startswith(
        f"{folder}/{name}.gz: cannot be read: damaged gzip data ("
    )


def test_not_gzip(write: Any, read_all: Any) -> None:
    folder = write({**TREC, "qrels.txt.gz": "x", "qrels.txt": ""})
    (folder / "qrels.txt").unlink()
    assert refusal(folder, "trec", read_all) == (
        f"{folder}/qrels.txt.gz: cannot be read: Not a gzipped file (b'x')"
    )


@pytest.mark.parametrize(("content", "message"), SQUAD_CASES)
def test_squad(write: Any, read_all: Any, content: str, message: str) -> None:
    path = write({"a.json": content}) / "a.json"
    between = ":" if message[0].isdigit() else ": "
    assert refusal(path, "squad", read_all) == f"{path}{between}{message}"


@pytest.mark.parametrize(("part", "columns", "message"), AUTORAG_CASES)
def test_autorag(
    tmp_path: Path, read_all: Any, part: str, columns: dict[str, Any], message: str
) -> None:
    tables = {"corpus": CORPUS, "qa": ASKED, part: columns}
    for name, content in tables.items():
        pq.write_table(pa.table(content), tmp_path / f"{name}.parquet")
    assert refusal(tmp_path, "autorag", read_all) == f"{tmp_path}/{part}.parquet{message}"


def test_autorag_without_a_part(write: Any, read_all: Any) -> None:
    folder = write({"corpus.parquet": "x" * 20})
    assert refusal(folder, "autorag", read_all) == (
        f"{folder}: no autorag folder: qa.parquet missing"
    )
    write({"qa.parquet": "x"})
    assert refusal(folder, "autorag", read_all).startswith(
        f"{folder}/corpus.parquet: cannot be read as Parquet: Parquet magic bytes not found"
    )
