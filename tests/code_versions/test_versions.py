"""Versions of packages as they are installed, and what a process does whose source changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rag_assets.code_versions import closure
from rag_assets.code_versions.source_modules import SourceModule
from rag_assets.code_versions.versions import PACKAGE_DIR, CodeVersions, filled_by, root_of
from rag_assets.models.encoder import Encoder, SparseTextEncoder, TextEncoder, TokenEncoder
from rag_assets.models.token_counts import token_counts
from rag_assets.retrieval.reranking.local import CrossEncoderScorer
from tests.code_versions.test_closure import write
from tests.conftest import REPOSITORY
from tests.tiny_experiment import Tiny

ROOT = "rag_assets.ordering:top_k"
SCORED = "rag_assets.retrieval.reranking.local"
PLUG_IN = """
import sys
from rag_assets.code_versions.versions import CodeVersions
print(CodeVersions().of([sys.argv[1]]))
"""


def version_of(root: str, site: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(REPOSITORY)])}
    done = subprocess.run(
        [sys.executable, "-c", PLUG_IN, root],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("editable", [False, True])
def test_a_plug_in_of_several_modules_counts_whole(tmp_path: Path, editable: bool) -> None:
    """An editable one lies elsewhere: here a link in the site's folder leads to it."""
    place = write(
        tmp_path / "src" / "plug", {"a.py": "class A: pass", "b.py": "X = 1", "w.txt": "a"}
    )
    site = tmp_path / "src"
    if editable:
        site = tmp_path / "site"
        site.mkdir()
        (site / "plug").symlink_to(place)
    first = version_of("plug.a:A", site)
    assert first == version_of("plug.a:A", site)
    write(place, {"b.py": "X = 2"})
    second = version_of("plug.a:A", site)
    write(place, {"w.txt": "b"})
    assert len({first, second, version_of("plug.a:A", site)}) == 3


def test_an_unchanged_start_parses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    class Counted(SourceModule):
        def __init__(self, name: str, path: Path) -> None:
            parsed.append(name)
            super().__init__(name, path)

    monkeypatch.setattr(closure, "SourceModule", Counted)
    copy = shutil.copytree(
        PACKAGE_DIR, tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__")
    )
    first = CodeVersions(tmp_path / "kept", copy).of([ROOT])
    assert "rag_assets.ordering" in parsed
    parsed.clear()
    assert CodeVersions(tmp_path / "kept", copy).of([ROOT]) == first
    assert parsed == []


def test_caches_of_computed_values_carry_the_version_of_what_fills_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = Encoder(cache=tmp_path / "vectors")
    counts = tmp_path / "counts"
    space = encoder.space("query")
    token_counts(["a ferry"], encoder.files, cache=counts)
    assert len([*counts.iterdir()]) == 1
    plain = CodeVersions.of
    monkeypatch.setattr(CodeVersions, "of", lambda self, roots: f"{plain(self, roots)}-changed")
    assert encoder.space("query") != space
    token_counts(["a ferry"], encoder.files, cache=counts)
    assert len([*counts.iterdir()]) == 2  # what the other code counted stays, and is not read


def test_versions_are_kept_for_the_next_process(tmp_path: Path) -> None:
    folder = tmp_path / "store" / "code"
    root = root_of(CodeVersions, "of")
    assert root == "rag_assets.code_versions.versions:CodeVersions.of"
    version = CodeVersions(folder).of([root])
    assert len(version) == 16
    assert not folder.exists()  # there was no store
    folder.parent.mkdir()
    writer = CodeVersions(folder)
    assert writer.of([root]) == version
    (kept,) = set(folder.glob("*.json")) - {folder / "files.json"}
    assert kept.name == f"{writer.source_digest[:16]}.json"
    kept.write_text(kept.read_text().replace(version, "f" * 16))
    assert CodeVersions(folder).of([root, root]) == "f" * 16  # read, not computed
    kept.write_text("[]")
    assert CodeVersions(folder).of([root]) == version
    kept.write_text("{")
    assert CodeVersions(folder).of([root]) == version


RESTART = """
import sys
from pathlib import Path
import rag_assets.ordering
from rag_assets.errors import UsageError
from tests.tiny_experiment import Tiny

tiny = Tiny(Path(sys.argv[1]))
pipeline = tiny.pipeline()
source = Path(rag_assets.ordering.__file__)
source.write_text(source.read_text() + "PLANTED = 1\\n")
try:
    list(pipeline.materialize("documents", pipeline.stages()[0].keys(pipeline.experiment)))
except UsageError as error:
    print(error)
"""


def test_a_process_whose_source_changed_writes_nothing(tmp_path: Path) -> None:
    unwanted = shutil.ignore_patterns("__pycache__")
    site = tmp_path / "site"
    shutil.copytree(PACKAGE_DIR, site / "rag_assets", ignore=unwanted)
    tiny = Tiny(tmp_path / "tiny").write()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(REPOSITORY)])}
    done = subprocess.run(
        [sys.executable, "-c", RESTART, str(tiny.root)],
        env=environment,
        cwd=site,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "the source of rag_assets changed since this process started; nothing" in done.stdout
    assert done.returncode == 0, done.stderr
    assert not list(tiny.settings.store.glob("tiny/documents/**/*.parquet"))


def test_what_former_code_filled_is_found() -> None:
    """Vectors and scores are asked for again only where other code gives others."""
    values = root_of(TextEncoder, "encode")
    versions = {
        "dense": filled_by(root_of(Encoder, "encode_now"), values),
        "tokens": filled_by(root_of(TokenEncoder, "encode_now"), values),
        "sparse": filled_by(root_of(SparseTextEncoder, "encode_now"), values),
        "cross": filled_by(f"{SCORED}:scored_by_pairs", root_of(CrossEncoderScorer, "score")),
    }
    assert versions == {
        "dense": "a5598868c1e36e0f",
        "tokens": "d8ea5cd31109fd70",
        "sparse": "f1a271a26cec0436",
        "cross": "20e50accfe9b80aa",
    }, "edited without another result? then SAME_RESULTS gets the new version"
