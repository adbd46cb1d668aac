"""Files that people did not write are read in a time that grows as they do."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rag_assets.errors import DataError
from rag_assets.sources import sgml
from rag_assets.sources.document_files import read_markdown
from rag_assets.sources.row_files import read_csv, read_objects

N = 8_000
MOST_SECONDS = 2.5
"""Of a processor; what was quadratic took from 4 to 90 seconds, what is linear takes 0.5."""

HTML = {
    "nested blocks": "<div>" * N + "x" + "</div>" * N,
    "nested blocks that stay open": "<div>" * N + "x",
    "bold that stays open": "<p><b>" * N + "x",
    "links in links": "<a>x" * N,
    "fonts before paragraphs": "<font color=x>" * N + "<p>" * N + "x",
    "lists in lists": "<ul><li>" * N + "x",
    "tables in tables": "<table>" * N,
    "headings in headings": "<h1>" * N + "x",
    "the same attribute": f"<p {'a=1 ' * N}>x",
    "ends without a start": "</p>" * N + "x",
    "comments that stay open": "x" + "<!--" * N,
    "plain paragraphs": "<p>x</p>" * N,
}


@pytest.fixture
def soon() -> Iterator[None]:
    """Fail when a test takes longer than what is linear."""
    started = time.process_time()
    yield
    assert time.process_time() - started < MOST_SECONDS


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("page", HTML.values(), ids=HTML)
def test_html(tmp_path: Path, page: str) -> None:
    pytest.importorskip("selectolax", reason="HTML is read by an extra")
    from rag_assets.sources.html_document import read_html

    (tmp_path / "x.html").write_text(page, encoding="utf-8")
    _, text, _ = read_html(tmp_path / "x.html")
    assert text.strip("# ").startswith("x") or "x" not in page.replace("color=x", "")


BOMBS = {
    "blocks": "<div>" * 200_000,
    "blocks, some of which are closed": "<div><div></div>" * 60_000,
    "behind quotes": "<div title='</div>' id=\"'\"><!-- </div> --><script>'</div>'</script>"
    * 30_000,
    "bold again in each paragraph": "".join(f"<p><b id={n}>" for n in range(4_000)),
}


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("page", BOMBS.values(), ids=BOMBS)
def test_html_that_costs_more_than_its_size_is_not_parsed(tmp_path: Path, page: str) -> None:
    pytest.importorskip("selectolax", reason="HTML is read by an extra")
    from rag_assets.sources.html_document import read_html

    (tmp_path / "x.html").write_text(page, encoding="utf-8")
    with pytest.raises(DataError, match=r"x\.html: has too many elements that stay open"):
        read_html(tmp_path / "x.html")


@pytest.mark.usefixtures("soon")
def test_a_gzip_bomb_is_not_parsed(tmp_path: Path) -> None:
    block = gzip.compress(bytes([10]) * 20_000_000)
    (tmp_path / "x.jsonl.gz").write_bytes(block * 30)
    with pytest.raises(DataError, match="unpacks to more than"):
        list(read_objects(tmp_path / "x.jsonl.gz"))


def _topic(content: str, opening: str = '<topic number="1">') -> str:
    return f"{opening}{content}</topic>\n"


def _read_corpus(path: Path) -> object:
    return [sgml.document(place, raw.decode()) for place, raw in sgml.read_documents(path)]


OTHERS: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "comments that stay open in a topic": (
        "topics.xml",
        _topic("-->" + "<!--" * 20 * N),
        lambda path: list(sgml.read_topics(path)),
    ),
    "literals that stay open in a topic": (
        "topics.xml",
        _topic("]]>" + "<![CDATA[" * 20 * N),
        lambda path: list(sgml.read_topics(path)),
    ),
    "a long attribute of a topic": (
        "topics.xml",
        _topic("x", f'<topic number="1" {"a" * 20 * N}>'),
        lambda path: list(sgml.read_topics(path)),
    ),
    "comments that stay open in a document": (
        "a.trec",
        f"<DOC><DOCNO>1</DOCNO><TEXT>--> {'<!--' * 20 * N}</TEXT></DOC>\n",
        _read_corpus,
    ),
    "tags that stay open in a document": (
        "a.trec",
        f"<DOC><DOCNO>1</DOCNO>{'<p>' * 20 * N}</DOC>\n",
        _read_corpus,
    ),
    "many columns": (
        "a.csv",
        ",".join(f"c{n}" for n in range(4 * N)) + ",c0\n",
        lambda path: list(read_csv(path)),
    ),
    "many keys": (
        "a.jsonl",
        json.dumps({f"k{n}": n for n in range(4 * N)})[:-1] + ', "z": 1, "z": 1}\n',
        lambda path: list(read_objects(path)),
    ),
    "a heading of blanks": (
        "a.md",
        f"# x{' ' * 4 * N}y\n",
        lambda path: read_markdown(path),
    ),
}


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(("name", "text", "read"), OTHERS.values(), ids=OTHERS)
def test_others(tmp_path: Path, name: str, text: str, read: Callable[[Path], object]) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with suppress(DataError):
        read(tmp_path / name)
