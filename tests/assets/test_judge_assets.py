"""Verdicts in Dagster: exact edges, fresh after an evaluation, and no model to load them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import dagster as dg
import pytest

from rag_assets.judges.verdicts_stage import answer_verdicts_key, relevance_verdicts_key
from tests.answers.answering import with_answers
from tests.assets.exact_edges import check_edges
from tests.dagster_state import evaluate_now, latest, not_fresh, run_as_ui
from tests.llm.server import Server, says, serving
from tests.tiny_experiment import Tiny

OF_JUDGES = ("passages", "passage_lists", "relevance_verdicts", "answer_verdicts")

LOADED = """\
import sys
from pathlib import Path
from tests.dagster_state import definitions
from tests.tiny_experiment import Tiny
import yaml
tiny = Tiny(Path(sys.argv[1]), yaml.safe_load((Path(sys.argv[1]) / "data/experiment.yaml").open()))
keys = definitions(tiny).resolve_asset_graph().get_all_asset_keys()
print("relevance_verdicts" in {key.path[-1] for key in keys})
models = ("rag_assets.llm.openai_server", "transformers", "torch")
print([name for name in models if name in sys.modules])
"""


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(lambda text: "Some reason.\n##final score: 1") as one:
        yield one


@pytest.fixture
def judging(fresh: Tiny, server: Server) -> Tiny:
    """The tiny experiment with a judge that asks a server, and one that counts words."""
    model = {"base_url": server.base_url, "model": "small", "api_key_env": None, "retries": 0}
    judges = {"strict": {"type": "llm", "depth": 2}, "floor": {"type": "words"}}
    return with_answers(fresh, llm=model, judges=judges)


def test_every_edge_is_exact_in_both_directions(judging: Tiny) -> None:
    assert check_edges(judging, OF_JUDGES) > 20


def test_everything_is_fresh_after_an_evaluation_and_the_ui_asks_nothing_again(
    judging: Tiny, server: Server
) -> None:
    evaluate_now(judging)
    assert not_fresh(judging) == {}
    asked = len(server.received)
    again = evaluate_now(judging)
    assert (again.computed, len(server.received)) == (0, asked)
    judging.lose("answer_verdicts", "floor")
    assert run_as_ui(judging, ["answer_verdicts"], partition="floor").success
    assert latest(judging, answer_verdicts_key("floor")).metadata["reused"].value is False
    assert len(server.received) == asked
    assert not_fresh(judging) == {}


def test_verdicts_show_what_is_missing_and_how_they_came_to_be(
    judging: Tiny, server: Server
) -> None:
    server.on("dog", says("three"))
    evaluate_now(judging)
    event = latest(judging, relevance_verdicts_key("strict"))
    table = judging.pipeline().artifact(relevance_verdicts_key("strict")).table()
    missing = table["grade"].null_count
    assert event.metadata["n_missing"].value == event.metadata["n_unparsed"].value == missing > 0
    assert event.metadata["n_judged"].value == table.num_rows - missing
    assert "which is not 0" in str(event.metadata["notes"].value)
    made = event.metadata["made_from"].value
    assert isinstance(made, dict)
    assert made["config"]["llm"]["model"] == "small"
    preview = event.metadata["preview"]
    assert isinstance(preview, dg.TableMetadataValue)
    assert {column.name for column in preview.schema.columns} >= {"grade", "problem", "reply"}


def test_definitions_load_without_a_model(judging: Tiny, server: Server) -> None:
    command = [sys.executable, "-c", LOADED, str(judging.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["True", "[]", ""]
    assert server.received == []
