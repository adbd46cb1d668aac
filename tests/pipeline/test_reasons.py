"""Reasons for people, from manifests made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rag_assets.engine.recipe import Recipe, manifest_of
from rag_assets.pipeline.reasons import Reason, Wanted, row_changes
from rag_assets.schemas import QUERIES
from rag_assets.store.artifacts import ArtifactKey, Manifest

RECIPE = Recipe("fused_runs", "2", {"k": 60.0, "judge": "chunk"}, {"a": "1", "b": "2"}, {"x": "1"})
ONE, TWO = "1" * 64, "2" * 64


def made(recipe: Recipe = RECIPE) -> Manifest:
    return manifest_of(recipe, {"all": "d"}, 3, {})


def texts(wanted: Recipe, stored: Recipe = RECIPE, **more: Any) -> list[str]:
    return [reason.text for reason in Wanted(wanted, **more).differences(made(stored))]


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
    assert texts(replace(RECIPE, config=new), replace(RECIPE, config=old)) == [text]


def test_versions_and_files() -> None:
    old = {"duckdb": "1.0", "file.path": ONE}
    new = {"duckdb": "1.1", "file.path": TWO}
    assert texts(replace(RECIPE, versions=new), replace(RECIPE, versions=old)) == [
        "duckdb 1.0 -> 1.1",
        "the file under path changed",
    ]


def test_inputs() -> None:
    wanted = replace(RECIPE, inputs={"a": "9", "c": "1"})
    keys = {"a": ArtifactKey.of("chunks", chunking="whole")}
    assert texts(wanted, keys=keys) == [
        "c is new",
        "chunks[chunking=whole] changed",
        "b is no longer read",
    ]


def test_new_code() -> None:
    assert texts(replace(RECIPE, code_version="5")) == ["the code of fused_runs changed"]


def test_what_fits() -> None:
    def fits(wanted: Wanted) -> bool:
        return wanted.fits(made())

    some = replace(RECIPE, inputs={"a": "1"})
    assert fits(Wanted(RECIPE))
    assert not fits(Wanted(some))
    assert fits(Wanted(some, unknown=frozenset({"b", ""})))
    assert fits(Wanted(some, maybe=frozenset({"b", "c"})))
    assert not fits(Wanted(some, unknown=frozenset({"b", "c"})))
    assert not fits(Wanted(replace(RECIPE, inputs={"a": "2"}), unknown=frozenset({"b"})))
    late = replace(RECIPE, config={"judge": "chunk"})
    assert not fits(Wanted(late))
    assert fits(Wanted(late, late=frozenset({"k"})))
    assert not fits(Wanted(replace(RECIPE, code_version="3")))
    assert not fits(Wanted(replace(RECIPE, versions={})))


def test_rows() -> None:
    def table(**texts: str) -> Any:
        rows: list[dict[str, object]] = [
            {"query_id": name, "text": text, "tags": [], "metadata": "{}"}
            for name, text in texts.items()
        ]
        return QUERIES.from_rows(rows)

    old = table(a="x", b="y", c="z", d="w")
    new = table(b="y", a="1", c="2", e="w")
    found = row_changes("queries", old, new, QUERIES.key)
    assert found == [Reason("2 queries changed, 1 added, 1 removed")]
    turned = table(d="w", c="z", b="y", a="x")
    assert row_changes("queries", old, turned, QUERIES.key) == [
        Reason("files changed, no query did")
    ]
