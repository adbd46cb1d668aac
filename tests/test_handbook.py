"""The sample data keeps what its tags promise; no retriever is asked."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tests.evaluation.answer_text import holds

HANDBOOK = Path(__file__).resolve().parents[1] / "data" / "handbook"
TAGS = {"identifier", "keyword", "long", "multi_evidence", "paraphrase", "typo", "unanswerable"}
Record = dict[str, Any]


def records(name: str) -> list[Record]:
    lines = (HANDBOOK / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


QUERIES = records("queries.jsonl")
JUDGMENTS: dict[str, list[Record]] = defaultdict(list)
for _record in records("judgments.jsonl"):
    JUDGMENTS[_record["query_id"]].append(_record)


def test_size_and_tags() -> None:
    documents = sorted(HANDBOOK.glob("*/*.md"))
    assert len(documents) >= 60
    assert sum(len(file.read_text(encoding="utf-8").split()) for file in documents) >= 25_000
    assert len({file.parent for file in documents}) == 4
    assert len(QUERIES) >= 200
    counts = Counter(tag for query in QUERIES for tag in query["tags"])
    assert set(counts) == TAGS
    assert min(counts.values()) >= 20
    assert counts.total() == len(QUERIES), "each has one"


def test_evidence_and_answers_by_tag() -> None:
    for query in QUERIES:
        (tag,) = query["tags"]
        n_evidences = len({row["evidence_id"] for row in JUDGMENTS[query["query_id"]]})
        if tag == "multi_evidence":
            assert n_evidences >= 2, query
        else:
            assert n_evidences == (tag != "unanswerable"), query
        answers = query.get("answers", [])
        assert bool(answers) == (tag != "unanswerable"), query
        assert len(set(answers)) == len(answers)
        assert min((len(answer.split()) for answer in answers), default=0) <= 25


def test_an_answer_stands_in_the_evidence() -> None:
    """Word for word: one of the answers, or all parts of one that answers several questions.

    Four join words of the evidence with words of the question, or of a table's head.
    """
    elsewhere = set()
    for query in QUERIES:
        quotes = [row["quote"] for row in JUDGMENTS[query["query_id"]]]
        answers = query.get("answers", [])
        parts = [[answer] for answer in answers] + [answer.split("; ") for answer in answers]
        if answers and not any(
            all(any(holds(quote, part) for quote in quotes) for part in both) for both in parts
        ):
            elsewhere.add(query["query_id"])
    assert elsewhere == {"fleet-044", "safety-041", "safety-043", "terminals-048"}
