"""The whole page: its headline, sections, style and scripts, and what produced the numbers."""

from __future__ import annotations

import hashlib
import shlex
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from markupsafe import Markup

from rag_assets.analysis.answers import answer_sheets, answers, threshold_sheets
from rag_assets.analysis.attribution import stages
from rag_assets.analysis.charts import charts
from rag_assets.analysis.comparisons import robustness_sheets, significance, stored_verdict
from rag_assets.analysis.findings import chosen_analyzers, mean_name
from rag_assets.analysis.history import history
from rag_assets.analysis.judged import headline_sheets, judged
from rag_assets.analysis.label_health import labels
from rag_assets.analysis.leaderboard import answerability, board_sheet, not_averaged
from rag_assets.analysis.online import online_sheets
from rag_assets.analysis.overlaps import overlaps
from rag_assets.analysis.result import EvaluationResult, Row
from rag_assets.analysis.sampled import decisive_sheets, sampled
from rag_assets.analysis.slices import tag_slices
from rag_assets.analysis.studies import studies
from rag_assets.analysis.winner import winner_of
from rag_assets.package_versions import version
from rag_assets.pipeline.evaluations import SnapshotEntry
from rag_assets.report.page.explorer import explorer
from rag_assets.sheets.environment import escaped_json, meaning, templates
from rag_assets.sheets.formats import interval_name, interval_text
from rag_assets.sheets.sheet import Sheet
from rag_assets.store.artifacts import Manifest
from rag_assets.store.canonical import canonical_json

PACKAGE = "rag_assets.report.page"

STYLES = ("page.css", "tables.css", "charts.css", "explorer.css", "print.css")
SCRIPTS = (
    "elements.js",
    "sorting.js",
    "charts.js",
    "explorer_data.js",
    "explorer_results.js",
    "explorer_answers.js",
    "explorer.js",
    "start.js",
)

TOKENS = "how much text the results add to a prompt; a token is about three quarters of a word"


def headline(result: EvaluationResult) -> Row:
    """Return the parts of the sentence and its evidence.

    It says which retriever to use, or that nobody can tell yet, and what is known.

    Keys: ``winner`` (the leaderboard row of the best, or None), ``answer`` (see
    :mod:`rag_assets.analysis.winner`), ``next`` (of a winner, the verdict on it and the next best),
    ``facts`` (label and value of the best's numbers), ``not_averaged`` (how many queries are in no
    mean, and why), ``weighted``.
    """
    weighted = mean_name(result) != "mean"
    answer = winner_of(result)
    if answer is None:
        return {"winner": None, "weighted": weighted}
    following, proven = [row["retriever"] for row in result.ranked[1:2]], answer.proven
    return {
        "winner": result.ranked[0],
        "answer": answer,
        "next": stored_verdict(result.comparisons, answer.best, *following) if proven else None,
        "facts": _facts(result, result.ranked[0]),
        "not_averaged": not_averaged(result.ranked[0]),
        "weighted": weighted,
    }


def _facts(result: EvaluationResult, winner: Row) -> list[Row]:
    name = winner["retriever"]
    interval = result.intervals.get((name, result.cutoff, result.primary.column))
    bounds = ""
    if interval is not None and interval["low"] is not None:
        bounds = f"{interval_name(interval['confidence'])} {interval_text(interval)}"
    value = f"{winner[result.primary.column]:.4f}"
    facts = [_fact(result.evaluation.primary, value, bounds, meaning(result.primary.column))]
    if name in result.speed:
        note = "median time of a single query, with every step included"
        facts.append(_fact("a query", milliseconds(result.speed[name]), note))
    if "tokens" in winner:
        note = f"mean of the {result.cutoff} texts returned"
        facts.append(_fact("tokens of context", f"{winner['tokens']:,.0f}", note, TOKENS))
    left_out = not_averaged(winner)
    note = f"not averaged: {left_out}" if left_out else "all have a relevant label"
    facts.append(_fact("queries averaged", f"{winner['n_queries']:,}", note))
    return facts


def _fact(name: str, value: str, note: str, meaning: str = "") -> Row:
    return {"name": name, "value": value, "note": note, "meaning": meaning}


def milliseconds(value: float) -> str:
    """Return a time with three digits, never as a power of ten: ``0.29 ms``, ``2,240 ms``."""
    return f"{float(f'{value:.3g}'):,.0f} ms" if value >= 100 else f"{value:.3g} ms"


def leaderboard(result: EvaluationResult) -> Row | None:
    """Return a sheet a cut-off, the primary one first; None without labels."""
    if not result.has_metrics:
        return None
    order = sorted(result.cutoffs, key=lambda k: (k != result.cutoff, k))
    rows_of = {k: [row for row in result.rows if row["top_k"] == k] for k in order}
    return {"boards": [(k, board_sheet(result, rows, "")) for k, rows in rows_of.items()]}


def provenance(view: EvaluationResult) -> Row:
    """Return all of it; a configuration of a cell is shown once a retriever."""
    evaluation = view.evaluation
    versions: dict[str, set[str]] = {"rag-assets": {version("rag-assets")}}
    configs: dict[str, str] = {}
    for entry, manifest in _manifests(view):
        for name, value in manifest.versions.items():
            versions.setdefault(name, set()).add(value)
        if manifest.config:
            configs.setdefault(_shared(entry), canonical_json(manifest.config))
    return {
        "command": f"rag-assets evaluate {shlex.quote(_place(evaluation.source))}",
        "versions": [(name, sorted(values)) for name, values in sorted(versions.items())],
        "searches": _searches(view),
        "analyzers": chosen_analyzers(view),
        "configs": configs,
        "content": evaluation.content,
    }


