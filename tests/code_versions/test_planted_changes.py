"""A change of the source gives another version to exactly the stages that reach it."""

from __future__ import annotations

import ast
import random
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rag_assets.code_versions.closure import Closure, Root, SourceGraph
from rag_assets.code_versions.source_modules import SourceModule
from rag_assets.code_versions.versions import PACKAGE_DIR, root_of
from rag_assets.evaluation.measures import MEASURE_TYPES
from rag_assets.pipeline.stages import STAGES
from rag_assets.query_sets.stage import writer_code
from rag_assets.query_sets.strategies import FileQuerySet, HydeQuerySet, MultiQuerySet
from rag_assets.retrieval.registry import OWN_TYPES
from rag_assets.sources.document_files import reader_code
from rag_assets.sources.document_folder import MarkdownDataset
from rag_assets.sources.labelled_folder import JsonlDataset
from rag_assets.sources.trec import TrecDataset

N_CHANGES = 100
SEED = 21

PLAIN = {name: [*stage.own_code()] for name, stage in STAGES.items()}


def lexical(kind: str, **options: Any) -> list[Root]:
    return OWN_TYPES[kind].model_construct(type=kind, identifiers=False, **options).code_roots()


def named(stage: str, *roots: Root) -> list[Root]:
    return [*PLAIN[stage], *roots]


ROOTS: Mapping[str, list[Root]] = {
    **{name: PLAIN[name] for name in ("chunks", "relevant_units", "comparisons", "attributions")},
    "documents md": named("documents", root_of(MarkdownDataset), *reader_code([Path("a.md")])),
    "documents pdf": named("documents", root_of(MarkdownDataset), *reader_code([Path("a.pdf")])),
    "qrels jsonl": named("qrels", root_of(JsonlDataset), *reader_code([])),
    "qrels trec": named("qrels", root_of(TrecDataset), *reader_code([])),
    "query_sets original": named("query_sets", *writer_code(None)),
    "query_sets file": named("query_sets", *writer_code(FileQuerySet)),
    "query_sets hyde": named("query_sets", *writer_code(HydeQuerySet)),
    "query_sets multi_query": named("query_sets", *writer_code(MultiQuerySet)),
    "index english": named("lexical_index", *lexical("bm25", analyzer="english")),
    "index german": named("lexical_index", *lexical("bm25", analyzer="german")),
    "index auto": named("lexical_index", *lexical("bm25", analyzer="auto")),
    "index cjk": named("lexical_index", *lexical("bm25", analyzer="cjk")),
    "index tfidf": named("lexical_index", *lexical("tfidf", analyzer="english")),
    "runs bm25": named("lexical_runs", *lexical("bm25", analyzer="english")),
    "runs tfidf": named("lexical_runs", *lexical("tfidf", analyzer="german")),
    "runs embedding": named("embedding_runs", root_of(OWN_TYPES["embedding"])),
    "runs cross_encoder": named("reranked_runs", root_of(OWN_TYPES["cross_encoder"])),
    "runs rrf": named("fused_runs", root_of(OWN_TYPES["rrf"])),
    "metrics": named("metrics", root_of(MEASURE_TYPES["ndcg"])),
}


class Edited(SourceGraph):
    """A graph in which one module stands as it was edited."""

    def __init__(self, base: SourceGraph, edited: SourceModule) -> None:
        super().__init__(base.packages)
        self.base, self.edited = base, edited

    def module(self, name: str) -> SourceModule | None:
        return self.edited if name == self.edited.name else self.base.module(name)


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy") / "rag_assets"
    unwanted = shutil.ignore_patterns("__pycache__", "*.pyc")
    return Path(shutil.copytree(PACKAGE_DIR, folder, ignore=unwanted))


