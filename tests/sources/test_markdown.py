from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.sources import Dataset, Read, open_dataset
from rag_assets.sources.document_files import read_markdown
from rag_assets.sources.formats import unread_files

Write = Callable[[Mapping[str, str | bytes]], Path]
ReadAll = Callable[[Dataset], tuple[Read, Read, Read]]

TEXT = "A dog costs 40 kr.\n\nCats travel free.\n"
FILES: dict[str, str | bytes] = {
    "README.md": "about",
    "fares.md": f"# Fares #\n\n{TEXT}",
    "guides/README.md": "Read me.",
    "guides/b.txt": b"\xef\xbb\xbfplain\r\ntext\r\n",
    "guides/a.markdown": (
        "---\ntitle: 'Alpha'\ndate: 2024-01-05\nn: 3\nno: [yes, true]\n---\n# H\nx"
    ),
    ".hidden/c.md": "hidden",
    "experiment.yaml": "name: x",
    "queries.jsonl": '{"query_id": 1, "text": "dogs?", "tags": ["pets"], "who": "clerk"}\n'
    '{"query_id": "q2", "text": "cats?"}\n',
    "judgments.jsonl": '{"query_id": "1", "doc_id": "fares.md", "quote": "40 kr", "relevance": 2}\n'
    '{"query_id": 1, "doc_id": "guides/b.txt", "evidence_id": "e"}\n'
    '{"query_id": 1, "doc_id": "fares.md", "quote": "Cats", "evidence_id": "e"}\n'
    '{"query_id": "q2", "doc_id": "fares.md"}\n',
}


def test_tables_of_a_folder(write: Write, read_all: ReadAll) -> None:
    dataset = open_dataset(write(FILES))
    assert (dataset.format, dataset.default_judge) == ("markdown", "evidence")
    assert dataset.default_chunking == "recursive"
    documents, queries, qrels = read_all(dataset)
    assert documents.table.to_pydict() == {
        "document_id": ["fares.md", "guides/README.md", "guides/a.markdown", "guides/b.txt"],
        "title": ["Fares", "", "Alpha", ""],
        "text": [TEXT, "Read me.", "# H\nx", "plain\ntext\n"],
        "metadata": ["{}", "{}", '{"date":"2024-01-05","n":3,"no":["yes",true]}', "{}"],
    }
    assert documents.notes == []
    assert unread_files(dataset, []) == ["1 file at the top is not a document: README.md"]
    assert queries.table.to_pydict() == {
        "query_id": ["1", "q2"],
        "text": ["dogs?", "cats?"],
        "tags": [["pets"], []],
        "metadata": ['{"who":"clerk"}', "{}"],
    }
    assert qrels.table.to_pydict() == {
        "query_id": ["1", "1", "1", "q2"],
        "evidence_id": ["fares.md#12-17", "e", "e", "fares.md"],
        "document_id": ["fares.md", "guides/b.txt", "fares.md", "fares.md"],
        "start": [12, None, 20, None],
        "end": [17, None, 24, None],
        "grade": [2, 1, 1, 1],
    }
    assert TEXT[12:17] == "40 kr"


def test_without_quotes_documents_are_judged(write: Write) -> None:
    judgments = '{"query_id": 1, "doc_id": "fares.md", "quote": null}\n'
    dataset = open_dataset(write({**FILES, "judgments.jsonl": judgments}))
    assert dataset.default_judge == "document"


def test_files_for_hashing(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = open_dataset(write(FILES))
    # What looks like questions is sought only where there are none: a folder may be large.
    monkeypatch.setattr(type(dataset), "question_like", lambda _: pytest.fail("it was listed"))
    names = [f.relative_to(dataset.root).as_posix() for f in dataset.document_files()]
    assert names == ["fares.md", "guides/README.md", "guides/a.markdown", "guides/b.txt"]
    assert [f.name for f in dataset.query_files()] == ["queries.jsonl"]
    assert [f.name for f in dataset.qrels_files()] == ["judgments.jsonl"]


def test_a_store_among_the_documents_holds_no_document(write: Write) -> None:
    folder = write(FILES)
    before = open_dataset(folder).document_files()
    for name in ("_leases", "objects", "handbook"):
        (folder / "store" / name).mkdir(parents=True)
    (folder / "store" / "handbook" / "report.html").write_text("<p>Results</p>")
    assert open_dataset(folder).document_files() == before


def test_links_stay_inside(write: Write, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.md").write_text("secret")
    folder = write(FILES)
    (folder / "out.md").symlink_to(outside / "secret.md")
    (folder / "broken.md").symlink_to(folder / "nowhere.md")
    (folder / "inside.md").symlink_to(folder / "fares.md")
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    dataset = open_dataset(folder)
    ids = dataset.read_documents().table.column("document_id").to_pylist()
    assert ids == [
        "fares.md", "guides/README.md", "guides/a.markdown", "guides/b.txt", "inside.md",
    ]  # fmt: skip
    assert unread_files(dataset, [])[1:] == [
        "3 links that lead to no file inside are not followed: broken.md, out.md, loop"
    ]


@pytest.mark.parametrize(
    ("content", "title", "text"),
    [
        ("", "", ""),
        ("\n\n# A\n\n\n  indented\n", "A", "  indented\n"),
        ("## A\ntext", "", "## A\ntext"),
        ("#A\n", "", "#A\n"),
        ("text\n# A\n", "", "text\n# A\n"),
        ("# A", "A", ""),
        ("# C# notes #x\ny", "C# notes #x", "y"),
        ("---\n---\n# A\nb", "A", "b"),
        ("---\nno end\n", "", "---\nno end\n"),
        ("---\njust text\n---\nrest", "", "---\njust text\n---\nrest"),
        ("---\ntitle: 7\n---\nb", "7", "b"),
        ("---\ntitle:\n---\n# A\nb", "A", "b"),
        ("a\r\nb\rc", "", "a\nb\nc"),
    ],
)
def test_title_and_text(tmp_path: Path, content: str, title: str, text: str) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(content.encode())
    document = read_markdown(file)
    assert (document.title, document.text) == (title, text)


@given(
    text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=40),
    cut=st.tuples(st.integers(0, 40), st.integers(1, 40)),
)
def test_a_quote_cut_from_the_text_is_found_where_it_was(
    tmp_path_factory: pytest.TempPathFactory, text: str, cut: tuple[int, int]
) -> None:
    folder = tmp_path_factory.mktemp("quotes")
    (folder / "a.md").write_text(f"# T\n.{text}", encoding="utf-8", newline="")
    (folder / "queries.jsonl").write_text('{"query_id": "q", "text": "t"}')
    dataset = open_dataset(folder)
    documents = dataset.read_documents().table
    body = documents.column("text")[0].as_py()
    start, end = min(cut[0], len(body) - 1), cut[0] + cut[1]
    quote = body[start:end]
    if not quote.strip() or body.find(quote) != body.rfind(quote) or body.count(quote) > 1:
        return
    judgment = {"query_id": "q", "doc_id": "a.md", "quote": quote}
    (folder / "judgments.jsonl").write_text(json.dumps(judgment))
    qrels = dataset.read_qrels(documents, dataset.read_queries().table).table
    row = qrels.to_pylist()[0]
    assert (row["start"], body[row["start"] : row["end"]]) == (start, quote)
