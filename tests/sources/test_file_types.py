from __future__ import annotations

import builtins
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rag_assets.errors import DataError
from rag_assets.sources import open_dataset
from rag_assets.sources.document_files import engine_versions, read_file
from rag_assets.sources.formats import unread_files
from tests.sources.pdf_files import pdf_file

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
        (b"<meta charset=latin1><p>caf\xe9 \x80", "caf\u00e9 \u20ac"),
        ("\ufeff<p>caf\u00e9".encode("utf-16"), "caf\u00e9"),
        ("<p>caf\u00e9".encode(), "caf\u00e9"),
        (b"\xef\xbb\xbf<meta charset=latin1>caf\xc3\xa9", "caf\u00e9"),
        (b"<p>&#xD800;&nbsp;x", "\ufffd\u00a0x"),
        (b"", ""),
    ],
)
def test_encoding_of_a_page(tmp_path: Path, content: bytes, text: str) -> None:
    file = tmp_path / "a.HTM"
    file.write_bytes(content)
    assert read_file(file).text == text


def test_heading_is_the_title_of_a_page_without_one(tmp_path: Path) -> None:
    file = tmp_path / "a.html"
    file.write_text("<p>x<h1>Big <i>news</i></h1>")
    assert read_file(file).title == "Big news"


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


def test_mixed_folder_with_csv_labels(write: Any, read_all: Any) -> None:
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
    assert qrels.notes == ["1 key is not understood and ignored: by"]
    assert [tuple(row.values()) for row in qrels.table.to_pylist()] == [
        ("q1", "a.pdf#8-13", "a.pdf", 8, 13, 2),
        ("q2", "e", "c.md", None, None, 1),
        ("q2", "e", "b.html", None, None, 1),
    ]


@pytest.mark.parametrize(("name", "package"), [("a.html", "selectolax"), ("a.pdf", "pypdfium2")])
def test_reader_that_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    real = builtins.__import__

    def without(wanted: str, *arguments: Any) -> Any:
        if wanted.split(".")[0] == package:
            raise ImportError(wanted)
        return real(wanted, *arguments)

    monkeypatch.delitem(sys.modules, package, raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
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
