"""The contract tests of the package acme-more, as its own test suite would have them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rag_assets.testing import FormatContract, FusionContract, QuerySetContract
from rag_assets.testing.formats import Example

FAQ = {
    "faq": [
        {"id": "salt", "question": "What is salt?", "answer": "Salt is NaCl."},
        {"id": "\u6e2f", "question": "When?", "answer": "At six."},
    ]
}


class TestKeywords(QuerySetContract):
    @pytest.fixture
    def options(self) -> Mapping[str, Any]:
        return {"strategy": "keywords", "letters": 4}


class TestDecayed(FusionContract):
    @pytest.fixture
    def options(self) -> Mapping[str, Any]:
        return {"type": "decayed", "decay": 0.8}


class TestFaq(FormatContract):
    @pytest.fixture
    def example(self, tmp_path: Path) -> Example:
        file = tmp_path / "faq.json"
        file.write_text(json.dumps(FAQ), encoding="utf-8")
        return Example("faq", file)
