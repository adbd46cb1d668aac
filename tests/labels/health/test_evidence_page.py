"""Every example of docs/evidence.md is executed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from rag_assets.evaluation.metric_names import parse_metric
from rag_assets.evaluation.metrics import query_metrics
from rag_assets.evaluation.relevant_units_stage import relevant_units
from tests.labels.health.tables import Span, chunks, qrels
from tests.made_tables import query_table, run_table

PAGE = Path(__file__).resolve().parents[3] / "docs" / "evidence.md"
SECTION = r"^## (.*?)$(.*?)(?=^## |\Z)"
EXAMPLES = [
    pytest.param(yaml.safe_load(block), id=f"{heading.strip()} {number}")
    for heading, body in re.findall(SECTION, PAGE.read_text("utf-8"), re.M | re.S)
    for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", body, re.S), 1)
]


def span(text: str, quote: str) -> Span:
    assert text.count(quote) == 1, quote
    return text.index(quote), text.index(quote) + len(quote)


def test_the_page_has_all_worked_examples() -> None:
    assert len(EXAMPLES) == 8


@pytest.mark.parametrize("example", EXAMPLES)
def test_example(example: dict[str, Any]) -> None:
    text = example["document"]
    labels = qrels(
        *[
            ("q", name, "d", span(text, quote), 1)
            for name, quotes in example["evidence"].items()
            for quote in quotes
        ]
    )
    pieces = {name: span(text, piece) for name, piece in example["chunks"].items()}
    names = {f"d#{start}-{end}": name for name, (start, end) in pieces.items()}
    judged = relevant_units(labels, chunks({"d": text}, {"d": list(pieces.values())}), "evidence")
    assert satisfied_by(judged, names) == example["satisfied_by"]

    ids = {name: chunk_id for chunk_id, name in names.items()}
    runs = {"run": run_table({"q": [ids[name] for name in example["ranking"]]})}
    wanted = {name: parse_metric(name) for name in example["metrics"]}
    cells = sorted({("run", metric.cutoff or 0) for metric in wanted.values()})
    found = query_metrics(runs, {"j": judged}, {"run": "j"}, query_table(["q"]), cells)
    for name, metric in wanted.items():
        row = found["run", metric.cutoff or 0].to_pylist()[0]
        assert row["n_relevant"] == len(example["evidence"])
        assert row[metric.measure] == pytest.approx(example["metrics"][name], abs=1e-6), name


def satisfied_by(judged: pa.Table, names: dict[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in judged.to_pylist():
        units = found.setdefault(row["evidence_id"], [])
        if row["unit_id"] is not None:
            units.append(names[row["unit_id"]])
    return {evidence: sorted(units) for evidence, units in found.items()}
