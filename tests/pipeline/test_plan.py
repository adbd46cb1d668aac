"""What a plan says of every partition after a change, and why; that an evaluation then does it.

``test_incremental.py`` compares plan and evaluation after many more changes.
"""

from __future__ import annotations

import pytest

from rag_assets.chunking.stage import chunks_key
from rag_assets.engine.recipe import Recipe
from rag_assets.engine.stage import Stage
from rag_assets.engine.stage_context import StageContext
from rag_assets.llm.client import Completion
from rag_assets.pipeline.plan import CHECK, COMPUTE, REUSE, Plan
from rag_assets.pipeline.reasons import Reason
from rag_assets.pipeline.selection import Selection
from rag_assets.query_sets.query_set import requests_for
from rag_assets.query_sets.rewriting import RewriteQuerySet
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.content_cache import COMPLETIONS
from tests.changed_code import change_code
from tests.llm.requests import store_replies
from tests.tiny_experiment import (
    DOCUMENTS,
    JUDGMENTS,
    Tiny,
    by_action,
    is_done,
    matching,
    materialize,
    planned,
    short,
)

TOP_K = (1, 3, 5)


def reasons(found: Plan, name: str) -> list[str]:
    (step,) = [step for step in found.steps if short(step.key) == name]
    return [reason.text for reason in step.reasons]


def files_of(tiny: Tiny) -> set[str]:
    return {str(path) for path in tiny.settings.store.rglob("*")}


def test_a_plan_says_what_is_done_and_why_and_writes_nothing(tiny: Tiny) -> None:
    tiny.configure("bm25", k1=0.9)
    before = files_of(tiny)
    found = planned(tiny)
    assert files_of(tiny) == before
    actions = by_action(found)
    assert actions[COMPUTE] == matching(tiny.pipeline(), "lexical_index/bm25")
    below = ("lexical_runs/bm25/*", "fused_runs/*", "metrics/hybrid/*", "leaderboard")
    assert matching(tiny.pipeline(), *below) <= actions[CHECK]
    assert reasons(found, "metrics/bm25/3") == [
        "upstream lexical_runs[retriever=bm25, top_k=3] may be computed again"
    ]
    assert all(bool(step.reasons) is (step.action != REUSE) for step in found.steps)
    assert is_done(found, tiny.run())
    assert {step.action for step in planned(tiny).steps} == {REUSE}


def test_a_ranking_that_is_deleted_is_made_by_the_first_of_its_cells(tiny: Tiny) -> None:
    tiny.lose("rankings", "bm25")
    found = planned(tiny)
    assert by_action(found)[COMPUTE] == {"lexical_runs/bm25/1"}
    assert reasons(found, "lexical_runs/bm25/1") == [
        "its ranking is read 100 deep, and is not stored so deep"
    ]
    assert is_done(found, tiny.run())


def test_an_empty_store(fresh: Tiny) -> None:
    found = planned(fresh)
    assert {step.action for step in found.steps} == {COMPUTE}
    assert {step.reasons for step in found.steps} == {(Reason("nothing stored yet"),)}
    assert found.retrievers == ("bm25", "bm25-whole", "okapi", "hybrid", "shallow")
    assert not fresh.artifacts.exists()


def test_without_an_evaluation_it_is_not_known_which_object_was_whose(tiny: Tiny) -> None:
    (tiny.artifacts / "current").unlink()
    tiny.configure("bm25", k1=0.9)
    assert reasons(planned(tiny), "lexical_index/bm25") == ["nothing stored yet"]


def test_the_last_evaluation_is_compared_not_the_newest_artifact(tiny: Tiny) -> None:
    tiny.configure("bm25", k1=0.4)
    tiny.run()
    tiny.configure("bm25", k1=0.9, b=0.5)
    assert reasons(planned(tiny), "lexical_index/bm25") == ["k1 1.2 -> 0.9", "b 0.75 -> 0.5"]


def test_going_back_is_reuse_and_what_is_below_too(tiny: Tiny) -> None:
    tiny.configure("bm25", k1=0.4)
    tiny.run()
    tiny.snapshot()
    tiny.configure("bm25", k1=1.2)
    assert {step.action for step in planned(tiny).steps} == {REUSE}


