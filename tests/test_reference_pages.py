"""docs/reference/ says what the code has."""

from __future__ import annotations

import pytest

from rag_assets.cli.main import SUMMARIES
from rag_assets.evaluation.metric_names import MEASURES
from rag_assets.pipeline.stages import STAGES
from tests.reference_pages import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_the_code_writes_it(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "run `make reference`"


def test_nothing_is_left_out() -> None:
    names = ("commands.md", "metrics.md", "tables.md")
    commands, metrics, tables = (PAGES[name]() for name in names)
    for name in SUMMARIES:
        assert f"\n## {name}\n" in commands
    for measure in MEASURES:
        assert f"\n| `{measure}` | " in metrics
    for stage in STAGES.values():
        assert stage.schema is None or f"\n## {stage.schema.name}\n" in tables
    assert "| |" not in tables
    assert ":class:" not in "".join((commands, metrics, tables))
