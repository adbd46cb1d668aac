"""Datasets written by the tests themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assets.sources import Dataset, Read
from rag_assets.sources.dataset import FIRST, Problems
from tests.sources.files import Files, ReadAll, Write


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes files into a folder and returns it."""

    def write_files(files: Files) -> Path:
        for name, content in files.items():
            if content is not None:
                path = tmp_path / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path

    return write_files


@pytest.fixture
def read_all() -> ReadAll:
    """Return a function that reads all three tables, and collects problems where wanted."""

    def read(dataset: Dataset, problems: Problems = FIRST) -> tuple[Read, Read, Read]:
        documents, queries = dataset.read_documents(problems), dataset.read_queries(problems)
        return documents, queries, dataset.read_qrels(documents.table, queries.table, problems)

    return read
