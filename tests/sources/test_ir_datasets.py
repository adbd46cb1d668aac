from __future__ import annotations

import builtins
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rag_assets.errors import DataError, UsageError
from rag_assets.experiment import load_experiment
from rag_assets.sources import open_dataset
from rag_assets.sources.ir_datasets import IrDataset

library = pytest.importorskip("ir_datasets")
from ir_datasets.formats import BaseDocs, BaseQrels, BaseQueries  # noqa: E402


class Doc(NamedTuple):
    doc_id: str
    title: str
    body: str
    size: float
    raw: bytes
    lines: tuple[str, ...]

    def default_text(self) -> str:
        return f"{self.title} {self.body}"


class Note(NamedTuple):
    doc_id: str
    heading: str
    note: str

    def default_text(self) -> str:
        return f"{self.heading}: {self.note}"


class Topic(NamedTuple):
    query_id: str
    title: str
    narrative: str | None

    def default_text(self) -> str:
        return self.title


class Qrel(NamedTuple):
    query_id: str
    doc_id: str
    relevance: int
    iteration: str


class Docs(BaseDocs):  # type: ignore[misc]
    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def docs_iter(self) -> Iterator[Any]:
        for row in self.rows:
            if isinstance(row, Exception):
                raise row
            yield row


class Queries(BaseQueries):  # type: ignore[misc]
    def queries_iter(self) -> Iterator[Topic]:
        yield Topic("q1", "one", "more")
        yield Topic("q2", "two", None)


class Qrels(BaseQrels):  # type: ignore[misc]
    def __init__(self, rows: list[Qrel]) -> None:
        self.rows = rows

    def qrels_iter(self) -> Iterator[Qrel]:
        yield from self.rows


DOCS = [Doc("d1", "T", "text", float("nan"), b"\xff", ("a",)), Doc("d2", "", "b", 0.5, b"", ())]
QRELS = [Qrel("q1", "d1", 2, "0"), Qrel("q1", "d2", -1, "Q0")]


def register(*parts: Any) -> str:
    """Register a dataset of the given parts in this process."""
    name = f"local-{uuid.uuid4().hex}/test"
    library.registry.register(name, library.Dataset(*parts))
    return name


def test_local_dataset(read_all: Any) -> None:
    name = register(Docs(DOCS), Queries(), Qrels(QRELS))
    dataset = open_dataset(Path(name), "ir_datasets")
    assert (dataset.format, dataset.default_judge, dataset.default_chunking) == (
        "ir_datasets",
        "document",
        "none",
    )
    documents, queries, qrels = (read.table.to_pylist() for read in read_all(dataset))
    assert [tuple(row.values()) for row in documents] == [
        ("d1", "T", "text", '{"lines":["a"],"raw":"ff","size":null}'),
        ("d2", "", "b", '{"lines":[],"raw":"","size":0.5}'),
    ]
    assert [tuple(row.values()) for row in queries] == [
        ("q1", "one", [], '{"narrative":"more"}'),
        ("q2", "two", [], "{}"),
    ]
    assert [tuple(row.values()) for row in qrels] == [
        ("q1", "d1", "d1", None, None, 2),
        ("q1", "d2", "d2", None, None, -1),
    ]


def test_documents_without_a_known_text(read_all: Any) -> None:
    name = register(Docs([Note("d1", "H", "n")]), Queries(), Qrels(QRELS[:1]))
    documents = read_all(open_dataset(Path(name), "ir_datasets"))[0].table.to_pylist()
    assert [d["text"] for d in documents] == ["H: n"]


def test_in_an_experiment(write: Any) -> None:
    name = register(Docs(DOCS), Queries(), Qrels(QRELS))
    folder = write({"experiment.yaml": f"dataset: {{format: ir_datasets, path: {name}}}\n"})
    dataset = load_experiment(folder).dataset
    assert isinstance(dataset, IrDataset)
    assert dataset.id == name
    assert dataset.identity == f"{name} (ir_datasets {library.__version__})"


def test_the_id_is_part_of_the_fingerprint(write: Any, tmp_path: Path) -> None:
    stages = pytest.importorskip("rag_assets.sources.stage")
    from rag_assets.pipeline.pipeline import Pipeline
    from rag_assets.store.settings import StoreSettings

    configs = []
    for _ in range(2):
        name = register(Docs(DOCS), Queries(), Qrels(QRELS))
        folder = write({"experiment.yaml": f"dataset: {{format: ir_datasets, path: {name}}}\n"})
        pipeline = Pipeline(load_experiment(folder), StoreSettings.resolve(tmp_path / "store"))
        configs.append(stages.Documents().config(pipeline, stages.DOCUMENTS_KEY))
    assert configs[0]["files"] == configs[1]["files"]
    assert configs[0]["id"] != configs[1]["id"]


@pytest.mark.parametrize(
    ("docs", "qrels", "problem"),
    [
        (
            [*DOCS, DOCS[0]],
            QRELS,
            "`docs[2].doc_id`: document id 'd1' occurs twice, first at `docs[0].doc_id`",
        ),
        ([], QRELS, "holds no document; at least one is needed"),
        (DOCS, [], "holds no judgment; labels are required"),
        (DOCS, [Qrel("x", "d1", 1, "0")], "`qrels[0].query_id`: unknown query 'x'"),
        (DOCS, [*QRELS, QRELS[0]], "query 'q1' and document 'd1' are judged twice"),
        ([OSError("no network")], QRELS, "ir_datasets cannot read it: no network"),
        ([RuntimeError()], QRELS, "ir_datasets cannot read it: RuntimeError"),
    ],
)
def test_refusals(read_all: Any, docs: list[Any], qrels: list[Qrel], problem: str) -> None:
    name = register(Docs(docs), Queries(), Qrels(qrels))
    with pytest.raises(DataError) as caught:
        read_all(open_dataset(Path(name), "ir_datasets"))
    assert str(caught.value) == f"{name}: {problem}"


def test_unknown_id_and_missing_parts() -> None:
    with pytest.raises(UsageError, match=r"^no/such: no such id in ir_datasets \d"):
        open_dataset(Path("no/such"), "ir_datasets")
    name = register(Docs(DOCS))
    with pytest.raises(DataError, match="has no queries, no qrels; its parts may have them"):
        open_dataset(Path(name), "ir_datasets")
    with pytest.raises(UsageError, match="subset 'test': put it into the id of ir_datasets"):
        open_dataset(Path(name), "ir_datasets", subset="test")


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    known = builtins.__import__

    def importing(name: str, *rest: Any) -> Any:
        if name == "ir_datasets":
            raise ImportError(name)
        return known(name, *rest)

    monkeypatch.setattr(builtins, "__import__", importing)
    with pytest.raises(UsageError, match=r"pip install 'rag-assets\[ir-datasets\]'"):
        open_dataset(Path("vaswani"), "ir_datasets")
