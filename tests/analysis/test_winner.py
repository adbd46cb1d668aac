"""Who is best, as far as it is shown, and verdicts on pairs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import rag_assets
from rag_assets.analysis.comparisons import Comparison, least_shown, oriented, power_text, verdict
from rag_assets.analysis.evaluation_pairs import pair_sentence
from rag_assets.analysis.gate import Gate, Rules, gate
from rag_assets.analysis.result import EvaluationResult
from rag_assets.analysis.winner import Winner, winner_of
from rag_assets.pipeline.evaluation_names import EvaluationNames
from rag_assets.report.evaluation_table import EvaluationTable
from rag_assets.report.html import write_report
from rag_assets.statistics.comparisons import is_significant
from rag_assets.statistics.stage import COMPARISONS_KEY
from tests.tiny_experiment import Tiny

N = 60

FEW = 12
"""The first questions have a tag of their own."""

HOSTILE = "<b>[red]\x1b\u202e& part"


def ranked(root: Path, ranks: Mapping[str, Sequence[int]], documents: int = N) -> Tiny:
    """Evaluate rankings; several questions may be about one of fewer documents."""
    numbers = range(len(next(iter(ranks.values()))))
    tiny = Tiny(root / "ranked")
    names = [f"d{number:02}.md" for number in range(documents)]
    for name in names:
        tiny.write_document(name, f"Document {name}.\n")
    tags = [[HOSTILE if n < FEW else "other", "all"] for n in numbers]
    rows = [{"query_id": f"q{n:02}", "text": f"q {n}", "tags": tags[n]} for n in numbers]
    tiny.write_rows("queries.jsonl", rows)
    labels = [{"query_id": f"q{n:02}", "doc_id": names[n % documents]} for n in numbers]
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
        (tiny.folder / f"{name}.trec").write_text(_run(places, names))
    tiny.run()
    tiny.snapshot()
    return tiny


def _run(ranks: Sequence[int], names: Sequence[str]) -> str:
    """Return a run that finds the document of each question at its rank, of four; 5: not at all."""
    lines = []
    for number, at in enumerate(ranks):
        own, *others = (names[(number + step) % len(names)] for step in range(4))
        hits = [*others[: at - 1], own, *others[at - 1 :]] if at < 5 else others
        lines += [f"q{number:02} Q0 {d} {i} {9 - i} t" for i, d in enumerate(hits, 1)]
    return "\n".join(lines) + "\n"


FILE = "is a ranking from a file"


def answer(tiny: Tiny, **milliseconds: float) -> Winner:
    view = EvaluationTable.current(tiny.artifacts)
    view.__dict__["speed"] = milliseconds
    found = winner_of(view)
    assert found is not None
    return found


def test_a_winner_is_better_than_every_other(tmp_path: Path) -> None:
    tiny = ranked(tmp_path, {"good": [1] * N, "fair": [2] * N, "poor": [4] * 50 + [5] * 10})
    found = answer(tiny, good=9, fair=1, poor=1)
    assert found.proven
    assert found.title == "Use good"
    assert found.sentences == [f"good {FILE}; its mrr@4 is 1.0000, fair has 0.5000."]
    page = write_report(EvaluationTable.current(tiny.artifacts)).read_text(encoding="utf-8")
    assert '<h1>Use <mark class="winner">good</mark></h1>' in page


def test_without_a_winner_it_says_who_is_tied_and_what_would_tell(tmp_path: Path) -> None:
    """Ten questions are won and six lost, by half each: 2/60 apart; far is tied, poor is out."""
    ahead = [1] * 10 + [2] * 6 + [1] * 44
    behind = [2] * 10 + [1] * 6 + [1] * 44
    far = [2] * 10 + [1] * 5 + [2] + [1] * 44
    tiny = ranked(tmp_path, {"far": far, "behind": behind, "ahead": ahead, "poor": [5] * N})
    found = answer(tiny, far=9, behind=2.5, ahead=30, poor=1)
    assert not found.proven
    assert found.title == "No winner yet: ahead, behind and far are tied"
    assert found.tied == ("behind", "far")
    rows = EvaluationTable.current(tiny.artifacts).comparisons
    (pair,) = [r for r in rows if (r["retriever_a"], r["retriever_b"]) == ("behind", "ahead")]
    needed = 60 * (pair["detectable"] / (2 / 60)) ** 2
    assert found.sentences[1:3] == [
        f"The test cannot tell: 60 questions can show {pair['detectable']:.4f} or more (if the "
        f"difference stays this large, about {float(f'{needed:.2g}'):.0f} questions show it; if it "
        "is half as large, four times as many).",
        "The fastest of them is behind, 2.5 ms per query.",
    ]
    assert "fastest" not in str(answer(tiny, ahead=30).sentences), "the other may be faster"


def test_who_failed_on_queries_is_not_called_the_fastest_and_its_mean_says_over_how_many(
    tmp_path: Path,
) -> None:
    tiny = ranked(tmp_path, {"all": [2] * N, "also": [2] * N, "few": [1] * N})
    failed = [{"query_id": f"q{n:02}", "error": "timeout"} for n in range(1, N)]
    tiny.write_rows("few.jsonl", [{"query_id": "q00", "retrieved_ids": ["d00.md"]}, *failed])
    tiny.configure("few", path="few.jsonl")
    tiny.run()
    tiny.snapshot()
    few = answer(tiny, all=2, also=3, few=1)
    assert few.title == "No winner yet: few, all and also are tied"
    numbers = "its mrr@4 is 1.0000 over 1 of 60 questions, all has 0.5000."
    assert few.sentences[0] == f"few {FILE}; {numbers}"
    assert few.sentences[-1] == "The fastest of them without a failed query is all, 2 ms per query."


def test_of_those_that_are_alike_nothing_can_be_shown(tmp_path: Path) -> None:
    found = answer(ranked(tmp_path, {name: [1] * N for name in ("a", "b", "c", "d")}))
    assert found.title == "No winner yet: a, b and 2 more are tied"
    assert len(found.sentences) == 1


def test_one_alone_is_no_winner(tmp_path: Path) -> None:
    found = answer(ranked(tmp_path, {"alone": [1] * 30 + [5] * 30}))
    assert (found.proven, found.title) == (False, "alone, without a comparison")
    assert found.sentences == [f"alone {FILE}; its mrr@4 is 0.5000."]


def test_an_exception_is_named_at_once(tmp_path: Path) -> None:
    """All twelve of the tag are lost: p is 2^-11, and there are two tags to be corrected for."""
    tiny = ranked(
        tmp_path, {"usual": [2] * FEW + [1] * (N - FEW), "special": [1] * FEW + [4] * (N - FEW)}
    )
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


def test_an_exception_that_is_not_shown_is_named_as_that(tmp_path: Path) -> None:
    """Six of the tag are lost: p is 2^-5, and above .05 after Holm over four tests."""
    usual = [2] * 6 + [1] * (N - 6)
    special = [1] * FEW + [4] * (N - FEW)
    found = answer(ranked(tmp_path, {"usual": usual, "vast": usual, "special": special}))
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


def test_a_pair_read_the_other_way_round_has_no_negative_zero() -> None:
    equal = {**ROW, "difference": 0.0, "low": 0.0, "high": 0.0, "won": 0, "lost": 0}
    turned = oriented(equal, ROW["retriever_a"])
    assert [str(turned[name]) for name in ("difference", "low", "high")] == ["0.0"] * 3
    behind = {**ROW, "difference": -0.1, "low": -0.2, "high": 0.0, "p_adjusted": 0.5}
    assert "by 0.1000 [0.0000, 0.2000]" in verdict(behind, 1)
    assert "by 0.1000 [0.0000, 0.2000]" in pair_sentence(("a", "b"), -0.1, (-0.2, 0.0), "beats", "")


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
    ("n", "n_clusters", "who"),
    [
        (4, 4, "4 questions"),
        (9, 1, "9 questions in 1 cluster"),
        (9, 4, "9 questions in 4 clusters"),
    ],
)
def test_few_independent_questions_show_no_difference(n: int, n_clusters: int, who: str) -> None:
    """Their spread is a guess, however small the difference that follows from it; one has none."""
    row = {**ROW, "n": n, "n_clusters": n_clusters}
    row["detectable"] = None if n_clusters == 1 else ROW["detectable"]
    said = power_text(row, "questions", more_would_help=True)
    assert said == f"; {who} are too few to show any difference"
    assert least_shown(row) is None
    assert least_shown({**ROW, "n": 5, "n_clusters": 5}) == 0.0305


def test_of_four_questions_the_winner_claims_no_difference(tmp_path: Path) -> None:
    found = answer(ranked(tmp_path, {"good": [1] * 4, "bad": [2, 1, 2, 2]}))
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


def lead(result: EvaluationResult, name: str = "lead") -> str:
    page = write_report(result).read_text(encoding="utf-8")
    (found,) = re.findall(rf'<p class="{name}">(.*?)</p>', page, re.DOTALL)
    return " ".join(re.sub("<[^>]+>", "", str(found)).split())


def paired(root: Path, documents: int) -> tuple[EvaluationResult, Comparison, Gate]:
    """Return what is said where one finds what the other lacks, for every second document."""
    poor = [1 if n % documents % 2 == 0 else 5 for n in range(N)]
    tiny = ranked(root, {"good": [1] * N, "poor": poor}, documents)
    result = EvaluationResult.current(tiny.artifacts)
    compared = rag_assets.compare(tiny.folder, "poor", "good", store=tiny.settings.store)
    names = EvaluationNames(tiny.settings, result.root.name)
    return result, compared, gate(result, names, "latest", Rules())


def test_every_face_allows_for_what_queries_share(tmp_path: Path) -> None:
    """Two questions a document, which do the same: p is that of 30 documents, and no more."""
    result, compared, gated = paired(tmp_path, 30)
    (row,) = result.table(COMPARISONS_KEY).to_pylist()
    assert row["n_clusters"] == N
    said = lead(result)
    assert said.startswith("good is better than poor on mrr@4 by 0.5000 [")
    assert said.endswith("], p = 1.9e-09."), "30 won and none lost"
    assert compared.rows[0]["p_randomisation"] == row["p_randomisation"] == 2 * 2.0**-30
    (note,) = compared.notes
    assert "p and the interval of a difference allow for that" in note
    assert (gated.passed, gated.notes) == (True, ())


def test_what_limits_a_claim_is_said_beside_it(tmp_path: Path) -> None:
    result, compared, gated = paired(tmp_path, 4)
    why = (
        "the 60 questions share so few documents that they count like 4; "
        "only questions on other documents add information"
    )
    assert f"But {why}." in lead(result, "told")
    assert compared.verdicts[0].endswith(f"; but {why}")
    assert why in gated.notes