def test_new_code_is_told(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    change_code(monkeypatch, "fused_runs")
    change_code(monkeypatch, "bm25")
    found = planned(tiny)
    assert reasons(found, "fused_runs/hybrid/1")[0] == "the code of fused_runs changed"
    assert reasons(found, "lexical_index/bm25") == ["the code of lexical_index changed"]
    assert is_done(found, tiny.run())


def test_a_part_of_the_experiment(tiny: Tiny) -> None:
    tiny.write_document("crew.md", f"{DOCUMENTS['crew.md']}\n  \n")
    found = planned(tiny, ["bm25"], [5])
    names = {short(step.key) for step in found.steps}
    assert "lexical_runs/bm25/5" in names
    assert not any("okapi" in name or name.endswith("/1") for name in names)
    pipeline = tiny.pipeline()
    selection = Selection.of(pipeline.experiment, ["bm25"], [5])
    # The other retrievers come out as they were, and with them the leaderboard.
    assert reasons(found, "leaderboard")[-1].endswith("may be up to date again")
    assert is_done(found, materialize(pipeline, selection))


def test_a_tuned_fusion(tiny: Tiny) -> None:
    tiny.config["split"] = {"dev": 0.5, "seed": 0}
    tiny.configure("hybrid", weights="tuned", tune={"grid": 3})
    found = planned(tiny)
    assert reasons(found, "fused_runs/hybrid/5") == [
        "upstream tuning[retriever=hybrid, top_k=5] is computed again"
    ]
    assert is_done(found, tiny.run())
    tiny.snapshot()
    tiny.write_rows("judgments.jsonl", [{**row, "relevance": 2} for row in JUDGMENTS])
    found = planned(tiny)
    assert "fused_runs/hybrid/5" in by_action(found)[CHECK]
    assert is_done(found, tiny.run())


def test_texts_to_embed_are_counted_where_the_chunks_are_there(tiny: Tiny) -> None:
    tiny.configure("minilm", type="embedding", chunking="parts")
    found = planned(tiny)
    pipeline = tiny.pipeline()
    n_chunks = pipeline.artifact(chunks_key("parts")).manifest.rows
    work = {short(step.key): step.work for step in found.steps if step.work}
    assert work == {
        "embedding_index/minilm": {"texts": n_chunks},
        "embedding_queries/minilm": {"texts": 6},
    }
    assert (found.work("texts"), found.work("llm_calls")) == (n_chunks + 6, None)


def test_calls_of_a_language_model_are_those_that_are_not_in_the_cache(fresh: Tiny) -> None:
    llm = {"model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": None, "max_calls": 4}
    fresh.config |= {"llm": llm, "query_sets": {"clear": {"strategy": "rewrite"}}}
    fresh.configure("bm25", query_set="clear")
    found = planned(fresh)
    (line,) = found.outgoing
    assert (found.work("llm_calls"), line.requests, line.max_calls) == (6, 6, 4)
    experiment = fresh.pipeline().experiment
    config, model = experiment.query_sets["clear"], experiment.config.llm
    assert isinstance(config, RewriteQuerySet)
    assert model is not None
    requests = requests_for(experiment.dataset.read_queries().table, config.prompted())
    folder = fresh.pipeline().cache_folder(COMPLETIONS)
    known = [(one, Completion("x", 1, 1, "stop")) for one in requests[:2]]
    store_replies(folder, model.identity(), known)
    found = planned(fresh)
    assert {short(s.key): s.work for s in found.steps if s.work} == {
        "query_set_answers/clear": {"llm_calls": 4}
    }


def test_a_plan_works_out_a_missing_partition_once(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipes: list[ArtifactKey] = []
    recipe = Stage.recipe

    def counted(stage: Stage, context: StageContext, key: ArtifactKey) -> Recipe | None:
        recipes.append(key)
        return recipe(stage, context, key)

    monkeypatch.setattr(Stage, "recipe", counted)
    tiny.config["retrievers"]["bm25"]["k1"] = 0.7
    tiny.write()
    steps = planned(tiny).steps
    assert any(step.action == COMPUTE for step in steps)
    assert len(recipes) <= 2 * len(steps)
