"""What functions that are at hand may return: all that others may, and whole numbers as ids."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable

import numpy as np
import pytest

from rag_assets.live.evaluation import LiveRetriever
from rag_assets.retrieval.external.base import ALWAYS, Hit
from rag_assets.retrieval.external.returned import Unusable


def retriever(call: Callable[..., object], **options: object) -> LiveRetriever:
    block = LiveRetriever.block("mine", {"type": "python", "call": call, **options})
    return LiveRetriever.model_validate(block)


def retrieve(query: str, k: int) -> list[str]:
    return []


@pytest.mark.parametrize(
    ("answer", "hits"),
    [
        ([3, "a"], [Hit(id="3"), Hit(id="a")]),
        (np.array([2, 0]), [Hit(id="2"), Hit(id="0")]),
        ((n for n in (1,)), [Hit(id="1")]),
        ([(7, 0.5), [np.int32(8), None]], [Hit(id="7", score=0.5), Hit(id="8")]),
        ([(4, 0, 9)], [Hit(document_id="4", start=0, end=9)]),
        (
            [{"id": 5}, {"doc_id": 6, "start": 1, "end": 2}],
            [Hit(id="5"), Hit(document_id="6", start=1, end=2)],
        ),
        ([Hit(text="a text")], [Hit(text="a text")]),
    ],
)
def test_whole_numbers_are_ids(answer: object, hits: list[Hit]) -> None:
    assert retriever(retrieve).hits(answer, 5) == hits


@pytest.mark.parametrize("answer", [3, "abc", None, [True], [1.5], [[]], UserDict()])
def test_what_is_no_list_of_hits_is_refused(answer: object) -> None:
    with pytest.raises(Unusable, match="returned "):
        retriever(retrieve).hits(answer, 5)


def test_it_is_known_by_its_source_or_asked_each_time() -> None:
    own = retriever(retrieve)
    assert own.revision is None
    assert set(own.versions()) == {"called_source"}
    made = retriever(lambda query: [])
    assert (made.revision, dict(made.versions())) == (ALWAYS, {})
    said = retriever(retrieve, revision="2")
    assert (said.revision, dict(said.versions())) == ("2", {})


def test_the_object_is_no_part_of_what_is_stored() -> None:
    own = retriever(retrieve)
    assert own.load() is retrieve
    assert own.ranking_config()["call"] == "mine:retrieve"
    assert not {"target", "called_source"} & own.model_dump(mode="json").keys()
    assert own.describe_for_plan() == ["runs mine:retrieve of this process"]
    assert not own.runs_code
