"""How fast, and in how much memory, a large file of JSON lines becomes documents.

    python benchmarks/read_corpus.py --megabytes 1000 --out read_corpus.json

writes a corpus of that size (a seed fixes every byte) under a temporary folder and reads it in four
ways, each in a process of its own:

- ``json.loads``: what one would write: a loop over the lines, then a table;
- ``pyarrow.json``: ``pyarrow.json.read_json``, several threads, no check of anything;
- ``reader``: ``read_documents`` of the format: strict JSON, unique ids, canonical metadata;
- ``documents``: the pipeline's stage: reader, digests, and the artifact as Parquet in a store.

A row says MB of the file per second of wall time and of CPU time (of all threads), and the peak of
resident memory (``ru_maxrss``), also less that of the imports, as a share of the file's size. All
four end with the whole corpus as one table in memory, so its size is the floor; what is above it
does not grow with the corpus: one batch of rows, 16 MB of texts that are hashed, one row group.

Measured on 1,000 MB with two cores that seven other jobs shared (so only CPU time tells):

    way             MB/s wall  MB/s CPU  peak MB  of size
    json.loads             45        84     4475     4.37
    pyarrow.json           86       232     2316     2.21
    reader                 36       110     1234     1.13
    documents              16        61     1262     1.15

The reader is bound by Python code for each row: half of its time goes into what makes JSON strict
and metadata canonical. What ``documents`` adds is, in about equal parts: the texts gathered in the
order of their ids, SHA-256 (of the file, of all columns, of id, title and text), and Parquet with
zstd.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import click

MEGABYTE = 1_000_000
SYLLABLES = ("ba", "ce", "di", "fo", "gu", "har", "kel", "lim", "mör", "nas", "pol", "sund", "ta")


IMPORTS = (
    "filelock",
    "pyarrow.json",
    "pyarrow.parquet",
    "rag_assets.sources",
    "rag_assets.pipeline.pipeline",
)


def main() -> None:
    """Run the benchmark, or one way of reading in a child process."""
    command()


def sentences(rng: random.Random) -> list[str]:
    """Return sentences that documents are made of."""
    words = ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 4))) for _ in range(5_000)]
    return [
        " ".join(rng.choices(words, k=rng.randint(5, 25))).capitalize() + ". " for _ in range(5_000)
    ]


def lines(n_bytes: int, seed: int) -> Iterator[bytes]:
    """Yield lines of a BEIR-like corpus, about ``n_bytes`` in all; texts of 0.1 to 20 KB."""
    rng = random.Random(seed)
    known = sentences(rng)
    written = number = 0
    while written < n_bytes:
        text = "".join(rng.choices(known, k=min(200, max(1, round(rng.lognormvariate(2.3, 0.9))))))
        row = {
            "_id": f"doc-{number:08d}",
            "title": text[:40].rstrip(),
            "text": text,
            "metadata": {"year": 1990 + number % 30, "source": f"s{number % 7}"},
        }
        line = json.dumps(row, ensure_ascii=False).encode() + b"\n"
        yield line
        written += len(line)
        number += 1


def write_corpus(folder: Path, n_bytes: int, seed: int) -> Path:
    """Write ``corpus.jsonl`` and one query; return the corpus."""
    folder.mkdir(parents=True, exist_ok=True)
    query = json.dumps({"query_id": "q1", "text": "kelsund"})
    (folder / "queries.jsonl").write_text(f"{query}\n", encoding="utf-8")
    corpus = folder / "corpus.jsonl"
    with corpus.open("wb") as stream:
        stream.writelines(lines(n_bytes, seed))
    return corpus


def with_json_loads(corpus: Path) -> int:
    """Read as a loop would."""
    import pyarrow as pa

    with corpus.open(encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    columns = {name: [row[name] for row in rows] for name in ("_id", "title", "text")}
    columns["metadata"] = [json.dumps(row["metadata"]) for row in rows]
    return int(pa.table(columns).num_rows)


def with_pyarrow(corpus: Path) -> int:
    """Read by Arrow's own parser."""
    from pyarrow import json as arrow_json

    return int(arrow_json.read_json(corpus).num_rows)


def with_reader(corpus: Path) -> int:
    """Read as the format's reader does."""
    from rag_assets.sources import open_dataset

    return int(open_dataset(corpus.parent).read_documents().table.num_rows)


def with_stage(corpus: Path) -> int:
    """Bring the stage ``documents`` up to date in a new store."""
    from rag_assets.experiment import load_experiment
    from rag_assets.pipeline.pipeline import Pipeline
    from rag_assets.sources.stage import DOCUMENTS_KEY
    from rag_assets.store.settings import StoreSettings

    with tempfile.TemporaryDirectory(dir=corpus.parent.parent) as store:
        pipeline = Pipeline(load_experiment(corpus.parent), StoreSettings.resolve(Path(store)))
        outcome = pipeline.materialize("documents", [DOCUMENTS_KEY])[0]
        return outcome.artifact.manifest.rows


WAYS: dict[str, Callable[[Path], int]] = {
    "json.loads": with_json_loads,
    "pyarrow.json": with_pyarrow,
    "reader": with_reader,
    "documents": with_stage,
}


def peak() -> int:
    """Return the peak of resident memory of this process in bytes."""
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else found * 1024


def measure(way: str, corpus: Path) -> dict[str, float]:
    """Read in this process, after the imports, and say what it took."""
    for name in IMPORTS:
        import_module(name)
    if find_spec("pandas") is not None:  # pyarrow looks for it when it first makes an array
        import_module("pandas")
    before = peak()
    wall, cpu = time.perf_counter(), time.process_time()
    rows = WAYS[way](corpus)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"rows": rows, "wall_s": wall, "cpu_s": cpu, "imports": before, "peak": peak()}


def in_child(way: str, corpus: Path) -> dict[str, float]:
    """Measure in a process of its own."""
    call = [sys.executable, __file__, "--child", way, str(corpus)]
    done = subprocess.run(call, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


@click.command()
@click.option("--megabytes", type=click.IntRange(min=1), default=200, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Where the result goes as JSON.")
@click.option("--way", "ways", multiple=True, type=click.Choice(list(WAYS)), help="Only these.")
@click.option("--child", nargs=2, type=str, hidden=True)
def command(
    megabytes: int,
    seed: int,
    out: Path | None,
    ways: tuple[str, ...],
    child: tuple[str, str] | None,
) -> None:
    """Write a corpus, read it in every way, and print a table."""
    if child is not None:
        click.echo(json.dumps(measure(child[0], Path(child[1]))))
        return
    with tempfile.TemporaryDirectory() as folder:
        corpus = write_corpus(Path(folder) / "corpus", megabytes * MEGABYTE, seed)
        size = corpus.stat().st_size
        found = {way: in_child(way, corpus) for way in ways or WAYS}
    click.echo(f"{'way':14}{'MB/s wall':>11}{'MB/s CPU':>10}{'peak MB':>9}{'of size':>9}")
    for way, one in found.items():
        rates = f"{size / one['wall_s'] / MEGABYTE:11.0f}{size / one['cpu_s'] / MEGABYTE:10.0f}"
        used = one["peak"] - one["imports"]
        click.echo(f"{way:14}{rates}{one['peak'] / MEGABYTE:9.0f}{used / size:9.2f}")
    if out is not None:
        result = {"bytes": size, "seed": seed, "python": sys.version.split()[0], "ways": found}
        out.write_text(json.dumps(result, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
