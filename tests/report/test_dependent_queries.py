"""Queries that share documents: every face allows for it, and says what limits its claim."""

from __future__ import annotations

import re
from pathlib import Path

from rag_assets import api
from rag_assets.pipeline.evaluation_names import EvaluationNames
from rag_assets.report.comparison_views import pairs_latex
from rag_assets.report.gate import gate
from rag_assets.report.gate_checks import Rules
from rag_assets.report.html import write_report
from rag_assets.report.result import EvaluationResult
from rag_assets.statistics.stage import COMPARISONS_KEY
from rag_assets.store.settings import StoreSettings
from tests.beir_folder import write_beir

N_QUERIES = 60


def evaluated(root: Path, documents: int, statistics: str = "") -> EvaluationResult:
    """Two runs: `good` finds what is relevant first, `poor` only for half of the documents."""
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


def lead(result: EvaluationResult) -> str:
    page = write_report(result).read_text(encoding="utf-8")
    (found,) = re.findall(r'<p class="lead">(.*?)</p>', page, re.DOTALL)
    return " ".join(re.sub("<[^>]+>", "", str(found)).split())


def test_every_face_allows_for_what_queries_share(tmp_path: Path) -> None:
    """Two questions a document, which do the same: p is that of 30 documents, and no more."""
    result = evaluated(tmp_path / "none", 30)
    (row,) = result.table(COMPARISONS_KEY).to_pylist()
    assert row["n_clusters"] == N_QUERIES
    said = lead(result)
    assert "The difference is real: p = 1.9e-09." in said, "30 won and none lost"
    compared = api.compare(tmp_path / "none" / "data", "poor", "good", store=result.root.parent)
    assert compared.rows[0]["p_randomisation"] == row["p_randomisation"] == 2 * 2.0**-30
    (note,) = compared.compared.notes
    assert "p and the interval of a difference allow for that" in note
    names = EvaluationNames(StoreSettings.resolve(result.root.parent), result.root.name)
    found = gate(result, names, "latest", Rules())
    assert (found.passed, found.notes) == (True, ())


def test_what_limits_a_claim_is_said_beside_it(tmp_path: Path) -> None:
    result = evaluated(tmp_path, 4)
    why = (
        "the 60 questions share so few documents that they weigh like 4; "
        "only questions about other documents tell more"
    )
    assert f"; but {why}." in lead(result)
    compared = api.compare(tmp_path / "data", "poor", "good", store=tmp_path / "store")
    assert compared.verdicts[0].endswith(f"; but {why}")
    caption = pairs_latex(compared.compared, compared.rows, {}).splitlines()[2]
    assert f". T{why[1:]}." in caption
    names = EvaluationNames(StoreSettings.resolve(result.root.parent), result.root.name)
    assert why in gate(result, names, "baseline", Rules()).notes


def test_queries_that_stand_alone_need_no_word(tmp_path: Path) -> None:
    result = evaluated(tmp_path, N_QUERIES)
    (row,) = result.table(COMPARISONS_KEY).to_pylist()
    assert row["n_clusters"] == N_QUERIES
    assert "The difference is real: p = 1.9e-09." in lead(result)
    compared = api.compare(tmp_path / "data", store=tmp_path / "store")
    assert compared.compared.notes == []
