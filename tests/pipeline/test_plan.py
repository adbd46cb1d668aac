"""What a plan says of every partition after a change, and why; that an evaluation then does it.

``test_invalidation_matrix.py`` compares plan and evaluation after many more changes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rag_assets.analysis.plan import plan_sheet
from rag_assets.chunking.stage import chunks_key
from rag_assets.engine.recipe import Recipe, manifest_of
from rag_assets.engine.stage import Stage
from rag_assets.engine.stage_context import StageContext
from rag_assets.pipeline.plan import CHECK, COMPUTE, REUSE, Plan
from rag_assets.pipeline.reasons import Reason, Wanted
from rag_assets.pipeline.selection import Selection
from rag_assets.store.artifacts import ArtifactKey, Manifest
from tests.tiny_experiment import (
    DOCUMENTS,
    QUERIES,
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


def test_a_plan_tells_the_time_by_what_was_measured_here(tiny: Tiny) -> None:
    assert planned(tiny).times == {}
    assert not any("time:" in note for note in plan_sheet(planned(tiny)).notes)
    tiny.configure("bm25", k1=0.9)
    found = planned(tiny)
    assert found.times.keys() == {one.key for one in found.artifacts if one.action != REUSE}
    times = {key: 70.0 for key in found.times}
    (line,) = (one for one in plan_sheet(replace(found, times=times)).notes if "time:" in one)
    assert line == f"time: at most about {len(times) * 70 / 60:.0f} minutes, as measured here"
    known = {key: 2.0 for key in times if key.asset == "lexical_runs"}
    (line,) = (one for one in plan_sheet(replace(found, times=known)).notes if "time:" in one)
    start = "time: at most a few seconds, as measured here; not measured yet: "
    assert line.removeprefix(start).split(", ") == sorted(
        {key.asset for key in times.keys() - known}
    )


def test_an_empty_store(fresh: Tiny) -> None:
    found = planned(fresh)
    assert found.times == {}
    assert {step.action for step in found.steps} == {COMPUTE}
    assert {step.reasons for step in found.steps} == {(Reason("nothing stored yet"),)}
    assert found.retrievers == ("bm25", "bm25-whole", "okapi", "hybrid", "shallow")
    assert not fresh.artifacts.exists()


def test_equal_retrievers_of_which_one_obeys_filters_are_two(fresh: Tiny) -> None:
    """What of the filters each reads is not known before they are there."""
    queries = [{**query, "filter": {"document_id": "fares.md"}} for query in QUERIES]
    fresh.write_rows("queries.jsonl", queries)
    alike = fresh.config["retrievers"]["bm25"]
    recent = {"field": "date", "half_life": "1d", "now": "2026-01-31"}
    fresh.config["retrievers"] |= {
        "twin": alike,
        "filtered": {**alike, "filters": True},
        "aged": {**alike, "recency": recent},
        "older": {**alike, "recency": {**recent, "half_life": "2d"}},
    }
    fresh.write_config()
    steps = [step for step in planned(fresh).steps if step.key.asset == "lexical_runs"]
    same = {short(step.key): short(step.same_as) for step in steps if step.same_as}
    assert same == {f"lexical_runs/twin/{k}": f"lexical_runs/bm25/{k}" for k in TOP_K}


def test_without_an_evaluation_it_is_not_known_which_object_was_whose(tiny: Tiny) -> None:
    (tiny.artifacts / "current").unlink()
    tiny.configure("bm25", k1=0.9)
    assert reasons(planned(tiny), "lexical_index/bm25") == ["nothing stored yet"]


def test_the_last_evaluation_is_compared_not_the_newest_artifact(tiny: Tiny) -> None:
    tiny.configure("bm25", k1=0.4)
    tiny.run()
    tiny.configure("bm25", k1=0.9, b=0.5)
    assert reasons(planned(tiny), "lexical_index/bm25") == ["k1 1.2 -> 0.9", "b 0.75 -> 0.5"]


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


def test_texts_to_embed_are_counted_where_the_chunks_are_there(tiny: Tiny) -> None:
    tiny.configure("minilm", type="embedding", chunking="parts")
    found = planned(tiny)
    n_chunks = tiny.pipeline().artifact(chunks_key("parts")).manifest.rows
    work = {short(step.key): step.work for step in found.steps if step.work}
    assert work == {
        "embedding_index/minilm": {"texts": n_chunks},
        "embedding_queries/minilm": {"texts": 6},
    }
    assert (found.work("texts"), found.work("llm_calls")) == (n_chunks + 6, None)


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


RECIPE = Recipe("fused_runs", "2", {"k": 60.0, "judge": "chunk"}, {"a": "1", "b": "2"}, {"x": "1"})
ONE, TWO = "1" * 64, "2" * 64


def manifest(recipe: Recipe = RECIPE) -> Manifest:
    return manifest_of(recipe, {"all": "d"}, 3, {})


def differences(wanted: Recipe, stored: Recipe = RECIPE, **more: Any) -> list[str]:
    return [reason.text for reason in Wanted(wanted, **more).differences(manifest(stored))]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ({"k": 1.2}, {"k": 0.9}, "k 1.2 -> 0.9"),
        ({}, {"k": 0.9}, "k absent -> 0.9"),
        ({"k": None}, {}, "k null -> absent"),
        ({"llm": {"model": "a b"}}, {"llm": {"model": "c"}}, "llm.model a b -> c"),
        ({"revision": "aa"}, {"revision": "bb"}, "revision aa -> bb"),
        ({"model_sha256": ONE}, {"model_sha256": TWO}, "the model's files changed"),
        ({"some": ONE}, {"some": TWO}, "some changed"),
        ({"file": ONE}, {"file": TWO}, "the file changed"),
        ({"names": ["a", "b"]}, {"names": ["b", "c"]}, "names: c added; a removed"),
        ({"names": ["a", "b"]}, {"names": ["b", "a"]}, "names: another order"),
        ({"weights": [0.5, 0.5]}, {"weights": [0.7, 0.3]}, "weights [0.5, 0.5] -> [0.7, 0.3]"),
        ({"t": "a" * 50}, {"t": "b\nc"}, f"t {'a' * 37}... -> b c"),
    ],
)
def test_options(old: dict[str, Any], new: dict[str, Any], text: str) -> None:
    assert differences(replace(RECIPE, config=new), replace(RECIPE, config=old)) == [text]


def test_versions_and_files() -> None:
    old = {"duckdb": "1.0", "file.path": ONE}
    new = {"duckdb": "1.1", "file.path": TWO}
    assert differences(replace(RECIPE, versions=new), replace(RECIPE, versions=old)) == [
        "duckdb 1.0 -> 1.1",
        "the file under path changed",
    ]
