"""Who is best, as far as it is shown, and verdicts on pairs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import rag_assets
from rag_assets import api
from rag_assets.analysis.comparisons import least_shown, power_text, verdict
from rag_assets.analysis.gate import Rules, gate
from rag_assets.analysis.result import EvaluationResult
from rag_assets.analysis.winner import Winner, winner_of
from rag_assets.pipeline.evaluation_names import EvaluationNames
from rag_assets.report.evaluation_table import EvaluationTable
from rag_assets.report.html import write_report
from rag_assets.statistics.comparisons import is_significant
from rag_assets.statistics.stage import COMPARISONS_KEY
from rag_assets.store.settings import StoreSettings
from tests.beir_folder import write_beir
from tests.tiny_experiment import Tiny

N = 60

FEW = 12
"""The first questions have a tag of their own."""

HOSTILE = "<b>[red]\x1b\u202e& part"

Ranked = Callable[[Mapping[str, Sequence[int]]], Tiny]


@pytest.fixture
def ranked(tmp_path: Path) -> Ranked:
    def ranked(ranks: Mapping[str, Sequence[int]]) -> Tiny:
        tiny = Tiny(tmp_path / "ranked")
        for number in range(N):
            tiny.write_document(f"d{number:02}.md", f"Document {number}.\n")
        tags = [[HOSTILE if n < FEW else "other", "all"] for n in range(N)]
        rows = [{"query_id": f"q{n:02}", "text": f"q {n}", "tags": tags[n]} for n in range(N)]
        tiny.write_rows("queries.jsonl", rows)
        labels = [{"query_id": f"q{n:02}", "doc_id": f"d{n:02}.md"} for n in range(N)]
        tiny.write_rows("judgments.jsonl", labels)
        tiny.config = {
            "name": "ranked",
            "dataset": {"format": "markdown", "judge": "document"},
            "chunking": {"whole": {"strategy": "none"}},
            "retrievers": {n: {"type": "run_file", "path": f"{n}.trec"} for n in ranks},
            "top_k": [4],
            "metrics": ["mrr"],
            "primary": "mrr@4",
            "statistics": {"resamples": 2000},
        }
        tiny.write_config()
        for name, places in ranks.items():
            (tiny.folder / f"{name}.trec").write_text(_run(places))
        tiny.run()
        tiny.snapshot()
        return tiny

    return ranked


def _run(ranks: Sequence[int]) -> str:
    """Return a run that finds the document of each question at its rank, of four; 5: not at all."""
    lines = []
    for number, at in enumerate(ranks):
        others = [f"d{(number + step) % N:02}.md" for step in range(1, 5)]
        hits = [*others[: at - 1], f"d{number:02}.md", *others[at - 1 :]][:4]
        lines += [f"q{number:02} Q0 {d} {i} {9 - i} t" for i, d in enumerate(hits, 1)]
    return "\n".join(lines) + "\n"


FILE = "is a ranking from a file"


def answer(tiny: Tiny, **milliseconds: float) -> Winner:
    view = EvaluationTable.current(tiny.artifacts)
    view.__dict__["speed"] = milliseconds
    found = winner_of(view)
    assert found is not None
    return found


def test_a_winner_is_better_than_every_other(ranked: Ranked) -> None:
    tiny = ranked({"good": [1] * N, "fair": [2] * N, "poor": [4] * 50 + [5] * 10})
    found = answer(tiny, good=9, fair=1, poor=1)
    assert found.proven
    assert found.title == "Use good"
    assert found.sentences == [f"good {FILE}; its mrr@4 is 1.0000, fair has 0.5000."]
    page = write_report(EvaluationTable.current(tiny.artifacts)).read_text(encoding="utf-8")
    assert '<h1>Use <mark class="winner">good</mark></h1>' in page


def test_without_a_winner_it_says_who_is_tied_and_what_would_tell(ranked: Ranked) -> None:
    """Ten questions are won and six lost, by half each: 2/60 apart; poor is out."""
    ahead = [1] * 10 + [2] * 6 + [1] * 44
    behind = [2] * 10 + [1] * 6 + [1] * 44
    tiny = ranked({"behind": behind, "ahead": ahead, "poor": [5] * N})
    found = answer(tiny, behind=2.5, ahead=30, poor=1)
    assert not found.proven
    assert found.title == "No winner yet: ahead and behind are tied"
    assert found.tied == ("behind",)
    rows = EvaluationTable.current(tiny.artifacts).comparisons
    (pair,) = [row for row in rows if "poor" not in (row["retriever_a"], row["retriever_b"])]
    needed = 60 * (pair["detectable"] / (2 / 60)) ** 2
    assert found.sentences[1:3] == [
        f"The test cannot tell: 60 questions can show {pair['detectable']:.4f} or more (if the "
        f"difference stays this large, about {float(f'{needed:.2g}'):.0f} questions show it; if it "
        "is half as large, four times as many).",
        "The fastest of them is behind, 2.5 ms per query.",
    ]
    assert "fastest" not in str(answer(tiny, ahead=30).sentences), "the other may be faster"
    said = repr(EvaluationTable.current(tiny.artifacts))
    assert "No winner yet: ahead and behind are tied." in said
    page = write_report(EvaluationTable.current(tiny.artifacts)).read_text(encoding="utf-8")
    assert "<h1>No winner yet: ahead and behind are tied</h1>" in page
    assert "No difference shown between" not in page, "it is said once"


def test_of_those_that_are_alike_nothing_can_be_shown(ranked: Ranked) -> None:
    tiny = ranked({name: [1] * N for name in ("a", "b", "c", "d")})
    found = answer(tiny)
    assert found.title == "No winner yet: a, b and 2 more are tied"
    assert len(found.sentences) == 1


def test_one_alone_is_no_winner(ranked: Ranked) -> None:
    found = answer(ranked({"alone": [1] * 30 + [5] * 30}))
    assert (found.proven, found.title) == (False, "alone, without a comparison")
    assert found.sentences == [f"alone {FILE}; its mrr@4 is 0.5000."]


def test_an_exception_is_named_at_once(ranked: Ranked) -> None:
    """All twelve of the tag are lost: p is 2^-11, and there are two tags to be corrected for."""
    tiny = ranked({"usual": [2] * FEW + [1] * (N - FEW), "special": [1] * FEW + [4] * (N - FEW)})
    found = answer(tiny)
    assert found.title == "Use usual"
    assert found.sentences[-1] == (
        r"usual is best overall, but special is better for <b>[red]\x1b\u202e& part "
        "(1.00, usual 0.50)."
    )
    page = write_report(EvaluationTable.current(tiny.artifacts)).read_text(encoding="utf-8")
    (lead,) = re.findall(r'<p class="told">(.*?)</p>', page, re.DOTALL)
    assert r"&lt;b&gt;[red]\x1b\u202e&amp; part" in lead
    assert "<b>" not in lead


def test_an_exception_that_is_not_shown_is_named_as_that(ranked: Ranked) -> None:
    """Six of the tag are lost: p is 2^-5, and above .05 after Holm over four tests."""
    usual = [2] * 6 + [1] * (N - 6)
    special = [1] * FEW + [4] * (N - FEW)
    tiny = ranked({"usual": usual, "vast": usual, "special": special})
    found = answer(tiny)
    assert found.sentences[-1].startswith("special may be better for ")
    assert found.sentences[-1].endswith("(1.00, usual 0.75); the data does not settle it.")


ROW: dict[str, Any] = {
    "retriever_a": "bm25",
    "retriever_b": "hybrid",
    "metric": "ndcg",
    "top_k": 10,
    "n": 216,
    "n_clusters": 216,
    "difference": 0.0145,
    "low": 0.003,
    "high": 0.026,
    "p_randomisation": 0.012,
    "p_adjusted": 0.024,
    "won": 49,
    "lost": 33,
    "detectable": 0.0305,
}


def test_a_shown_difference_says_who_is_better() -> None:
    assert verdict(ROW, 3) == (
        "hybrid is better than bm25 on ndcg@10 by 0.0145 [0.0030, 0.0260], "
        "p = 0.0120 (Holm over 3 pairs 0.0240)"
    )
    turned = {**ROW, "difference": -0.0145, "low": -0.026, "high": -0.003}
    assert verdict(turned, 1) == (
        "bm25 is better than hybrid on ndcg@10 by 0.0145 [0.0030, 0.0260], p = 0.0120"
    )
    assert verdict({**ROW, "metric": "fp(rel=2)"}, 1) == (
        "bm25 is better than hybrid on fp(rel=2)@10 by 0.0145 [0.0030, 0.0260], p = 0.0120"
    )


def test_what_is_not_claimed_and_not_said() -> None:
    assert verdict({**ROW, "p_adjusted": 0.06}, 5) == (
        "no difference shown between bm25 and hybrid on ndcg@10: hybrid is ahead by "
        "0.0145 [0.0030, 0.0260], p = 0.0120 (Holm over 5 pairs 0.0600); "
        "216 queries can show 0.0305 or more"
    )
    row = {**ROW, "n": 1, "p_adjusted": 1.0, "low": None, "high": None, "detectable": None}
    assert verdict(row, 1) == (
        "no difference shown between bm25 and hybrid on ndcg@10: hybrid is ahead by 0.0145, "
        "p = 0.0120"
    )
    assert verdict({**ROW, "difference": None}, 3) == (
        "nothing to compare: bm25 and hybrid have no query with a value of ndcg@10 in common"
    )
    assert verdict({**ROW, "difference": 0.0, "won": 0, "lost": 0}, 3) == (
        "hybrid and bm25 are equal on every query by ndcg@10 (216 queries)"
    )


@pytest.mark.parametrize(
    ("n", "n_clusters", "who"), [(4, 4, "4 questions"), (9, 4, "9 questions in 4 clusters")]
)
def test_few_independent_questions_show_no_difference(n: int, n_clusters: int, who: str) -> None:
    """Their spread is a guess, however small the difference that follows from it."""
    row = {**ROW, "n": n, "n_clusters": n_clusters}
    assert (
        power_text(row, "questions", more_would_help=True)
        == f"; {who} are too few to show any difference"
    )
    assert least_shown(row) is None
    assert least_shown({**row, "n": 5, "n_clusters": 5}) == 0.0305


def test_of_four_questions_the_winner_claims_no_difference() -> None:
    pets = ["cat", "dog", "cow", "pig"]
    result = rag_assets.evaluate(
        documents=[f"a {pet}" for pet in pets],
        queries=pets,
        judgments={place: [place] for place in range(4)},
        retrievers={
            "good": lambda query: [pets.index(query), 0],
            "bad": lambda query: [1] if query == "dog" else [0],
        },
        settings={"metrics": ["mrr"]},
    )
    found = winner_of(result)
    assert found is not None
    assert not found.proven
    why = "4 questions are too few to show any difference"
    assert f"The test cannot tell: {why}." in found.sentences


def test_two_numbers_of_questions_say_what_would_tell() -> None:
    """216 * (.0305 / .0145)^2 = 955.7; none where they would not help, or would be no more."""
    row = {**ROW, "p_adjusted": 0.06}
    assert verdict(row, 5, more_would_help=True).endswith(
        "; 216 queries can show 0.0305 or more (if the difference stays this large, about 960 "
        "queries show it; if it is half as large, four times as many)"
    )
    for difference in (0.0, 0.0002, 0.0306):
        changed = {**row, "difference": difference}
        assert power_text(changed, more_would_help=True).endswith(" can show 0.0305 or more")


def test_clusters_and_limits_stand_beside_the_claim() -> None:
    row = {**ROW, "p_adjusted": None, "p_randomisation": 0.5, "n_clusters": 40}
    assert verdict(row, 0).endswith(
        ", p = 0.5000; 216 queries in 40 clusters can show 0.0305 or more"
    )
    assert verdict({**ROW, "n_clusters": 40}, 1).endswith("p = 0.0120; 216 queries in 40 clusters")
    assert verdict(ROW, 1, "they depend").endswith("p = 0.0120; but they depend")
    unsure = {**ROW, "p_adjusted": 0.5}
    assert verdict(unsure, 1, "they depend") == verdict(unsure, 1), "nothing is claimed"


@pytest.mark.parametrize(
    ("p", "adjusted", "shown"),
    [(0.01, None, True), (0.05, None, False), (0.01, 0.05, False), (None, None, False)],
)
def test_only_p_after_holm_decides(p: float | None, adjusted: float | None, shown: bool) -> None:
    assert is_significant({"p_randomisation": p, "p_adjusted": adjusted}) is shown


N_QUERIES = 60


def evaluated(root: Path, documents: int, statistics: str = "") -> EvaluationResult:
    labels = {f"q{i:02}": f"d{i % documents:02}" for i in range(N_QUERIES)}
    names = sorted(set(labels.values()))
    other = {name: names[(number + 1) % documents] for number, name in enumerate(names)}
    right = set(names[::2])
    runs = {"good": labels, "poor": {q: d if d in right else other[d] for q, d in labels.items()}}
    corpus = "".join(f'{{"_id": "{n}", "title": "", "text": "text {n}"}}\n' for n in names)
    queries = "".join(f'{{"_id": "{q}", "text": "query {q}"}}\n' for q in labels)
    qrels = "".join(f"{q}\t{d}\t1\n" for q, d in labels.items())
    files = {
        f"{name}.trec": "".join(f"{q} Q0 {d} 1 1.0 x\n" for q, d in run.items())
        for name, run in runs.items()
    }
    yaml = (
        f"name: pair\n{statistics}top_k: [1]\nmetrics: [hit_rate]\nprimary: hit_rate@1\n"
        "baseline: poor\nretrievers:\n"
        "  good: {type: run_file, path: good.trec}\n  poor: {type: run_file, path: poor.trec}\n"
    )
    folder = write_beir(
        root / "data",
        {
            "corpus.jsonl": corpus,
            "queries.jsonl": queries,
            "qrels/test.tsv": f"query-id\tcorpus-id\tscore\n{qrels}",
            "experiment.yaml": yaml,
            **files,
        },
    )
    return api.evaluate(folder, store=root / "store")


def lead(result: EvaluationResult, name: str = "lead") -> str:
    page = write_report(result).read_text(encoding="utf-8")
    (found,) = re.findall(rf'<p class="{name}">(.*?)</p>', page, re.DOTALL)
    return " ".join(re.sub("<[^>]+>", "", str(found)).split())


def test_every_face_allows_for_what_queries_share(tmp_path: Path) -> None:
    """Two questions a document, which do the same: p is that of 30 documents, and no more."""
    result = evaluated(tmp_path / "none", 30)
    (row,) = result.table(COMPARISONS_KEY).to_pylist()
    assert row["n_clusters"] == N_QUERIES
    said = lead(result)
    assert said.startswith("good is better than poor on hit_rate@1 by 0.5000 [")
    assert said.endswith("], p = 1.9e-09."), "30 won and none lost"
    compared = api.compare(tmp_path / "none" / "data", "poor", "good", store=result.root.parent)
    assert compared.rows[0]["p_randomisation"] == row["p_randomisation"] == 2 * 2.0**-30
    (note,) = compared.notes
    assert "p and the interval of a difference allow for that" in note
    names = EvaluationNames(StoreSettings.resolve(result.root.parent), result.root.name)
    found = gate(result, names, "latest", Rules())
    assert (found.passed, found.notes) == (True, ())


def test_what_limits_a_claim_is_said_beside_it(tmp_path: Path) -> None:
    result = evaluated(tmp_path, 4)
    why = (
        "the 60 questions share so few documents that they count like 4; "
        "only questions on other documents add information"
    )
    assert f"But {why}." in lead(result, "told")
    compared = api.compare(tmp_path / "data", "poor", "good", store=tmp_path / "store")
    assert compared.verdicts[0].endswith(f"; but {why}")
    names = EvaluationNames(StoreSettings.resolve(result.root.parent), result.root.name)
    assert why in gate(result, names, "latest", Rules()).notes
