"""The whole page: its sections, its style and scripts, and what it says about itself."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources

from markupsafe import Markup

from rag_assets.report.answerability import answerability
from rag_assets.report.answers import answers
from rag_assets.report.attribution import stages
from rag_assets.report.comparison_views import significance
from rag_assets.report.history import history
from rag_assets.report.judged import judged
from rag_assets.report.label_health import labels
from rag_assets.report.overlaps import overlaps
from rag_assets.report.page.environment import PACKAGE, glossary, json_block, templates
from rag_assets.report.page.explorer import explorer
from rag_assets.report.page.first_hits import first_hits
from rag_assets.report.page.leaderboard import charts, headline, leaderboard
from rag_assets.report.provenance import provenance
from rag_assets.report.result import EvaluationResult
from rag_assets.report.sampled import sampled
from rag_assets.report.slices import tag_slices
from rag_assets.report.view import Context, View

STYLES = ("page.css", "tables.css", "charts.css", "explorer.css", "print.css")
SCRIPTS = (
    "elements.js",
    "sorting.js",
    "palette.js",
    "charts.js",
    "flows.js",
    "history.js",
    "explorer_data.js",
    "explorer_results.js",
    "explorer_answers.js",
    "explorer.js",
    "downloads.js",
    "start.js",
)


@dataclass(frozen=True)
class Section:
    """One section: its id and template, its heading, and what builds its variables."""

    name: str
    title: str
    build: Callable[[View], Context | None]


SECTIONS = (
    Section("leaderboard", "Leaderboard", leaderboard),
    Section("charts", "Charts", charts),
    Section("significance", "Which differences are real", significance),
    Section("slices", "By query tag", tag_slices),
    Section("stages", "Where evidence is lost", stages),
    Section("answers", "Answers", answers),
    Section("judged", "Can the judge be believed?", judged),
    Section("sampled", "What a sample of labels says", sampled),
    Section("answerability", "Can scores tell what has no answer?", answerability),
    Section("explorer", "Queries", explorer),
    Section("first_hits", "Questions and what was found", first_hits),
    Section("overlaps", "Overlap between retrievers", overlaps),
    Section("history", "Over evaluations", history),
    Section("labels", "Labels and query accounting", labels),
    Section("provenance", "What produced these numbers", provenance),
    Section("glossary", "Words used here", glossary),
)
"""In the order of the page."""

SMALL = frozenset({"leaderboard", "significance", "slices", "overlaps", "labels", "glossary"})
"""Sections of the small page: tables alone, without scripts, charts and texts of documents."""


def page(result: EvaluationResult, identity: str, *, small: bool = False) -> str:
    """Return the HTML; all text from data is escaped.

    Args:
        result: the evaluation.
        identity: what the page is made of, see :mod:`rag_assets.report.html`.
        small: the sections of :data:`SMALL` only, to be sent by mail.
    """
    view = View(result)
    sections = [section for section in SECTIONS if not small or section.name in SMALL]
    built = [(section, section.build(view)) for section in sections]
    shown = [(section, context) for section, context in built if context is not None]
    data = {
        section.name: json_block(context["data"])
        for section, context in shown
        if "data" in context and not small
    }
    script = "" if small else _script()
    plotly = _plotly() if data else ""
    return (
        templates()
        .get_template("page.html")
        .render(
            view=view,
            evaluation=result.evaluation,
            head=headline(view),
            sections=shown,
            data=data,
            style=Markup("\n".join(_file("style", name) for name in STYLES)),
            plotly=Markup(plotly),
            script=Markup(script),
            script_hashes=[_hash(text) for text in (plotly, script) if text],
            identity=identity,
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
