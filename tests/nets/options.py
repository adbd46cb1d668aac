"""Which partitions a change of one option makes anew, for every option of every type.

``python -m tests.nets.options`` evaluates the experiments of ``experiments.yaml`` and plans each
change of ``changes.yaml``; ``options.json`` keeps what the plan says: the partitions that are
computed, and the assets that are checked because something above them is computed. ``--cold``
evaluates every changed experiment in a new store (``--cold=WORD``: where the path of the change has
a word), and tells where bytes changed and the fingerprint did not.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from rag_assets import llm
from rag_assets.answers.answerers import GENERATOR_TYPES
from rag_assets.chunking.chunker import CHUNKING_TYPES
from rag_assets.errors import RagAssetsError
from rag_assets.judges.registry import JUDGE_TYPES
from rag_assets.pipeline.evaluations import SnapshotEntry
from rag_assets.query_sets.query_set import QUERY_SET_TYPES
from rag_assets.retrieval.registry import RETRIEVER_TYPES
from tests.nets import kept
from tests.nets.experiments import FILE as EXPERIMENTS
from tests.nets.experiments import NAMES, build, places
from tests.tiny_experiment import Tiny

FILE = kept.FOLDER / "options.json"
CHANGES = kept.FOLDER / "changes.yaml"
COMMAND = "python -m tests.nets.options"
KINDS: Mapping[str, Mapping[str, Any]] = {
    "chunking": CHUNKING_TYPES,
    "query_sets": QUERY_SET_TYPES,
    "retrievers": RETRIEVER_TYPES,
    "generators": GENERATOR_TYPES,
    "judges": JUDGE_TYPES,
}
SHARED = ("lexical", "embedding", "fusion", "reranking", "external")
"""Experiments in which the options of a family are changed, on the last retriever of each type."""


class Changes:
    """An experiment, evaluated, and the changes of it that ``changes.yaml`` names."""

    def __init__(self, name: str, root: Path, made: Mapping[str, str]) -> None:
        """Write the experiment with all that its changes name, and evaluate it."""
        self.name, self._root, self._made = name, root, made
        text = CHANGES.read_text(encoding="utf-8")
        for mark, place in made.items():
            text = text.replace(mark, place)
        self._blocks = yaml.safe_load(text)
        self.tiny = self._built(root / name)
        self.tiny.run()

    def _built(self, root: Path) -> Tiny:
        tiny = build(self.name, root, self._made)
        later = {"strategy": "file", "path": "later.jsonl"}
        tiny.config["query_sets"] = {**tiny.config.get("query_sets", {}), "later": later}
        if "llm" in tiny.config:
            tiny.config["llms"] = {"far": {**tiny.config["llm"], "model": "far"}}
        for file, content in self._blocks["files"].items():
            (tiny.folder / file).write_text(content, encoding="utf-8")
        for prompt in sorted(Path(llm.__file__).parent.glob("prompts/*.txt")):
            text = prompt.read_text(encoding="utf-8")
            (tiny.folder / f"other_{prompt.stem}.prompt").write_text(
                f"{text}\nBe brief.\n", encoding="utf-8"
            )
        tiny.write_config()
        return tiny

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield path and configuration of each change."""
        for path, value in {**self._shared(), **self._blocks[self.name]}.items():
            config = copy.deepcopy(self.tiny.config)
            *parents, last = path.split(".")
            block: Any = config
            for parent in parents:
                block = (
                    block[int(parent)] if isinstance(block, list) else block.setdefault(parent, {})
                )
            if last.endswith("+"):
                block.update(value)
            elif isinstance(block, list):
                block[int(last)] = value
            else:
                block[last] = value
            yield path, config

    def _shared(self) -> dict[str, Any]:
        """Return the changes that every type of a family has; options that it has not, not."""
        changes = {}
        by_type = {one["type"]: name for name, one in self.tiny.config["retrievers"].items()}
        for kind, name in by_type.items() if self.name in SHARED else ():
            model, block = RETRIEVER_TYPES[kind], self.tiny.config["retrievers"][name]
            for option, value in self._blocks["every"].get(model.family, {}).items():
                if value == "<other chunking>":
                    cut = block.get("chunking")
                    value = next(one for one in self.tiny.config["chunking"] if one != cut)
                if option in model.model_fields:
                    changes[f"retrievers.{name}.{option}"] = value
        return changes

    def planned(self, config: Mapping[str, Any]) -> Any:
        """Return what the plan says of a changed configuration: computed, and checked."""
        original, self.tiny.config = self.tiny.config, dict(config)
        self.tiny.write_config()
        result = self.tiny.command("plan", ".", "--format", "json")
        self.tiny.config = original
        self.tiny.write_config()
        if result.exit_code:
            click.echo(f"{self.name}: {result.stderr.strip()}", err=True)
            return "refused"
        anew: dict[str, list[str]] = {}
        checked = set()
        for row in json.loads(result.stdout):
            if row["action"] == "compute":
                anew.setdefault(row["asset"], []).append("/".join(row["partition"].values()))
            elif row["action"] == "check":
                checked.add(row["asset"])
        computed = " ".join(
            f"{asset}[{' '.join(values)}]" if any(values) else asset
            for asset, values in anew.items()
        )
        return {"compute": computed, "check": " ".join(sorted(checked - anew.keys()))}

    def cold(self, config: Mapping[str, Any], number: int) -> Tiny:
        """Evaluate a changed configuration in a new store."""
        tiny = self._built(self._root / f"{self.name}-{number}" / self.name)
        tiny.config = dict(config)
        tiny.write_config()
        tiny.run()
        return tiny


