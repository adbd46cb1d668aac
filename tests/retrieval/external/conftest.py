from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from rag_assets.retrieval.external.base import ExternalRetriever, QueryResult
from rag_assets.retrieval.external.stage import SINGLE, rankings_key
from rag_assets.retrieval.workspace import NO_WORKSPACE
from tests.postgres_server import PASSWORD, postgres
from tests.tiny_experiment import Tiny

SEARCH = """
import re
from pathlib import Path

HERE = Path(__file__).parent
LOG = HERE.parent / "log.txt"
LOG.write_text(LOG.read_text() + "loaded\\n" if LOG.exists() else "loaded\\n")


def passages():
    for name in sorted(HERE.rglob("*.md")):
        for part in name.read_text().split("\\n\\n")[1:]:
            yield name.relative_to(HERE).as_posix(), part.strip()


def words(text):
    return set(re.findall(r"[a-z]+", text.lower()))


def retrieve(query, k):
    with LOG.open("a") as log:
        log.write(query + "\\n")
    scored = [(len(words(query) & words(text)), name, text) for name, text in passages()]
    best = sorted(scored, reverse=True)[:k]
    return [{"text": text, "source": name, "score": score} for score, name, text in best]
"""
"""A search with chunks of its own: paragraphs. It writes down that it is loaded, and each query."""


class Searched(Tiny):
    """An experiment with a search of somebody's own beside BM25."""

    @property
    def log(self) -> list[str]:
        """What the search wrote down."""
        file = self.root / "log.txt"
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    def forget_log(self) -> None:
        (self.root / "log.txt").unlink(missing_ok=True)

    def write_search(self, code: str = SEARCH) -> None:
        (self.folder / "my_search.py").write_text(code, encoding="utf-8")

    def copy_to(self, root: Path) -> Searched:
        super().copy_to(root)
        return Searched(root, copy.deepcopy(self.config))


def _searched(root: Path, computed: Tiny) -> Searched:
    tiny = Searched(root)
    tiny.start_from(computed)
    tiny.config["retrievers"] = {
        "mine": {"type": "python", "call": "my_search.py:retrieve"},
        "bm25": tiny.config["retrievers"]["bm25"],
    }
    tiny.config["baseline"] = "bm25"
    tiny.write()
    tiny.write_search()
    return tiny


@pytest.fixture
def searched(tmp_path: Path, computed: Tiny) -> Searched:
    """It was not asked yet."""
    return _searched(tmp_path / "tiny", computed)


@pytest.fixture(scope="session")
def _asked(tmp_path_factory: pytest.TempPathFactory, computed: Tiny) -> Searched:
    tiny = _searched(tmp_path_factory.mktemp("searched") / "tiny", computed)
    tiny.run()
    return tiny


@pytest.fixture
def asked(tmp_path: Path, _asked: Searched) -> Searched:
    """It was asked once."""
    return _asked.copy_to(tmp_path / "tiny")


def times_of(tiny: Tiny, retriever: str) -> dict[str, float]:
    """Return the milliseconds that a search took, for each query of the sample."""
    pipeline = tiny.pipeline()
    recipe = pipeline.recipe(rankings_key(retriever))
    assert recipe is not None
    times = pipeline.measurements.find(SINGLE, recipe.fingerprint)
    assert times is not None
    return dict(times["samples_ms"] or {})


VARIABLE = "MANUALS_DSN"


@dataclass(frozen=True)
class SearchDatabase:
    """A server on loopback with the extension ``vector``; all tables are in one database."""

    port: int

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[SearchDatabase]:
        with postgres() as port:
            database = cls(port)
            database.execute("CREATE EXTENSION vector")
            yield database

    @property
    def dsn(self) -> str:
        return f"postgresql://dagster:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/postgres"

    def execute(self, sql: str, values: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        return self.execute_each(sql, [values])

    def execute_each(self, sql: str, rows: Iterable[Sequence[Any] | None]) -> list[Any]:
        """Execute a statement once for each row of values; return what the last one gives."""
        import psycopg2

        connection = psycopg2.connect(self.dsn)
        try:
            with connection, connection.cursor() as cursor:
                for values in rows:
                    cursor.execute(sql, values)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()


def vector_text(vector: Iterable[float]) -> str:
    """Return a vector as pgvector reads it."""
    return f"[{','.join(map(repr, map(float, vector)))}]"


@pytest.fixture(scope="session")
def postgres_search() -> Iterator[SearchDatabase]:
    """A Postgres with pgvector; what a test makes in it, it removes."""
    with SearchDatabase.running() as database:
        yield database


def search(config: ExternalRetriever, *texts: str, k: int = 10) -> list[QueryResult]:
    with config.opened(NO_WORKSPACE) as ask:
        return list(ask(texts, k))


def evaluate(tiny: Tiny, code: int = 0) -> str:
    """Evaluate the experiment; return what is printed."""
    result = tiny.command("evaluate", ".", columns=120)
    assert result.exit_code == code, result.output
    return result.output
