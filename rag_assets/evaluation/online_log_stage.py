"""``online_log``: what users of a production search were shown, clicked and voted.

Searches and clicks are JSON lines in any order, in one file or two, as OpenSearch's User Behavior
Insights 1.3.0 declares them (https://github.com/o19s/ubi, ``schema/1.3.0``). Exports of its
``ubi_queries`` and ``ubi_events`` may be documents, hits with a ``_source`` or lines of a bulk
request; a log of one's own needs these keys alone:

    {"query_id": "i1", "client_id": "ada", "timestamp": "2026-03-01T09:30:00Z",
     "query_response_hit_ids": ["d3", "d1"], "query_attributes": {"retriever": "bm25"}}
    {"action_name": "click", "query_id": "i1", "event_attributes": {"object": {"object_id": "d1"}}}

``query_id`` is that of the search, not of a question. Without a ``retriever`` it is the
``application``. An interleaved list has ``retrievers``, both names, and ``teams``, for each result
0 or 1: which of them it was taken from. A search without a ``client_id`` is a user of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.experiment.experiment import Experiment
from rag_assets.labels.label_import import read_votes
from rag_assets.schemas import ONLINE_LOG
from rag_assets.sources.fields import Id, Place, Row, Text, Time, declared, read_time, shown
from rag_assets.sources.row_files import read_objects
from rag_assets.store.artifacts import ArtifactKey


class OnlineLog(Stage):
    """Searches, clicks and votes of users; no other stage uses them as labels."""

    name = "online_log"
    made_for = "online"
    schema = ONLINE_LOG
    row = "One search of a user with its clicks, or one vote on a passage or an answer."
    group = "online"

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return []

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        online = context.experiment.online
        files = {} if online is None else online.files()
        return {f"file.{name}": context.file_digest(file) for name, file in files.items()}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        online = context.experiment.online
        files = {} if online is None else {**online.files()}
        votes = read_votes(files.pop("feedback")) if "feedback" in files else []
        searches, n_unmatched = read_searches(files.values())
        facts = {"clicks_on_nothing_shown": n_unmatched}
        return TableProduct(ONLINE_LOG.from_rows([*searches, *votes]), facts)


class _Maker(msgspec.Struct):
    retriever: Id | None = None
    retrievers: tuple[Id, Id] | None = None
    teams: list[Literal[0, 1]] | None = None


class _Query(msgspec.Struct):
    query_id: Id
    timestamp: Time
    query_response_hit_ids: Annotated[list[Id], Meta(description="a list of ids")] | None = None
    client_id: Id | None = None
    application: Id | None = None
    query_attributes: (
        Annotated[_Maker, Meta(description="`retriever`, or two `retrievers` and `teams`")] | None
    ) = None


class _Object(msgspec.Struct):
    object_id: Id


class _Attributes(msgspec.Struct):
    object: _Object | None = None


class _Event(msgspec.Struct):
    action_name: Text
    query_id: Id | None = None
    event_attributes: Annotated[_Attributes, Meta(description="`object.object_id`")] | None = None


def read_searches(files: Iterable[Path]) -> tuple[list[dict[str, Any]], int]:
    """Return a row a search, with the ranks clicked; and clicks on what no search returned.

    Raises:
        DataError: a line breaks the format, or a search occurs twice; names file, line and key.
    """
    rows: dict[str, dict[str, Any]] = {}
    clicks: list[tuple[str, str]] = []
    for file in files:
        for place, line in read_objects(file):
            row = line["_source"] if isinstance(line.get("_source"), dict) else line
            if "action_name" in row:
                event = declared(row, _Event, place)
                clicked = event.event_attributes and event.event_attributes.object
                if event.action_name in ("click", "click_through") and clicked:
                    clicks.append((str(event.query_id), str(clicked.object_id)))
            elif not row.keys() <= {"index", "create"}:  # a bulk request names an index
                search = _search(row, place)
                if rows.setdefault(search["id"], search) is not search:
                    raise place.error(f"{shown(search['id'])} occurs twice", "query_id")
    n_unmatched = 0
    for name, result in clicks:
        results = rows[name]["results"] if name in rows else []
        if result not in results:
            n_unmatched += 1
        elif (rank := results.index(result) + 1) not in rows[name]["clicks"]:
            rows[name]["clicks"].append(rank)
    return [rows[name] for name in sorted(rows)], n_unmatched


def _search(row: Row, place: Place) -> dict[str, Any]:
    line = declared(row, _Query, place)
    maker, results = line.query_attributes or _Maker(), line.query_response_hit_ids or []
    names = maker.retrievers or (maker.retriever or line.application,)
    problem = "needs a `retriever`, or two `retrievers`" if None in names else ""
    if len(names) == 2 and len(maker.teams or ()) != len(results):
        problem = f"`teams` must be {len(results)} items, one a result"
    if problem or len(set(names)) < len(names):
        raise place.error(problem or "both `retrievers` are the same", "query_attributes")
    user = f"of search {line.query_id}" if line.client_id is None else str(line.client_id)
    time = read_time(line.timestamp, place, "timestamp")
    lead = {"kind": "search", "id": str(line.query_id), "names": list(map(str, names))}
    rest = {"results": list(map(str, results)), "teams": maker.teams or [], "clicks": []}
    return {**lead, "user": user, "at": time, "count": 1, **rest}
