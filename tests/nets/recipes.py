"""What determines every partition of eleven small experiments, without the versions of the code.

``python -m tests.nets.recipes`` evaluates them and keeps their recipes in ``recipes.json``, and
the digests of what was computed in ``contents.json``. Inputs are named by what they are, so that a
recipe changes only where what it is made of does. A change of recipes computes stores anew: it
must be meant.
"""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rag_assets.pipeline.evaluations import SnapshotEntry
from rag_assets.store.canonical import fingerprint
from tests.nets import kept
from tests.nets.experiments import NAMES, NEEDS_TORCH, build, places
from tests.tiny_experiment import Tiny

FILE, CONTENTS = kept.FOLDER / "recipes.json", kept.FOLDER / "contents.json"
COMMAND = "python -m tests.nets.recipes"

_HASH = re.compile(r"[0-9a-f]{64}")
_ADDRESS = re.compile(r"127\.0\.0\.1:\d+")


def evaluated(names: Sequence[str], root: Path) -> Iterator[tuple[str, Tiny]]:
    """Build experiments and evaluate them; their servers run until the next one is asked for."""
    with places(root, torch=bool({*names} & {*NEEDS_TORCH})) as made:
        for name in names:
            tiny = build(name, root / name, made)
            tiny.run()
            yield name, tiny


def recipes(tiny: Tiny) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the recipes of all partitions of the last evaluation, and the digests of contents."""
    snapshot = tiny.snapshot()
    entries = [*snapshot.entries, *snapshot.rankings]
    manifests = {_name(entry): _manifest(tiny, entry) for entry in entries}
    roles: dict[str, str] = {}
    for name, manifest in manifests.items():
        for projection, digest in manifest["digests"].items():
            roles.setdefault(digest, name if projection == "all" else f"{name}:{projection}")
    found = {
        name: {
            "config": _plain(tiny, manifest["config"]),
            "inputs": {role: roles.get(one, "?") for role, one in manifest["inputs"].items()},
            "versions": {
                what: _HASH.sub(_short, one) if _HASH.fullmatch(one) else "*"
                for what, one in manifest["versions"].items()
            },
        }
        for name, manifest in manifests.items()
    }
    # A verdict names its reply by a key that holds the address of the server.
    contents = {
        name: one["digests"]["all"][:8]
        for name, one in manifests.items()
        if not name.endswith("_verdicts strict")
    }
    return found, contents


def _name(entry: SnapshotEntry) -> str:
    return " ".join([entry.asset, *entry.partition.values()])


def _manifest(tiny: Tiny, entry: SnapshotEntry) -> dict[str, Any]:
    file = tiny.settings.store / entry.path / "manifest.json"
    manifest: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return manifest


def _plain(tiny: Tiny, config: Mapping[str, Any]) -> Any:
    """Leave out where the experiment lies and its servers listen, and most of each hash."""
    text = json.dumps(config).replace(str(tiny.root.parent), "<root>")
    text = re.sub(
        r'("database": )"\w+"', r'\1"<file>"', text
    )  # DuckDB writes other bytes each time
    # Some models are made where the test runs, and their files name that place.
    text = re.sub(r'("model_sha256": )"\w+"', r'\1"<files>"', text)
    return json.loads(_HASH.sub(_short, _ADDRESS.sub("<server>", text)))


def _short(found: re.Match[str]) -> str:
    return found[0][:8]


def processor() -> str:
    """Return what decides the last bits of a model: torch has kernels for kinds of processors."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text(encoding="utf-8").splitlines() if about.is_file() else []
    wanted = ("vendor_id", "cpu family", "model\t", "flags")
    first = dict.fromkeys(line for line in lines if line.startswith(wanted))
    return f"{platform.machine()} {fingerprint(list(first))[:8]}"


def compared(names: Sequence[str], root: Path) -> list[str]:
    """Evaluate some experiments; return what differs from what is kept."""
    of_recipes, of_contents = kept.read(FILE), kept.read(CONTENTS)
    same_machine = of_contents["machine"] == kept.machine()
    same_processor = of_contents["processor"] == processor()
    lines = []
    for name, tiny in evaluated(names, root):
        found, contents = recipes(tiny)
        lines += kept.differences({name: of_recipes[name]}, {name: found})
        if same_machine and (same_processor or name not in NEEDS_TORCH):
            lines += kept.differences({name: of_contents[name]}, {name: contents})
    return lines


def main(names: Sequence[str]) -> None:
    """Keep the recipes of some experiments, or of all."""
    of_recipes, of_contents = kept.read(FILE), kept.read(CONTENTS)
    with TemporaryDirectory() as folder:
        for name, tiny in evaluated(names or NAMES, Path(folder)):
            of_recipes[name], of_contents[name] = recipes(tiny)
    of_contents |= {"machine": kept.machine(), "processor": processor()}
    kept.renew(FILE, of_recipes, 2)
    kept.renew(CONTENTS, of_contents, 1)


if __name__ == "__main__":
    main(sys.argv[1:])
