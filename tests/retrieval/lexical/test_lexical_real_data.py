from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.retrieval.lexical.index_of_texts import build_index, opened

pytestmark = pytest.mark.real_data
Run = dict[str, dict[str, float]]


def json_lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run_of(folder: Path, corpus: dict[str, str], queries: dict[str, str], k: int) -> Run:
    facts = build_index(list(corpus), list(corpus.values()), analyzer="auto", folder=folder)
    (folder / "facts.txt").write_text(str(facts["analyzer"]))
    index = opened(folder)
    found = index.search(list(queries.values()), k)
    return {
        query: {
            index.chunk_ids[position]: score
            for position, score in zip(hits.positions.tolist(), hits.scores.tolist(), strict=True)
        }
        for query, hits in zip(queries, found, strict=True)
    }


BEST = {
    # language -> what `auto` is there, and the best of all analyzers by benchmarks/analyzers.py
    "ar": ("arabic", 0.9341),
    "de": ("german", 0.9403),
    "es": ("spanish", 0.9609),
    "ru": ("russian", 0.9519),
    "th": ("ngrams", 0.9641),
    "zh": ("cjk", 0.9664),
}


@pytest.mark.parametrize("language", BEST)
def test_six_languages(shared_data: Callable[[str], Path], tmp_path: Path, language: str) -> None:
    data = json.loads((shared_data("xquad") / f"xquad.{language}.json").read_text("utf-8"))
    corpus, queries, relevant = {}, {}, {}
    for number, paragraph in enumerate(p for a in data["data"] for p in a["paragraphs"]):
        corpus[f"p{number:03}"] = paragraph["context"]
        for question in paragraph["qas"]:
            queries[question["id"]] = question["question"]
            relevant[question["id"]] = f"p{number:03}"
    run = run_of(tmp_path, corpus, queries, 10)
    chosen, best = BEST[language]
    assert (tmp_path / "facts.txt").read_text() == chosen
    ranks = [
        list(run[query]).index(relevant[query]) + 1
        for query in run
        if relevant[query] in run[query]
    ]
    assert len(run) == 1190
    assert all(run.values())
    # one relevant document: its discount is the nDCG
    assert sum(1 / math.log2(1 + rank) for rank in ranks) / len(run) >= 0.97 * best


def test_cranfield(shared_data: Callable[[str], Path], tmp_path: Path) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    data = shared_data("cranfield")
    corpus = {d["_id"]: f"{d['title']}\n{d['text']}" for d in json_lines(data / "corpus.jsonl")}
    queries = {q["_id"]: q["text"] for q in json_lines(data / "queries.jsonl")}
    qrels: dict[str, dict[str, int]] = {}
    with (data / "qrels" / "test.tsv").open(newline="") as file:
        for query, document, grade in list(csv.reader(file, delimiter="\t"))[1:]:
            qrels.setdefault(query, {})[document] = int(grade)
    run = run_of(tmp_path, corpus, queries, 100)
    assert (tmp_path / "facts.txt").read_text() == "english"
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "map_cut.100", "P.10"})
    values = evaluator.evaluate(run).values()
    means = {m: sum(v[m] for v in values) / len(qrels) for m in ("ndcg_cut_10", "map_cut_100")}
    assert means["ndcg_cut_10"] == pytest.approx(0.368, abs=0.003)
    assert means["map_cut_100"] == pytest.approx(0.298, abs=0.003)


def test_chinese_questions(shared_data: Callable[[str], Path], tmp_path: Path) -> None:
    path = shared_data("seed_doc_qa") / "doc_qa_test.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    run = run_of(tmp_path, data["corpus"], data["queries"], 5)
    assert (tmp_path / "facts.txt").read_text() == "cjk"
    ranks = []
    for query, (relevant,) in data["relevant_docs"].items():
        found = list(run[query])
        ranks.append(found.index(relevant) + 1 if relevant in found else 0)
    assert len(ranks) == 321
    assert ranks.count(1) / len(ranks) >= 0.83
    assert sum(rank > 0 for rank in ranks) / len(ranks) >= 0.95
    assert sum(1 / rank for rank in ranks if rank) / len(ranks) >= 0.88
