"""What every format of datasets keeps to."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from rag_assets.errors import DataError, UsageError
from rag_assets.schemas import DOCUMENTS, QRELS, QUERIES
from rag_assets.sources.dataset import Dataset
from rag_assets.sources.formats import FORMATS, open_dataset


class Example(NamedTuple):
    """A dataset on disk: the name of its format, and where it lies."""

    format: str
    path: Path


class FormatContract:
    """Three tables that fit each other, read alike each time from the files that are named."""

    @pytest.fixture
    def example(self, tmp_path: Path) -> Example:
        """Write a dataset with labels below ``tmp_path``, and say its format and place."""
        raise NotImplementedError

    @pytest.fixture
    def dataset(self, example: Example) -> Dataset:
        """Give the dataset, opened."""
        return open_dataset(example.path, example.format)

    def test_the_layout_is_recognised(self, example: Example, tmp_path: Path) -> None:
        """And an empty folder is not taken for it."""
        reader = FORMATS[example.format]
        assert reader.recognises(example.path)
        assert all(reader.parts(example.path).values())
        empty = tmp_path / "an empty folder"
        empty.mkdir()
        assert not reader.recognises(empty)
        assert not all(reader.parts(empty).values()) or not reader.parts(empty)
        with pytest.raises((DataError, UsageError)):
            reader.open(empty).read_documents()

    def test_the_tables_fit_each_other(self, dataset: Dataset) -> None:
        """Ids are unique, and each judgment is of a query, a document, and a span inside it."""
        documents = DOCUMENTS.check(dataset.read_documents().table)
        queries = QUERIES.check(dataset.read_queries().table)
        qrels = QRELS.check(dataset.read_qrels(documents, queries).table)
        texts = dict(
            zip(documents["document_id"].to_pylist(), documents["text"].to_pylist(), strict=True)
        )
        assert len(texts) == documents.num_rows > 0
        assert len(set(queries["query_id"].to_pylist())) == queries.num_rows > 0
        assert dataset.has_qrels == (qrels.num_rows > 0)
        assert set(qrels["query_id"].to_pylist()) <= set(queries["query_id"].to_pylist())
        for row in qrels.to_pylist():
            length = len(texts[row["document_id"]])
            if row["start"] is not None:
                assert 0 <= row["start"] < row["end"] <= length

    def test_reading_twice_gives_the_same(self, dataset: Dataset) -> None:
        """Nothing depends on time, chance or the order of a folder."""
        first, second = (dataset.read_documents().table for _ in range(2))
        assert first.equals(second)
        queries = dataset.read_queries().table
        assert queries.equals(dataset.read_queries().table)
        labels = (dataset.read_qrels(first, queries).table for _ in range(2))
        assert next(labels).equals(next(labels))

    def test_the_files_are_named(self, dataset: Dataset, example: Example) -> None:
        """What determines a table is a file inside the root."""
        named = (dataset.document_files(), dataset.query_files(), dataset.qrels_files())
        assert dataset.document_files()
        for file in (file for files in named for file in files):
            assert file.is_file()
            assert file.is_relative_to(dataset.root)

    def test_the_defaults_are_known(self, dataset: Dataset, example: Example) -> None:
        """An experiment without a word about them can be made."""
        assert dataset.format == example.format
        assert dataset.default_judge in ("document", "evidence")
        assert dataset.default_chunking in ("none", "recursive")
        assert dataset.layout

    def test_an_unknown_subset_is_refused(self, example: Example) -> None:
        """Never passed over in silence."""
        with pytest.raises(UsageError):
            open_dataset(example.path, example.format, subset="no such subset")
