from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import RagAssetsError
from rag_assets.sources import open_dataset

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
