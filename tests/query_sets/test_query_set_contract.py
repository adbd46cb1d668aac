"""Every strategy keeps the contract that those of other packages inherit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rag_assets.query_sets.query_set import QUERY_SET_TYPES
from rag_assets.testing import QuerySetContract
from rag_assets.testing.query_sets import TEXTS


class TestEveryStrategy(QuerySetContract):
    @pytest.fixture(params=QUERY_SET_TYPES)
    def options(self, request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
        options: dict[str, Any] = {"strategy": request.param}
        if request.param == "file":
            rows = [{"query_id": name, "variants": ["a", "A ", f"{name} b"]} for name in TEXTS]
            file = tmp_path / "variants.jsonl"
            file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
            options["path"] = file
        return options
