"""What a person finds at an asset and a materialization, and what an instance is told later."""

from __future__ import annotations

import dagster as dg

from rag_assets.analysis.result import EvaluationResult
from rag_assets.analysis.winner import winner_of
from rag_assets.code_versions.versions import code_versions
from rag_assets.evaluation.metrics_stage import LEADERBOARD_KEY
from rag_assets.pipeline.stages import STAGES
from rag_assets.plain_text import markdown
from tests.assets.test_graph import use_everything
from tests.dagster_state import definitions, latest
from tests.tiny_experiment import Tiny


def test_every_asset_says_what_it_is(fresh: Tiny) -> None:
    graph = definitions(use_everything(fresh)).resolve_asset_graph()
    experiment = fresh.pipeline().experiment
    for key in graph.get_all_asset_keys():
        above, name = key.path
        stage, spec = STAGES[name], graph.get(key).to_asset_spec()
        assert above == "tiny"
        assert spec.group_name == f"tiny/{stage.group}"
        assert spec.code_version == code_versions().of(stage.own_code())
        # Dagster shows what has its own name above all else, and a board begins with its result.
        schema = "columns" if name == "leaderboard" else "dagster/column_schema"
        assert (schema in spec.metadata) is (stage.schema is not None)
        assert spec.description is not None
        assert spec.description.startswith(str(type(stage).__doc__).splitlines()[0])
        assert spec.kinds
        assert spec.metadata["row"].value == stage.row
        assert spec.tags["rag_assets/experiment"] == "tiny"
        assert spec.tags["rag_assets/stage"] == name
        assert spec.kinds == set(stage.kinds_of(experiment))
    first_lines = [str(type(stage).__doc__).splitlines()[0] for stage in STAGES.values()]
    assert len(set(first_lines)) == len(first_lines), "each asset has a sentence of its own"


def test_who_wins_comes_first(tiny: Tiny) -> None:
    tiny.snapshot()
    shown = latest(tiny, LEADERBOARD_KEY).metadata
    assert next(iter(shown)) == "winner"
    winner = winner_of(EvaluationResult.current(tiny.artifacts))
    assert winner is not None
    said = [markdown(text) for text in (winner.title, *winner.sentences)]
    assert shown["winner"] == dg.MetadataValue.md("\n\n".join([f"**{said[0]}**", *said[1:]]))
