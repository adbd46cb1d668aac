"""The sample data keeps what its tags promise; no retriever is asked."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.evaluation.answer_text import holds

HANDBOOK = Path(__file__).resolve().parents[1] / "data" / "handbook"
TAGS = {"identifier", "keyword", "long", "multi_evidence", "paraphrase", "typo", "unanswerable"}
Record = dict[str, object]


def records(name: str) -> list[Record]:
    lines = (HANDBOOK / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


@cache
def documents() -> dict[str, str]:
    paths = sorted(HANDBOOK.glob("*/*.md"))
    return {p.relative_to(HANDBOOK).as_posix(): p.read_text(encoding="utf-8") for p in paths}


QUERIES = records("queries.jsonl")
JUDGMENTS: dict[str, list[Record]] = {}
for _record in records("judgments.jsonl"):
    JUDGMENTS.setdefault(str(_record["query_id"]), []).append(_record)


def tagged(tag: str) -> Iterator[tuple[str, str, list[Record]]]:
    for query in QUERIES:
        if query["tags"] == [tag]:
            query_id = str(query["query_id"])
            yield query_id, str(query["text"]), JUDGMENTS.get(query_id, [])


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+(?:'[a-z]+)?", text.lower())


def test_size_and_tags() -> None:
    assert len(documents()) >= 60
    assert sum(len(text.split()) for text in documents().values()) >= 25_000
    assert len({folder.split("/")[0] for folder in documents()}) == 4
    assert len(QUERIES) >= 200
    counts = Counter(str(tag) for query in QUERIES for tag in _tags(query))
    assert set(counts) == TAGS
    assert min(counts.values()) >= 20
    assert all(len(_tags(query)) == 1 for query in QUERIES)


def _tags(query: Record) -> list[object]:
    tags = query["tags"]
    assert isinstance(tags, list)
    return tags


def test_evidence_and_answers_by_tag() -> None:
    for tag in sorted(TAGS):
        for query_id, _, rows in tagged(tag):
            evidences = {str(row["evidence_id"]) for row in rows}
            if tag == "unanswerable":
                assert not evidences, query_id
            elif tag == "multi_evidence":
                assert len(evidences) >= 2, query_id
            else:
                assert len(evidences) == 1, query_id
    for query in QUERIES:
        answers = query.get("answers", [])
        assert isinstance(answers, list)
        assert bool(answers) == (query["tags"] != ["unanswerable"]), query["query_id"]
        assert len(set(answers)) == len(answers)
        assert min((len(answer.split()) for answer in answers), default=0) <= 25


def test_an_answer_stands_in_the_evidence() -> None:
    """Word for word: one of the answers, or all parts of one that answers several questions.

    Four join words of the evidence with words of the question, or of a table's head.
    """
    elsewhere = set()
    for query in QUERIES:
        quotes = [str(row["quote"]) for row in JUDGMENTS.get(str(query["query_id"]), [])]
        answers = query.get("answers", [])
        assert isinstance(answers, list)
        parts = [[answer] for answer in answers] + [answer.split("; ") for answer in answers]
        if answers and not any(
            all(any(holds(quote, part) for quote in quotes) for part in both) for both in parts
        ):
            elsewhere.add(query["query_id"])
    assert elsewhere == {"fleet-044", "safety-041", "safety-043", "terminals-048"}