def _place(source: str) -> str:
    """Return where an experiment lies without the folders of the machine that evaluated it."""
    path = Path(source)
    folder = path.parent.name
    return folder if path.name == "experiment.yaml" and folder else f"{folder}/{path.name}"


def _manifests(view: EvaluationResult) -> Iterator[tuple[SnapshotEntry, Manifest]]:
    """Yield the manifests; of the cells of one retriever, which differ in their cut, the first."""
    seen = set()
    for entry in view.evaluation.entries:
        if _shared(entry) not in seen:
            seen.add(_shared(entry))
            manifest = view.manifest_of(entry)
            if manifest is not None:
                yield entry, manifest


def _searches(view: EvaluationResult) -> dict[str, list[str]]:
    """Return each search that is not ours: since when its answers are believed, and what else."""
    notes: dict[str, list[str]] = {}
    for asset in ("external_rankings", "external_hits"):
        for entry, manifest in view.manifests_of(asset):
            of_search = notes.setdefault(entry.partition["retriever"], [])
            of_search += manifest.facts.get("notes", [])
    return notes


def _shared(entry: SnapshotEntry) -> str:
    return " ".join([entry.asset, *(v for n, v in entry.partition.items() if n != "top_k")])


@dataclass(frozen=True)
class Part:
    """One part of a section.

    Attributes:
        name: its id, and that of its template, if it has one.
        title: its heading.
        build: returns the variables of the template, or None: the part is left out. A part without
            it has its ``sheets`` alone.
        sheets: what stands below the leaderboard in a terminal and in a notebook.
    """

    name: str
    title: str
    build: Callable[[EvaluationResult], Row | None] | None = None
    sheets: Callable[[EvaluationResult], Sequence[Sheet]] = lambda result: ()

    def variables(self, result: EvaluationResult) -> Row | None:
        """Return what its template shows; None: nothing."""
        if self.build is not None:
            return self.build(result)
        return {"sheets": sheets} if (sheets := self.sheets(result)) else None


EXPLORED = frozenset({"charts", "explorer"})
"""Parts that only the page with the explorer has: they need scripts, and texts of documents."""

SECTIONS = {
    "Answer": (
        Part("leaderboard", "Leaderboard", leaderboard),
        Part("sampled", "Estimates from a sample of labels", sampled, decisive_sheets),
        Part("charts", "Charts", charts),
    ),
    "Comparison": (
        Part("significance", "Which differences are real", significance),
        Part("studies", "Over a parameter", studies),
        Part("robustness", "On perturbed queries", sheets=robustness_sheets),
        Part("overlaps", "Overlap between retrievers", overlaps),
        Part("online", "What users did", sheets=online_sheets),
    ),
    "By kind of question": (
        Part("slices", "By query tag", tag_slices),
        Part("stages", "Where evidence is lost", stages),
        Part("answerability", "Can scores detect questions without an answer?", answerability),
        Part("explorer", "Queries", explorer),
    ),
    "Answers": (
        Part("answers", "Answers", answers, answer_sheets),
        Part("refusals", "When to refuse", sheets=threshold_sheets),
        Part("judged", "Can the judge be trusted?", judged, headline_sheets),
    ),
    "What changed": (Part("history", "Over evaluations", history),),
    "How it was made": (
        Part("labels", "Labels and query accounting", labels),
        Part("provenance", "What produced these numbers", provenance),
    ),
}
"""Heading -> parts, in the order of the page; the first of a section is open.

A table of all faces is one line here, beside the module of its topic.
"""


def sheets_below(result: EvaluationResult) -> list[Sheet]:
    """Return what stands below a leaderboard, or alone without labels, where text is read."""
    every = (part for parts in SECTIONS.values() for part in parts)
    return [sheet for part in every for sheet in part.sheets(result)]


def page(result: EvaluationResult, identity: str, *, has_explorer: bool = False) -> str:
    """Return the HTML; all text from data is escaped.

    Args:
        result: the evaluation.
        identity: what the page is made of, see :mod:`rag_assets.report.html`.
        has_explorer: whether the parts of :data:`EXPLORED` are on it, with scripts.
    """
    built = {
        title: [
            (part, context)
            for part in parts
            if has_explorer or part.name not in EXPLORED
            if (context := part.variables(result)) is not None
        ]
        for title, parts in SECTIONS.items()
    }
    data = {
        part.name: Markup(escaped_json(context["data"]()))
        for parts in built.values()
        for part, context in parts
        if has_explorer and "data" in context
    }
    script = _script() if has_explorer else ""
    plotly = _plotly() if data.keys() - {"explorer"} else ""
    return (
        templates(PACKAGE)
        .get_template("page.html")
        .render(
            view=result,
            evaluation=result.evaluation,
            head=headline(result),
            sections={title: parts for title, parts in built.items() if parts},
            data=data,
            style=Markup("\n".join(_file("style", name) for name in STYLES)),
            plotly=Markup(plotly),
            script=Markup(script),
            script_hashes=[_hash(text) for text in (plotly, script) if text],
            identity=identity,
            explored=EXPLORED,
        )
    )


def _file(*path: str) -> str:
    return resources.files(PACKAGE).joinpath(*path).read_text(encoding="utf-8")


def _script() -> str:
    """Return the page's own script; no name of it is seen outside."""
    body = "\n".join(_file("script", name) for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{body}\n}})();'


@cache
def _plotly() -> str:
    """Return plotly's script; nothing in it ends the element that it is written into."""
    path = resources.files("plotly").joinpath("package_data", "plotly.min.js")
    return path.read_text(encoding="utf-8").replace("</script", "<\\/script")


def _hash(script: str) -> str:
    """Return what a content security policy allows one script by."""
    return f"sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
