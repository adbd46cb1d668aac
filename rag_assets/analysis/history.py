"""A metric over evaluations: what changed at each, for the command line, Python and a notebook."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rag_assets.analysis.charts import (
    Theme,
    against_time,
    colours,
    figure,
    line_trace,
    page_data,
    plain,
    style,
)
from rag_assets.analysis.evaluation_pairs import MetricSource, is_answerer
from rag_assets.analysis.leaderboard import COST_TIME
from rag_assets.analysis.metric_sources import ANSWER_HEADLINES, named_source
from rag_assets.analysis.result import SAMPLED, EvaluationResult, Row, grouped
from rag_assets.engine.recipe import ATTEMPT
from rag_assets.errors import NotEvaluated, StoreError, UsageError, allowed_names
from rag_assets.evaluation.metric_names import Metric, parse_metric
from rag_assets.labels.pool import sampled_metrics
from rag_assets.pipeline.evaluations import SnapshotEntry, read_evaluation, snapshot_file
from rag_assets.pipeline.history import COSTS, MONEY, TIME, History
from rag_assets.pipeline.reasons import Reason, changes, file_changes
from rag_assets.pipeline.stored_evaluation import StoredEvaluation
from rag_assets.sheets.environment import shortened
from rag_assets.sheets.notebook import Tabular
from rag_assets.sheets.sheet import SIGNED, TEXT, Column, Sheet, form_of
from rag_assets.store.artifacts import Manifest

if TYPE_CHECKING:
    import plotly.graph_objects as go

_DIGESTS = {
    "corpus_digest": "documents changed",
    "queries_digest": "queries changed",
    "qrels_digest": "labels changed",
}
"""Column of the history -> what is said where two evaluations differ in it."""

_NAMED = {
    "retrievers": "retriever",
    "chunking": "chunking",
    "query_sets": "query set",
    "generators": "generator",
    "answers": "answerer",
    "judges": "judge",
}
"""Parts of a configuration that are named by people; one that is new is one reason."""

_JSON = {"configuration": "", "code_versions": "rag_assets.", "packages": ""}
"""Columns that hold JSON -> what stands before the name of what differs."""


def evaluation_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Reason]:
    """Return why two rows of the history may differ: what a person changed, not what follows."""
    return [*_digest_changes(old, new), *setting_changes(old, new)]


def _digest_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Reason]:
    for column, text in _DIGESTS.items():
        if None not in (old[column], new[column]) and old[column] != new[column]:
            yield Reason(text)
    labelled = [row["qrels_digest"] is not None for row in (old, new)]
    if labelled[0] != labelled[1]:
        yield Reason(f"labels {'added' if labelled[1] else 'removed'}")


def setting_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Reason]:
    """Yield what differs in the configuration, the code and the packages of two such rows."""
    for column, before in _JSON.items():
        if old[column] != new[column]:
            was, now = json.loads(old[column]), json.loads(new[column])
            # An evaluation of an older version of the program did not keep them.
            if was and now:
                if column == "code_versions":  # a stage that came or went follows from something
                    was = {stage: was[stage] for stage in was if stage in now}
                    now = {stage: now[stage] for stage in was}
                yield from _json_changes(before, was, now)


def _json_changes(before: str, was: dict[str, Any], now: dict[str, Any]) -> Iterator[Reason]:
    files = was.pop("files", None), now.pop("files", None)
    if None not in files:
        yield from file_changes(*files)
    for part, noun in _NAMED.items():
        old, new = was.get(part, {}), now.get(part, {})
        if not isinstance(old, dict) or not isinstance(new, dict):
            continue
        yield from (Reason(f"{noun} {name} added") for name in new if name not in old)
        yield from (Reason(f"{noun} {name} removed") for name in old if name not in new)
        shared = old.keys() & new.keys()
        was = {**was, part: {name: old[name] for name in old if name in shared}}
        now = {**now, part: {name: new[name] for name in new if name in shared}}
    for change in changes(was, now):
        yield Reason(f"{before}{change.what.removeprefix('retrievers.')}", change.old, change.new)


_ASKED_AGAIN = {ATTEMPT, "revision", "search_revision"}
"""Last names of what differs between two recipes that ask the same, at another time."""


def answers_changed(a: StoredEvaluation, b: StoredEvaluation) -> Iterator[Reason]:
    """Yield who was asked the same again, and answered otherwise."""
    for entry, old, new in changed_artifacts(a, b):
        differ = {change.what.rpartition(".")[2] for change in changes(old.config, new.config)}
        recipes = [(m.inputs, m.versions, m.code_version) for m in (old, new)]
        contents = [(m.digests["all"], m.failures.keys()) for m in (old, new)]
        if recipes[0] == recipes[1] and differ <= _ASKED_AGAIN and contents[0] != contents[1]:
            yield Reason(f"answers of {next(iter(entry.partition.values()), entry.asset)} changed")


def changed_artifacts(
    a: StoredEvaluation, b: StoredEvaluation
) -> Iterator[tuple[SnapshotEntry, Manifest, Manifest]]:
    """Yield the partitions of both whose recipes differ, where both artifacts are still there."""
    before = {entry.key: entry for entry in a.evaluation.entries}
    for entry in b.evaluation.entries:
        earlier = before.get(entry.key, entry)
        if earlier.fingerprint != entry.fingerprint:
            old, new = a.manifest_of(earlier), b.manifest_of(entry)
            if old is not None and new is not None:
                yield entry, old, new


def _told(root: Path, old: Row | None, new: Row, top_k: int | None, split: str | None) -> Row:
    """Return what only artifacts tell of a row of the history; less where they were removed."""
    told: Row = {}
    with suppress(StoreError):
        if not new["complete"]:
            told["failed"] = "; ".join(
                f"{cell['retriever']} failed on {cell['n_failed']} of {cell['n_attempted']} queries"
                for cell in of_split(_opened(root, new).rows_of("leaderboard"), split)
                if cell["n_failed"] and cell["top_k"] == top_k
            )
        is_changed = old is not None and old["content_digest"] != new["content_digest"]
        if old and is_changed and not evaluation_changes(old, new):  # artifacts take a while
            changed = answers_changed(_opened(root, old), _opened(root, new))
            told["answers"] = list(dict.fromkeys(changed))
    return told


def _opened(root: Path, row: Row) -> StoredEvaluation:
    return StoredEvaluation(root, read_evaluation(snapshot_file(root, row["evaluation_id"])))


def history_rows(evaluations: Sequence[Row], values: Iterable[Row], split: str | None) -> list[Row]:
    """Return one row an evaluation and retriever, the oldest first.

    Args:
        evaluations: the oldest first; the first is compared with nothing. ``answers`` (reasons)
            and ``failed`` are what only artifacts tell, where they are still there.
        values: rows of one metric, see :meth:`rag_assets.pipeline.history.History.metric`.
        split: the split to show; None: ``test`` where an evaluation has one, else ``all``.

    Returns:
        Rows with what is known of ``COSTS`` of :mod:`rag_assets.pipeline.history`, and ``change``,
        the difference to the same retriever in the evaluation before; None also where the means are
        not :func:`comparable`, or of another number of queries, because some failed: ``comparable``
        says both (None: there is none before). ``changes`` is a list of what differs from that
        evaluation: mappings of ``what``, ``old`` and ``new``. ``failed`` says who failed in
        an evaluation that is not complete, where it is known.
        An evaluation without the metric has one row, with ``retriever`` and ``value`` None.
    """
    by_id = grouped(values, "evaluation_id")
    rows: list[Row] = []
    before: Row | None = None
    last: dict[tuple[str, str], Row] = {}
    for evaluation in evaluations:
        alike = None if before is None else comparable(before, evaluation)
        reasons = evaluation_changes(before, evaluation) if before else []
        reasons += evaluation.get("answers", ())
        cells = of_split(by_id.get(evaluation["evaluation_id"], []), split)
        for cell in cells or [_NO_CELL]:
            was = last.get((cell["retriever"], cell["split"]))
            same = alike and (was is None or was["n_queries"] == cell["n_queries"])
            change = cell["value"] - was["value"] if same and was is not None else None
            measured = {name: cell[name] for name in _NO_CELL}
            measured |= {name: cell[name] for name in COSTS if cell.get(name) is not None}
            since = {"change": change, "comparable": same, "changes": [*map(asdict, reasons)]}
            since |= {"failed": evaluation["failed"]} if evaluation.get("failed") else {}
            lead = {name: evaluation[name] for name in _LEAD}
            lead["started"] = evaluation["started"].isoformat(timespec="seconds")
            rows.append({**lead, **measured, **since})
        last = {(cell["retriever"], cell["split"]): cell for cell in cells}
        before = evaluation
    return rows


_LEAD = ("evaluation_id", "started", "complete", "trigger", "user", "git_commit")
_NO_CELL: Row = {"retriever": None, "split": None, "value": None, "n_queries": 0}

_COUNTED = ("judge", "split", "weight")
"""Parts of a configuration that say what is judged, and how much each query counts."""


def comparable(old: Row, new: Row) -> bool:
    """Whether two evaluations have the same queries and labels, and count them alike."""
    if any(old[column] != new[column] for column in ("queries_digest", "qrels_digest")):
        return False
    if old["configuration"] == new["configuration"]:
        return True
    was, now = json.loads(old["configuration"]), json.loads(new["configuration"])
    # An evaluation of an older version of the program did not keep its configuration.
    return not was or not now or all(was.get(name) == now.get(name) for name in _COUNTED)


def flat_history_rows(rows: Iterable[Row]) -> list[Row]:
    """Return the same with a text in place of the list: for CSV and Markdown."""
    return [{**row, "changes": changes_text(row["changes"])} for row in rows]


def changes_text(reasons: Iterable[Mapping[str, Any]]) -> str:
    """Return ``k1 1.2 -> 0.9; documents changed``."""
    return "; ".join(Reason(**reason).text for reason in reasons)


def of_split(values: Sequence[Row], split: str | None) -> list[Row]:
    """Return the values of a split; where it is None of ``test``, or else of ``all``."""
    splits = {value["split"] for value in values}
    chosen = split or ("test" if "test" in splits else "all")
    return [value for value in values if value["split"] == chosen]


ID_END = 4
"""So many last characters of an id are shown; `diff` and `gate` take the end of an id."""


def what_changed(row: Mapping[str, Any]) -> str:
    """Return the reasons of an evaluation as text, who failed, and whether it is incomplete."""
    state = [row.get("failed", ""), "" if row["complete"] else "incomplete"]
    return "; ".join(part for part in (changes_text(row["changes"]), *state) if part)


def time_text(row: Mapping[str, Any]) -> str:
    """Return when an evaluation began, to the minute."""
    return str(row["started"])[:16].replace("T", " ")


SCHEMA = pa.schema(
    {
        **{"evaluation_id": pa.string(), "started": pa.timestamp("s", "UTC")},
        "complete": pa.bool_(),
        **dict.fromkeys(("trigger", "user", "git_commit", "retriever", "split"), pa.string()),
        **{"value": pa.float64(), "n_queries": pa.int64()},
        **dict.fromkeys((*COSTS, "change"), pa.float64()),
        **{"comparable": pa.bool_(), "changes": pa.string()},
    }
)
"""Columns of the table; ``changes`` is the text that ``rag-assets history`` prints."""

MAX_DATES = 8
"""Dates below a figure, so that they do not touch."""

MAX_CHARACTERS = 120
"""Characters of what changed that stand at a point of the figure; the table has all."""


class MetricHistory(Tabular):
    """A metric over evaluations; a row is a retriever in an evaluation, the oldest first.

    Attributes:
        experiment: its name.
        source: the metric, with its cut-off.
        rows: see :func:`history_rows`.
    """

    def __init__(self, experiment: str, source: MetricSource, rows: Sequence[Row]) -> None:
        """Hold what was read."""
        self.experiment = experiment
        self.source = source
        self.rows = list(rows)

    @property
    def metric(self) -> Metric:
        """The metric, with its cut-off."""
        return self.source.metric

    @classmethod
    def of(
        cls,
        history: History,
        metric: str | None = None,
        retrievers: Sequence[str] = (),
        split: str | None = None,
        last: int = 10,
    ) -> MetricHistory:
        """Read the last evaluations; all else is as for :func:`rag_assets.history`."""
        if not (evaluations := history.evaluations(last + 1)):
            root = history.root
            raise NotEvaluated(f"{root.name} has no evaluation in {root.parent} yet")
        primary = parse_metric(str(evaluations[-1]["primary_metric"]))
        if metric is None and any(map(is_answerer, retrievers)):
            metric = ANSWER_HEADLINES[0]
        source = named_source(metric, primary)
        source.check_names(retrievers)
        since = str(evaluations[0]["evaluation_id"])
        values = source.history(history, since)
        if metric is None and not values:  # what a sample of labels decides, where there is one
            decided, *_ = sampled_metrics(primary, primary.cutoff or 0)
            sampled = named_source(f"{SAMPLED}{decided}", primary)
            values = sampled.history(history, since)
            source = sampled if values else source
        if not (available := dict.fromkeys(str(row["retriever"]) for row in values)):
            raise NotEvaluated(f"none of these evaluations has a cell of {source.metric}")
        for name in retrievers:
            if name not in available:
                raise UsageError(f"unknown {source.subject} {allowed_names(name, available)}")
        place = itemgetter("evaluation_id", "retriever", "split")
        for cost in COSTS:  # what a query took at the same cut-off
            of_cost = history.metric(cost, source.metric.cutoff or 0, since)
            taken = {place(row): row["value"] for row in of_cost}
            values = [{**row, cost: taken.get(place(row))} for row in values]
        chosen = [row for row in values if not retrievers or row["retriever"] in retrievers]
        for old, new in zip([None, *evaluations[:-1]], evaluations, strict=True):
            new |= _told(history.root, old, new, source.metric.cutoff, split)
        rows = history_rows(evaluations, chosen, split)
        newest = {row["evaluation_id"] for row in evaluations[-last:]}
        rows = [row for row in rows if row["evaluation_id"] in newest]
        return cls(history.root.name, source, rows)

    def to_arrow(self) -> pa.Table:
        """Return a table of :data:`SCHEMA`; of answerers with ``answerer`` for ``retriever``."""
        flat = flat_history_rows(self.rows)
        rows = [{**row, "started": datetime.fromisoformat(row["started"])} for row in flat]
        table = pa.Table.from_pylist(rows, SCHEMA)
        return table.rename_columns(list(self.source.with_subject(dict.fromkeys(SCHEMA.names))))

    @property
    def _groups(self) -> list[list[Row]]:
        """The rows of each evaluation, which stand one after the other."""
        return list(grouped(self.rows, "evaluation_id").values())

    def plot(self, *, over: str | None = None, dark: bool = False) -> go.Figure:
        """Return a line a retriever; only evaluations that can be compared are joined.

        Args:
            over: ``cost_time`` for the metric against the milliseconds of a query in place of the
                evaluations: a path a retriever, from its oldest evaluation to its newest.
            dark: for a dark page.

        Raises:
            UsageError: ``over`` is something else.
            NotEvaluated: no evaluation was timed.
        """
        theme: Theme = "dark" if dark else "light"
        if over not in (None, TIME):
            raise UsageError(f"unknown over {allowed_names(over, [TIME])}")
        if over and not any(TIME in row for row in self.rows):
            raise NotEvaluated(f"no cell of {self.metric} was timed in these evaluations")
        return self._figure(theme, over)

    def _figure(self, theme: Theme, over: str | None = None) -> go.Figure:
        """Return what :meth:`plot` does, for a notebook or the page."""
        groups = self._groups
        latest = [row["retriever"] for group in reversed(groups) for row in group]
        names = list(dict.fromkeys(name for name in latest if name))
        broken = [n for n, group in enumerate(groups) if n and _is_broken(group)]
        looks = [style(n, theme) for n in range(len(names))]
        traces = [_line(groups, *named, over) for named in zip(names, looks, strict=True)]
        metric = plain(str(self.metric))
        title = f"{plain(self.experiment)}: {metric} over {over or 'evaluations'}"
        if over is not None:
            newest = {row["retriever"]: row for row in groups[-1] if row.get(TIME)}
            times = {name: row[TIME] for name, row in newest.items()}
            values = {name: row["value"] for name, row in newest.items()}
            return against_time(str(self.metric), values, times, traces, theme, title)
        step = max(-(-len(groups) // MAX_DATES), 1)
        dated = range(len(groups) - 1, -1, -step)
        line = {"color": colours(theme)["soft"], "dash": "dot", "width": 2}
        across = {"type": "line", "y0": 0, "y1": 1, "yref": "paper", "line": line}
        return figure(
            traces,
            theme,
            title,
            xaxis={
                "tickvals": [n + 1 for n in dated],
                "ticktext": [time_text(groups[n][0]).replace(" ", "<br>") for n in dated],
                **{"tickangle": 0, "showgrid": False, "zeroline": False},
            },
            yaxis={"title": {"text": metric}},
            shapes=[{**across, "x0": n + 0.5, "x1": n + 0.5} for n in broken],
        )

    def sheet(self, rows: Sequence[Row] | None = None, title: str = "") -> Sheet:
        """Return rows as a table, all when absent; of an evaluation time and reasons stand once."""
        lines: list[Row] = []
        for row in self.rows if rows is None else rows:
            is_first = not lines or row["evaluation_id"] != lines[-1]["evaluation_id"]
            texts = (time_text(row), row["evaluation_id"][-ID_END:], what_changed(row))
            lead = zip(("time", "id", "what"), texts if is_first else ("", "", ""), strict=True)
            lines.append({**row, **dict(lead)})
        columns = (
            Column("time", "evaluation", TEXT, min_width=10, missing=""),
            Column("id", "id", TEXT, is_whole=True, missing=""),
            Column("retriever", self.source.subject, TEXT),
            Column("value", str(self.metric), form_of(str(self.metric)), is_required=True),
            replace(COST_TIME, is_sparse=True),
            Column("change", "change", SIGNED, missing=""),
            Column("what", "what changed", TEXT, missing=""),
        )
        return Sheet(title, columns, lines)

    def _sheets(self) -> list[Sheet]:
        """Return a row an evaluation and retriever, the newest evaluation first."""
        rows = [row for group in reversed(self._groups) for row in group]
        sheet = self.sheet(rows, f"{self.experiment}: {self.metric} over evaluations")
        note = "no change: the first value of its name, or other queries, labels or weights"
        return [replace(sheet, notes=[note])]


def _is_broken(rows: Sequence[Row]) -> bool:
    """Whether these rows of an evaluation can be compared with none of the one before."""
    return bool(rows) and all(row["comparable"] is False for row in rows)


def _line(
    groups: list[list[Row]], name: str, drawn: dict[str, str], over: str | None
) -> dict[str, Any]:
    """Return a line over evaluations; over costs the newest point is filled, a dear one large."""
    points: list[tuple[float | None, float | None, str, float]] = []
    most = max((row.get(MONEY, 0) for group in groups for row in group), default=0) or 1
    for n, group in enumerate(groups):
        rows = [row for row in group if row["retriever"] == name]
        if n and (_is_broken(group) or _is_broken(rows)):
            points.append((None if over else n + 0.5, None, "", 9))
        for row in rows:
            size = 9 + (12 * (row.get(MONEY, 0) / most) ** 0.5 if over else 0)
            x = row.get(over) if over else n + 1
            points.append((x, row["value"], _point_text(row, over), size))
    x, y, texts, sizes = zip(*points, strict=True)
    before = f"{drawn['symbol']}-open" if over else drawn["symbol"]
    symbols = [*[before] * (len(points) - 1), drawn["symbol"]]
    return {
        **{**line_trace(name, drawn), "x": x, "y": y},
        "customdata": [[text] for text in texts],
        "marker": {"color": drawn["colour"], "symbol": symbols, "size": sizes},
        "hovertemplate": "%{fullData.name}: %{y:.4f}<br>%{customdata[0]}<extra></extra>",
    }


def _point_text(row: Row, over: str | None) -> str:
    """Return what changed; over costs also what a query took, and when."""
    what = plain(what_changed(row)[:MAX_CHARACTERS])
    money = f", money {row[MONEY]:.4g}" if MONEY in row else ""
    return f"{row[TIME]:.3g} ms{money}<br>{time_text(row)} {what}" if over and TIME in row else what


MAX_POINTS = 50
"""Evaluations in the section of the page, the newest."""


def history(view: EvaluationResult) -> Row | None:
    """Return the section of the page; None without a value of the primary metric.

    An evaluation that changed nothing is no point; ``data`` gives its figure.
    """
    if not view.ranked:
        return None
    past = History(view.root, None)
    states = past.states(view.evaluation.evaluation_id)[-MAX_POINTS:]
    last = sum(name >= min(states, default="") for name in past.ids())
    try:
        metric = MetricHistory.of(past, str(view.primary), last=last)
    except NotEvaluated:  # it is not in the history yet
        return {"sheet": None}
    points = [group for group in metric._groups if group[0]["evaluation_id"] in states]
    metric.rows = [
        row
        for group in points
        for name in view.retrievers
        for row in group
        if row["retriever"] == name
    ]
    if len(metric._groups) < 2:
        return {"sheet": None}
    (sheet,) = metric._sheets()
    rows = [{**row, "what": row["what"] and shortened(row["what"], MAX_WHAT)} for row in sheet.rows]
    is_timed = any(TIME in row for row in metric.rows)
    over = {"history": None, "history-costs": TIME} if is_timed else {"history": None}
    return {
        "sheet": replace(sheet, rows=rows),
        "data": lambda: {n: {"": page_data(metric._figure("page", x))} for n, x in over.items()},
        "has_times": is_timed,
    }


MAX_WHAT = 600
"""Characters of what changed, in the table of the page."""
