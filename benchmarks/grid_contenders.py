"""The contenders of ``grid.py`` on one collection, each a process that is measured."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import grid_input
from asked_process import AskedProcess
from grid_input import TOP_K, Input
from measured_process import Cost, measured

SCRIPTS = Path(__file__).resolve().parent
OURS, SCRIPT = "rag_assets", "hand-written script"
OURS_STAYS, SCRIPT_STAYS = "rag_assets, process stays", "script, process stays"
LLAMA, CONTEXT = "LlamaIndex", "context-grid"
QUIET = {"HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
MEASURES = ("hit_rate", "mrr", "ndcg", "recall", "precision", "map")

Values = dict[str, dict[str, float]]
"""Retriever -> metric -> mean."""


class Grid:
    """One collection in a folder, and the costs of every contender on it."""

    def __init__(self, folder: Path, given: Input, model: str) -> None:
        self.folder, self.given, self.model = folder, given, model
        self.name = folder.name
        shutil.rmtree(folder, ignore_errors=True)
        grid_input.write(self.folder, given)
        self.write_config(60)
        self.costs: dict[tuple[str, str], list[Cost]] = {}
        self.values: dict[str, Values] = {}
        self.questions: dict[str, int] = {}

    def write_config(self, k: int) -> None:
        """Write our experiment with a ``k`` of the fusion."""
        config = {
            "name": self.name,
            "dataset": {"path": ".", "format": "beir"},
            "chunking": {"whole": {"strategy": "none"}},
            "retrievers": {
                "bm25": {"type": "bm25", "chunking": "whole", "analyzer": "english"},
                "minilm": {"type": "embedding", "chunking": "whole"},
                "hybrid": {"type": "rrf", "inputs": ["bm25", "minilm"], "k": k},
            },
            "top_k": list(TOP_K),
            "metrics": list(MEASURES),
            "primary": "ndcg@10",
        }
        (self.folder / "experiment.yaml").write_text(json.dumps(config), encoding="utf-8")

    def edit(self, number: int) -> None:
        """Add a word to one document, another for each number."""
        file = self.folder / "corpus.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines()
        row = json.loads(lines[number])
        lines[number] = json.dumps({**row, "text": f"{row['text']} edited"})
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def run(self, who: str, what: str, command: list[str], n_questions: int | None = None) -> Cost:
        """Run a contender, note and print what it cost."""
        cost = measured(command, QUIET)
        self.note(who, what, cost, n_questions)
        return cost

    def note(self, who: str, what: str, cost: Cost, n_questions: int | None = None) -> None:
        """Keep and print what something cost."""
        self.costs.setdefault((who, what), []).append(cost)
        self.questions[who] = n_questions or len(self.given.queries)
        told = f"{cost.wall:8.2f} s wall {cost.cpu:8.2f} s CPU {cost.peak / 1e9:6.2f} GB"
        click.echo(f"{self.name:<10} {who:<26} {what:<20} {told}")

    def ours(self, what: str) -> None:
        """Evaluate by this package."""
        command = [sys.executable, "-m", "rag_assets.cli", "evaluate", str(self.folder)]
        store = ["--store", str(self.folder / "store"), "--quiet", "--format", "json"]
        cost = self.run(OURS, what, [*command, *store])
        self.values.setdefault(OURS, our_values(json.loads(cost.printed)))

    def ours_cold(self) -> None:
        """Evaluate by this package with an empty store."""
        shutil.rmtree(self.folder / "store", ignore_errors=True)
        self.ours("cold")

    def script(self) -> None:
        """Evaluate by the hand-written script."""
        command = [sys.executable, str(SCRIPTS / "hand_written.py"), str(self.folder), self.model]
        self.values[SCRIPT] = last_line(self.run(SCRIPT, "cold", [*command, "60"]))

    def llama_index(self, python: Path, n_questions: int) -> None:
        """Evaluate by LlamaIndex, a sample of the questions."""
        given, folder = grid_input.sample(self.given, n_questions), self.folder / "sample"
        grid_input.write(folder, given)
        command = [str(python), str(SCRIPTS / "with_llama_index.py"), str(folder), self.model]
        self.values[LLAMA] = last_line(self.run(LLAMA, "cold", command, len(given.queries)))

    def context_grid(self, python: Path, what: str, k: int = 60) -> None:
        """Evaluate by context-grid, with what its cache holds."""
        command = [str(python), str(SCRIPTS / "with_context_grid.py"), str(self.folder), self.model]
        cost = self.run(CONTEXT, what, [*command, str(self.folder / "cache"), str(k)])
        self.values.setdefault(CONTEXT, last_line(cost))

    def staying(self, repeats: int) -> None:
        """Evaluate by this package and by the script, each in one process, after changes.

        The first evaluation of each imports its packages and loads the model; it is not noted.
        """
        with (
            closing(self._process(OURS, str(self.folder / "store"))) as ours,
            closing(self._process("script", self.model)) as script,
        ):
            self.edit(repeats)
            ours.ask(k=60)
            script.ask(k=60)
            for number in range(repeats):
                self.note(OURS_STAYS, "no change", Cost(**ours.ask(k=60)))
                self.write_config(30 + number)
                self.note(OURS_STAYS, "another k", Cost(**ours.ask(k=30 + number)))
                self.edit(repeats + 1 + number)
                self.note(OURS_STAYS, "an edited document", Cost(**ours.ask(k=30 + number)))
                self.note(SCRIPT_STAYS, "any change", Cost(**script.ask(k=30 + number)))

    def _process(self, who: str, other: str) -> AskedProcess:
        script = str(SCRIPTS / "staying.py")
        return AskedProcess([sys.executable, script, who, str(self.folder), other], QUIET)

    def changes(self, repeats: int) -> None:
        """Evaluate by this package without a change, then with another k, then another text."""
        for number in range(repeats):
            self.ours("no change")
            self.write_config(10 + number)
            self.ours("another k")
            self.edit(number)
            self.ours("an edited document")


def our_values(rows: list[dict[str, Any]]) -> Values:
    """Return what ``evaluate --format json`` printed."""
    found: Values = {}
    for row in rows:
        metrics = {f"{name}@{row['top_k']}": row[name] for name in row if name in MEASURES}
        found.setdefault(row["retriever"], {}).update(metrics)
    return found


def last_line(cost: Cost) -> Values:
    """Return what a script printed."""
    found: Values = json.loads(cost.printed.splitlines()[-1])
    return found
