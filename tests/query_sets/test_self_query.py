"""``strategy: self_query``: filters that a model writes, checked and obeyed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rag_assets.errors import DataError
from rag_assets.evaluation.query_facts import document_fields
from rag_assets.experiment import load_experiment
from rag_assets.llm.client import Completion
from rag_assets.query_sets.model_output import Rejected, Unusable
from rag_assets.query_sets.stage import answers_key, query_set_key
from rag_assets.query_sets.strategies import SelfQuerySet, field_summary
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.retrieval.search_steps_stage import QUERY_FILTERS_KEY
from rag_assets.schemas import DOCUMENTS as DOCUMENTS_TABLE
from tests.llm.server import Server
from tests.tiny_experiment import DOCUMENTS, QUERIES, Tiny, planned

FIELDS: dict[str, dict[str, Any]] = {
    "a": {"season": "winter", "year": 2024, "tags": ["x", "y"], "note": "n" * 81},
    "b": {"season": "winter", "year": "2025", "tags": "x"},
    "c": {"season": 'sum"mer\n- "year": all', "nested": {"k": 1}, "year": None},
}


def fields_table() -> Any:
    rows: list[dict[str, object]] = [
        {"document_id": name, "title": "", "text": "t", "metadata": json.dumps(fields)}
        for name, fields in FIELDS.items()
    ]
    return document_fields(DOCUMENTS_TABLE.from_rows(rows))


def test_fields_of_documents() -> None:
    """By the texts that filters compare: a number and its text are one value."""
    assert [tuple(row.values()) for row in fields_table().to_pylist()] == [
        ("note", "n" * 81, 1),
        ("season", 'sum"mer\n- "year": all', 1),
        ("season", "winter", 2),
        ("tags", "x", 2),
        ("tags", "y", 1),
        ("year", "2024", 1),
        ("year", "2025", 1),
    ]


def test_the_prompt_shows_fields_and_few_values() -> None:
    """A value is data: no quote or line break of it ends the list."""
    assert field_summary(fields_table().to_pylist(), 1).splitlines() == [
        '- "season": "winter", and 1 more',
        '- "tags": "x", and 1 more',
        '- "year": "2024", and 1 more',
        '- "note": and 1 more',
    ]
    line = field_summary(fields_table().to_pylist(), 20).splitlines()[0]
    assert line == r'- "season": "winter", "sum\"mer\n- \"year\": all"'
    many: list[dict[str, Any]] = [
        {"field": f"f{n:03}", "value": "v", "n_documents": 1} for n in range(100)
    ]
    assert len(field_summary(many, 20).splitlines()) == 40
    strategy = SelfQuerySet(strategy="self_query", fields=("year",)).prompted_for(fields_table())
    assert strategy.values["fields"] == '- "year": "2024", "2025"'


A_DOG = '{"query": "a dog", "filter": '


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (A_DOG + '{"season": "winter"}}', ["a dog"]),
        (f'Sure!\n```json\n{A_DOG}{{"year": [2024, "2025"]}}}}\n```', ["a dog"]),
        (A_DOG + "null}", ["a dog"]),
        ('{"query": "a dog"}', ["a dog"]),
        (A_DOG + '{"seasn": "winter"}}', "no document has the field 'seasn'"),
        (A_DOG + '{"season": ["winter", "Winter"]}}', "no document has 'Winter' under 'season'"),
        (
            A_DOG + '"season = winter"}',
            'the filter has "season = winter"; must be an object {field: value} or '
            "{field: [values]}",
        ),
        (
            A_DOG + '{"year": {"gt": 2023}}}',
            "the filter has {\"gt\": 2023} under 'year'; must be a text, a number, true or false, "
            "or a list of such",
        ),
    ],
)
def test_what_a_model_wrote_is_checked(text: str, expected: object) -> None:
    strategy = SelfQuerySet(strategy="self_query").prompted_for(fields_table())
    parsed = strategy.parse(Completion(text, None, None, "stop"), "a dog in winter")
    assert parsed == (Rejected(expected) if isinstance(expected, str) else expected)


def test_what_is_no_query_and_filter_fails() -> None:
    strategy = SelfQuerySet(strategy="self_query").prompted_for(fields_table())
    for text, finish in (("a dog", "stop"), ('{"filter": {}}', "stop"), ('{"query": "a', "length")):
        parsed = strategy.parse(Completion(text, None, None, finish), "a dog")
        assert isinstance(parsed, Unusable)
        assert ("max_tokens" in parsed.reason) is (finish == "length")


REPLIES = {
    "ticket for a dog": {"query": "what does a ticket cost", "filter": {"season": "winter"}},
    "southern harbour": {"query": "when does it close", "filter": {"season": "autumn"}},
    "life jackets": {"query": "jackets for children", "filter": {"season": "summer"}},
    "last ferry": {"query": "last ferry in winter", "filter": {}},
}
"""What the recorded model says; of q4 it says no JSON, of q6 nothing but the filter."""

BY_HAND = {"q1": {"season": "winter"}, "q3": {"season": "winter"}, "q5": {"season": "summer"}}


def reply(prompt: str) -> str:
    for mark, said in REPLIES.items():
        if mark in prompt:
            return json.dumps(said)
    return "put out the fire" if "car deck" in prompt else '{"query": "", "filter": {"page": 1}}'


@pytest.fixture
def tiny(server: Server, tmp_path: Path) -> Tiny:
    one = Tiny(tmp_path / "tiny")
    one.config["llm"] = {"model": "m", "base_url": server.base_url, "api_key_env": None}
    one.config["query_sets"] = {
        "self": {"strategy": "self_query"},
        "clear": {"strategy": "rewrite", "template": "plain.txt"},
    }
    bm25 = {"type": "bm25", "chunking": "parts", "analyzer": "english"}
    rest = {**bm25, "query_set": "self", "variants": "weighted", "variant_weights": [0, 1]}
    one.config["retrievers"] = {
        "bm25": bm25,
        "by_hand": {**bm25, "filters": True},
        "rest": rest,
        "by_model": {**rest, "filters": True},
        "clear": {**bm25, "query_set": "clear"},
    }
    one.config |= {"top_k": [100], "primary": "ndcg@100"}
    for number, (name, text) in enumerate(DOCUMENTS.items()):
        season = ("summer", "winter")[number % 2]
        one.write_document(name, f"---\nseason: {season}\npage: {number % 3}\n---\n{text}")
    rows = [
        q | ({"filter": BY_HAND[i]} if (i := q["query_id"]) in BY_HAND else {}) for q in QUERIES
    ]
    one.write_rows("queries.jsonl", rows)
    (one.folder / "plain.txt").write_text("version: 1\n[user]\n{query}\n")
    one.write_config()
    return one


def matches(query_id: str, chunk_id: str) -> bool:
    """What the filters of the model allow, written out."""
    number = list(DOCUMENTS).index(chunk_id.partition("#")[0])
    return {"q1": number % 2 == 1, "q3": number % 2 == 0, "q6": number % 3 == 1}.get(query_id, True)


def test_retrievers_obey_what_the_model_wrote(tiny: Tiny, server: Server) -> None:
    tiny.run()
    everything, obeyed = (tiny.ranked(name, 100, "chunk_id") for name in ("rest", "by_model"))
    for query_id, rows in everything.items():
        assert obeyed[query_id] == [one for one in rows if matches(query_id, one[0])], query_id
    assert obeyed["q1"] != everything["q1"]
    # Rejected: as it was asked, and no failure. Not usable: a failure.
    pipeline = tiny.pipeline()
    texts = {row["query_id"]: row for row in tiny.rows(query_set_key("self"))}
    assert (texts["q1"]["text"], texts["q1"]["variant"]) == ("what does a ticket cost", 1)
    assert (texts["q2"]["text"], texts["q2"]["variant"]) == (QUERIES[1]["text"], 0)
    run = pipeline.artifact(run_key(pipeline.experiment, "by_model", 100))
    assert list(run.manifest.failures) == ["q4"]
    answers = pipeline.artifact(answers_key("self"))
    assert answers.manifest.facts["rejected_queries"] == 1
    assert answers.manifest.facts["notes"] == [
        "1 query keeps its original text: no document has what the model wrote: q2"
    ]
    said = {row["query_id"]: row for row in answers.table().to_pylist()}
    assert said["q2"]["failure"] == "no document has 'autumn' under 'season'"
    assert json.loads(said["q2"]["text"]) == REPLIES["southern harbour"]
    by_model = [row for row in tiny.rows(QUERY_FILTERS_KEY) if row["query_set"]]
    assert {(row["query_set"], row["filter"]): row["query_ids"] for row in by_model} == {
        ("self", '{"page":["1"]}'): ["q6"],
        ("self", '{"season":["summer"]}'): ["q3"],
        ("self", '{"season":["winter"]}'): ["q1"],
    }
    prompt = next(one.text for one in server.received if "filter" in one.text)
    assert '- "season": "summer", "winter"\n' in prompt


def test_requests_are_planned_and_paid_once(tiny: Tiny, server: Server) -> None:
    assert planned(tiny).work("llm_calls") == 12
    assert not server.received
    tiny.run()
    assert len(server.received) == 12
    assert planned(tiny).work("llm_calls") is None
    # An edit of text, or a new document with known values, changes neither prompt nor filters.
    tiny.replace("crew.md", "A crew of five", "A crew of six")
    computed = tiny.run()
    assert not {name for name in computed if name.startswith(("query_set", "query_filters"))} - {
        "query_filters"
    }
    assert len(server.received) == 12
    # A new value is in the prompt, so it is asked again; the other query set is not.
    tiny.replace("crew.md", "season: winter", "season: autumn")
    tiny.run()
    assert len(server.received) == 18
    assert "autumn" in server.received[-1].text
    tiny.config["llm"]["model"] = "n"
    tiny.write_config()
    assert planned(tiny).work("llm_calls") == 12
    assert len(server.received) == 18


def test_a_field_that_no_document_has(tiny: Tiny) -> None:
    tiny.config["query_sets"]["self"]["fields"] = ["seasn"]
    tiny.write_config()
    assert load_experiment(tiny.folder).query_sets
    with pytest.raises(DataError, match=r"no document has the field 'seasn' \(did you mean 'sea"):
        tiny.run()
