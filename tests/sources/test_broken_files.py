"""A table of bad inputs, each with the whole line that it must give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from rag_assets.errors import DataError
from rag_assets.sources import Dataset, Read, open_dataset
from rag_assets.sources.folder_queries import NO_QUESTIONS, template_text

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


def beir_query(line: str) -> tuple[str, str]:
    return "queries.jsonl", line


def qrels(rows: str) -> tuple[str, str]:
    return "qrels/test.tsv", rows


def query(line: str) -> tuple[str, str]:
    return "queries.jsonl", line


def judgment(rest: str, query_id: str = '"q1"', doc_id: str = '"a.md"') -> tuple[str, str]:
    line = f'{{"query_id": {query_id}, "doc_id": {doc_id}{rest}}}\n'
    return "judgments.jsonl", f"\n{line}"


BEIR_CASES = [
    (
        jsonl("{bad}"),
        "corpus.jsonl:2: malformed JSON at byte 2 (object keys must be strings)",
    ),
    (jsonl('{"text": "t"}'), "corpus.jsonl:2: `_id`: is missing; found keys: 'text'"),
    (
        jsonl('\n{"_id": "d1", "text": "t"}'),
        "corpus.jsonl:3: `_id`: document id 'd1' occurs twice, first on line 1",
    ),
    (
        beir_query('{"_id": 1, "text": "t"}\n{"_id": "1", "text": "u"}'),
        "queries.jsonl:2: `_id`: query id '1' occurs twice, first on line 1",
    ),
    (qrels(""), "qrels/test.tsv: holds no judgment; labels are required"),
    (
        qrels("q1 d1 1\n\nq1 d1 2\n"),
        "qrels/test.tsv:3: query 'q1' and document 'd1' are judged twice, first on line 1",
    ),
    (
        qrels("q1\td3\t1\n"),
        "qrels/test.tsv:1: `corpus-id`: unknown document 'd3'"
        "; `dataset: {unknown_documents: keep}` keeps such judgments",
    ),
    (qrels("x\td1\t1\n"), "qrels/test.tsv:1: `query-id`: unknown query 'x'"),
    (
        qrels("q1\td1\thigh\n"),
        ("qrels/test.tsv:1: `score`: is 'high'; must be a grade: an integer that fits 32 bits"),
    ),
    (
        qrels("q1\td1\t9999999999\n"),
        ("qrels/test.tsv:1: `score`: is 9999999999; must be a grade: an integer that fits 32 bits"),
    ),
    (
        qrels("q1,d1,1\n"),
        "qrels/test.tsv:1: found 1 columns; must be query-id, corpus-id, score or query-id, "
        "iteration, corpus-id, score",
    ),
    (
        qrels("\td1\t1\n"),
        (
            "qrels/test.tsv:1: `query-id`: is ''; must be an id: a text of one "
            "line that is not empty, or an integer"
        ),
    ),
]

NEEDED = (
    "no such file; besides its documents the folder needs queries.jsonl, and judgments.jsonl "
    "where there are labels"
)
EXAMPLE = (
    "is still the example that `rag-assets init` wrote; put your own question in its place, or "
    "delete the line"
)
MARKDOWN_CASES: list[tuple[tuple[str, str | bytes | None], str]] = [
    (
        ("queries.jsonl", template_text().splitlines()[0]),
        f"queries.jsonl:1: `text`: {EXAMPLE}",
    ),
    (("judgments.jsonl", None), f"judgments.jsonl: {NEEDED}"),
    (("judgments.jsonl", ""), "judgments.jsonl: holds no judgment; labels are required"),
    (("a.md", b"fine\n\nbad \xe9\n"), "a.md:3: not UTF-8: byte 0xe9, the 5. of its line"),
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
        query('{"id": "q1", "text": "t"}'),
        "queries.jsonl:1: `query_id`: is missing; found keys: 'id', 'text'",
    ),
    (
        judgment("", doc_id='"b.md"'),
        "judgments.jsonl:2: `doc_id`: unknown document 'b.md' (did you mean 'guides/b.md'?)"
        "; `dataset: {unknown_documents: keep}` keeps such judgments",
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
    ('{"queries": {}}\n', "a.json: `corpus`: is missing; needed: queries, corpus, relevant_docs"),
    (
        '{\n"queries": {"q": "t"},,\n}',
        "a.json:2: malformed JSON at byte 23 (object keys must be strings)",
    ),
    (
        '{"queries": {"": "t"}, "corpus": {"n": "a"}, "relevant_docs": {}}',
        (
            "a.json: `queries`: is ''; must be an id: a text of one line that is "
            "not empty, or an integer"
        ),
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
    (
        '{"queries": {}, "corpus": {"n": "a"}, "relevant_docs": {}}',
        "a.json: holds no query; at least one is needed",
    ),
    (
        '{"queries": {"q": "t"}, "corpus": {}, "relevant_docs": {}}',
        "a.json: holds no document; at least one is needed",
    ),
    (
        '{"queries": {"q": "t"}, "corpus": {"n": "a"}, "relevant_docs": {"q": []}}',
        "a.json: holds no judgment; labels are required",
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
