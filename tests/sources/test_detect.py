"""Which format lies at a path, and what every format keeps to."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from rag_assets.errors import DataError, UsageError
from rag_assets.sources import FORMATS, open_dataset
from rag_assets.sources.document_files import engine_versions, read_file
from rag_assets.sources.formats import unread_files
from rag_assets.testing import FormatContract
from rag_assets.testing.formats import Example
from tests.sources.files import EVERY_FORMAT, ReadAll, Write
from tests.sources.pdf_files import pdf_file

BEIR = {"corpus.jsonl": '{"_id": 1, "text": "t"}', "queries.jsonl": "", "qrels/test.tsv": "1 1 1"}
NAMES = ["llamaindex", "squad", "samples", "beir", "autorag", "trec", "jsonl", "csv"]
NAMES += ["parquet", "markdown"]
LOOKED_FOR = "looked for: " + "; ".join(f"{FORMATS[name].layout} ({name})" for name in NAMES)


@pytest.mark.parametrize(
    ("files", "name", "format"),
    [
        (BEIR, ".", "beir"),
        ({**BEIR, "notes/a.md": "stray"}, ".", "beir"),
        ({"deep/er/a.txt": ""}, ".", "markdown"),
        ({"a.json": '\n { "queries" : {'}, "a.json", "llamaindex"),
        ({"a.json": '{"version": "1.1", "data": [{"title":'}, "a.json", "squad"),
        ({"topics.x.gz": "", "qrels-x": "", "docs/deep/a.txt": ""}, ".", "trec"),
        ({"topics.tsv": "", "qrels.txt": "", "a.md": ""}, ".", "markdown"),
        ({"Corpus_1.parquet": "", "my_qa.parquet": "", "a.md": ""}, ".", "autorag"),
        ({**BEIR, "topics.tsv": "", "qrels.txt": ""}, ".", "beir"),
    ],
)
def test_layout_decides(write: Write, files: dict[str, str], name: str, format: str) -> None:
    assert open_dataset(write(files) / name).format == format


def test_format_can_be_said(write: Write) -> None:
    assert open_dataset(write({**BEIR, "notes/a.md": "stray"}), "markdown").format == "markdown"
    assert list(FORMATS) == NAMES


NO_FOLDER, NO_FILE = "a folder of no known format", "a file of no known format"
FOUND = {"a.md": "x", "b.json": '{"queries":{}}'}
REFUSED: list[tuple[Mapping[str, str], str, dict[str, str], type[Exception], str]] = [
    ({}, ".", {}, DataError, f": an empty folder; {LOOKED_FOR}"),
    ({"README.md": "x", ".git/a.md": "x"}, ".", {}, DataError, f": {NO_FOLDER}; {LOOKED_FOR}"),
    ({"a.pdf": "x"}, "a.pdf", {}, DataError, f": {NO_FILE}; {LOOKED_FOR}"),
    (
        *({"corpus.jsonl": "", "qrels/test.tsv": ""}, ".", {}, DataError),
        f": {NO_FOLDER}; nearest: a folder with corpus.jsonl, queries.jsonl and qrels/ (beir), "
        "where there is no queries.jsonl",
    ),
    (
        *({"corpus.parquet": ""}, ".", {}, DataError),
        f": {NO_FOLDER}; nearest: a folder with corpus.parquet and qa.parquet (autorag), where "
        "there is no qa.parquet",
    ),
    (
        {"a.json": '{"name": "x", "queries": {}, "corpus": {}, "relevant_docs": {}}'},
        *("a.json", {}, DataError),
        f": {NO_FILE}; nearest: a .json file with the keys queries, corpus, relevant_docs "
        "(llamaindex), but its content looks different; set `format: llamaindex`",
    ),
    (
        *({"my.csv": "id,text"}, "my.csv", {}, DataError),
        f": {NO_FILE}; nearest: a folder with documents.csv (csv); give the folder, not one of its "
        "files",
    ),
    ({"a.json": ""}, "a.json", {}, DataError, ": is empty"),
    ({"a.json": "{"}, "a.json", {}, DataError, ":1: malformed JSON (input data was truncated)"),
    (FOUND, "no", {}, UsageError, ": no such file or folder"),
    (
        *(FOUND, ".", {"format": "beir"}, DataError),
        ": no beir folder: corpus.jsonl, queries.jsonl, qrels/ missing",
    ),
    (
        *(FOUND, ".", {"format": "llamaindex"}, DataError),
        ": not a .json file with the keys queries, corpus, relevant_docs",
    ),
    (
        *(FOUND, "b.json", {"format": "markdown"}, DataError),
        ": not a folder with .md, .markdown, .txt, .html, .htm or .pdf files",
    ),
    (
        *(FOUND, ".", {"subset": "test"}, UsageError),
        ": subset 'test': format markdown has no subsets",
    ),
]


@pytest.mark.parametrize(("files", "name", "arguments", "kind", "message"), REFUSED)
def test_what_is_refused_and_the_nearest_layout(
    write: Write,
    files: Mapping[str, str],
    name: str,
    arguments: dict[str, str],
    kind: type[Exception],
    message: str,
) -> None:
    path = write(files) / name
    with pytest.raises(kind) as caught:
        open_dataset(path, **arguments)
    assert str(caught.value) == f"{path}{message}"


def test_an_unknown_format_is_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        open_dataset(tmp_path, "beer")
    assert str(caught.value) == (
        f"unknown dataset format 'beer' (did you mean 'beir'?); allowed: {', '.join(NAMES)}"
    )


def test_name_too_long_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: File name too long"):
        open_dataset(tmp_path / ("x" * 5000))


pytest.importorskip("selectolax")
pytest.importorskip("pypdfium2")


PAGE = """<!doctype html><html lang="en"><head><title>Fares &amp;
 fees</title><meta name="Author" content="Ada"><meta name="viewport" content="x">
