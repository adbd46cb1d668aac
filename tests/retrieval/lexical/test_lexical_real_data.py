"""BM25 on Cranfield, measured by another program."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.retrieval.lexical.index_of_texts import build_index, opened


def json_lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.real_data
def test_cranfield(shared_data: Callable[[str], Path], tmp_path: Path) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    data = shared_data("cranfield")
    corpus = {d["_id"]: f"{d['title']}\n{d['text']}" for d in json_lines(data / "corpus.jsonl")}
    queries = {q["_id"]: q["text"] for q in json_lines(data / "queries.jsonl")}
    qrels: dict[str, dict[str, int]] = {}
    with (data / "qrels" / "test.tsv").open(newline="") as file:
        for query, document, grade in list(csv.reader(file, delimiter="\t"))[1:]:
            qrels.setdefault(query, {})[document] = int(grade)
    texts = list(corpus.values())
    facts = build_index(list(corpus), texts, analyzer="auto", folder=tmp_path)
    assert facts["analyzer"] == "english"
    index = opened(tmp_path)
    run = {
        query: {
            index.chunk_ids[position]: score
            for position, score in zip(hits.positions.tolist(), hits.scores.tolist(), strict=True)
        }
        for query, hits in zip(queries, index.search(list(queries.values()), 100), strict=True)
    }
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "map_cut.100", "P.10"})
    values = evaluator.evaluate(run).values()
    means = {m: sum(v[m] for v in values) / len(qrels) for m in ("ndcg_cut_10", "map_cut_100")}
    assert means["ndcg_cut_10"] == pytest.approx(0.368, abs=0.003)
    assert means["map_cut_100"] == pytest.approx(0.298, abs=0.003)
