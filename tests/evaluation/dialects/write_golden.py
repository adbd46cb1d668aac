"""Writes golden.json: what the real packages say of the samples.

Run from the repository's root with an interpreter that has the package, once for each tool:

    python -m tests.evaluation.dialects.write_golden ragas

It renews the section of that tool; the samples and the sections of others stay as they are.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path

from tests.evaluation.dialects.tools import TOOLS

GOLDEN = Path(__file__).with_name("golden.json")


def write(tool: str) -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    distribution, numbers = TOOLS[tool]
    golden["tools"][tool] = {
        "package": distribution,
        "version": version(distribution),
        "numbers": {
            name: numbers(sample)
            for name, sample in golden["samples"].items()
            if tool in sample["tools"]
        },
    }
    golden = {"samples": golden["samples"], "tools": dict(sorted(golden["tools"].items()))}
    GOLDEN.write_text(_short(golden) + "\n", encoding="utf-8")


def _short(value: object, depth: int = 0) -> str:
    """JSON with one line for each metric of each sample."""
    if not isinstance(value, dict) or depth >= 5 or not value:
        return json.dumps(value)
    indent = " " * (depth + 1)
    lines = [f"{indent}{json.dumps(key)}: {_short(item, depth + 1)}" for key, item in value.items()]
    return "{\n" + ",\n".join(lines) + "\n" + " " * depth + "}"


if __name__ == "__main__":
    write(sys.argv[1])
