"""Tables of bad inputs of every format, each with the whole line that it must give."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from rag_assets.errors import DataError
from rag_assets.sources import open_dataset
from rag_assets.sources.labelled_folder import NO_QUESTIONS, template_text
from tests.sources.files import Files, ReadAll, Write, parquet

Case = tuple[str, str | bytes | None, str]
"""A file of a dataset that is good without it, its content, and what is said behind the folder."""

REMEDY = "; `dataset: {unknown_documents: keep}` keeps such judgments"
ID = "must be an id: a text of one line that is not empty, or an integer"

BEIR: Files = {
    "corpus.jsonl": '{"_id": "d1", "text": "t"}\n{"_id": "d2", "text": "t"}\n',
    "queries.jsonl": '{"_id": "q1", "text": "t"}\n',
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
}
MARKDOWN: Files = {
    "a.md": "# The Title\nOne fee is 40 kr.\nAnother fee\nis 50 kr.\n",
    "guides/b.md": "Dogs pay half.\n",
    "queries.jsonl": '{"query_id": "q1", "text": "t"}\n',
    "judgments.jsonl": '{"query_id": "q1", "doc_id": "a.md"}\n',
}


def judgment(rest: str, query_id: str = '"q1"') -> tuple[str, str]:
    return "judgments.jsonl", f'\n{{"query_id": {query_id}, "doc_id": "a.md"{rest}}}\n'


QRELS = "qrels/test.tsv"
LINE = "must be query, iteration, document, grade, with or without the iteration"
BEIR_CASES: list[Case] = [
    (
        *(QRELS, "q1 d1 1\n\nq1 d1 2\n"),
        "/qrels/test.tsv:3: query 'q1' and document 'd1' are judged twice, first on line 1",
    ),
    (QRELS, "q1\td3\t1\n", f"/qrels/test.tsv:1: `corpus-id`: unknown document 'd3'{REMEDY}"),
    (QRELS, "q1,d1,1\n", f"/qrels/test.tsv:1: found 1 columns; {LINE}"),
]

NEEDED = (
    "no such file; besides documents, the folder needs queries.jsonl, and judgments.jsonl "
    "where there are labels"
)
EXAMPLE = (
    "is still an example from `rag-assets init`; put your own question in its place, or "
    "delete the line"
)
MARKDOWN_CASES: list[Case] = [
    ("queries.jsonl", template_text().splitlines()[0], f"/queries.jsonl:1: `text`: {EXAMPLE}"),
    ("judgments.jsonl", None, f"/judgments.jsonl: {NEEDED}"),
    ("a.md", "---\n? [a]\n: 1\n---\n", "/a.md:2: front matter keys must be text"),
    (
        *("a.md", "---\na: &x [1]\nb: *x\n---\n"),
        "/a.md:2: front matter with an alias (*name) of this value; write it out",
    ),
    (
        *("a.md", "---\na: 1\nb: \x07\n---\n"),
        "/a.md:3: invalid front matter: character U+0007 is not allowed in YAML",
    ),
    (
        *("a.md", '---\na: "\\ud800"\n---\n'),
        "/a.md:2: front matter with a lone surrogate, half of a character",
    ),
    (
        *judgment("", query_id='"q11"'),
        "/judgments.jsonl:2: `query_id`: unknown query 'q11' (did you mean 'q1'?)",
    ),
    (
        *judgment(', "quote": "Another  fee is"'),
        "/judgments.jsonl:2: `quote`: 'Another fee is' is not in 'a.md' as written, only with "
        "other white space, at characters 18-32",
    ),
    (
        *judgment(', "quote": "Dogs pay"'),
        "/judgments.jsonl:2: `quote`: 'Dogs pay' is not in 'a.md'; it is in 'guides/b.md'",
    ),
    (
        *("judgments.jsonl", '{"query_id": "q1", "doc_id": "a.md", "quote": "One"}\n' * 2),
        "/judgments.jsonl:2: query 'q1' and document 'a.md', characters 0-3 are judged twice, "
        "first on line 1",
    ),
]

LLAMAINDEX_CASES: list[Case] = [
    ("a.json", "[]", "/a.json: found a list; must be an object"),
    ("a.json", '{"queries": {}}\n', "/a.json: `corpus`: is missing; found keys: 'queries'"),
    (
        *("a.json", '{\n"queries": {"q": "t"},,\n}'),
        "/a.json:2: malformed JSON at byte 23 (object keys must be strings)",
    ),
    (
        "a.json",
        '{"queries": {"q": "t"}, "corpus": {"n1": "a"}, "relevant_docs": {"q": ["n1", "n2"]}}',
        f"/a.json: `relevant_docs.q[1]`: unknown document 'n2'{REMEDY}",
    ),
    (
        "a.json",
        '{"queries": {"q": "t"}, "corpus": {"n": "a"}, "relevant_docs": {"x": ["n"]}}',
        "/a.json: `relevant_docs.x`: unknown query 'x'",
    ),
]

TREC: Files = {"topics.txt": "q1 text\n", "qrels.txt": "q1 0 d1 1\n", "corpus.tsv": "d1\tt\n"}
TREC_CASES: list[Case] = [
    ("qrels.txt", None, ": no trec folder: qrels* missing"),
    ("topics.txt", None, ": no trec folder: topics.* or queries.tsv missing"),
    ("corpus.tsv", None, ": no trec folder: corpus.jsonl, corpus/ or collection.tsv missing"),
    ("docs.jsonl", "", ": more than one file for the corpus: corpus.tsv, docs.jsonl; keep one"),
    (
        *("topics.b.txt", ""),
        ": more than one file for topics: topics.b.txt, topics.txt; choose a subset",
    ),
    (
        *("qrels.b.txt", ""),
        ": more than one file for qrels: qrels.b.txt, qrels.txt; choose a subset",
    ),
    ("qrels.txt", "q1 d1\n", f"/qrels.txt:1: found 2 columns; {LINE}"),
    ("topics.txt", "q1\n", "/topics.txt:1: found no text; must be 'id<TAB>text' or 'id text'"),
    (
        *("topics.txt", "\n<top><num>1<title>t\n"),
        "/topics.txt:2: is SGML or XML, which is not supported; write topics as lines "
        "'id<TAB>text'",
    ),
    (
        *("corpus.tsv", "d1\n"),
        "/corpus.tsv:1: found 1 columns, separated by tabs; must be id<TAB>text or "
        "id<TAB>text<TAB>title",
    ),
]
SHARDS: Files = {**TREC, "corpus.tsv": None, "docs/1.tsv": "d1\tt\n"}
SHARDS_CASES: list[Case] = [
    (
        *("docs/2.tsv", "d1\tt\n"),
        "/docs/2.tsv:1: `id`: document id 'd1' occurs twice, first on line 1 of 1.tsv",
    ),
    (
        *("docs/1", "<DOC><DOCNO>a</DOCNO><TEXT>t</TEXT></DOC>"),
        "/docs/1: a corpus is a file .jsonl or .tsv; TREC's SGML is not supported: write its "
        "documents as JSON lines",
    ),
]


def squad(qas: Any, context: Any = "One two one.") -> str:
    paragraph = {"context": context, "qas": qas}
    return json.dumps({"data": [{"title": "T", "paragraphs": [paragraph]}]})


def answer(text: Any, start: Any = 0, **more: Any) -> str:
    found = [{"text": text, "answer_start": start}]
    return squad([{"id": "q", "question": "?", "answers": found, **more}])


QA = "data[0].paragraphs[0].qas[0]"
SQUAD_CASES: list[Case] = [
    ("a.json", content, f"/a.json: {message}")
    for content, message in (
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
        (
            answer("One", is_impossible=True),
            f"`{QA}.is_impossible`: is true, but there are answers: 1",
        ),
        (
            squad([{"id": "q", "question": "?", "is_impossible": 1}]),
            f"`{QA}.is_impossible`: is 1; must be true or false",
        ),
    )
]

ASKED: dict[str, Any] = {"qid": ["q1"], "query": ["t"]}
AUTORAG: Files = {
    "corpus.parquet": parquet({"doc_id": ["d1", "d2"], "contents": ["a", "b"]}),
    "qa.parquet": parquet({**ASKED, "retrieval_gt": [[["d1"]]]}),
}
AUTORAG_CASES: list[Case] = [
    (
        "qa.parquet",
        parquet({**ASKED, "retrieval_gt": [truth]}),
        f"/qa.parquet:1: `retrieval_gt{message}",
    )
    for truth, message in (
        ("[['d1']]", "`: is \"[['d1']]\"; must be a list of lists of ids"),
        (["d1", "d2"], "[0]`: is 'd1'; must be a list of ids"),
        ([["d1"], ["x"]], f"[1]`: unknown document 'x'{REMEDY}"),
        ([["d1", "a\nb"]], f"[0][1]`: is 'a\\nb'; {ID}"),
    )
] + [("qa.parquet", None, ": no autorag folder: qa.parquet missing")]

CASES: dict[str, tuple[str, Files, list[Case]]] = {
    "beir": ("beir", BEIR, BEIR_CASES),
    "markdown": ("markdown", MARKDOWN, MARKDOWN_CASES),
    "llamaindex": ("llamaindex", {}, LLAMAINDEX_CASES),
    "trec": ("trec", TREC, TREC_CASES),
    "trec in several files": ("trec", SHARDS, SHARDS_CASES),
    "squad": ("squad", {}, SQUAD_CASES),
    "autorag": ("autorag", AUTORAG, AUTORAG_CASES),
}


def refusal(path: Path, form: str, read_all: ReadAll) -> str:
    with pytest.raises(DataError) as caught:
        read_all(open_dataset(path, form))
    return str(caught.value)


@pytest.mark.parametrize(
    ("form", "good", "case"),
    [(form, good, case) for form, good, cases in CASES.values() for case in cases],
)
def test_a_broken_file_is_refused_with_one_line(
    write: Write, read_all: ReadAll, form: str, good: Files, case: Case
) -> None:
    name, content, message = case
    folder = write({**good, name: content})
    path = folder if good else folder / name
    assert refusal(path, form, read_all) == f"{folder}{message}"


def test_documents_and_nothing_else(write: Write, read_all: ReadAll) -> None:
    folder = write({"a.md": "fine\n"})
    expected = NO_QUESTIONS.format(path=folder)
    assert refusal(folder, "markdown", read_all) == f"{folder}/queries.jsonl: {expected}"


WHOLE = gzip.compress(b"d1 text\n", mtime=0)


@pytest.mark.parametrize(
    ("form", "good", "name", "content", "problem"),
    [
        ("trec", TREC, "topics.txt.gz", WHOLE[:-4], "damaged gzip data ("),
        ("trec", TREC, "qrels.txt.gz", WHOLE[:-4], "damaged gzip data ("),
        ("trec", TREC, "corpus.tsv.gz", WHOLE[:-4], "damaged gzip data ("),
        ("trec", TREC, "qrels.txt.gz", "x", "Not a gzipped file (b'x')"),
        ("autorag", AUTORAG, "corpus.parquet", "x" * 20, "Parquet magic bytes not found"),
    ],
)
def test_what_cannot_be_unpacked(
    write: Write, read_all: ReadAll, form: str, good: Files, name: str, content: Any, problem: str
) -> None:
    folder = write({**good, name.removesuffix(".gz"): None, name: content})
    how = " as Parquet" if form == "autorag" else ""
    message = refusal(folder, form, read_all)
    assert message.startswith(f"{folder}/{name}: cannot be read{how}: {problem}")
