"""Files of random bytes and of random structure: one clear error, never another."""

from __future__ import annotations

import gzip
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import DataError, RagAssetsError
from rag_assets.sources import open_dataset, sgml
from rag_assets.sources.document_files import read_markdown
from rag_assets.sources.row_files import read_csv, read_objects

BEIR = {
    "corpus.jsonl": b'{"_id": "d", "text": "t"}\n',
    "queries.jsonl": b'{"_id": "q", "text": "t"}\n',
    "qrels/test.tsv": b"q\td\t1\n",
    "qrels/train.tsv": b"q\td\t1\n",
}
MARKDOWN = {
    "d.md": b"# T\ntext\n",
    "queries.jsonl": b'{"query_id": "q", "text": "t"}\n',
    "judgments.jsonl": b'{"query_id": "q", "doc_id": "d.md", "quote": "text"}\n',
}
LLAMAINDEX = {
    "a.json": b'{"queries": {"q": "t"}, "corpus": {"d": "t"}, "relevant_docs": {"q": ["d"]}}'
}

PIECES = [
    b"{", b"}", b"[", b"]", b'"', b":", b",", b"\n", b"\r", b"---\n", b"# ", b"\t", b" ", b"- ",
    b'"_id"', b'"text"', b'"query_id"', b'"doc_id"', b'"quote"', b'"metadata"', b'"q"', b'"d.md"',
    b"1", b"-", b"1e999", b"NaN", b"null", b"true", b'"\\ud800"', b"\xff", b"\x00",
    b"q", b"d", b"0.5", b"&a ", b"*a", b"!!binary ", b"title", b'"relevant_docs"', b"? ",
    b"\xef\xbb\xbf", b"%YAML 1.1", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"9" * 5000,
    b"[" * 3000, b'{"a":' * 200, b'"\\ud800',
]  # fmt: skip
bytes_of_a_file = st.one_of(
    st.binary(max_size=60),
    st.lists(st.sampled_from(PIECES), max_size=14).map(b"".join),
    st.lists(st.sampled_from(PIECES), max_size=10).map(lambda p: b"---\n" + b"".join(p) + b"\n---"),
)
CASES = [
    (form, files, name)
    for form, files in (("beir", BEIR), ("markdown", MARKDOWN), ("llamaindex", LLAMAINDEX))
    for name in files
]


def read_everything(path: Path, form: str) -> None:
    dataset = open_dataset(path, form)
    documents, queries = dataset.read_documents(), dataset.read_queries()
    qrels = dataset.read_qrels(documents.table, queries.table)
    assert dataset.default_judge in ("document", "evidence")
    assert qrels.table.num_rows > 0


@pytest.mark.parametrize(("form", "files", "name"), CASES)
def test_untouched_files_are_valid(
    tmp_path: Path, form: str, files: dict[str, bytes], name: str
) -> None:
    lay_out(tmp_path, files)
    read_everything(tmp_path / "a.json" if form == "llamaindex" else tmp_path, form)


@pytest.mark.parametrize(("form", "files", "name"), CASES)
@settings(deadline=None, max_examples=120)
@given(content=bytes_of_a_file, append=st.booleans())
def test_any_bytes_are_read_or_refused_with_one_line(
    tmp_path_factory: pytest.TempPathFactory,
    form: str,
    files: dict[str, bytes],
    name: str,
    content: bytes,
    append: bool,
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    lay_out(folder, {**files, name: files[name] + content if append else content})
    message = ""
    try:
        read_everything(folder / "a.json" if form == "llamaindex" else folder, form)
    except RagAssetsError as error:
        message = str(error)
    finally:
        shutil.rmtree(folder)
    message.encode()
    assert len(message.splitlines()) <= 1


@given(text=st.text(max_size=30))
def test_any_name_as_format_or_subset(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("names")
    lay_out(folder, BEIR)
    for arguments in ({"format": text}, {"subset": text}):
        try:
            open_dataset(folder, **arguments)
        except RagAssetsError:
            continue
        assert text in ("beir", "markdown", "test", "train")
    shutil.rmtree(folder)


def lay_out(folder: Path, files: dict[str, bytes]) -> None:
    for file, content in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(content)


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
    return [sgml.document(place, raw) for place, raw in sgml.read_documents(path)]


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
