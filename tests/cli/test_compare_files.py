"""`compare` of two result files of other tools."""

from __future__ import annotations

import json
from pathlib import Path

from rag_assets.analysis.result_files import compare_files
from tests.analysis.test_result_files import lines, lm_samples, written
from tests.cli.conftest import Invoke


def test_as_a_command(tmp_path: Path, invoke: Invoke) -> None:
    a = written(tmp_path / "a.jsonl", lines(lm_samples(1, 0, 1, 0, 0, 1)))
    b = written(tmp_path / "b.jsonl", lines(lm_samples(1, 1, 1, 0, 1, 1)))
    shown = invoke("compare", a, b)
    assert (shown.exit_code, "no difference shown between" in shown.stdout) == (0, True), (
        shown.output
    )
    (row,) = json.loads(invoke("compare", a, b, "--format", "json").stdout)
    assert (row["won"], row["lost"], row["p_randomisation"]) == (2, 0, 0.5)
    refused = invoke("compare", a, b, "--metric", "acc")
    assert refused.exit_code == 2
    assert "no metric 'acc'; allowed: exact_match" in refused.stderr


def test_predictions_of_mteb_are_scored_and_compared(tmp_path: Path, invoke: Invoke) -> None:
    """With one subset and split around the scores, or bare as its first version wrote them."""
    scores = {"q1": {"d1": 0.9, "d2": 0.5}, "q2": {"d1": 0.2, "d2": 0.1}}
    meta = {"mteb_model_meta": {"model_name": "m"}, "default": {"test": scores}}
    qrels = written(tmp_path / "qrels.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t1\n")
    for name, content in {"a": meta, "b": scores}.items():
        run = written(tmp_path / f"{name}_predictions.json", content)
        options = ("--metrics", "mrr", "--per-query", "--format", "json")
        printed = invoke("score", "--run", run, "--qrels", qrels, *options).stdout
        assert [row["mrr"] for row in json.loads(printed)] == [1.0, 0.5]
        written(tmp_path / f"{name}.json", printed)
    row, _ = compare_files(tmp_path / "a.json", tmp_path / "b.json")
    assert (row["metric"], row["difference"], row["n"]) == ("mrr", 0.0, 2)
    both = {"en": {"test": scores}, "de": {"test": scores}}
    refused = invoke(
        "score", "--run", written(tmp_path / "c.json", both), "--qrels", qrels, "--metrics", "mrr"
    )
    assert "holds several parts: en, de; keep one" in refused.stderr
