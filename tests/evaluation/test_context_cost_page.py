"""Every example of docs/context_cost.md is executed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_assets.evaluation.answer_text import holds
from rag_assets.evaluation.budget import budget_metrics, within_budget
from rag_assets.experiment.config import ExperimentConfig
from tests.context_tokens import context_table
from tests.made_tables import document_judgments, query_table, run_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "context_cost.md"
BLOCKS = [
    yaml.safe_load(block)
    for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
]
CONFIG, ANSWERS, BUDGETS = BLOCKS


def test_the_setting_is_one_of_an_experiment() -> None:
    config = ExperimentConfig.model_validate(CONFIG)
    assert config.context.tokenizer == "models/my-llm/tokenizer.json"


@pytest.mark.parametrize("example", ANSWERS, ids=str)
def test_answer(example: dict[str, Any]) -> None:
    assert holds(example["text"], example["answer"]) is example["holds"]


@pytest.mark.parametrize("example", BUDGETS, ids=str)
def test_budget(example: dict[str, Any]) -> None:
    units = [f"d{rank}" for rank in range(1, len(example["tokens"]) + 1)]
    contexts = context_table(dict(zip(units, example["tokens"], strict=True)))
    run = run_table({"q": units})
    kept = within_budget(run, contexts, example["budget"], column="item_id")
    assert kept.queries["n_kept"].to_pylist() == [example["kept"]]
    judgments = document_judgments({"q": {f"d{rank}": 1 for rank in example["relevant"]}})
    table = budget_metrics(kept, judgments, query_table(["q"]), list(example["metrics"]))
    (row,) = table.to_pylist()
    assert row.pop("query_id") == "q"
    assert row == pytest.approx(example["metrics"], abs=1e-6)
