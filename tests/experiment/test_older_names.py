"""Older names in an ``experiment.yaml`` mean what the new ones mean, with one note."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rag_assets.errors import ConfigError
from rag_assets.experiment import Experiment, older_names
from rag_assets.experiment.older_names import Replacement

Load = Callable[[str | bytes], Experiment]


def test_the_older_name_of_the_builtin_engine(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    older = load("retrievers:\n  a:\n    type: bm25\n    engine: bm25s\n")
    assert older.retrievers == load("retrievers: {a: {type: bm25, engine: builtin}}").retrievers
    load("retrievers:\n  a:\n    type: bm25\n    engine: bm25s\n")
    (note,) = [record.getMessage() for record in caplog.records]
    assert note.endswith(
        "experiment.yaml:4: `retrievers.a.engine`: bm25s is now called builtin; the older name is "
        "read in this version only"
    )


def test_members_of_a_grid_keep_their_names(load: Load) -> None:
    experiment = load(
        "retrievers:\n  a: {type: bm25, engine: [bm25s, rank_bm25]}\n"
        "  both: {type: rrf, inputs: [a-engine-bm25s, a-engine-rank_bm25]}\n"
    )
    assert [*experiment.retrievers] == ["a-engine-bm25s", "a-engine-rank_bm25", "both"]
    assert experiment.retrievers["a-engine-bm25s"].described()["engine"] == "builtin"


def test_a_key_with_another_name(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    renamed = Replacement("retrievers", "bm25", "k1", "saturation")
    monkeypatch.setattr(older_names, "REPLACEMENTS", (renamed,))
    experiment = load("retrievers:\n  a: {type: bm25, saturation: [0.5, 1]}\n")
    assert [*experiment.retrievers] == ["a-k1-0.5", "a-k1-1"]
    with pytest.raises(ConfigError, match=r"yaml:4: `retrievers\.a\.k1`: should be greater"):
        load("retrievers:\n  a:\n    type: bm25\n    saturation: -1\n")
    with pytest.raises(ConfigError, match="saturation"):  # both: the older one is unknown
        load("retrievers: {a: {type: bm25, k1: 1, saturation: 2}}")


def test_other_types_have_names_of_their_own(load: Load) -> None:
    with pytest.raises(ConfigError, match="engine"):
        load("retrievers: {a: {type: tfidf, engine: bm25s}}")
