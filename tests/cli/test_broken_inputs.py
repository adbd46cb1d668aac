"""More than 300 broken inputs: an exit code and one line each, no traceback, no key, no escape.

Every option, file and command meets a part of the broken values, and every value a part of these.
The rest of the product is ``slow``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rag_assets.cli import main
from tests.beir_folder import FILES, write_beir
from tests.cli.conftest import Invoke

KEY = "sk-broken-inputs-0123456789abcdef"
"""A key that is set; nothing may print it."""

OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")

VALUES = (
    "-1",
    "0",
    str(10**9),
    str(2**63 - 1),
    str(10**22),
    ".nan",
    ".inf",
    "1.0e+308",
    '"\\e[31m[/tag]"',
    "[[1]]",
    "{x: {y: 1}}",
    "x" * 300,
)
"""Wrong in type or range for one option or another, or so large that something overflows."""

OPTIONS = (
    "name: {}",
    "top_k: [{}]",
    "metrics: [{}]",
    "primary: {}",
    "split: {{dev: {}}}",
    "split: {{seed: {}}}",
    "statistics: {{resamples: {}}}",
    "measurements: {{latency_sample: {}}}",
    "context: {{tokenizer: {}}}",
    "weight: {}",
    "statistics: {{confidence: {}}}",
    "dataset: {{path: {}}}",
    "dataset: {{columns: {}}}",
    "chunking: {{c: {{strategy: recursive, max_characters: {}, overlap: 0}}}}",
    "chunking: {{c: {{strategy: fixed, max_characters: 20, overlap: {}}}}}",
    "chunking: {{c: {{strategy: sentences, sentences: {}}}}}",
    "chunking: {{c: {{strategy: {}}}}}",
    "retrievers: {{a: {{type: bm25, k1: {}, b: .5}}}}",
    "retrievers: {{a: {{type: {}}}}}",
    "retrievers: {{{}: {{type: bm25}}}}",
    "retrievers: {{a: {{type: bm25}}, b: {{type: bm25, b: 0}}, "
    "f: {{type: rrf, inputs: [a, b], k: {}}}}}",
    "retrievers: {{a: {{type: bm25}}, b: {{type: bm25, b: 0}}, "
    "f: {{type: convex, inputs: [a, b], weights: [.5, {}]}}}}",
    "retrievers: {{a: {{type: run_file, path: {}}}}}",
    "llm: {{model: x, api_key_env: RAG_BROKEN_KEY, base_url: 'http://127.0.0.1:9', timeout: {}}}",
    "checks: {}",
    "schedule: {{cron: {}}}",
    "compute: {}",
    "filters: {}",
    "query_sets: {{q: {{strategy: file, path: {}}}}}",
)

EVERY = 4
"""Of the products below, one case in so many is in the quick part."""


def one_in_every(groups: Iterable[Sequence[tuple[str, ...]]]) -> list[Any]:
    """Return the cases of all groups, with diagonals of their product in the quick part."""
    return [
        pytest.param(
            *case,
            id="-".join(f"{part[:70]!a}" for part in case),
            marks=() if (column - row) % min(EVERY, len(group)) == 0 else pytest.mark.slow,
        )
        for row, group in enumerate(groups)
        for column, case in enumerate(group)
    ]


YAML = one_in_every([(option, value) for value in VALUES] for option in OPTIONS)

BYTES = {
    "empty": b"",
    "a NUL": b"\x00",
    "not UTF-8": b"\xff\xfe\x00",
    "an escape": b"\x1b]8;;http://x\x07\n",
    "brackets": b"[" * 100_000,
    "a large number": b'{"_id": 1' + b"0" * 5_000 + b"}\n",
    "another type": b'{"_id": {}, "text": [1]}\n',
    "a lone quote": b'"\n"',
    "fields of white space": b"\t\t\n \t \n",
}

LAYOUTS: Mapping[str, tuple[str, ...]] = {
    "beir": ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"),
    "jsonl": ("documents.jsonl", "queries.jsonl", "judgments.jsonl"),
    "csv": ("documents.csv", "queries.csv", "judgments.csv"),
    "parquet": ("documents.parquet",),
    "autorag": ("corpus.parquet", "qa.parquet"),
    "trec": ("corpus.tsv", "topics.txt", "qrels.txt"),
    "pages": ("a.html", "b.md", "c.pdf", "queries.jsonl"),
    "squad": ("data.json",),
}

GOOD = {
    "documents.jsonl": '{"document_id": "d1", "text": "a ferry"}\n',
    "queries.jsonl": '{"query_id": "q1", "text": "ferry"}\n',
    "judgments.jsonl": '{"query_id": "q1", "document_id": "d1", "grade": 1}\n',
    "documents.csv": "document_id,text\nd1,a ferry\n",
    "queries.csv": "query_id,text\nq1,ferry\n",
    "judgments.csv": "query_id,document_id,grade\nq1,d1,1\n",
    "corpus.tsv": "d1\ta ferry\n",
    "topics.txt": "q1\tferry\n",
    "qrels.txt": "q1 0 d1 1\n",
    "a.html": "<p>a ferry",
    "b.md": "# a\n\nferry\n",
}

DATA = one_in_every(
    [(layout, name, damage) for damage in BYTES]
    for layout, names in LAYOUTS.items()
    for name in names
)

NUMBERS = ("-1", "0", "1e400", "nan", "inf", "1" * 5_000, str(10**22), "\x1b[2J")

COMMANDS = {
    "evaluate {tiny} --top-k {}": NUMBERS,
    "pool {tiny} --store {store} --depth {}": NUMBERS,
    "pool {tiny} --store {store} --seed {}": NUMBERS,
    "clean --store {store} --older-than {}": (*NUMBERS, "1e308", "1e6"),
    "clean --store {store} --caches {}": (*NUMBERS, "1e308", "1e6"),
    "gate {tiny} --store {store} --against latest --max-drop {}": NUMBERS,
    "gate {tiny} --store {store} --against {}": NUMBERS,
    "leaderboard {tiny} --store {store} --budget {}": NUMBERS,
    "leaderboard {tiny} --store {store} --by {}": NUMBERS,
    "compare {tiny} --store {store} a b --show {}": NUMBERS,
    "history {tiny} --store {store} --last {}": NUMBERS,
    "score --run {run} --qrels {qrels} --metrics {}": (
        *NUMBERS,
        "ndcg@",
        "ndcg@0",
        "rbp(p=2)",
        f"ndcg@{10**22}",
    ),
    "score --run {} --qrels {qrels}": ("/dev/zero", "{tmp}", "{fifo}", "nowhere", "x" * 300),
    "score --run {run} --qrels {}": ("/dev/zero", "{tmp}", "{fifo}", "nowhere", "x" * 300),
    "leaderboard {tiny} --store {}": ("/dev/null", "{fifo}", "{run}", "x" * 300, "y/" * 3_000),
    "evaluate {tiny} --store {}": ("/dev/null", "{fifo}", "{run}", "x" * 300, "y/" * 3_000),
    "plan {}": ("/dev/zero", "{fifo}", "{run}", "x" * 300, "y/" * 3_000, "\udcff", "a\x1b"),
    "pool {tiny} --import {}": ("/dev/zero", "{fifo}", "{run}", "{tmp}", "nowhere"),
    "pool {tiny} --store {store} --out {}": ("/dev/full", "{fifo}", "{tmp}", "x" * 300),
    "pool {tiny} --feedback {}": ("/dev/zero", "{fifo}", "{run}", "{tmp}", "nowhere"),
    "generate {tiny} --dry-run --store {store} --prompt {}": ("/dev/zero", "{fifo}", "{tmp}"),
    "generate {tiny} --dry-run --store {store} --temperature {}": NUMBERS,
    "generate {tiny} --import {} --out {tmp}/new": ("/dev/zero", "{fifo}", "{run}", "{tmp}"),
    "export-run {tiny} --store {store} --retriever a --out {}": ("/dev/full", "{tmp}", "x" * 300),
    "convert {tiny} --to beir --out {}": ("/dev/null", "{run}", "x" * 300, "{run}/x"),
    "report {tiny} --store {store} --out {}": ("/dev/full", "{tmp}", "{run}/x", "x" * 300),
    "diff {tiny} {} latest --store {store}": NUMBERS,
    "anchor {tiny} {} --store {store}": (*NUMBERS, "../../x", "x" * 300),
    "clean --store {store} --document {}": NUMBERS,
}

WORDS = one_in_every([(command, value) for value in values] for command, values in COMMANDS.items())


@pytest.fixture(autouse=True)
def _a_key_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAG_BROKEN_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, KEY)


def check(result: Result) -> None:
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert result.exit_code in (0, 1, 2, 3, 4), result.output
    assert KEY not in result.output
    assert "Traceback" not in result.output
    assert not OBEYED.search(result.output), ascii(result.output)[:600]
    errors = [line for line in result.stderr.splitlines() if line.lower().startswith("error: ")]
    assert len(errors) == (result.exit_code not in (0, 4)) or not result.stderr, result.stderr
    assert all(len(line) < 4_000 for line in errors)


@pytest.mark.parametrize(("option", "value"), YAML)
def test_an_option_of_experiment_yaml(
    invoke: Invoke, tmp_path: Path, option: str, value: str
) -> None:
    yaml = option.format(value) + "\n"
    folder = write_beir(tmp_path / "tiny", {"experiment.yaml": yaml})
    check(invoke("plan", folder, "--store", tmp_path / "store"))


EVALUATED = [
    ("chunking: {{c: {{strategy: recursive, max_characters: {}, overlap: 0}}}}", str(2**63 - 1)),
    ("chunking: {{c: {{strategy: sentences, sentences: {}}}}}", str(2**63 - 1)),
    ("retrievers: {{a: {{type: bm25, k1: {}, b: .5}}}}", "1.0e+308"),
    (
        "retrievers: {{a: {{type: bm25}}, b: {{type: bm25, b: 0}}, "
        "f: {{type: rrf, inputs: [a, b], k: {}}}}}",
        "1.0e+308",
    ),
]


@pytest.mark.parametrize(("option", "value"), EVALUATED)
def test_an_evaluation_with_a_large_number(
    invoke: Invoke, tmp_path: Path, option: str, value: str
) -> None:
    retrievers = "" if "retrievers" in option else "retrievers: {a: {type: bm25}}\n"
    yaml = f"{option.format(value)}\n{retrievers}top_k: [3]\n"
    folder = write_beir(tmp_path / "tiny", {"experiment.yaml": yaml})
    check(invoke("evaluate", folder, "--store", tmp_path / "store", "--quiet"))


@pytest.mark.parametrize(("layout", "name", "damage"), DATA)
def test_a_file_of_a_data_set(
    invoke: Invoke, tmp_path: Path, layout: str, name: str, damage: str
) -> None:
    folder = tmp_path / "tiny"
    for other in LAYOUTS[layout]:
        (folder / other).parent.mkdir(parents=True, exist_ok=True)
        text = (FILES if layout == "beir" else GOOD).get(other, "")
        (folder / other).write_text(text, encoding="utf-8")
    (folder / name).write_bytes(BYTES[damage])
    path = folder / name if layout == "squad" else folder
    check(invoke("validate", path, "--store", tmp_path / "store", "--quiet"))
    if (folder / name).suffix in (".txt", ".tsv", ".jsonl", ".parquet"):
        check(invoke("score", "--run", folder / name, "--qrels", folder / name))


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    root = tmp_path_factory.mktemp("broken")
    yaml = "retrievers: {a: {type: bm25}, b: {type: bm25, b: 0}}\ntop_k: [1, 3]\n"
    folder = write_beir(root / "tiny", {"experiment.yaml": yaml})
    done = CliRunner().invoke(main, ["evaluate", str(folder), "--store", str(root / "store")])
    assert done.exit_code == 0, done.output
    (root / "run.txt").write_text("q1 Q0 d1 1 1.0 x\n", encoding="utf-8")
    (root / "qrels.txt").write_text("q1 0 d1 1\n", encoding="utf-8")
    os.mkfifo(root / "fifo")
    names = {"tiny": "tiny", "store": "store", "run": "run.txt", "qrels": "qrels.txt"}
    yield {name: str(root / file) for name, file in names.items()} | {
        "fifo": str(root / "fifo"),
        "tmp": str(root),
    }
    shutil.rmtree(root)


@pytest.mark.parametrize(("command", "value"), WORDS)
def test_an_argument(
    places: dict[str, str], monkeypatch: pytest.MonkeyPatch, command: str, value: str
) -> None:
    monkeypatch.chdir(places["tmp"])
    value = value.format(**places) if value.startswith("{") else value
    words = [word.format(value, **places) for word in command.split()]
    before = {path.name for path in Path(places["tmp"]).iterdir()}
    check(CliRunner(env={"COLUMNS": "80"}).invoke(main, words))
    made = {path.name for path in Path(places["tmp"]).iterdir()} - before
    assert not [name for name in made if ".tmp-" in name]
    if "--out" not in command and "--store {}" not in command:
        assert not made


@pytest.mark.parametrize("words", [("plan", "{fifo}"), ("plan", b"\xff")])
def test_a_real_process(
    run_process: Callable[..., subprocess.CompletedProcess[str]],
    places: dict[str, str],
    words: tuple[str | bytes, ...],
) -> None:
    done = run_process(
        *(os.fsdecode(w) if isinstance(w, bytes) else w.format(**places) for w in words)
    )
    assert done.returncode in (1, 2, 3), done.stderr
    assert (done.stdout, "Traceback" in done.stderr, KEY in done.stderr) == ("", False, False)
    assert done.stderr.splitlines()[-1].lower().startswith("error: ")
    assert not OBEYED.search(done.stderr)


def test_there_are_300() -> None:
    assert len(YAML) + len(EVALUATED) + len(DATA) + len(WORDS) > 300
