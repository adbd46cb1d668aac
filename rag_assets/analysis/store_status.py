"""What a store holds: its experiments, whether they are up to date, caches, and what is removed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rag_assets.analysis.result import EvaluationResult
from rag_assets.errors import NotEvaluated, RagAssetsError, StoreError
from rag_assets.experiment.load import SOURCE
from rag_assets.pipeline.cleaning import Item
from rag_assets.pipeline.evaluation_names import open_experiment, registered
from rag_assets.pipeline.evaluations import (
    Evaluation,
    all_experiments,
    fetch_experiments,
    pointed,
    read_current,
    source_of_current,
)
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.plan import CHECK, COMPUTE, plan
from rag_assets.pipeline.selection import Selection
from rag_assets.sheets.formats import Row, size_text
from rag_assets.sheets.sheet import SIZE, TEXT, Column, Sheet
from rag_assets.store.settings import StoreSettings

UP_TO_DATE = "up to date"
MADE_IN_PYTHON = "made in Python, and evaluated there"


def status_rows(settings: StoreSettings) -> tuple[list[Row], list[StoreError]]:
    """Return one mapping an experiment, sorted by name, and an error an unreadable evaluation.

    Keys: ``experiment``, ``source``, ``evaluated`` (when, ISO 8601; None: never), ``complete``,
    ``primary``, ``best`` (the retrievers in the first place; more than one where they are equal),
    ``value`` (their primary metric; None without labels), ``compute`` and ``check`` (how many
    artifacts an evaluation would compute, or check), ``problem`` (why that is not known),
    ``anchor`` (id of the pinned evaluation) and ``schedule`` (cron, time zone, and ``stopped``
    where it is).
    """
    fetch_experiments(settings)
    sources = registered(settings)
    names = sorted({*sources, *(root.name for root in all_experiments(settings.store))})
    damage: list[StoreError] = []
    return [_row(settings, name, sources.get(name), damage) for name in names], damage


_KEYS = (
    *("experiment", "source", "evaluated", "complete", "primary", "best", "value"),
    *("compute", "check", "problem", "anchor", "schedule"),
)


def _row(settings: StoreSettings, name: str, source: str | None, damage: list[StoreError]) -> Row:
    root = settings.store / name
    row: Row = {**dict.fromkeys(_KEYS), "best": []}
    row |= {"experiment": name, "source": source or source_of_current(root)}
    try:
        row["anchor"] = pointed(root / "anchor")
        evaluation = read_current(root)
        row |= {"evaluated": evaluation.finished, "complete": evaluation.complete}
        row |= {"primary": evaluation.primary, **_best(root, evaluation)}
    except NotEvaluated:
        pass
    except StoreError as error:
        damage.append(error)
        row["problem"] = str(error)
    if row["source"] == str((root / SOURCE).absolute()):
        # Its retrievers are objects of a program: no file says what it would do now.
        return row | {"problem": row["problem"] or MADE_IN_PYTHON}
    return row | _now(settings, row["source"])


def _best(root: Path, evaluation: Evaluation) -> Row:
    result = EvaluationResult(root, evaluation)
    first = [cell for cell in result.at_cutoff if cell["position"] == 1]
    value = first[0].get(result.primary.column) if first else None
    return {"best": [cell["retriever"] for cell in first], "value": value}


def _now(settings: StoreSettings, source: object) -> Row:
    """Return what an evaluation would do now, and when one is due."""
    try:
        if source is None or not Path(str(source)).exists():
            return {"problem": "its source is gone"}
        experiment = open_experiment(str(source), settings)
        wanted = plan(Pipeline(experiment, settings), Selection.of(experiment))
    except RagAssetsError as error:
        return {"problem": str(error)}
    schedule = experiment.config.schedule
    stopped = ", stopped" if schedule is not None and not schedule.running else ""
    return {
        **{"compute": wanted.count(COMPUTE), "check": wanted.count(CHECK)},
        "schedule": None if schedule is None else f"{schedule.cron} {schedule.timezone}{stopped}",
    }


def status_sheet(rows: Sequence[Row], store: str) -> Sheet:
    """Return a row an experiment."""
    if not rows:
        text = f"no experiment was evaluated in {store} yet: rag-assets evaluate PATH"
        return Sheet("", (), (), notes=[text])
    columns = (
        Column("experiment", "experiment", TEXT, min_width=10),
        Column("evaluated", "evaluated", TEXT, min_width=10),
        Column("best", "best", TEXT),
        Column("now", "now", TEXT),
        Column("anchor", "anchor", TEXT, is_whole=True),  # an id in two lines is nothing to copy
        Column("schedule", "schedule", TEXT),
    )
    lines = [
        {
            **row,
            "evaluated": str(row["evaluated"] or "never")[:16].replace("T", " "),
            "best": _best_text(row),
            "now": now_text(row),
            "anchor": row["anchor"] and str(row["anchor"])[:13],
        }
        for row in rows
    ]
    return Sheet("", columns, lines)


def best_names(row: Row) -> str:
    """Return the retrievers in the first place as a text; empty where there is none."""
    names = row["best"]
    return ", ".join(names) if isinstance(names, list) else ""


def _best_text(row: Row) -> str:
    if not (names := best_names(row)):
        return "-" if row["evaluated"] is None else "no labels"
    text = f"{names} {row['primary']} {row['value']:.4f}"
    return text if row["complete"] else f"{text} (incomplete)"


def now_text(row: Row) -> str:
    """Return ``up to date``, ``3 compute, 10 check``, or why neither is known."""
    if row["problem"] is not None:
        return str(row["problem"])
    amounts = {name: row[name] for name in (COMPUTE, CHECK) if row[name]}
    return ", ".join(f"{n} {name}" for name, n in amounts.items()) or UP_TO_DATE


def removed_sheet(items: Sequence[Item], *, done: bool) -> Sheet:
    """Return a row for each experiment, kind of file and reason, and how large all are."""
    if not items:
        return Sheet("", (), (), notes=["nothing to remove"])
    size = size_text(sum(item.size for item in items))
    columns = (
        *(Column(name, name, TEXT) for name in ("experiment", "what", "why")),
        Column("count", "count", "d"),
        Column("bytes", "size", SIZE),
    )
    note = f"{size} {'removed' if done else 'would be removed'}"
    return Sheet("", columns, removed_rows(items), notes=[note])


def removed_rows(items: Iterable[Item]) -> list[Row]:
    """Return a row for each experiment, kind of file and reason."""
    groups: dict[tuple[str, str, str], list[Item]] = {}
    for item in items:
        groups.setdefault((item.experiment, item.kind, item.reason), []).append(item)
    return [
        {
            **{"experiment": name or None, "what": kind, "why": reason},
            **{"count": len(group), "bytes": sum(item.size for item in group)},
        }
        for (name, kind, reason), group in groups.items()
    ]
