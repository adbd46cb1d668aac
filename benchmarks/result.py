"""What a benchmark found, as one JSON file: tables, limits, the machine, and versions.

``page.py`` writes docs/benchmarks.md from the files in ``benchmarks/results``.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import page

from rag_assets.package_versions import version

RESULTS = Path(__file__).resolve().parent / "results"

Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """Rows that are shown as they are; numbers are rounded by the page.

    Attributes:
        caption: a sentence: what the rows are, and the units.
        columns: names of the columns.
        rows: one value a column each.
    """

    caption: str
    columns: list[str]
    rows: list[list[Cell]]


@dataclass(frozen=True)
class Limit:
    """A value beside what was aimed at.

    Attributes:
        what: what was measured, in words.
        value: what came out.
        aim: what it must not be above, or with ``at_least`` not below.
        unit: ``x``, ``s``, ``GB``, ``%`` ...
        at_least: whether more is better.
    """

    what: str
    value: float
    aim: float
    unit: str
    at_least: bool = False

    @property
    def kept(self) -> bool:
        """Whether the aim was reached."""
        return self.value >= self.aim if self.at_least else self.value <= self.aim


@dataclass
class Result:
    """What one script measured.

    Attributes:
        name: the script's name, and that of the file.
        title: a heading.
        command: how to measure it again.
        tables: what was measured.
        limits: what was aimed at.
        notes: sentences that a reader of the tables needs.
        versions: package -> version, also of those in other environments.
    """

    name: str
    title: str
    command: str
    tables: list[Table] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)

    def of_packages(self, names: Sequence[str]) -> None:
        """Note the versions of packages of this environment."""
        self.versions |= {name: version(name) for name in names}

    def write(self, file: Path | None = None) -> Path:
        """Print limits and write the JSON file; by default ``results/NAME.json`` and the page."""
        for limit in self.limits:
            bound = "at least" if limit.at_least else "at most"
            verdict = "ok" if limit.kept else "MISSED"
            told = f"{limit.value:.4g} {limit.unit}, aim {bound} {limit.aim:g} {limit.unit}"
            click.echo(f"{limit.what}: {told}: {verdict}")
        path = RESULTS / f"{self.name}.json" if file is None else file
        path.parent.mkdir(parents=True, exist_ok=True)
        found = {**asdict(self), "machine": machine(), "when": f"{datetime.now(UTC):%Y-%m-%d}"}
        path.write_text(f"{json.dumps(found, indent=1)}\n", encoding="utf-8")
        if file is None:
            page.main()  # it always says what the results say
        return path


def machine() -> dict[str, Any]:
    """Return the processor, as far as the system tells, and how busy it was."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "bfloat16_instructions": any("bf16" in line for line in lines),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "load": round(os.getloadavg()[0], 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
