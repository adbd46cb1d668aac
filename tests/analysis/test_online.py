"""Clicks and votes from a production search: the log, the arithmetic by hand, and every face."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rag_assets.analysis import online
from rag_assets.errors import DataError
from rag_assets.evaluation.online_log_stage import read_searches
from rag_assets.evaluation.online_metrics import (
    ONLINE_METRICS,
    agreement,
    coin_throws,
    differences,
    means,
    online_values,
    preferences,
    team_draft,
    user_difference,
)
from rag_assets.labels.label_import import read_votes
from rag_assets.report.evaluation_table import EvaluationTable
from rag_assets.statistics.intervals import bounded_intervals
from rag_assets.statistics.units import Resampling, Units
from tests.tiny_experiment import Tiny

Row = dict[str, Any]

RETRIEVERS = ("bm25", "bm25-whole")


def search(name: str, user: str, retriever: str, results: Sequence[str], **more: Any) -> Row:
    row: Row = {"query_id": name, "client_id": user, "timestamp": "2026-03-01T09:30:00Z"}
    row |= {"query_response_hit_ids": list(results), "query_attributes": {"retriever": retriever}}
    return {**row, **more}


def click(name: str, result: str) -> Row:
    attributes = {"object": {"object_id": result}, "position": {"ordinal": 1}}
    return {"action_name": "click", "query_id": name, "event_attributes": attributes}


def lines(file: Path, rows: Sequence[Row]) -> Path:
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return file


def did(user: str, n: int, *clicks: int, **more: Any) -> Row:
    return {"user": user, "results": list("abcdefgh"[:n]), "clicks": list(clicks), **more}


def test_searches_and_clicks_meet_in_any_order(tmp_path: Path) -> None:
    rows = [
        click("i1", "d2"),
        {"index": {"_index": "ubi_queries"}},
        {"_index": "ubi_queries", "_source": search("i1", "ada", "bm25", ["d1", "d2", "d3"])},
        {**search("i2", "bob", "", ["d1"], timestamp=1772357400000), "application": "shop"},
        {"action_name": "login", "timestamp": "2026-03-01T09:30:00Z", "query_id": None},
    ]
    del rows[3]["query_attributes"], rows[3]["client_id"]
    events = [click("i1", "d2"), click("i1", "d1"), click("i1", "d9"), click("i9", "d1")]
    events[1]["action_name"] = "click_through"
    files = [lines(tmp_path / "queries", rows), lines(tmp_path / "events", events)]
    (first, second), n_unmatched = read_searches(files)
    assert (first["names"], first["user"], first["clicks"]) == (["bm25"], "ada", [2, 1])
    assert (second["names"], second["user"], second["clicks"]) == (["shop"], "of search i2", [])
    assert first["at"] == second["at"]
    assert n_unmatched == 2


TEAMS = {"retrievers": ["a", "b"], "teams": [0]}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"timestamp": "soon"}, "`timestamp`: is 'soon'; must be a time such as 2026-03-01T09"),
        ({"timestamp": True}, "`timestamp`: is a boolean; must be a time such as 2026-03-01T09"),
        ({"query_response_hit_ids": "d1"}, "`query_response_hit_ids`: is 'd1'; must be a list of"),
        ({"query_attributes": None}, "`query_attributes`: needs a `retriever`, or two `retriev"),
        ({"query_attributes": TEAMS}, "`query_attributes`: `teams` must be 2 items, one a result"),
        (
            {"query_attributes": {"retrievers": ["a", "a"], "teams": [0, 1]}},
            "`query_attributes`: both `retrievers` are the same",
        ),
        ({"query_attributes": {"retrievers": ["a"]}}, "`query_attributes`: is an object; must be "),
        ({"query_id": ""}, "`query_id`: is ''; must be an id"),
        ({"query_id": "i0"}, "`query_id`: 'i0' occurs twice"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, row: Row, problem: str) -> None:
    good = search("i0", "ada", "bm25", ["d1"])
    bad = {**search("i1", "ada", "bm25", ["d1", "d2"]), **row}
    file = lines(tmp_path / "clicks.jsonl", [good, bad])
    with pytest.raises(DataError) as caught:
        read_searches([file])
    assert str(caught.value).startswith(f"{file}:2: {problem}")


def test_means_by_hand() -> None:
    rows = [did("u1", 4, 2, 4), did("u1", 1, 1), did("u2", 5), did("u3", 0)]
    row = means(ONLINE_METRICS, *online_values(rows), [one["user"] for one in rows])
    assert (row["n"], row["users"]) == (4, 3)
    assert row["ctr"] == pytest.approx(3 / 10)  # clicks over results
    assert row["reciprocal_rank"] == pytest.approx((1 / 2 + 1 + 0 + 0) / 4)
    assert row["abandonment"] == pytest.approx(2 / 4)
    sums, weights = np.array([1.5, 0.0, 0.0]), np.array([2.0, 1.0, 1.0])  # a user is one unit
    (low,), (high,) = bounded_intervals(Units(sums[:, None], weights[:, None]), 0.95, 0.0, 1.0)
    assert (row["reciprocal_rank_low"], row["reciprocal_rank_high"]) == (low, high)


def test_users_who_saw_both_are_pairs() -> None:
    values, ones = np.random.default_rng(1).random((12, 2)), np.ones((12, 2))
    row = user_difference(values, ones)
    pairs = values[:, 1] - values[:, 0]
    (low,), (high,) = bounded_intervals(Units(pairs[:, None], ones[:, :1]), 0.95, -1.0, 1.0)
    assert row["design"] == "paired"
    assert row["difference"] == pytest.approx(pairs.mean())
    assert (row["difference_low"], row["difference_high"]) == pytest.approx((low, high))
    assert row["p"] == pytest.approx(stats.ttest_1samp([*pairs, -1, 1], 0).pvalue)


def test_users_who_saw_one_are_two_samples() -> None:
    """The error is that of Welch, but that n / (n - 1) is of all users."""
    random = np.random.default_rng(2)
    a, b = random.random(300), random.random(200)
    sums = np.vstack([np.column_stack([a, np.zeros(300)]), np.column_stack([np.zeros(200), b])])
    row = user_difference(sums, (sums > 0).astype(float))
    assert row["design"] == "unpaired"
    welch = stats.ttest_ind(b, a, equal_var=False).confidence_interval()
    assert row["difference"] == pytest.approx(b.mean() - a.mean())
    assert row["difference_low"] == pytest.approx(welch.low, abs=0.002)
    assert row["difference_high"] == pytest.approx(welch.high, abs=0.002)


def test_holm_is_over_the_pairs_of_a_metric() -> None:
    random = np.random.default_rng(3)
    shown = {
        name: [did(f"u{u}", 5, *np.flatnonzero(random.random(5) < chance) + 1) for u in range(40)]
        for name, chance in (("a", 0.1), ("b", 0.12), ("c", 0.6))
    }
    rows = [row for row in differences(shown) if row["metric"] == "ctr"]
    assert [(row["retriever_a"], row["retriever_b"]) for row in rows] == [
        ("a", "b"),
        ("a", "c"),
        ("b", "c"),
    ]
    least = min(rows, key=lambda row: row["p"])
    assert least["p_adjusted"] == pytest.approx(3 * least["p"])
    assert rows[1]["difference_low"] > 0


def test_no_search_is_clicked_more_than_any_was() -> None:
    """Extreme users have the largest share of clicks that any search had, not all results."""
    rows = [did(f"u{n}", 8, 1) for n in range(30)]
    row = means(ONLINE_METRICS, *online_values(rows), [one["user"] for one in rows])
    assert row["ctr_high"] == pytest.approx(1 / 8)
    assert (row["ctr"], row["abandonment"]) == (pytest.approx(1 / 8), 0.0)
    assert row["abandonment_high"] > 0


def test_one_user_says_nothing() -> None:
    rows = differences({"a": [did("u1", 2, 1)], "b": [did("u1", 2)]})
    assert {row["p"] for row in rows} == {row["difference"] for row in rows} == {None}


@pytest.mark.parametrize(
    ("coins", "drafted"),
    [
        ("AAA", "aA bB cA eB dA fB gA hB"),
        ("BAA", "bB aA cA eB dA fB gA hB"),
        ("ABA", "aA bB eB cA dA fB gA hB"),
    ],
)
def test_team_draft_as_published(coins: str, drafted: str) -> None:
    """The two rankings and three of the results of figure 2 of Radlinski et al. 2008."""
    throws = iter([*("AB".index(coin) for coin in coins), 0])
    results, teams = team_draft("abcdgh", "beafgh", 8, throws)
    assert " ".join(f"{unit}{'AB'[team]}" for unit, team in zip(results, teams, strict=True)) == (
        drafted
    )


def test_a_ranking_that_ends_leaves_the_rest_to_the_other() -> None:
    assert team_draft("a", "abc", 5, repeat(0)) == (["a", "b", "c"], [0, 1, 1])
    assert team_draft("", "", 5, repeat(0)) == ([], [])


def test_equal_rankings_win_equally_often() -> None:
    throws = coin_throws(20, 6, 1)
    assert all(
        [1 - coin for coin in a] == b for a, b in zip(throws[::2], throws[1::2], strict=True)
    )
    teams = np.array([team_draft("abcdef", "abcdef", 6, iter(throw))[1] for throw in throws])
    assert teams.mean(axis=0).tolist() == [0.5] * 6


def test_preferences_by_hand() -> None:
    names, teams = ["b", "a"], [0, 1, 1, 0]
    rows = [
        did("u1", 4, 1, 4, names=names, teams=teams),  # two clicks on b
        did("u1", 4, 1, 2, names=names, teams=teams),  # one each
        did("u2", 4, 1, 2, 4, names=names, teams=teams),  # b, 2 to 1
        did("u3", 4, 3, names=names, teams=teams),  # a
        did("u4", 4, 1, names=names, teams=teams),  # b
    ]
    (row,) = preferences(rows, Resampling())
    assert (row["retriever_a"], row["retriever_b"]) == ("a", "b")
    assert (row["n"], row["users"], row["wins_a"], row["wins_b"]) == (5, 4, 1, 3)
    assert row["difference"] == pytest.approx((0.5 + 0 + 0.5 - 0.5 + 0.5) / 5)
    # Sums of the users: 1/2, 1/2, -1/2, 1/2. Of 16 choices of signs 10 add up to 1 or -1 or more.
    assert row["p"] == pytest.approx(10 / 16)


def test_agreement_by_hand() -> None:
    offline = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.3}
    signs = {"ab": 0.1, "ac": -0.2, "ad": 0.1, "bc": 0.0, "cd": 0.1, "xa": 0.1}
    online = [
        {"retriever_a": pair[0], "retriever_b": pair[1], "metric": "ctr", "difference": value}
        for pair, value in signs.items()
    ]
    row = agreement("ndcg@5", offline, online)
    assert row is not None
    assert (row["pairs"], row["retrievers"], row["agreement"]) == (3, 4, pytest.approx(2 / 3))
    interval = stats.binomtest(2, 3).proportion_ci(method="wilson")
    assert row["agreement_low"] < interval.low  # of 2 pairs that share no retriever, not of 3
    worse = [{**one, "metric": "abandonment"} for one in online]
    counted = agreement("fn@5", offline, online)  # of mistakes, fewer are better
    assert counted == agreement("ndcg@5", offline, worse)
    assert counted == {**row, "agreement": pytest.approx(1 / 3)} | {
        name: pytest.approx(1 - row[f"agreement_{end}"])
        for name, end in (("agreement_low", "high"), ("agreement_high", "low"))
    }
    assert agreement("ndcg@5", {"a": 1.0}, online) is None


def test_votes_on_answers_stand_beside_those_on_passages(tmp_path: Path) -> None:
    vote = {"query_id": "q1", "answer": "plain@5", "user": "ada"}
    rows: list[Row] = [
        {**vote, "vote": "up"},
        {**vote, "vote": "down", "at": "2026-03-01"},
        {"query_id": "q1", "doc_id": "d1", "vote": "up", "count": 3},
    ]
    file = lines(tmp_path / "feedback.jsonl", rows)
    answer, passage = read_votes(file)
    assert (answer["kind"], answer["names"], answer["up"]) == ("answer", ["plain@5"], False)
    assert f"{answer['at']:%Y-%m-%d}" == "2026-03-01"
    assert (passage["kind"], passage["at"], passage["count"]) == ("passage", None, 3)
    lines(file, [{"query_id": "q1", "answer": "x", "doc_id": "d1", "vote": "up"}])
    with pytest.raises(DataError, match=r"jsonl:1: `doc_id`: needs one of doc_id, chunk_id and"):
        read_votes(file)


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> EvaluationTable:
    """Users click on the first result of ``bm25`` and on no other; the last half is drafted."""
    tiny = Tiny(Path(tmp_path_factory.mktemp("online")))
    tiny.write()
    tiny.config["online"] = {"clicks": "clicks.jsonl", "feedback": "votes.jsonl", "by": "week"}
    rows = [search(f"i{n}", f"u{n % 9}", RETRIEVERS[n % 2], "abc") for n in range(40)]
    for row in rows[20:]:
        row["query_attributes"] = {"retrievers": list(RETRIEVERS), "teams": [0, 1, 1]}
    rows += [click(f"i{n}", "a") for n in range(0, 40, 2)]
    tiny.write_rows("clicks.jsonl", rows)
    vote = {"query_id": "q1", "answer": "plain@5", "vote": "up", "at": "2026-03-01"}
    tiny.write_rows("votes.jsonl", [vote, {**vote, "vote": "down", "count": 3}])
    tiny.write().run()
    return EvaluationTable(tiny.artifacts, tiny.snapshot())


def test_periods_and_agreement_over_evaluations(
    evaluated: EvaluationTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = evaluated
    name, begin = result.evaluation.evaluation_id, datetime(2026, 1, 1, tzinfo=UTC)
    starts = {name: begin, "later": datetime(2026, 6, 1, tzinfo=UTC)}
    days = ("2025-12-31", "2026-01-01", "2026-05-31", "2026-06-02")
    rows: list[Row] = [{"at": datetime.fromisoformat(f"{day}T00:00Z")} for day in days]
    periods = [online._period(starts, "evaluation", row) for row in rows]
    assert periods == ["before", name, name, "later"]
    assert online._period(starts, "day", rows[0]) == "2025-12-31"
    assert online._period(starts, "week", rows[0]) == "2026-W01"
    monkeypatch.setattr(online, "_starts", lambda _: starts)
    table = result.online["offline and online"].to_pylist()
    now = [row for row in table if row["evaluation"] == "now" and row["offline"] == "ndcg@5"]
    then = [row for row in table if row["evaluation"] == name]
    # Labels prefer the second retriever, and users the first.
    assert [row["online"] for row in then] == [*sorted(ONLINE_METRICS)]
    assert {row["agreement"] for row in [*now, *then]} == {0.0}
    assert {row["offline"] for row in then} == {"ndcg@5"}


def test_nothing_of_a_log_enters_a_metric(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path)
    tiny.config["online"] = {"clicks": "clicks.jsonl"}
    tiny.write().write_rows("clicks.jsonl", [])
    stages, experiment = tiny.pipeline().stages(), tiny.pipeline().experiment
    pairs = [(stage, key) for stage in stages for key in stage.keys(experiment)]
    assert "online_log" in {key.asset for _, key in pairs}
    read = {item.key.asset for stage, key in pairs for item in stage.inputs(experiment, key)}
    assert "online_log" not in read
