from __future__ import annotations

from email.utils import formatdate

import pytest

from rag_assets.servers.client import Retries
from rag_assets.servers.failures import retry_after


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3", 3.0),
        ("0.5", 0.5),
        (" 2 ", 2.0),
        ("-1", 0.0),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        (formatdate(1_000_030, usegmt=True), 30.0),
        (formatdate(999_990, usegmt=True), 0.0),
    ],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": value}, now=1_000_000.0) == seconds
    assert retry_after({}) is None


@pytest.mark.parametrize(
    ("attempt", "asked", "wait"),
    [
        (0, None, 1.0),
        (3, None, 8.0),
        (9, None, 20.0),
        (5000, None, 20.0),
        (0, 5.0, 5.0),
        (4, 5.0, 16.0),
        (0, 20.0, 20.0),
        (0, 20.1, None),
    ],
)
def test_wait_before(attempt: int, asked: float | None, wait: float | None) -> None:
    assert Retries(4, 1.0, 20.0).wait_before(attempt, asked) == wait
