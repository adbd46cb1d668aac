"""How numbers are written for people, at the values where the form changes."""

from __future__ import annotations

import pytest

from rag_assets.cli.progress_bars import clock_text
from rag_assets.sheets.formats import rough, size_text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (1e6, "1.0 MB"),
        (2.5e9, "2.5 GB"),
        (1e12, "1.0 TB"),
    ],
)
def test_sizes(size: float, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(("value", "text"), [(0.004, "0.00"), (999.5, "999.50"), (1234.5, "1,234")])
def test_rough_numbers(value: float, text: str) -> None:
    assert rough(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0:00"), (59.6, "1:00"), (61, "1:01"), (3600, "1:00:00")]
)
def test_clocks(seconds: float, text: str) -> None:
    assert clock_text(seconds) == text
