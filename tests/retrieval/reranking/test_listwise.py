"""``type: listwise``: prompts, and the order in an answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rag_assets.errors import ConfigError
from rag_assets.llm.client import LENGTH, REFUSAL, STOP, Answer, Completion
from rag_assets.retrieval.reranking.candidates import Candidates, Reranked
from rag_assets.retrieval.reranking.listwise import Listwise, read_permutation, windows
from rag_assets.retrieval.workspace import Workspace
from rag_assets.servers.failures import Failed
from tests.llm.server import Server, error, says


def reply(text: str) -> str:
    """Order passages by the number in them, highest first."""
    passages = re.findall(r"^\[(\d+)\] .*?(\d+)", text, re.MULTILINE)
    best_first = sorted(passages, key=lambda pair: -int(pair[1]))
    return " > ".join(f"[{place}]" for place, _ in best_first)


def asked(query: str, values: Sequence[int]) -> Candidates:
    ids = [f"{place:03}" for place in range(len(values))]
    texts = [f"passage {value}" for value in values]
    return Candidates(f"id of {query}", query, ids, texts, np.zeros(len(values)))


def config(server: Server, **options: object) -> Listwise:
    plain = {"type": "listwise", "input": "bm25", "base_url": server.base_url, "model": "tiny"}
    return Listwise.model_validate(
        {**plain, "api_key_env": None, "retries": 1, "backoff": 0.0, **options}
    )


def rerank(
    chosen: Listwise, candidates: Sequence[Candidates], cache: Path | None = None
) -> Reranked:
    return chosen.rerank(candidates, Workspace(cache))


@given(n=st.integers(0, 60), window=st.integers(2, 25), data=st.data())
def test_windows_cover_all_and_end_at_the_top(n: int, window: int, data: st.DataObject) -> None:
    found = windows(n, window, data.draw(st.integers(1, window)))
    if n < 2:
        assert found == []
        return
    assert found[0][1] == n
    assert found[-1][0] == 0
    assert {place for start, end in found for place in range(start, end)} == set(range(n))
    assert all(1 <= end - start <= window for start, end in found)


def test_one_window_gives_the_order_of_the_answer(server: Server) -> None:
    found = rerank(config(server), [asked("wind", [3, 9, 1, 7])])
    assert found.scores[0].tolist() == [1 / 3, 1 / 1, 1 / 4, 1 / 2]
    assert found.failures == {}
    (request,) = server.received
    assert "Query: wind\n\n[1] passage 3\n[2] passage 9\n" in request.text
    assert "all of them" in request.text
    assert (request.body["temperature"], request.body["seed"]) == (0.0, 0)


def test_the_best_come_to_the_top_wherever_they_stood(server: Server) -> None:
    values = list(np.random.default_rng(3).permutation(23))
    found = rerank(config(server, window=6, step=3), [asked("wind", values)])
    order = [values[place] for place in np.argsort(-found.scores[0])]
    assert order[:3] == [22, 21, 20]  # window - step of them
    assert sorted(found.scores[0].tolist()) == sorted(1 / rank for rank in range(1, 24))
    assert len(server.received) == len(windows(23, 6, 3))


def test_equal_passages_are_shown_once_and_score_the_same(server: Server) -> None:
    found = rerank(config(server), [asked("wind", [1, 5, 1, 5, 3])])
    assert found.scores[0].tolist() == [1 / 3, 1 / 1, 1 / 3, 1 / 1, 1 / 2]
    assert re.findall(r"^\[(.)\] passage (.)$", server.received[0].text, re.M) == [
        ("1", "1"),
        ("2", "5"),
        ("3", "3"),
    ]


def test_a_query_without_an_order_fails_and_takes_no_other_down(server: Server) -> None:
    server.on("storm", error(400, "too long"))
    lists = [asked(query, [1, 2, 3]) for query in ("wind", "storm", "rain")]
    found = rerank(config(server), lists)
    assert found.failures == {"id of storm": "HTTP 400: too long"}
    assert np.isfinite([*found.scores[0], *found.scores[2]]).all()


def test_the_window_that_failed_is_named_and_the_last_asked(server: Server) -> None:
    server.on("Query: wind", says(" > ".join(f"[{n}]" for n in range(1, 5))), says("none"))
    found = rerank(config(server, window=4, step=2), [asked("wind", list(range(8)))])
    reason = "window 2 of 3: the answer is no order of passages: none"
    assert found.failures == {"id of wind": reason}
    assert len(server.received) == 2


def test_what_was_answered_is_not_paid_again(server: Server, tmp_path: Path) -> None:
    lists = [asked(query, [1, 2, 3, 4, 5]) for query in ("wind", "storm")]
    server.on("storm", error(503), error(503))
    first = rerank(config(server, window=3, step=1), lists, tmp_path)
    assert list(first.failures) == ["id of storm"]
    server.forget_rules()
    server.received.clear()
    again = rerank(config(server, window=3, step=1), lists, tmp_path)
    assert again.failures == {}
    assert all("storm" in request.text for request in server.received)
    assert again.scores[0].tobytes() == first.scores[0].tobytes()
    server.received.clear()
    rerank(config(server, window=3, step=1, concurrency=1), lists, tmp_path)
    assert server.received == []
    rerank(config(server, window=3, step=1, seed=7), lists, tmp_path)
    assert server.received != []


def test_long_passages_are_shown_as_far_as_max_words(server: Server) -> None:
    texts = ["1 two three\nfour five", "2 [1] two three four"]
    one = Candidates("q", "two\n lines", ["a", "b"], texts, np.zeros(2))
    rerank(config(server, max_words=3), [one])
    end = "Query: two lines\n\n[1] 1 two three\n[2] 2 [1] two"
    assert server.received[0].text.endswith(end)


def test_a_prompt_of_ones_own(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("version: 4\n[user]\nSort {n} for {query}:\n{passages}\n")
    chosen = config(server, template=file)
    rerank(chosen, [asked("wind", [1, 2])])
    assert server.received[0].text == "Sort 2 for wind:\n[1] passage 1\n[2] passage 2"
    assert chosen.describe()["template"] == "mine/4"
    file.write_text("version: 4\n[user]\nSort for {query}\n")
    with pytest.raises(ConfigError, match=r"`passages`: the prompt does not use it"):
        chosen.describe()


def test_a_step_is_not_above_its_window(server: Server) -> None:
    with pytest.raises(ValidationError, match="step 5 is above window 4"):
        config(server, window=4, step=5)


FORMS = {
    "arrows": lambda ids: " > ".join(f"[{i}]" for i in ids),
    "no spaces": lambda ids: ">".join(f"[{i}]" for i in ids),
    "bare numbers": lambda ids: " > ".join(map(str, ids)),
    "a JSON list": lambda ids: f"{ids}",
    "commas": lambda ids: ", ".join(f"[{i}]" for i in ids),
    "one a line": lambda ids: "\n".join(map(str, ids)),
    "a full stop": lambda ids: " > ".join(f"[{i}]" for i in ids) + ".",
    "a fence": lambda ids: "```json\n" + str(ids) + "\n```",
    "thoughts": lambda ids: f"<think>3 is best? No, 1.</think>\n\n{ids}",
}


def said(text: str, finish_reason: str = STOP) -> Completion:
    return Completion(text, 1, 1, finish_reason)


@given(ids=st.permutations(range(1, 13)), form=st.sampled_from(sorted(FORMS)))
def test_an_order_in_any_form(ids: list[int], form: str) -> None:
    assert read_permutation(said(FORMS[form](ids)), 12) == [number - 1 for number in ids]


@given(ids=st.lists(st.integers(1, 9), min_size=1, max_size=15))
def test_repeated_numbers_count_once_and_missing_ones_follow(ids: list[int]) -> None:
    found = read_permutation(said(" > ".join(f"[{i}]" for i in ids)), 9)
    named = [i for place, i in enumerate(ids) if i not in ids[:place]]
    rest = [i for i in range(1, 10) if i not in ids]
    assert found == [i - 1 for i in named + rest]


NO_ORDER: dict[str, tuple[Answer, str]] = {
    "a sentence": (
        said("Passage [2] is the best, then [1]."),
        "the answer is no order of passages: Passage [2] is the best, then [1].",
    ),
    "an introduction": (said("Here it is: [1] > [2]"), "the answer is no order of passages: Here"),
    "a refusal in words": (
        said("I cannot rank these 3 passages."),
        "the answer is no order of passages: I cannot rank these 3 passages.",
    ),
    "nothing": (said("  \n"), "the answer is no order of passages: "),
    "thoughts alone": (said("<think>[1] > [2]"), "the answer is no order of passages: "),
    "letters": (said("[a] > [b]"), "the answer is no order of passages: [a] > [b]"),
    "a number too high": (said("[1] > [4]"), "the answer names passage 4 of 3"),
    "zero": (said("[0] > [1]"), "the answer names passage 0 of 3"),
    "a negative number": (said("[-1] > [1]"), "the answer is no order of passages: [-1] > [1]"),
    "cut": (said("[1] > [2", LENGTH), "the answer was cut at max_tokens"),
    "refused": (said("No.", REFUSAL), "the model refused: No."),
    "filtered": (said("", REFUSAL), "the model refused"),
    "failed": (Failed("HTTP 500: wrong"), "HTTP 500: wrong"),
}


@pytest.mark.parametrize("case", NO_ORDER)
def test_what_is_no_order(case: str) -> None:
    answer, reason = NO_ORDER[case]
    found = read_permutation(answer, 3)
    assert isinstance(found, Failed)
    assert found.reason.startswith(reason)
