"""Bad input is one line on stderr and an exit code, and leaves what was there as it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import Result

from rag_assets.experiment import load_experiment
from rag_assets.pipeline.evaluation_names import register, registered
from rag_assets.store.settings import StoreSettings
from tests.beir_folder import FILES
from tests.cli.conftest import Invoke
from tests.forked import Forks, Place

CORPUS, QRELS = FILES["corpus.jsonl"], FILES["qrels/test.tsv"]
BAD_DATA = [
    ("documents", "corpus.jsonl", "", "corpus.jsonl: holds no document; "),
    ("documents", "corpus.jsonl", CORPUS + '{"_id": "d5", "text": \n', "corpus.jsonl:5: "),
    (
        "queries",
        "queries.jsonl",
        '{"_id": "q1", "text": "a"}\n{"_id": "q2"]\n',
        "queries.jsonl:2: ",
    ),
    ("qrels", "qrels/test.tsv", QRELS + "q1\td99\t1\n", "test.tsv:7: `corpus-id`: "),
]
"""Of each stage that reads a file: what is wrong in it, and what is said of it."""

UNUSED = {
    ("leaderboard", "--budget", "9", "--by", "tag"): "--by does not apply to --budget, which fills",
    ("leaderboard", "--budget", "9", "--top-k", "1"): "--top-k does not apply to --budget, ",
    ("leaderboard", "--by", "tag", "--top-k", "1"): "--top-k does not apply to --by, which shows ",
    ("leaderboard", "--latency", "--budget", "9"): "--budget does not apply to --latency, ",
    ("leaderboard", "--latency", "--split", "dev"): "--split does not apply to --latency, ",
    ("leaderboard", "--latency", "--top-k", "1"): "--top-k does not apply to --latency, ",
    ("leaderboard", "--answers", "--ties"): "--ties does not apply to --answers",
    ("leaderboard", "--metric", "mrr"): "--metric needs --by; the leaderboard itself shows all ",
    ("attribution", "--answers", "--retriever", "a"): "--retriever does not apply to --answers, ",
    ("attribution", "--queries", "--by", "tag"): "--queries lists evidences one by one; --by does ",
    ("compare", "a"): "compare takes two different retrievers, or none for all pairs: a",
    ("pool", "--out", "a", "--import", "b"): "give only one of --out, --import and --feedback",
    ("generate",): "say what to write: --sheet FILE, --out FOLDER, or both",
    ("generate", "--import", "a.csv"): "--import reads a sheet and writes a dataset: give --out, ",
    ("report", "--out", "/tmp"): "--out /tmp is a folder; name a file",
    ("compare", "--show", "3"): "--show needs two retrievers or answerers; name them",
    ("pool", "--import", "x.csv", "--depth", "3"): "--depth cannot be combined with --import or ",
    ("pool", "--feedback", "x.jsonl", "--seed", "3"): "--seed cannot be combined with --import or ",
    ("generate", "--import", "x.csv", "--out", "y", "--dry-run"): "--dry-run does not apply",
    ("anchor", "latest", "--show"): "EVALUATION cannot be combined with --show",
    ("evaluate", "--store", "a", "--store", "b"): "--store is given 2 times; it takes only one ",
    ("gate", "--against", "a", "--against", "b"): "--against is given 2 times; it takes only one ",
}
"""Command -> what is said of an option that it would drop."""


def check_error(result: Result, exit_code: int, *parts: str) -> None:
    assert (result.exit_code, result.stdout) == (exit_code, ""), result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.endswith("\n")
    assert result.stderr[:-1].isprintable(), "one line"
    assert "Traceback" not in result.stderr
    for part in parts:
        assert part in result.stderr


def tree(store: Path) -> dict[str, bytes]:
    files = [file for file in (store / "tiny").rglob("*") if file.is_file()]
    return {file.relative_to(store).as_posix(): file.read_bytes() for file in files}


def test_bad_data_changes_nothing_and_is_mended(invoke: Invoke, again: tuple[Path, Path]) -> None:
    folder, store = again
    before = tree(store)
    for stage, name, text, expected in BAD_DATA:
        (folder / name).write_text(text, encoding="utf-8")
        result = invoke("evaluate", folder, "--store", store, "--format", "json")
        check_error(result, 1, expected, str(folder))
        after = tree(store)
        assert {path: after[path] for path in before} == before, "what was there is untouched"
        written = set(after) - set(before)
        assert not [path for path in written if path.startswith(f"tiny/{stage}/")]
        assert not [path for path in written if "evaluations" in path]
        assert not list(store.rglob("*.tmp-*"))
        (folder / name).write_text(FILES[name], encoding="utf-8")
    shown = invoke("leaderboard", folder, "--store", store)
    assert shown.exit_code == 0, "the last good evaluation is still shown"
    result = invoke("evaluate", folder, "--store", store)
    assert result.exit_code == 0
    assert ": 0 partitions computed" in result.stdout


def test_bad_yaml(invoke: Invoke, again: tuple[Path, Path]) -> None:
    folder, store = again
    before = tree(store)
    (folder / "experiment.yaml").write_text("topk: [1]\n", encoding="utf-8")
    expected = ":1: `topk`: unknown key 'topk' (did you mean 'top_k'?)"
    for command in ("evaluate", "leaderboard"):
        result = invoke(command, folder, "--store", store)
        check_error(result, 2, f"error: {folder / 'experiment.yaml'}{expected}")
    assert tree(store) == before


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("y/" * 3_000, "allowed: 3,500"),
        ("x" * 300, "a part of its name has more than 255 bytes"),
        ("\udcff", "is not UTF-8"),
    ],
)
def test_a_path_that_cannot_be(
    invoke: Invoke, tiny: Path, tmp_path: Path, name: str, reason: str
) -> None:
    codes = (2, 2) if name == "\udcff" else (3, 2)
    check_error(invoke("evaluate", tiny, "--store", tmp_path / name), codes[0], reason)
    check_error(invoke("evaluate", tmp_path / name), codes[1], reason)


@pytest.mark.parametrize(
    ("command", "name"),
    [("plan", "\udcff.md"), ("evaluate", "\udcff.pdf.gz"), ("ask", "a/\udcff.txt")],
)
def test_a_file_whose_name_is_not_utf_8(
    invoke: Invoke, tmp_path: Path, store: Path, command: str, name: str
) -> None:
    folder = tmp_path / "pages"
    (folder / "a").mkdir(parents=True)
    (folder / "fine.md").write_text("A dog needs a ticket.\n")
    (folder / name).write_text("A cat needs none.\n")
    (folder / "queries.jsonl").write_text('{"query_id": "q", "text": "a dog"}\n')
    words = [command, folder, *(["a dog"] if command == "ask" else []), "--store", store]
    check_error(invoke(*words), 1, f"{folder}: holds a file whose name is not UTF-8: {name!a}")


@pytest.mark.parametrize("name", ["corpus.jsonl", "qrels/test.tsv", "qrels/dev.tsv", "note.md"])
def test_a_fifo_among_the_files(invoke: Invoke, tiny: Path, store: Path, name: str) -> None:
    (tiny / name).unlink(missing_ok=True)
    os.mkfifo(tiny / name)
    result = invoke("evaluate", tiny, "--store", store)
    assert result.exit_code == (2 if result.stderr.count("dataset.path") else 1)
    check_error(result, result.exit_code, f"{tiny / name}: is a FIFO, not a file")


def test_missing_and_empty_folders(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("evaluate", tmp_path / "nowhere", "--store", tmp_path / "store")
    expected = f"error: {tmp_path / 'nowhere'}: no such file or folder\n"
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", expected)
    assert not (tmp_path / "store").exists()
    check_error(invoke("evaluate", tmp_path / "a\nb"), 2, "a\\nb: no such file or folder")
    empty = tmp_path / "empty"
    empty.mkdir()
    check_error(invoke("evaluate", empty, "--store", tmp_path / "s"), 1, "an empty folder")


def test_one_experiment_by_several_paths(tiny: Path, store: Path) -> None:
    (tiny / "experiment.yaml").unlink()
    (tiny.parent / "link").mkdir()
    (tiny.parent / "link" / "tiny").symlink_to(tiny)
    settings = StoreSettings.resolve(store)
    for path in (tiny, tiny / "qrels" / "..", tiny.parent / "link" / "tiny"):
        register(load_experiment(path), settings)
    (tiny / "experiment.yaml").write_text("top_k: [1]\n", encoding="utf-8")
    register(load_experiment(tiny), settings)
    assert registered(settings) == {"tiny": str(tiny / "experiment.yaml")}


def _in_the_way(store: Path, where: str) -> Path:
    if where == "above":
        store.write_text("", encoding="utf-8")
        return store / "deeper"
    file = store / where if where else store
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("", encoding="utf-8")
    return store


@pytest.mark.parametrize("where", ["", "above", "tiny", "locks", "dagster"])
def test_a_file_in_the_way_of_the_store(
    invoke: Invoke, tiny: Path, store: Path, where: str
) -> None:
    result = invoke("evaluate", tiny, "--store", _in_the_way(store, where))
    check_error(result, 3, "cannot use the store " if where in ("", "above") else "cannot write ")
    assert not list(store.parent.rglob("*.tmp-*"))
    assert not list(store.parent.rglob("current"))


def test_a_folder_in_the_way_of_the_warehouse(invoke: Invoke, tiny: Path, store: Path) -> None:
    (store / "warehouse.duckdb").mkdir(parents=True)
    check_error(invoke("evaluate", tiny, "--store", store), 3, "warehouse.duckdb")
    assert not list(store.rglob("*.tmp-*"))


def test_a_dagster_home_that_does_not_exist(forks: Forks, tiny: Path, store: Path) -> None:
    log, errors = tiny.parent / "out.txt", tiny.parent / "errors.txt"
    place = Place(str(log), errors=str(errors), environment={"DAGSTER_HOME": str(tiny / "nowhere")})
    code = forks.run(place, "evaluate", str(tiny), "--store", str(store))
    stderr = errors.read_text(encoding="utf-8")
    assert (code, log.read_text(encoding="utf-8")) == (2, "")
    assert stderr.startswith("error: DAGSTER_HOME: ")
    assert stderr.count("\n") == 1


@pytest.mark.parametrize(("words", "problem"), UNUSED.items(), ids=map(" ".join, UNUSED))
def test_no_option_is_dropped_in_silence(
    invoke: Invoke, tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    result = invoke(words[0], tmp_path / "none", *words[1:])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {problem}")


def test_options_that_are_repeatable_keep_every_value(invoke: Invoke, tmp_path: Path) -> None:
    twice = ("--retriever", "a", "--retriever", "b", "--top-k", 1, "--top-k", 2, "-q", "-q")
    assert "no such file or folder" in invoke("plan", tmp_path / "none", *twice).stderr
