"""Three states after an anchor whose answer is known: a page more, worse chunks, nothing new."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rag_assets.analysis.drop_causes import Causes, LostQuestion
from rag_assets.analysis.gate import Check, Gate, Rules, gate
from rag_assets.analysis.result import EvaluationResult
from rag_assets.pipeline.evaluation_names import EvaluationNames
from tests.tiny_experiment import Tiny

N = 12

TOWNS = ("Aro", "Bel", "Cid", "Dun", "Eim", "Fol", "Gat", "Hul", "Ivo", "Jam", "Kem", "Lun")


CONFIG: dict[str, Any] = {
    "name": "towns",
    "dataset": {"format": "markdown"},
    "chunking": {"parts": {"strategy": "recursive", "max_tokens": 100, "overlap": 0}},
    "retrievers": {"bm25": {"type": "bm25", "chunking": "parts", "analyzer": "english"}},
    "top_k": [1, 3],
    "metrics": ["mrr"],
    "primary": "mrr@1",
}


@pytest.fixture(scope="module")
def anchored(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return with_anchor(tmp_path_factory.mktemp("towns"), CONFIG)


def with_anchor(folder: Path, config: dict[str, Any]) -> Tiny:
    """Twelve pages, each with one question: its words are above the sentence that answers it."""
    tiny = Tiny(folder / "towns", config)
    quote = "It costs 3 crowns for an hour, at any time of day."
    for town in TOWNS:
        lead = f"Parking in {town} is described on this page of the guide."
        tiny.write_document(f"{town}.md", f"{lead}\n\n{quote}\n")
    tiny.write_rows(
        "queries.jsonl", [{"query_id": f"q{t}", "text": f"parking in {t}"} for t in TOWNS]
    )
    labels = [{"query_id": f"q{t}", "doc_id": f"{t}.md", "quote": quote} for t in TOWNS]
    tiny.write_rows("judgments.jsonl", labels)
    tiny.write_config()
    evaluate(tiny)
    EvaluationNames(tiny.settings, "towns").pin("latest")
    return tiny


@pytest.fixture
def towns(anchored: Tiny, tmp_path: Path) -> Tiny:
    return anchored.copy_to(tmp_path / "towns")


def evaluate(tiny: Tiny) -> None:
    tiny.run()
    tiny.snapshot()


def gated(tiny: Tiny, max_drop: float = 0.01) -> Gate:
    names = EvaluationNames(tiny.settings, "towns")
    return gate(EvaluationResult.current(tiny.artifacts), names, "anchor", Rules(max_drop))


def caused(tiny: Tiny) -> tuple[Check, Causes]:
    (check,) = gated(tiny).checks
    assert check.causes is not None
    return check, check.causes


def said_of(tiny: Tiny, *options: str) -> str:
    return tiny.command("gate", ".", "--against", "anchor", *options, columns=100).stdout


def add_page(towns: Tiny, name: str, *about: str) -> None:
    towns.write_document(name, "".join(f"Parking in {town}: parking, {town}.\n" for town in about))


def test_a_page_that_nobody_judged(towns: Tiny) -> None:
    """One question in twelve loses all, and gets it back without the page. Its name is data."""
    add_page(towns, "[red]pri\x1bcing.md", "Aro")
    evaluate(towns)
    check, causes = caused(towns)
    assert (check.answer, causes.n_lost) == ("cannot tell", 1)
    assert gated(towns).notes == ("changed since: 1 document added",)
    assert causes.loss == causes.unjudged == pytest.approx(1 / N)
    assert [one.document_id for one in causes.newcomers] == ["[red]pri\x1bcing.md"]
    done = towns.command("gate", ".", "--against", "anchor", columns=100)
    assert r"added: [red]pri\x1bcing.md, unjudged, ranks 1 for qAro" in done.stdout
    assert "\x1b" not in done.stdout
    assert "To grade them: rag-assets pool " in done.stderr


@pytest.mark.parametrize("top_k", [[1, 3], [1]])
def test_pages_for_all_questions_are_no_failure_until_they_are_judged(
    tmp_path: Path, top_k: list[int]
) -> None:
    """p is 2^-12, but all that is lost is lost to pages that nobody looked at, or may be."""
    towns = with_anchor(tmp_path, {**CONFIG, "top_k": top_k})
    for town in TOWNS:
        add_page(towns, f"new/{town}.md", town)
    evaluate(towns)
    check, causes = caused(towns)
    assert (check.p_adjusted, check.answer, causes.unjudged) == (2**-N, "cannot tell", 1)
    assert check.reason == (
        "dropped by 1.0000 (p = 0.0002), but 1.0000 of it comes from documents that nobody has "
        "judged"
    )
    assert "and 7 more unjudged documents that were added or changed" in said_of(towns)
    shutil.rmtree(towns.objects("rankings"))
    check, causes = caused(towns)
    in_runs = len(top_k) == 2
    assert (check.answer, causes.unjudged, causes.unjudged_at_most) == ("cannot tell", in_runs, 1)
    assert ("of it may come from" not in str(check.reason)) == in_runs
    assert ("at least 0.0000 of it to unjudged" not in said_of(towns)) == in_runs


def test_worse_chunks_fail(towns: Tiny) -> None:
    """Without the page, a question gets nothing back: its chunks are worse."""
    towns.config["chunking"]["parts"]["max_tokens"] = 15
    towns.write_config()
    evaluate(towns)
    check, causes = caused(towns)
    assert (check.answer, causes.unjudged_at_most, causes.n_lost) == ("fail", 0, N)
    assert {one.query_id for one in causes.lost} <= {f"q{town}" for town in TOWNS}
    assert gated(towns).notes == ("changed since: chunking.parts.max_tokens 100 -> 15",)
    said = " ".join(said_of(towns).split())
    assert "bm25 lost most on qAro (1.0000 -> 0.0000); qBel" in said
    assert "; and 9 more" in said
    add_page(towns, "pricing.md", "Aro")
    evaluate(towns)
    check, causes = caused(towns)
    assert (check.answer, causes.unjudged_at_most) == ("fail", 0)
    assert [one.document_id for one in causes.newcomers] == ["pricing.md"]


def test_nothing_new_passes_and_nothing_is_computed(
    towns: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate(towns)
    for name in ("metric_sources.look_p_values", "metric_sources.PairedDifferences.intervals"):
        monkeypatch.setattr(f"rag_assets.analysis.{name}", None)
    monkeypatch.setattr("rag_assets.analysis.gate.causes_of", None)
    found = gated(towns, max_drop=0.0)
    assert (found.answer, found.look) == ("pass", None)


def test_a_judged_page_is_no_newcomer(towns: Tiny) -> None:
    """Whoever judged the page for the question has said what it is worth."""
    rows = (towns.folder / "judgments.jsonl").read_text()
    add_page(towns, "pricing.md", "Aro")
    row = {"query_id": "qAro", "doc_id": "pricing.md", "relevance": 0}
    (towns.folder / "judgments.jsonl").write_text(rows + json.dumps(row) + "\n")
    evaluate(towns)
    assert "unjudged" not in said_of(towns, "--intersection")


def test_a_label_that_only_moved_is_the_same(towns: Tiny) -> None:
    """A paragraph more at the top of a page moves its quote; the question is still compared."""
    text = (towns.folder / "Aro.md").read_text()
    towns.write_document("Aro.md", f"The guide is printed each year.\n\n{text}")
    evaluate(towns)
    found = gated(towns)
    assert found.checks[0].drop is not None
    assert (found.checks[0].drop.n, found.answer) == (N, "pass")


def test_what_other_questions_won_stands_beside_the_loss() -> None:
    """A retriever that rose has questions that lost too."""
    causes = Causes((LostQuestion("q1", "what?", 1.0, 0.5),), 1, 0.25, 0.0, 0.0, (), 0)
    said = list(causes.lines("bm25", 0.1))
    assert said[1] == "  0.2500 of the mean was lost, and 0.3500 was won on other questions"
