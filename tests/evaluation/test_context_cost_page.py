"""Every example of docs/context_cost.md is executed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_assets.evaluation.budget import budget_metrics, within_budget
from rag_assets.evaluation.contexts_stage import contexts, expanded_contexts
from rag_assets.evaluation.relevant_units_stage import relevant_units
from rag_assets.evaluation.units import unit_spans, with_neighbours
from rag_assets.experiment.config import ExperimentConfig
from rag_assets.retrieval.retriever import WindowExpansion
from tests.context_tokens import context_table
from tests.evaluation.answer_text import holds
from tests.labels.health.tables import chunks, qrels
from tests.made_tables import document_judgments, query_table, run_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "context_cost.md"
BLOCKS = [
    yaml.safe_load(block)
    for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
]
CONFIG, EXPANDED, WINDOWS, ANSWERS, BUDGETS = BLOCKS


def test_the_setting_is_one_of_an_experiment() -> None:
    config = ExperimentConfig.model_validate(CONFIG)
    assert config.context.tokenizer == "models/my-llm/tokenizer.json"


def test_the_option_is_one_of_a_retriever() -> None:
    config = ExperimentConfig.model_validate(EXPANDED)
    expand = {name: one.expand for name, one in config.retrievers.items()}
    assert expand == {"small": None, "windows": WindowExpansion(type="window", chunks=1)}


def test_neighbours() -> None:
    text = WINDOWS["text"]
    spans = [(text.index(one), text.index(one) + len(one)) for one in WINDOWS["chunks"]]
    cut = chunks({"d": text}, {"d": spans})
    start = text.index(WINDOWS["evidence"])
    labels = qrels(("q", "e", "d", (start, start + len(WINDOWS["evidence"])), 1))

    def count(texts: Sequence[str]) -> list[int]:
        return [len(one.split()) for one in texts]

    plain = contexts(cut, {}, count)
    table = expanded_contexts(plain, WINDOWS["neighbours"], {"d": text}, count)
    columns = (table[name].to_pylist() for name in ("start", "end"))
    returned = [text[first:last] for first, last in zip(*columns, strict=True)]
    assert returned == WINDOWS["returned"]
    assert table["n_tokens"].to_pylist() == WINDOWS["tokens"]
    units = with_neighbours(unit_spans(cut), WINDOWS["neighbours"])
    found = relevant_units(labels, cut, "evidence", units)["unit_id"].to_pylist()
    ids = cut["chunk_id"].to_pylist()
    assert set(found) == {ids[number - 1] for number in WINDOWS["satisfied_by"]}
    assert relevant_units(labels, cut, "evidence")["unit_id"].to_pylist() == [ids[1]]


@pytest.mark.parametrize("example", ANSWERS, ids=str)
def test_answer(example: dict[str, Any]) -> None:
    assert holds(example["text"], example["answer"]) is example["holds"]


@pytest.mark.parametrize("example", BUDGETS, ids=str)
def test_budget(example: dict[str, Any]) -> None:
    units = [f"d{rank}" for rank in range(1, len(example["tokens"]) + 1)]
    contexts = context_table(dict(zip(units, example["tokens"], strict=True)))
    run = run_table({"q": units})
    kept = within_budget(run, contexts, example["budget"], column="unit_id")
    assert kept.queries["n_kept"].to_pylist() == [example["kept"]]
    judgments = document_judgments({"q": {f"d{rank}": 1 for rank in example["relevant"]}})
    table = budget_metrics(kept, judgments, query_table(["q"]), list(example["metrics"]))
    (row,) = table.to_pylist()
    assert row.pop("query_id") == "q"
    assert row == pytest.approx(example["metrics"], abs=1e-6)
