"""Files that are read in blocks give the documents, notes and errors of the whole reader."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rag_assets.errors import DataError
from rag_assets.sources.dataset import BlockwiseDataset, Read
from rag_assets.sources.formats import open_dataset
from rag_assets.store import blocks
from rag_assets.store.artifacts import ArtifactStore, Manifest
from rag_assets.store.blocks import KnownBlocks

Texts = dict[str, str]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "TARGET", 400)


def jsonl(folder: Path, texts: Texts) -> None:
    lines = [json.dumps({"id": one, "text": text, "page": 3}) for one, text in texts.items()]
    (folder / "documents.jsonl").write_text("\n\n".join(lines), encoding="utf-8-sig")


def csv_folder(folder: Path, texts: Texts) -> None:
    found = io.StringIO()
    rows = csv.writer(found)
    rows.writerow(["id", "text", "page"])
    rows.writerows([one, text.replace("of", '\n"of"'), "3"] for one, text in texts.items())
    (folder / "documents.csv").write_text(found.getvalue(), encoding="utf-8")


def beir(folder: Path, texts: Texts) -> None:
    lines = [json.dumps({"_id": one, "text": text}) for one, text in texts.items()]
    with gzip.open(folder / "corpus.jsonl.gz", "wt", encoding="utf-8") as stream:
        stream.write("\n".join(lines))
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "x"}\n', encoding="utf-8")
    (folder / "qrels").mkdir(exist_ok=True)
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td1\t1\n", "utf-8")


def trec(folder: Path, texts: Texts, name: str = "corpus.txt") -> None:
    forms = {
        "corpus.txt": "<DOC>\n<DOCNO>{}</DOCNO>\n<TEXT>{}</TEXT>\n</DOC>\n",
        "corpus.tsv": "{}\t{}\n",
    }
    content = "".join(forms[name].format(*one) for one in texts.items())
    (folder / name).write_text(content, encoding="utf-8")
    (folder / "topics.tsv").write_text("q\tx\n", encoding="utf-8")
    (folder / "qrels.txt").write_text("q 0 d1 1\n", encoding="utf-8")


def trec_tsv(folder: Path, texts: Texts) -> None:
    trec(folder, texts, "corpus.tsv")


FORMATS: dict[str, Callable[[Path, Texts], None]] = {
    "jsonl": jsonl,
    "csv": csv_folder,
    "beir": beir,
    "trec": trec,
    "trec_tsv": trec_tsv,
}
TEXTS = {f"d{number}": f"text of document {number}" for number in range(300)} | {"blank": "  "}


@pytest.fixture(params=FORMATS)
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Texts], Path]:
    folder = tmp_path / "data"
    folder.mkdir()

    def write(texts: Texts) -> Path:
        FORMATS[request.param](folder, texts)
        return folder

    return write


def read(folder: Path, known: KnownBlocks | None = None) -> Read:
    dataset = open_dataset(folder)
    if known is None:
        return dataset.read_documents()
    assert isinstance(dataset, BlockwiseDataset)
    blockwise = dataset.read_document_blocks(known)
    return blockwise if blockwise is not None else dataset.read_documents()


def kept(tmp_path: Path, found: Read) -> KnownBlocks:
    """Return the blocks of a table that is in a store."""
    store = ArtifactStore(tmp_path / "store", tmp_path / "locks")
    manifest = Manifest(
        "documents", "f" * 64, {}, {}, {}, {}, len(found.table), blocks=found.blocks
    )
    return KnownBlocks([store.write_table(found.table, manifest)])


def edited(texts: Texts) -> Texts:
    return {**texts, "d150": "another text"}


def inserted(texts: Texts) -> Texts:
    rows = list(texts.items())
    return dict([*rows[:120], ("new", "a new text"), *rows[120:]])


def removed(texts: Texts) -> Texts:
    return {one: text for one, text in texts.items() if one != "d77"}


def moved(texts: Texts) -> Texts:
    return {**removed(texts), "d77": texts["d77"]}


@pytest.mark.parametrize(
    ("change", "most"), [(dict, 0), (edited, 2), (inserted, 2), (removed, 1), (moved, 3)]
)
def test_a_change_parses_its_blocks_only(
    written: Callable[[Texts], Path],
    tmp_path: Path,
    change: Callable[[Texts], Texts],
    most: int,
) -> None:
    before = read(written(TEXTS), KnownBlocks())
    assert len(before.blocks) > 10
    known = kept(tmp_path, before)
    folder = written(change(TEXTS))
    whole, again = read(folder), read(folder, known)
    assert again.table.equals(whole.table)
    assert again.notes == whole.notes != []
    assert len({one.digest for one in again.blocks} - {one.digest for one in before.blocks}) <= most
    assert sum(one.rows for one in again.blocks) == len(again.table)


def problem(folder: Path, known: KnownBlocks | None) -> str:
    with pytest.raises(DataError) as raised:
        read(folder, known)
    return str(raised.value)


def test_an_error_behind_known_blocks_names_its_line(
    tmp_path: Path, written: Callable[[Texts], Path]
) -> None:
    known = kept(tmp_path, read(written(TEXTS), KnownBlocks()))
    folder = written({**TEXTS, "": "a text without an id"})
    found = problem(folder, known)
    assert found == problem(folder, None)
    assert any(character.isdigit() for character in found)


def test_a_line_that_is_no_json_is_named_by_its_number(tmp_path: Path) -> None:
    jsonl(tmp_path, TEXTS)
    known = kept(tmp_path, read(tmp_path, KnownBlocks()))
    file = tmp_path / "documents.jsonl"
    lines = file.read_text(encoding="utf-8-sig").split("\n")
    lines[400] = lines[400][:-1]
    file.write_text("\n".join(lines), encoding="utf-8")
    assert "documents.jsonl:401:" in problem(tmp_path, known)
    assert problem(tmp_path, known) == problem(tmp_path, None)


def test_an_id_that_two_known_blocks_share_is_found(tmp_path: Path) -> None:
    jsonl(tmp_path, TEXTS)
    known = kept(tmp_path, read(tmp_path, KnownBlocks()))
    file = tmp_path / "documents.jsonl"
    lines = file.read_text(encoding="utf-8-sig").split("\n\n")
    file.write_text("\n".join([*lines, lines[3]]), encoding="utf-8")
    assert problem(tmp_path, known) == problem(tmp_path, None)
    assert f"documents.jsonl:{len(lines) + 1}: `id`" in problem(tmp_path, known)
    assert "'d3' occurs twice, first on line 4" in problem(tmp_path, known)


def test_other_names_of_fields_make_other_blocks(tmp_path: Path) -> None:
    jsonl(tmp_path, TEXTS)
    before = read(tmp_path, KnownBlocks())
    file = tmp_path / "documents.jsonl"
    first = '{"_id": "first", "text": "it says which key is the id"}\n'
    rest = file.read_text(encoding="utf-8-sig").replace('"id":', '"_id": "x", "id":', 3)
    file.write_text(first + rest, encoding="utf-8")
    known = kept(tmp_path, before)
    assert problem(tmp_path, known) == problem(tmp_path, None)
