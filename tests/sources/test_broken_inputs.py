"""Every folder below ``broken/`` is a broken dataset; ``cases.tsv`` has the error it must give.

A message that ends in ``...`` is ours up to there; the rest is in the words of a library.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag_assets.errors import DataError
from rag_assets.sources import open_dataset

BROKEN = Path(__file__).parent / "broken"
CASES = [
    line.split("\t", 2)
    for line in (BROKEN / "cases.tsv").read_text(encoding="utf-8").splitlines()[1:]
]


@pytest.mark.parametrize(("case", "form", "expected"), CASES)
def test_the_error_of_a_broken_folder(read_all: Any, case: str, form: str, expected: str) -> None:
    if case.startswith("pdf_"):
        pytest.importorskip("pypdfium2")
    if case.startswith("html_"):
        pytest.importorskip("selectolax")
    folder = BROKEN / case
    with pytest.raises(DataError) as caught:
        read_all(open_dataset(folder, form))
    message = str(caught.value).replace(str(folder), ".", 1)
    assert "\n" not in message
    if expected.endswith("..."):
        assert message.startswith(expected.removesuffix("..."))
        assert len(message) > len(expected) - 3
    else:
        assert message == expected


def test_every_folder_is_in_the_table() -> None:
    names = [case for case, _, _ in CASES]
    assert len(names) == len(set(names)) >= 60
    assert sorted(path.name for path in BROKEN.iterdir() if path.is_dir()) == sorted(names)
