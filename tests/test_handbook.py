"""The sample data keeps what its tags promise; no retriever is asked."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from rag_assets.sources.document_folder import MarkdownDataset
from tests.evaluation.answer_text import holds

HANDBOOK = Path(__file__).resolve().parents[1] / "data" / "handbook"
TAGS = {"identifier", "keyword", "long", "multi_evidence", "paraphrase", "typo", "unanswerable"}
_FUNCTION_WORDS = """
    a about above after again against all am an and any are as at be because been before being
    below between both but by can could did do does doing down during each few for from further
    get had has have having he her here hers herself him himself his how i if in into is it its
    itself just let like many may me might more most much must my myself need no nor not now of
    off on once one only or other our ours ourselves out over own please shall she should so some
    such than that the their theirs them themselves then there these they this those through to
    too under until up upon us very was we were what when where which while who whom whose why
    will with within without would yes yet you your yours yourself yourselves"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())

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
    """Yield id, text and judgments of the queries with this tag."""
    for query in QUERIES:
        if query["tags"] == [tag]:
            query_id = str(query["query_id"])
            yield query_id, str(query["text"]), JUDGMENTS.get(query_id, [])


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+(?:'[a-z]+)?", text.lower())


def content_stems(text: str) -> set[str]:
    stemmer = pytest.importorskip("Stemmer").Stemmer("english")
    content = [word for word in words(text) if word not in FUNCTION_WORDS and len(word) > 1]
    return set(stemmer.stemWords(content))


def holds_token(text: str, token: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(token)}(?![\w-])", text) is not None


def test_size() -> None:
    assert len(documents()) >= 60
    assert sum(len(text.split()) for text in documents().values()) >= 25_000
    assert len({folder.split("/")[0] for folder in documents()}) == 4
    assert len(QUERIES) >= 200


def test_each_query_has_one_tag_and_all_tags_occur() -> None:
    counts = Counter(str(tag) for query in QUERIES for tag in _tags(query))
    assert set(counts) == TAGS
    assert min(counts.values()) >= 20
    assert all(len(_tags(query)) == 1 for query in QUERIES)


def _tags(query: Record) -> list[object]:
    tags = query["tags"]
    assert isinstance(tags, list)
    return tags


def test_no_query_is_asked_twice() -> None:
    assert len({str(query["text"]).casefold() for query in QUERIES}) == len(QUERIES)
    assert len({query["query_id"] for query in QUERIES}) == len(QUERIES)


def test_no_sentence_is_repeated_across_documents() -> None:
    sentences = Counter(
        sentence
        for text in documents().values()
        for sentence in set(re.split(r"(?<=[.!?])\s+", text))
        if len(sentence.split()) >= 6
    )
    assert [sentence for sentence, count in sentences.items() if count > 1] == []


def test_paraphrases_share_no_content_stem_with_their_quotes() -> None:
    shared = {
        query_id: both
        for query_id, text, rows in tagged("paraphrase")
        for row in rows
        if (both := content_stems(text) & content_stems(str(row["quote"])))
    }
    assert shared == {}


def test_the_stem_rule_can_fail() -> None:
    assert content_stems("How are pumps cleaned?") & content_stems("Clean the pump.") == {
        "clean",
        "pump",
    }
    assert content_stems("What is it?") == set()


def test_identifiers_occur_in_one_or_two_documents() -> None:
    for query_id, text, _ in tagged("identifier"):
        tokens = [token.strip(".,?!;:()\"'") for token in re.findall(r"\S*\d\S*", text)]
        counts = {
            token: sum(holds_token(document, token) for document in documents().values())
            for token in tokens
        }
        assert any(1 <= count <= 2 for count in counts.values()), (query_id, counts)


def test_multi_evidence_needs_several_and_the_others_one() -> None:
    for tag in sorted(TAGS):
        for query_id, _, rows in tagged(tag):
            evidences = {str(row["evidence_id"]) for row in rows}
            if tag == "unanswerable":
                assert not evidences, query_id
            elif tag == "multi_evidence":
                assert len(evidences) >= 2, query_id
            else:
                assert len(evidences) == 1, query_id


def test_answerable_queries_have_short_answers_and_the_others_none() -> None:
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


def test_every_evidence_has_an_answer_and_support_is_below_it() -> None:
    for query_id, rows in JUDGMENTS.items():
        best: dict[object, int] = {}
        for row in rows:
            evidence, grade = row["evidence_id"], int(str(row["relevance"]))
            assert grade in {1, 2}, query_id
            best[evidence] = max(grade, best.get(evidence, 0))
        assert set(best.values()) == {2}, query_id


def test_long_queries_are_long_and_keyword_queries_short() -> None:
    assert all(len(text.split()) >= 30 for _, text, _ in tagged("long"))
    assert all(len(text.split()) <= 12 for _, text, _ in tagged("keyword"))


def test_typos_are_words_that_no_document_holds() -> None:
    vocabulary = {word for text in documents().values() for word in words(text)}
    for query_id, text, _ in tagged("typo"):
        assert set(words(text)) - vocabulary, query_id


def test_quotes_occur_exactly_once() -> None:
    for query_id, rows in JUDGMENTS.items():
        for row in rows:
            document = documents()[str(row["doc_id"])]
            assert document.count(str(row["quote"])) == 1, (query_id, row["quote"])


def test_it_is_read_as_written() -> None:
    dataset = MarkdownDataset.open(HANDBOOK)
    found = dataset.read_documents().table
    queries = dataset.read_queries().table
    qrels = dataset.read_qrels(found, queries)
    # The page about the data is no part of it.
    assert set(documents()) == set(found["document_id"].to_pylist()) - {"README.md"}
    assert queries.num_rows == len(QUERIES)
    assert qrels.table.num_rows == sum(map(len, JUDGMENTS.values()))
    assert qrels.table["start"].null_count == 0
    texts = dict(zip(found["document_id"].to_pylist(), found["text"].to_pylist(), strict=True))
    spans = {
        (row["query_id"], texts[row["document_id"]][row["start"] : row["end"]])
        for row in qrels.table.to_pylist()
    }
    assert spans == {(q, row["quote"]) for q, rows in JUDGMENTS.items() for row in rows}
