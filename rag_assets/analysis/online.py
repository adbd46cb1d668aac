"""A search in use: what users did with it, by retriever and over time, beside what labels say.

No click and no vote is a label: these tables read the log of the evaluation alone, and only the
agreement with offline metrics looks at a leaderboard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import numpy as np

from rag_assets.analysis.history import of_split
from rag_assets.analysis.result import EvaluationResult, Row, grouped
from rag_assets.evaluation.online_metrics import (
    ONLINE_METRICS,
    agreement,
    coin_throws,
    differences,
    means,
    online_values,
    preferences,
    team_draft,
)
from rag_assets.pipeline.history import History
from rag_assets.schemas import column_values
from rag_assets.sheets.sheet import MEAN, P_VALUE, SIGNED, TEXT, Column, Sheet
from rag_assets.statistics.units import Resampling
from rag_assets.store.canonical import permanent_hash

MAX_ROWS = 30
"""Rows of a sheet; programs get all."""

Rows = list[dict[str, Any]]


def online_tables(result: EvaluationResult) -> dict[str, Rows]:
    """Return a table's name -> its rows; no table without a log."""
    if not result.evaluation.entries_of("online_log"):
        return {}
    starts = _starts(result)
    by = str(result.configured("online").get("by"))
    log: dict[str, Rows] = {"search": [], "draft": [], "passage": [], "answer": []}
    for row in result.rows_of("online_log"):
        names = row["names"]
        when = {"period": _period(starts, by, row), "state": _period(starts, "evaluation", row)}
        vote = {"on": row["kind"], "of": names[0] if row["kind"] == "answer" else "all"}
        of_row = log["draft" if len(names) > 1 else row["kind"]]
        of_row.append({**row, **when, **vote, "retriever": names[0]})
    searches, votes = log["search"], [*log["answer"], *log["passage"]]
    drawn = result.configured("statistics")
    resampling = Resampling(resamples=drawn["resamples"], seed=drawn["seed"])
    compared = differences(_by_retriever(searches))
    preferred = preferences(log["draft"], resampling)
    return {
        "online": _table(searches, _means, "retriever"),
        "online over time": _table(searches, _means, "retriever", "period"),
        "online differences": compared,
        "interleaving": preferred,
        "offline and online": _agreements(result, searches, [*compared, *preferred]),
        "votes over time": _table(votes, _votes, "on", "of", "period"),
    }


def _table(rows: Rows, means_of: Callable[[Rows], Row], *names: str) -> Rows:
    """Return the means of what the named columns tell apart."""
    groups = grouped(rows, *names)
    return [
        {**{name: groups[key][0][name] for name in names}, **means_of(groups[key])}
        for key in sorted(groups)
    ]


def _by_retriever(searches: Rows) -> dict[str, Rows]:
    return dict(sorted(grouped(searches, "retriever").items()))


def _starts(result: EvaluationResult) -> dict[str, datetime]:
    """Return evaluation -> its begin, of those that say something else than the one before."""
    past = History(result.root, None)
    begins = {row["evaluation_id"]: row["started"] for row in past.evaluations()}
    return {name: begins[name] for name in past.states(result.evaluation.evaluation_id)}


def _period(starts: Mapping[str, datetime], by: str, row: Row) -> str:
    if row["at"] is None:
        return "no time"
    if by != "evaluation":
        return f"{row['at']:{'%G-W%V' if by == 'week' else '%Y-%m-%d'}}"
    return max((name for name, time in starts.items() if time <= row["at"]), default="before")


def _means(rows: Rows) -> Row:
    return means(ONLINE_METRICS, *online_values(rows), [row["user"] for row in rows])


def _votes(rows: Rows) -> Row:
    up, counts = (np.array([[float(row[name])] for row in rows]) for name in ("up", "count"))
    return means(["up"], up, counts, [row["user"] for row in rows])


def _agreements(result: EvaluationResult, searches: Rows, online: Rows) -> Rows:
    """Return a row an offline and online metric; and one a state, of searches up to the next."""
    boards = [
        ("now", f"{measure}@{result.cutoff}", _values(result.at_cutoff, measure), online)
        for measure in result.measures
    ]
    past = History(result.root, None).metric(result.primary.column, result.cutoff)
    by_state = grouped(past, "evaluation_id")
    of_states = grouped(searches, "state")
    for state in sorted(of_states.keys() & by_state.keys()):
        values = _values(of_split(by_state[state], None), "value")
        compared = differences(_by_retriever(of_states[state]))
        boards.append((state, str(result.primary), values, compared))
    return [
        {"evaluation": state, "offline": name, "online": of_metric, **row}
        for state, name, values, compared in boards
        for of_metric, rows in sorted(grouped(compared, "metric").items())
        if (row := agreement(name, values, rows)) is not None
    ]


def _values(rows: Iterable[Row], column: str) -> dict[str, float]:
    return {row["retriever"]: row[column] for row in rows if column in row}


def interleaved(
    result: EvaluationResult, pair: tuple[str, str], top_k: int, n_lists: int
) -> list[Row]:
    """Return so many interleaved lists of each question, for a search to show one at random.

    A line has the keys that the search then writes into its log; ``question`` and ``list`` say
    which one it is.

    Raises:
        NotEvaluated: a retriever has no run that is deep enough.
    """
    units: dict[str, tuple[list[str], list[str]]] = {}
    for side, name in enumerate(pair):
        runs = result.run_keys(name)
        if top_k > max(runs, default=0):
            raise result.lacks(f"has no run of {name} at top_k {top_k}")
        for query_id, unit in column_values(result.table(runs[max(runs)]), "query_id", "unit_id"):
            units.setdefault(query_id, ([], []))[side].append(unit)
    lists = []
    for query_id, rankings in units.items():
        seed = int.from_bytes(permanent_hash("interleaved", query_id)[:8])
        for number, throw in enumerate(coin_throws(n_lists, top_k, seed)):
            ids, teams = team_draft(*rankings, top_k, iter(throw))
            row = {"question": query_id, "list": number, "query_response_hit_ids": ids}
            lists.append({**row, "query_attributes": {"retrievers": list(pair), "teams": teams}})
    return lists


def online_sheets(result: EvaluationResult) -> list[Sheet]:
    """Return a sheet a table that has rows."""
    return sheets_of(online_tables(result))


def sheets_of(tables: Mapping[str, Rows]) -> list[Sheet]:
    """Return a sheet a table of :func:`online_tables` that has rows."""
    more = "{} more rows: `leaderboard --online --format json` lists all"
    return [
        Sheet(
            title,
            [*_columns(rows)],
            rows[:MAX_ROWS],
            notes=[more.format(len(rows) - MAX_ROWS)] if len(rows) > MAX_ROWS else [],
        )
        for title, rows in tables.items()
        if rows
    ]


def _columns(rows: Rows) -> Iterator[Column]:
    forms = {"difference": SIGNED, "p": P_VALUE, "p_adjusted": P_VALUE}
    for name, value in rows[0].items():
        if not name.endswith(("_low", "_high")):
            form = TEXT if isinstance(value, str) else "d" if isinstance(value, int) else MEAN
            bounds = (f"{name}_low", f"{name}_high") if f"{name}_low" in rows[0] else None
            title = name.removeprefix("retriever_").replace("p_adjusted", "p, Holm")
            form = forms.get(name, form)
            yield Column(name, title, form, bounds=bounds, interval="95 % interval")
