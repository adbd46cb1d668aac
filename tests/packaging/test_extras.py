"""What is optional: nothing imports it before it is asked for, and its error names the extra."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rag_assets.analysis.comparisons import Comparison
from rag_assets.compute.compute import connect
from rag_assets.errors import RagAssetsError
from rag_assets.retrieval.dense import qdrant
from rag_assets.retrieval.external.sql import SqlRetriever
from rag_assets.retrieval.lexical.analyzers import check_analyzer
from rag_assets.sources.document_files import read_file, read_pdf
from rag_assets.store import remote
from tests.conftest import REPOSITORY
from tests.packaging.environments import dependencies, project

# What a caller has who imports the module: `rag_assets.testing` and the plug-in of pytest.
OF_THE_CALLER = {"pytest"}
# Come with the package on the right, which pins the versions that fit it.
PART_OF = {"pydantic_core": "pydantic"}


SEARCH = SqlRetriever(type="sql", query="SELECT :query AS id", dsn_env="DSN", revision="1")

ASKED: list[tuple[str, str, Callable[[], object]]] = [
    ("qdrant_client", "qdrant", lambda: qdrant.connected(None)),  # type: ignore[arg-type]
    ("selectolax", "documents", lambda: read_file(Path("page.html"))),
    ("pypdfium2", "documents", lambda: read_pdf(Path("page.pdf"))),
    ("psycopg2", "postgres", lambda: SEARCH.connect()),
    ("ray", "ray", lambda: connect("auto")),
    ("botocore", "s3", lambda: remote._client(None, 1.0, 1.0, None)),
    ("jieba", "chinese", lambda: check_analyzer("jieba")),
    ("icu4py", "icu", lambda: check_analyzer("icu")),
    ("pandas", "notebook", lambda: Comparison.to_pandas(Comparison.__new__(Comparison))),
    ("polars", "notebook", lambda: Comparison.to_polars(Comparison.__new__(Comparison))),
]


def extras() -> dict[str, list[str]]:
    table = project()["optional-dependencies"]
    assert isinstance(table, dict)
    return {
        extra: [canonicalize_name(Requirement(text).name) for text in needs]
        for extra, needs in table.items()
        if extra != "dev"
    }


@pytest.mark.parametrize(("module", "extra", "ask"), ASKED, ids=[one[0] for one in ASKED])
def test_a_missing_package_is_one_line_that_names_the_extra(
    module: str, extra: str, ask: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(f"{module}.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(RagAssetsError, match=re.escape(f"pip install 'rag-assets[{extra}]'")) as e:
        ask()
    assert "\n" not in str(e.value)
    assert extra in extras()


def imports(file: Path) -> Iterator[tuple[str, bool]]:
    """Yield each package that a file imports, and whether it does so when it is imported."""
    statements: list[tuple[ast.AST, bool]] = [(ast.parse(file.read_text(encoding="utf-8")), True)]
    for node, at_once in statements:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in {name.partition(".")[0] for name in names}:
            if name not in sys.stdlib_module_names and name not in {"rag_assets", "_typeshed"}:
                yield name, at_once
        is_later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        is_later |= isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        inner = (one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.expr))
        statements += [(one, at_once and not is_later) for one in inner]


def test_every_import_is_declared_and_optional_ones_are_late() -> None:
    core = {canonicalize_name(one.name) for one in dependencies()}
    optional = {name for names in extras().values() for name in names}
    provided = metadata.packages_distributions()
    problems = []
    for file in sorted((REPOSITORY / "rag_assets").rglob("*.py")):
        for module, at_once in imports(file):
            distributions = [PART_OF.get(module, module), *provided.get(module, [])]
            names = {canonicalize_name(one) for one in distributions}
            if module in OF_THE_CALLER or names & core:
                continue
            if not names & optional:
                problems.append(f"{file.name}: {module} is in no dependency and no extra")
            elif at_once:
                problems.append(f"{file.name}: {module} of an extra is imported at once")
    assert problems == []


def test_every_extra_for_code_of_ours_is_asked_for() -> None:
    for_dagster = {"postgres"}  # Dagster itself imports its package
    assert set(extras()) - {extra for _, extra, _ in ASKED} <= for_dagster
