"""The whole page: its sections, style and scripts, and what produced the numbers."""

from __future__ import annotations

import hashlib
import shlex
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from markupsafe import Markup

from rag_assets.package_versions import version
from rag_assets.pipeline.evaluations import SnapshotEntry
from rag_assets.report.answers import answers
from rag_assets.report.attribution import stages
from rag_assets.report.charts import charts
from rag_assets.report.comparison_views import significance
from rag_assets.report.findings import chosen_analyzers
from rag_assets.report.history import history
from rag_assets.report.judged import judged
from rag_assets.report.label_health import labels
from rag_assets.report.leaderboard import answerability
from rag_assets.report.overlaps import overlaps
from rag_assets.report.page.environment import PACKAGE, json_block, templates
from rag_assets.report.page.explorer import explorer
from rag_assets.report.page.leaderboard import headline, leaderboard
from rag_assets.report.result import EvaluationResult, Row
from rag_assets.report.sampled import sampled
from rag_assets.report.slices import tag_slices
from rag_assets.store.artifacts import Manifest
from rag_assets.store.canonical import canonical_json

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
    """One part of a section: its id and template, its heading, and what builds its variables."""

    name: str
    title: str
    build: Callable[[EvaluationResult], Row | None]


EXPLORED = frozenset({"charts", "explorer"})
"""Parts that only the page with the explorer has: they need scripts, and texts of documents."""

SECTIONS = {
    "Answer": (
        Part("leaderboard", "Leaderboard", leaderboard),
        Part("sampled", "What a sample of labels says", sampled),
        Part("charts", "Charts", charts),
    ),
    "Comparison": (
        Part("significance", "Which differences are real", significance),
        Part("overlaps", "Overlap between retrievers", overlaps),
    ),
    "By kind of question": (
        Part("slices", "By query tag", tag_slices),
        Part("stages", "Where evidence is lost", stages),
        Part("answerability", "Can scores tell what has no answer?", answerability),
        Part("explorer", "Queries", explorer),
    ),
    "Answers": (
        Part("answers", "Answers", answers),
        Part("judged", "Can the judge be believed?", judged),
    ),
    "What changed": (Part("history", "Over evaluations", history),),
    "How it was made": (
        Part("labels", "Labels and query accounting", labels),
        Part("provenance", "What produced these numbers", provenance),
    ),
}
"""Heading -> parts, in the order of the page; the first of a section is open."""


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
            if (context := part.build(result)) is not None
        ]
        for title, parts in SECTIONS.items()
    }
    data = {
        part.name: json_block(context["data"]())
        for parts in built.values()
        for part, context in parts
        if has_explorer and "data" in context
    }
    script = _script() if has_explorer else ""
    plotly = _plotly() if data.keys() - {"explorer"} else ""
    return (
        templates()
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
