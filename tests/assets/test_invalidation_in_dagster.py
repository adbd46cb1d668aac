"""What Dagster is told after a change, by a hand-written table, and that nothing is stale then.

Dagster sees whole versions, not the parts of them that a stage reads. So what reads a partition
that changed in another part is told of again, as reused; nothing is computed for it.
"""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from rag_assets.assets.reports import DATA_VERSION
from rag_assets.store.artifacts import ArtifactKey
from tests.changed_code import change_code
from tests.dagster_state import (
    counts,
    evaluate_now,
    materializations,
    not_fresh,
    run_as_ui,
    short_name,
)
from tests.tiny_experiment import DOCUMENTS, Tiny, matching

BM25_RUN = ArtifactKey.of("lexical_runs", retriever="bm25", top_k=3)

Change = Callable[[Tiny], object]
Upgrade = Callable[[Tiny, pytest.MonkeyPatch], object]


def upgrade_fusion(tiny: Tiny, patch: pytest.MonkeyPatch) -> None:
    change_code(patch, "fused_runs")


def flip_a_byte(tiny: Tiny) -> None:
    (folder,) = tiny.stored("relevant_units", "hybrid")
    file = folder / "table.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 255
    file.write_bytes(content)


def lose_runs(tiny: Tiny) -> None:
    tiny.lose("lexical_runs", "bm25-whole")
    shutil.rmtree(tiny.objects("rankings"))


def add_a_cutoff(tiny: Tiny) -> None:
    tiny.config["top_k"] = [1, 3, 5]
    tiny.write_config()


def rename_folder(tiny: Tiny) -> None:
    (tiny.root / "data").rename(tiny.root / "elsewhere")
    (tiny.root / "data").symlink_to(tiny.root / "elsewhere")


class Told(NamedTuple):
    """What a change makes of the partitions.

    Attributes:
        change: the change.
        computed: patterns of those that are computed and told.
        reused: patterns of those that are told only.
    """

    change: Change | Upgrade
    computed: tuple[str, ...] = ()
    reused: tuple[str, ...] = ()


CHANGES: dict[str, Told] = {
    "front matter": Told(
        lambda tiny: tiny.write_document("crew.md", f"---\nowner: a\n---\n{DOCUMENTS['crew.md']}"),
        ("documents",),
        ("qrels", "chunks/*", "attributions/*"),
    ),
    "the folder's name": Told(rename_folder),
    "the warehouse": Told(lambda tiny: tiny.settings.warehouse.unlink()),
    "a damaged artifact": Told(flip_a_byte, ("relevant_units/hybrid",)),
    "new code": Told(upgrade_fusion, ("fused_runs/*",)),
    # The ranking comes back with the first run that is made of it.
    "runs and rankings that are gone": Told(
        lose_runs, ("lexical_runs/bm25-whole/*", "lexical_runs/bm25/1"), ("lexical_runs/bm25/3",)
    ),
    "a tag": Told(
        lambda tiny: tiny.replace("queries.jsonl", '"wind"', '"storm"'),
        ("queries", "query_facts"),
        ("qrels", "query_sets/*", "metrics/*"),
    ),
    # The numbers of the queries stay, so no summary is even told.
    "one retriever": Told(
        lambda tiny: tiny.configure("bm25", k1=0.4),
        (
            *("lexical_index/bm25", "lexical_runs/bm25/*", "fused_runs/*", "metrics/bm25/*"),
            *("attributions/bm25/*", "attributions/hybrid/*", "answerability"),
        ),
    ),
    # Its inputs rank deeper, and what reads their first ranks is as it was.
    "a deep fusion": Told(
        lambda tiny: tiny.configure(
            "deep", type="rrf", inputs=["bm25-whole", "bm25"], candidates=50
        ),
        ("fused_runs/deep/*", "attributions/deep/*", "leaderboard", "comparisons", "answerability"),
        (
            *("lexical_runs/*", "fused_runs/hybrid/*", "metrics/bm25*", "metrics/deep/*"),
            *("attributions/bm25*/3", "attributions/hybrid/3"),
            *("relevant_units/deep", "retriever_contexts/deep"),
            *("metrics_summary/deep", "intervals/deep"),
        ),
    ),
    "a cut-off more": Told(
        add_a_cutoff,
        ("*/5", "attributions/hybrid/3", "leaderboard", "metrics_summary/*", "intervals/*"),
        ("attributions/bm25*/3",),
    ),
    "one retriever more": Told(
        lambda tiny: tiny.configure("tfidf", type="tfidf", chunking="parts"),
        (
            *("term_counts/parts:auto", "lexical_index/tfidf", "*/tfidf/*"),
            *("leaderboard", "comparisons", "answerability"),
        ),
        # As objects they are there: those of bm25, whose metrics are the same on six questions.
        (
            *("relevant_units/tfidf", "retriever_contexts/tfidf", "lexical_queries/tfidf"),
            *("metrics_summary/tfidf", "intervals/tfidf"),
        ),
    ),
}