<style>p { color: red }</style></head><body><nav>Home</nav><h1>Big <i>news</i></h1>
<p>One <b>two</b>, three<br>four
  five</p>loose<pre>
a
   b</pre><ul><li>x<li>y</ul><h2></h2><table><tr><td>1<td>2<tr><td>3</table>
<script>no()</script><!-- no --><template>no</template></body></html>"""


def test_html_page(tmp_path: Path) -> None:
    file = tmp_path / "a.html"
    file.write_text(PAGE, encoding="utf-8")
    document = read_file(file)
    assert document.title == "Fares & fees"
    assert document.text == (
        "Home\n\n# Big news\n\nOne two, three\nfour five\n\nloose\n\na\n   b\n\nx\ny\n\n1 2\n3"
    )
    assert json.loads(document.metadata) == {"author": "Ada", "lang": "en"}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"<p>x<h1>Big <i>news</i></h1>", "x\n\n# Big news"),
        (b"<meta charset=latin1><p>caf\xe9 \x80", "caf\u00e9 \u20ac"),
        ("\ufeff<p>caf\u00e9".encode("utf-16"), "caf\u00e9"),
        ("<p>caf\u00e9".encode(), "caf\u00e9"),
        (b"\xef\xbb\xbf<meta charset=latin1>caf\xc3\xa9", "caf\u00e9"),
        (b"<p>&#xD800;&nbsp;x", "\ufffd\u00a0x"),
        (b"", ""),
    ],
)
def test_encoding_and_title_of_a_page(tmp_path: Path, content: bytes, text: str) -> None:
    file = tmp_path / "a.HTM"
    file.write_bytes(content)
    document = read_file(file)
    assert document.text == text
    # A heading is the title of a page without one.
    assert document.title == ("Big news" if b"<h1>" in content else "")


def test_pdf_pages_are_found_again(tmp_path: Path) -> None:
    file = tmp_path / "a.pdf"
    file.write_bytes(pdf_file(["One fee\nis 40", "", "Third page"], "My title"))
    document = read_file(file)
    fields = json.loads(document.metadata)
    assert (document.title, fields["author"]) == ("My title", "Ada")
    assert document.text == "One fee\nis 40\n\n\n\nThird page"
    assert fields["page_starts"] == [0, 15, 17]
    assert document.text[17:] == "Third page"
    assert document.remarks == ("with pages without text (scans?)",)


def test_mixed_folder_with_csv_labels(write: Write, read_all: ReadAll) -> None:
    folder = write(
        {
            "a.pdf": pdf_file(["One fee\nis 40", ""]),
            "b.html": "<p>two",
            "c.md": "# C\nthree",
            "d.docx": "x",
            "queries.csv": 'query_id,text,tags,who\nq1,"fee, please?","a, b",me\nq2,x,,\n',
            "judgments.csv": (
                "query_id,doc_id,quote,relevance,evidence_id,by\n"
                "q1,a.pdf,is 40,2,,me\nq2,c.md,,,e,\nq2,b.html,,,e,\n"
            ),
        }
    )
    dataset = open_dataset(folder)
    assert (dataset.format, dataset.default_judge) == ("markdown", "evidence")
    documents, queries, qrels = read_all(dataset)
    assert documents.table.column("document_id").to_pylist() == ["a.pdf", "b.html", "c.md"]
    assert documents.notes == ["1 file with pages without text (scans?): a.pdf"]
    assert unread_files(dataset, []) == ["1 file of a type that cannot be read is left out: d.docx"]
    assert queries.table.column("tags").to_pylist() == [["a", "b"], []]
    assert queries.table.column("metadata").to_pylist() == ['{"who":"me"}', '{"who":""}']
    assert qrels.notes == ["1 unknown key is ignored: by"]
    assert [tuple(row.values()) for row in qrels.table.to_pylist()] == [
        ("q1", "a.pdf#8-13", "a.pdf", 8, 13, 2),
        ("q2", "e", "c.md", None, None, 1),
        ("q2", "e", "b.html", None, None, 1),
    ]


@pytest.mark.parametrize(("name", "package"), [("a.html", "selectolax"), ("a.pdf", "pypdfium2")])
def test_reader_that_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    for one in [package, *(one for one in sys.modules if one.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, one, None)
    file = tmp_path / name
    file.touch()
    with pytest.raises(DataError) as caught:
        read_file(file)
    assert str(caught.value) == (
        f"{file}: reading {file.suffix} files needs the package {package}: "
        "pip install 'rag-assets[documents]'"
    )


def test_engines_of_the_files_that_are_there() -> None:
    assert engine_versions([Path("a.md")]) == {}
    assert list(engine_versions([Path("a.PDF"), Path("b.htm")])) == ["pypdfium2", "selectolax"]


class TestEveryFormat(FormatContract):
    @pytest.fixture(params=EVERY_FORMAT)
    def example(self, request: pytest.FixtureRequest, tmp_path: Path) -> Example:
        layout = EVERY_FORMAT[request.param]
        return Example(layout.format, layout.lay_out(tmp_path / "data"))
