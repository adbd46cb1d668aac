from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pytest

from rag_assets.sources import Dataset, Read, open_dataset

ReadAll = Callable[[Dataset], tuple[Read, Read, Read]]
SharedData = Callable[[str], Path]

pytestmark = pytest.mark.real_data


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("cranfield", (1400, 225, 1837)),
        ("squad_dev_v2", (1204, 11873, 5928)),
        ("seed_doc_qa/doc_qa_test.json", (433, 321, 321)),
        ("seed_doc_qa/pg_eval_dataset.json", (57, 114, 114)),
    ],
)
def test_row_counts(
    shared_data: SharedData, read_all: ReadAll, name: str, rows: tuple[int, int, int]
) -> None:
    tables = read_all(open_dataset(shared_data(name)))
    assert tuple(read.table.num_rows for read in tables) == rows


def test_cranfield_oddities(shared_data: SharedData, read_all: ReadAll) -> None:
    documents, queries, qrels = read_all(open_dataset(shared_data("cranfield")))
    assert documents.notes[-1] == "2 empty documents: 471, 995"
    assert queries.notes == []
    assert pc.sum(pc.greater(qrels.table.column("grade"), 0)).as_py() == 1612
    assert queries.table.column("metadata")[3].as_py() == '{"original_id":"008"}'


def test_cranfield_codes_as_subset(shared_data: SharedData, read_all: ReadAll) -> None:
    qrels = read_all(open_dataset(shared_data("cranfield"), subset="test_code"))[2].table
    counts = pc.value_counts(qrels.column("grade")).to_pylist()
    assert {c["values"]: c["counts"] for c in counts} == {-1: 225, 1: 128, 2: 387, 3: 734, 4: 363}


def test_squad_keeps_unanswerable_questions(shared_data: SharedData, read_all: ReadAll) -> None:
    _, queries, qrels = read_all(open_dataset(shared_data("squad_dev_v2")))
    assert queries.notes == []
    assert qrels.notes[0].startswith("5945 queries without a relevant document: 5ad39d53604f3c001a")