@pytest.fixture
def tiny(few: Tiny) -> Tiny:
    return few


@pytest.mark.parametrize("told", CHANGES.values(), ids=CHANGES)
def test_exactly_what_a_change_reaches_is_told_and_nothing_is_stale(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    before = counts(tiny)
    takes_patch = len(inspect.signature(told.change).parameters) == 2
    told.change(*((tiny, monkeypatch) if takes_patch else (tiny,)))
    work = evaluate_now(tiny)
    pipeline = tiny.pipeline()
    computed = matching(pipeline, *told.computed) if told.computed else set()
    reused = matching(pipeline, *told.reused) if told.reused else set()
    assert work.computed == len(computed)
    again = counts(tiny)
    assert {n: again[n] - before[n] for n in again if again[n] > before[n]} == dict.fromkeys(
        computed | reused, 1
    )
    assert reports(tiny, computed | reused) == {
        **dict.fromkeys(computed, False),
        **dict.fromkeys(reused, True),
    }
    assert tiny.settings.warehouse.is_file()
    assert not_fresh(tiny) == {}


def test_a_reranker_is_told_of_texts_by_the_cells_that_it_reads(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path / "tiny")
    retrievers = {"bm25": tiny.config["retrievers"]["bm25"]}
    retrievers["late"] = {"type": "maxsim", "input": "bm25", "candidates": 5}
    tiny.config |= {"retrievers": retrievers, "top_k": [3], "primary": "ndcg@3"}
    del tiny.config["chunking"]["whole"]
    evaluate_now(tiny.write())
    before, ranked = versions(tiny), tiny.pipeline().artifact(BM25_RUN)
    tiny.write_document("crew.md", DOCUMENTS["crew.md"].replace("ferry.", "ferry!"))
    assert evaluate_now(tiny).computed  # the same words, at the same places
    assert tiny.pipeline().artifact(BM25_RUN).manifest.digests == ranked.manifest.digests
    (name,) = (name for name in before if name.startswith("lexical_runs/"))
    assert versions(tiny)[name] != before[name]
    assert not_fresh(tiny) == {}


def reports(tiny: Tiny, names: set[str]) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for asset in {name.partition("/")[0] for name in names}:
        for event in materializations(tiny, asset):
            name = short_name(asset, event.partition)
            if name not in found:
                found[name] = event.metadata["reused"].value is True
    return {name: found[name] for name in names}


def versions(tiny: Tiny) -> dict[str, str]:
    found: dict[str, str] = {}
    for stage in tiny.pipeline().stages():
        for event in materializations(tiny, stage.name):
            tags = event.tags or {}
            found.setdefault(short_name(stage.name, event.partition), tags[DATA_VERSION])
    return found


def test_an_edit_that_comes_in_by_the_ui_makes_exactly_its_dependants_stale(tiny: Tiny) -> None:
    """Stage after stage, staleness goes as far as versions change, and no further."""
    tiny.replace("judgments.jsonl", '"relevance": 1', '"relevance": 2')
    assert run_as_ui(tiny, ["qrels"]).success
    pipeline = tiny.pipeline()
    direct = matching(pipeline, "relevant_units/*", "answerability", "attributions/*")
    below = matching(pipeline, "metrics/*", "metrics_summary/*", "intervals/*", "leaderboard")
    stale = set(not_fresh(tiny))
    assert direct <= stale
    assert stale <= direct | below | matching(pipeline, "comparisons")
    evaluate_now(tiny)
    assert not_fresh(tiny) == {}
