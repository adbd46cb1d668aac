"""What stands below the name of an asset: one short line, and where to find more.

``dg list defs`` shows descriptions of assets in a column of 16 characters, so theirs is one clause;
the rest is in their metadata.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import dagster as dg

from rag_assets.assets.names import report_job_name
from rag_assets.assets.reported_versions import knows_nothing
from rag_assets.errors import UsageError
from rag_assets.experiment.experiment import Experiment
from rag_assets.report.html import report_path
from rag_assets.store.settings import StoreSettings

LINE_CHARACTERS, CLAUSE_CHARACTERS = 64, 40

VARIABLE = "RAG_ASSETS_REPORTS"
"""Environment variable: the address below which the reports are served."""

_FIRST_SEEN = ("documents", "leaderboard")
"""Where a graph begins, and what people look for."""


def first_clause(text: str) -> str:
    """Return a text up to its first colon, semicolon or comma, where it is longer than a clause."""
    return text if len(text) <= CLAUSE_CHARACTERS else re.split(r"[:;,] ", text, maxsplit=1)[0]


def first_line(text: str) -> str:
    """Return a text with a line end behind a clause, where its first line can be short by that.

    Markdown shows it as it was.
    """
    if len(text) <= LINE_CHARACTERS:
        return text
    ends = [found.end() for found in re.finditer(r"[.:;] ", text)]
    if text.count(", ") == 1:  # several are a list
        ends.append(text.index(", ") + 2)
    end = min(ends, default=0)
    return f"{text[: end - 1]}\n{text[end:]}" if 0 < end <= LINE_CHARACTERS + 2 else text


def described(
    assets: Sequence[dg.AssetsDefinition], experiment: Experiment, settings: StoreSettings
) -> list[dg.AssetsDefinition]:
    """Return the assets, with a link to the report, and what to do where Dagster knows nothing.

    Raises:
        UsageError: ``RAG_ASSETS_REPORTS`` is no address.
    """
    link = _report_link(experiment)
    hint = (
        f"When this code location was loaded, the store had an evaluation that Dagster was not "
        f"told of: launch the job `{report_job_name(experiment)}`, which computes nothing."
        if knows_nothing(settings, experiment.name)
        else None
    )

    def with_notes(spec: dg.AssetSpec) -> dg.AssetSpec:
        asset = spec.key.path[-1]
        notes = [link if asset == "leaderboard" else None, hint if asset in _FIRST_SEEN else None]
        parts = [spec.description, *notes]
        return spec.replace_attributes(description="\n\n".join(part for part in parts if part))

    return list(dg.map_asset_specs(with_notes, assets))


def _report_link(experiment: Experiment) -> str | None:
    address = os.environ.get(VARIABLE)
    if not address:
        return None
    if re.fullmatch(r"https?://[^\s()<>\[\]]+", address) is None:
        raise UsageError(f"{VARIABLE} must begin with http:// or https://; found {address!r}")
    return f"[Open the report]({address.rstrip('/')}/{report_path(experiment.name)})"
