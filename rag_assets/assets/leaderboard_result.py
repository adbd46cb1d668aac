"""What a person looks for at the leaderboard: who wins, what changed, and the worst questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import dagster as dg

from rag_assets.errors import RagAssetsError
from rag_assets.pipeline.evaluation_names import EvaluationNames
from rag_assets.pipeline.evaluation_record import snapshot
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.plain_text import markdown, one_line
from rag_assets.report.evaluation_pairs import EvaluationPair
from rag_assets.report.formats import four_places, p_text
from rag_assets.report.result import EvaluationResult
from rag_assets.report.value_changes import last_other, pair_with, value_changes, worst_questions
from rag_assets.report.view import View
from rag_assets.report.winner import winner_of

QUESTION_CHARACTERS = 120

Metadata = dict[str, dg.MetadataValue]


def result_of(pipeline: Pipeline) -> Metadata:
    """Return what stands above all else of a materialization of the leaderboard.

    ``winner`` is Markdown, ``change`` a row for each retriever that the evaluation
    before had too, the one that fell most first, ``worst_questions`` those of the best retriever:
    what lost most comes first, then what has least.
    """
    now = snapshot(pipeline, started=datetime.now(UTC))
    view = View(EvaluationResult(pipeline.root, now))
    winner = winner_of(view)
    if winner is None:
        return {"winner": dg.MetadataValue.text("Nobody has a value of the primary metric.")}
    title, *sentences = (markdown(one_line(text)) for text in (winner.title, *winner.sentences))
    text = "\n\n".join([f"**{title}**", *sentences])
    shown: Metadata = {"winner": dg.MetadataValue.md(text)}
    try:
        before = last_other(EvaluationNames(pipeline.settings, pipeline.root.name), now)
        pair = pair_with(before, view.result) if before is not None else None
    except RagAssetsError as error:
        pair = None
        shown["change"] = dg.MetadataValue.text(one_line(f"not known: {error}"))
    if pair is not None:
        shown |= _change(pair)
    return shown | _worst(view.result, winner.best, view.split, pair)


def _change(pair: EvaluationPair) -> Metadata:
    changes = value_changes(pair)
    if not changes:
        return {}
    rows: list[Mapping[str, str | int]] = [
        {
            "retriever": one.retriever,
            "before": four_places(one.old),
            "now": four_places(one.new),
            "change": f"{one.new - one.old:+.4f}",
            "p": p_text(one.p),
            "lost": one.n_lost,
        }
        for one in changes
    ]
    started = pair.old.evaluation.started[:16].replace("T", " ")
    since = dg.MetadataValue.text(f"{started} UTC, by {pair.metric}")
    return {"change": _table(rows), "change_since": since}


def _worst(
    result: EvaluationResult, retriever: str, split: str, pair: EvaluationPair | None
) -> Metadata:
    rows = [
        {
            "query_id": one_line(one.query_id),
            "before": "" if one.old is None else four_places(one.old),
            "now": four_places(one.new),
            "question": _short(one_line(one.text)),
        }
        for one in worst_questions(result, retriever, split, pair)
    ]
    return {"worst_questions": _table(rows)} if rows else {}


def _short(text: str) -> str:
    return text if len(text) <= QUESTION_CHARACTERS else f"{text[:QUESTION_CHARACTERS]}…"


def _table(rows: Sequence[Mapping[str, str | int]]) -> dg.MetadataValue:
    columns = [
        dg.TableColumn(name, "int" if isinstance(value, int) else "string")
        for name, value in rows[0].items()
    ]
    records = [dg.TableRecord(dict(row)) for row in rows]
    return dg.MetadataValue.table(records, dg.TableSchema(columns))
