"""Which queries are for choosing (dev) and which for reporting (test)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping

from rag_assets.evaluation.query_facts import DEV, TEST, Fail, Fields, described, first_of


def hashed_splits(clusters: Mapping[str, str], dev: float, seed: int, fail: Fail) -> dict[str, str]:
    """Return query id -> ``dev`` or ``test``, by a hash of its cluster.

    The first 64 bits of the SHA-256 of ``<seed>:<cluster>``, as a fraction of 2^64, are less than
    ``dev``: the query is in dev. So a query that is added or goes moves no other, and a cluster is
    never cut. The shares are met in expectation only.

    Args:
        clusters: query id -> its cluster; a query of its own has its id.
        dev: share of the clusters that go to dev, in (0, 1).
        seed: another one deals them anew.
        fail: makes the error.

    Raises:
        DataError: by way of ``fail``: a side has no query.
    """
    splits = {q: DEV if _fraction(c, seed) < dev else TEST for q, c in clusters.items()}
    how = f"dev: {dev:g} and seed: {seed} put all {len(splits)} queries on the other side"
    _check_sides(splits.values(), f"{how}; choose another share or seed", fail)
    return splits


def field_splits(metadata: Mapping[str, Fields], field: str, fail: Fail) -> dict[str, str]:
    """Return query id -> the value of a field, which must be ``dev`` or ``test``.

    Raises:
        DataError: by way of ``fail``: it is absent or another value somewhere, or a side is empty.
    """
    problems = [
        f"{described(query_id, fields, field)}; must be {DEV} or {TEST}"
        for query_id, fields in metadata.items()
        if fields.get(field) not in (DEV, TEST)
    ]
    if problems:
        raise fail(first_of(problems))
    splits = {query_id: str(fields[field]) for query_id, fields in metadata.items()}
    _check_sides(splits.values(), f"all {len(splits)} have the other value of {field!r}", fail)
    return splits


def cut_clusters(clusters: Mapping[str, str], splits: Mapping[str, str]) -> list[str]:
    """Return the clusters that have queries in dev and in test, sorted."""
    sides: dict[str, set[str]] = {}
    for query_id, cluster in clusters.items():
        sides.setdefault(cluster, set()).add(splits[query_id])
    return sorted(cluster for cluster, found in sides.items() if len(found) > 1)


def _fraction(cluster: str, seed: int) -> float:
    digest = hashlib.sha256(f"{seed}:{cluster}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


def _check_sides(sides: Collection[str], why: str, fail: Fail) -> None:
    for side in (DEV, TEST):
        if side not in sides:
            raise fail(f"no query is in {side}: {why}")