class Source:
    """The source of the package, and which names of roots reach what."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.graph = SourceGraph({"rag_assets": folder})
        self.closures = {name: Closure(self.graph, roots) for name, roots in ROOTS.items()}

    def changed(self, file: str, content: str) -> set[str]:
        """Return the names of the roots that have another version when a file is rewritten."""
        path = self.folder / file
        before = path.read_text(encoding="utf-8")
        module = ".".join(["rag_assets", *Path(file).with_suffix("").parts])
        path.write_text(content, encoding="utf-8")
        try:
            edited = SourceModule(module.removesuffix(".__init__"), path)
        finally:
            path.write_text(before, encoding="utf-8")
        graph = Edited(self.graph, edited)
        found = {name: Closure(graph, roots).digest for name, roots in ROOTS.items()}
        return {name for name in ROOTS if found[name] != self.closures[name].digest}

    def replaced(self, file: str, old: str, new: str) -> set[str]:
        content = (self.folder / file).read_text(encoding="utf-8")
        assert old in content
        return self.changed(file, content.replace(old, new))

    def reached_by(self, place: tuple[str, str]) -> set[str]:
        """Return the names of the roots that reach a definition."""
        return {
            name
            for name, closure in self.closures.items()
            if place in {(one.module, one.name) for one in closure.definitions}
        }


@pytest.fixture(scope="module")
def source(copied: Path) -> Source:
    return Source(copied)


def functions(source: Source) -> Iterator[tuple[str, tuple[str, str], ast.stmt]]:
    """Yield all functions and methods of the package whose body is on lines of its own."""
    for module in source.graph.modules_of("rag_assets"):
        file = module.path.relative_to(source.folder).as_posix()
        found = [*module.definitions.values()]
        found += [method for one in module.classes.values() for method in one.methods.values()]
        for definition in found:
            node = definition.nodes[0]
            is_function = isinstance(node, ast.FunctionDef) and len(definition.nodes) == 1
            if is_function and node.body[0].lineno > node.lineno:  # type: ignore[attr-defined]  # of a function
                yield file, (definition.module, definition.name), node


def returning_early(content: str, function: ast.FunctionDef) -> str:
    """Return the source with a function that begins by returning."""
    lines = content.splitlines(keepends=True)
    first = function.body[0]
    lines.insert(first.lineno - 1, f"{' ' * first.col_offset}return 'planted'\n")
    return "".join(lines)


@pytest.mark.slow
def test_a_changed_function_changes_exactly_what_reaches_it(source: Source) -> None:
    chance = random.Random(SEED)
    every = list(functions(source))
    reached = [one for one in every if source.reached_by(one[1])]
    assert len(every) > 2_000
    assert len(reached) > 700
    chosen = chance.sample(reached, N_CHANGES - 20) + chance.sample(every, 20)
    sizes = set()
    for file, place, node in chosen:
        assert isinstance(node, ast.FunctionDef)
        content = (source.folder / file).read_text(encoding="utf-8")
        changed = source.changed(file, returning_early(content, node))
        assert changed == source.reached_by(place), place
        sizes.add(len(changed))
    # neither all nor nothing depends on a function
    assert len(sizes) > 5
    assert max(sizes) <= len(ROOTS)


NOTHING: set[str] = set()
ENGLISH = {"index english", "index auto", "index tfidf", "runs bm25"}
SNOWBALL = {"index german", "index auto", "runs bm25", "runs tfidf"}
BM25 = {"index english", "index german", "index auto", "index cjk", "runs bm25"}
TFIDF = {"index tfidf", "runs tfidf"}
ORIGINAL = {"query_sets original"}


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        # what is said
        ("sources/row_files.py", '"""Rows of a file', '"""The rows of a file', NOTHING),
        ("sources/trec.py", "\nclass TrecDataset", "\n# a comment\nclass TrecDataset", NOTHING),
        ("schemas.py", "title, empty when there is none", "the title", NOTHING),
        ("retrieval/lexical/bm25.py", 'search_kind: ClassVar[str | None] = "bm25"', "", NOTHING),
        # what is not reached
        ("schemas.py", 'HISTORY = TableSchema(\n    "', 'HISTORY = TableSchema(\n    "x', NOTHING),
        ("sources/html_document.py", "WITHIN = 1_024", "WITHIN = 2_048", NOTHING),
        # what is done
        (
            "sources/row_files.py",
            "document_id = checked_id(columns[-2]",
            "document_id = checked_id(columns[-3]",
            {"qrels trec"},
        ),
        ("retrieval/lexical/analyzers/words.py", '"such", ', "", ENGLISH),
        ("retrieval/lexical/analyzers/words.py", "token] or token", "token]", SNOWBALL),
        ("retrieval/lexical/bm25.py", "log(1 + (n - held", "log(2 + (n - held", BM25),
        ("retrieval/lexical/bm25.py", "f / (k1 * norm + f)", "f / (k1 + f)", BM25),
        ("retrieval/lexical/tfidf.py", "np.log10(n", "np.log2(n", TFIDF),
        ("retrieval/lexical/tfidf.py", "weights * weights,", "weights,", TFIDF),
        ("retrieval/lexical/analyzers/__init__.py", "MIN_LEAD = 3", "MIN_LEAD = 4", {"index auto"}),
        ("sources/document_files.py", 'PAGE_BREAK = "', 'PAGE_BREAK = "-', {"documents pdf"}),
        ("evaluation/metric_sql.py", "nth_group) + 1", "nth_group) + 2", {"metrics"}),
        ("query_sets/strategies.py", "parsed_passage, s", "parsed_line, s", {"query_sets hyde"}),
        ("query_sets/stage.py", ".table(), {}))", ".table(), {'q1': ['x']}))", ORIGINAL),
    ],
)
def test_what_a_change_costs(
    source: Source, file: str, old: str, new: str, expected: set[str]
) -> None:
    assert source.replaced(file, old, new) == expected


def test_a_packaged_prompt_counts_for_what_reads_it(source: Source) -> None:
    prompt = source.folder / "llm" / "prompts" / "hyde.txt"
    roots = {name: roots for name, roots in ROOTS.items() if name.startswith("query_sets")}
    before = {name: Closure(source.graph, one).digest for name, one in roots.items()}
    content = prompt.read_text(encoding="utf-8")
    prompt.write_text(f"{content}Be brief.\n", encoding="utf-8")
    try:
        after = {name: Closure(source.graph, one).digest for name, one in roots.items()}
    finally:
        prompt.write_text(content, encoding="utf-8")
    changed = {name for name in roots if before[name] != after[name]}
    assert changed == {"query_sets hyde", "query_sets multi_query"}