def contents(tiny: Tiny) -> dict[str, SnapshotEntry]:
    """Return fingerprint -> entry of all that an evaluation holds."""
    snapshot = tiny.snapshot()
    return {entry.fingerprint: entry for entry in (*snapshot.entries, *snapshot.rankings)}


def rounded(folders: Sequence[Path]) -> str:
    """Return by how much numbers differ where nothing else does; empty: something does.

    Vectors of a model are rounded otherwise where other texts stand in its batches.
    """
    tables = [pq.read_table([*folder.glob("*.parquet")]) for folder in folders]
    names = [each.name for each in tables[0].schema if pa.types.is_floating(each.type)]
    if len({str(table.drop(names).to_pylist()) for table in tables}) > 1:
        return ""
    first, second = (
        np.array([table[name].to_pylist() for name in names], float) for table in tables
    )
    return f", by rounding: at most {np.nanmax(np.abs(first - second)):.0e}"


def stale(changes: Changes, word: str = "") -> Iterator[str]:
    """Yield what has the fingerprint of before a change, and other bytes in a new store.

    Args:
        changes: an experiment and its changes.
        word: only the changes whose paths contain it.
    """
    before, store = contents(changes.tiny), changes.tiny.root / "store"
    chosen = [(path, config) for path, config in changes if word in path]
    for number, (path, config) in enumerate(chosen):
        try:
            tiny = changes.cold(config, number)
        except RagAssetsError:
            continue  # the plan says that it is refused
        after = contents(tiny)
        for fingerprint in before.keys() & after.keys():
            entry, other = before[fingerprint], after[fingerprint]
            if entry.digest != other.digest:
                name = " ".join([entry.asset, *entry.partition.values()])
                by = rounded([store / entry.path, tiny.root / "store" / other.path])
                yield f"{changes.name}: {path}: {name} has other bytes{by}"


def untried(tried: Mapping[str, Any]) -> list[str]:
    """Return the options of all types that no change names."""
    chunking = {"chunking": Tiny(Path()).config["chunking"]}
    written = yaml.safe_load(EXPERIMENTS.read_text(encoding="utf-8"))
    blocks = {name: {**chunking, **written[name]} for name in NAMES}
    covered = set()
    for name, paths in tried.items():
        for path in paths:
            kind, member, *rest = (
                [*path.split("."), "", ""][:3] if path.count(".") else ["", "", ""]
            )
            block = blocks[name].get(kind, {}).get(member) if kind in KINDS else None
            if block and rest[0]:
                covered.add((kind, block.get("type", block.get("strategy")), rest[0].rstrip("+")))
    return [
        f"{kind} {member}.{option}"
        for kind, types in KINDS.items()
        for member in types
        for field, info in types[member].model_fields.items()
        for option in [info.alias or field]
        if option not in ("type", "strategy") and (kind, member, option) not in covered
    ]


def opened(names: Sequence[str], root: Path) -> Iterator[Changes]:
    """Evaluate experiments for their changes."""
    with places(root) as made:
        for name in names:
            yield Changes(name, root, made)


def table(changes: Changes) -> dict[str, Any]:
    """Return change -> what the plan says of it."""
    return {path: changes.planned(config) for path, config in changes}


def main(arguments: Sequence[str]) -> None:
    """Keep what the changes of some experiments, or of all, make anew; or look for stale bytes."""
    names = [name for name in arguments if not name.startswith("-")] or NAMES
    cold = [one for one in arguments if one.startswith("--cold")]
    tables = kept.read(FILE)
    with TemporaryDirectory() as folder:
        for changes in opened(names, Path(folder)):
            if cold:
                lines = stale(changes, cold[0].partition("=")[2])
                click.echo("\n".join(lines) or f"{changes.name}: no stale bytes")
            else:
                tables[changes.name] = table(changes)
    if not cold:
        tables.pop("not tried", None)
        kept.renew(FILE, {**tables, "not tried": untried(tables)}, 2)


if __name__ == "__main__":
    main(sys.argv[1:])
