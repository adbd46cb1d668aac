"""Queries that share relevant documents: when they are tested together, and what is said if not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rag_assets.evaluation.query_facts import with_shared_documents

COUNTING = pa.schema(
    [
        ("query_id", pa.string()),
        ("weight", pa.float64()),
        ("split", pa.string()),
        ("cluster", pa.string()),
    ]
)


def counting(n: int, split: str = "all", prefix: str = "q") -> pa.Table:
    rows = [
        {"query_id": f"{prefix}{i}", "weight": 1.0, "split": split, "cluster": f"{prefix}{i}"}
        for i in range(n)
    ]
    return pa.Table.from_pylist(rows, schema=COUNTING)


def qrels(documents: dict[str, list[str]]) -> pa.Table:
    rows = [
        {"query_id": query_id, "document_id": name, "grade": 1}
        for query_id, names in documents.items()
        for name in names
    ]
    columns = ["query_id", "document_id", "grade"]
    return pa.Table.from_pylist(rows).select(columns)


def clusters(table: pa.Table) -> list[str]:
    return [str(name) for name in table["cluster"].to_pylist()]


@pytest.mark.parametrize(
    ("documents", "n_clusters", "reason"),
    [
        (20, 20, None),
        (19, 40, "40 queries, some of which share documents, make 19 clusters, fewer than 20"),
    ],
)
def test_so_many_clusters_are_needed(documents: int, n_clusters: int, reason: str | None) -> None:
    labels = qrels({f"q{i}": [f"d{i % documents}"] for i in range(40)})
    found, reasons = with_shared_documents(counting(40), labels)
    assert len(set(clusters(found))) == n_clusters
    assert reasons == ({} if reason is None else {"all": reason})


@pytest.mark.parametrize(("largest", "together"), [(10, True), (11, False)])
def test_no_cluster_may_outweigh_the_others(largest: int, together: bool) -> None:
    """Of 50 queries ten may hang together, a fifth."""
    labels = qrels({f"q{i}": [f"d{max(i, largest - 1)}"] for i in range(50)})
    found, reasons = with_shared_documents(counting(50), labels)
    assert (len(set(clusters(found))) < 50) == together
    said = "11 of 50 queries, more than 20%, share documents, directly or by way of others"
    assert reasons == ({} if together else {"all": said})


def test_clusters_are_connected_components() -> None:
    """q0 and q2 share nothing, but q1 has a document of either."""
    labels = {f"q{i}": [f"d{i}"] for i in range(30)} | {"q1": ["d0", "d2"]}
    found, _ = with_shared_documents(counting(30), qrels(labels))
    names = clusters(found)
    assert names[0] == names[1] == names[2] == "document:d0"
    assert len(set(names)) == 28


def test_each_split_is_looked_at_by_itself() -> None:
    table = pa.concat_tables([counting(40, "test", "t"), counting(4, "dev", "d")])
    labels = {f"t{i}": [f"x{i // 2}"] for i in range(40)} | {f"d{i}": ["y"] for i in range(4)}
    found, reasons = with_shared_documents(table, qrels(labels))
    assert len(set(clusters(found))) == 24
    assert list(reasons) == ["dev"]


def test_queries_that_share_nothing_or_are_clustered_stay_as_they_are() -> None:
    alone = counting(30)
    labels = qrels({f"q{i}": [f"d{i}", f"e{i}"] for i in range(30)})
    assert with_shared_documents(alone, labels) == (alone, {})
    declared = alone.set_column(3, "cluster", pa.array(["query.topic:x"] * 30))
    shared = qrels({f"q{i}": [f"d{i // 2}"] for i in range(30)})
    assert with_shared_documents(declared, shared) == (declared, {})
