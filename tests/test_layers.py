"""A module knows only the layers below its own, and Dagster is known at the top alone."""

from __future__ import annotations

import ast
from fnmatch import fnmatch

from tests.import_graph import PACKAGE, package_imports

LAYERS: tuple[tuple[str, ...], ...] = (
    ("cli*", "definitions", "component", "testing*"),
    ("api", "question_api"),
    ("live*",),
    ("assets*",),
    ("report*",),
    (
        "checks*",
        "judges.beside_people",
        "judges.check",
        "judges.drawn_answers",
        "judges.verdict_export",
        "labels.experiment_pool",
        "labels.generation.from_chunks",
        "retrieval.ask",
    ),
    ("pipeline*",),
    ("*stage",),  # wherever it lies: beside its algorithm and its options
    ("engine*",),
    ("experiment*",),
    ("labels*", "judges*"),
    ("retrieval*",),
    ("query_sets*", "chunking*", "evaluation*", "answers*"),
    ("sources*", "statistics*"),
    ("llm*",),
    ("models*",),
    ("code_versions*",),
    ("compute*", "store*"),
    ("servers*",),
    ("schemas", "ordering", "package_versions", "trec_lines", "options", "plugins", "progress"),
    ("scratch_duckdb", "signal_handlers"),
    ("text_files",),
    ("errors",),
    ("plain_text", "regular_files"),
)
"""From the top to the bottom: names of modules below the package. The first pattern counts."""

DAGSTER = ("cli.*", "component", "definitions", "assets*")
"""Where Dagster may be imported."""

_STAGES = next(number for number, layer in enumerate(LAYERS) if layer == ("*stage",))


def layer_of(module: str) -> int:
    """Return the number of a module's layer, counted from the top.

    ``engine.stage`` is what all stages share, so it is no stage itself.
    """
    name = module.removeprefix(f"{PACKAGE.name}.")
    if fnmatch(name, "*stage") and not name.startswith("engine."):
        return _STAGES
    for number, layer in enumerate(LAYERS):
        if any(fnmatch(name, pattern) for pattern in layer):
            return number
    raise LookupError(f"{module} has no layer: give it a place in LAYERS")


def test_a_module_knows_only_lower_layers() -> None:
    offenders = [
        f"{module} imports {other}"
        for module, others in package_imports().items()
        for other in sorted(others - {PACKAGE.name})
        if module != PACKAGE.name and layer_of(other) < layer_of(module)
    ]
    assert offenders == []


def test_dagster_is_known_at_the_top_alone() -> None:
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(file.relative_to(PACKAGE).with_suffix("").parts)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            known = any(one.partition(".")[0].startswith("dagster") for one in names)
            if known and not any(fnmatch(name, pattern) for pattern in DAGSTER):
                found.append(name)
    assert found == []


COMPUTES = {
    "comparisons",
    "drop_causes",
    "evaluation_pairs",
    "gate",
    "metric_sources",
    "query_changes",
    "value_changes",
    "winner",
}
"""Modules of ``report`` that test or estimate; the others draw, or name what is drawn."""

NAMED = {"comparison_views", "leaderboard", "paper_tables", "view"}
"""Modules that name levels of tests, and whether a difference is significant."""


def test_what_draws_computes_nothing() -> None:
    statistics = {
        module.removeprefix("rag_assets.report.")
        for module, others in package_imports().items()
        if module.startswith("rag_assets.report.")
        and any(other.startswith("rag_assets.statistics") for other in others)
    }
    assert statistics == COMPUTES | NAMED
