"""Mutants: small changes of the library that a test has to notice. ``make mutants``.

A test suite that covers a line may still not look at what the line does. So a sample of all
possible small changes is made, one at a time: a number is one higher or lower, ``<`` is ``<=``,
``+`` is ``-``, ``and`` is ``or``, a condition is negated, a statement is left out, None is
returned. The tests that cover the line must fail; a mutant that they let pass has survived.

One pytest process collects all tests and forks for each mutant: the child gives one function the
code of the changed source and runs the tests that the coverage file names for its line, the
quickest first. Files stay as they are, so nothing has to be imported again, and what reads the
source (code versions) is not disturbed. Only functions are changed: what a module or a class does
while it is imported is over before the fork.

The order of the mutants is drawn by seed, so a run that ends early has taken a fair sample.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import importlib
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import psutil
import pytest

REPOSITORY = Path(__file__).resolve().parents[1]

ENGINE = ("engine", "pipeline", "store", "code_versions")
FACES = ("cli", "labels", "judges", "analysis", "sheets", "report")
PACKAGES = ("answers", "evaluation", "statistics", "retrieval/fusion", *ENGINE, *FACES)

BUILD = REPOSITORY / "build" / "mutants"
LINES, DURATIONS = BUILD / "coverage", BUILD / "durations.xml"

MAX_SECONDS = 10.0
"""What the tests of one mutant took when nothing was changed, at most; the rest is left out."""

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Mutant:
    """One change: the node of a function, counted as `ast.walk` does, and which change of it."""

    path: str
    function: str
    line: int
    node: int
    change: int
    says: str

    @property
    def package(self) -> str:
        """The package below rag_assets; of retrieval, the one in it."""
        return "/".join(Path(self.path).parts[1:-1])


def mutants_of(path: str, source: str) -> Iterator[Mutant]:
    """Yield every mutant of the functions of a file."""
    for name, function in functions_of(ast.parse(source)):
        for number, node in enumerate(_changeable(function)):
            for change, changed in enumerate(changes_of(node)):
                says = f"{_short(node)} -> {_short(changed)}"
                yield Mutant(path, name, node.lineno, number, change, says)


def functions_of(
    tree: ast.Module | ast.ClassDef, prefix: str = ""
) -> Iterator[tuple[str, Function]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from functions_of(node, f"{prefix}{node.name}.")
        elif isinstance(node, Function):
            yield f"{prefix}{node.name}", node


def _changeable(function: Function) -> list[ast.expr | ast.stmt]:
    """Return the nodes of a function's body, without error texts and annotations."""
    found: list[ast.expr | ast.stmt] = []
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.expr | ast.stmt):
            found.append(node)
        if isinstance(node, ast.AnnAssign):
            waiting += [node.value] if node.value else []
        elif isinstance(node, Function):
            waiting += node.body
        elif not isinstance(node, ast.Raise | ast.JoinedStr | ast.arguments):
            waiting += ast.iter_child_nodes(node)
    return found


def changes_of(node: ast.AST) -> list[ast.expr | ast.stmt]:
    """Return the changed forms of one node; most nodes have none."""
    return _changed_statement(node) if isinstance(node, ast.stmt) else _changed_expression(node)


def _changed_expression(node: ast.AST) -> list[ast.expr | ast.stmt]:
    match node:
        case ast.Constant(value=bool() as value):
            return [ast.Constant(not value)]
        case ast.Constant(value=int() | float() as value):
            return [ast.Constant(value + 1), ast.Constant(value - 1)]
        case ast.Compare(left=left, ops=[op], comparators=comparators):
            return [ast.Compare(left, [_swapped(op)], comparators)]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in SWAPS:
            return [ast.BinOp(left, _swapped(op), right)]
        case ast.BoolOp(op=op, values=values):
            return [ast.BoolOp(_swapped(op), values)]
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            return [operand]
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return [ast.IfExp(ast.UnaryOp(ast.Not(), test), body, orelse)]
    return []


def _changed_statement(node: ast.AST) -> list[ast.expr | ast.stmt]:
    match node:
        case ast.If(test=test, body=body, orelse=orelse):
            return [ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)]
        case ast.Return(value=ast.expr() as value) if not _is_none(value):
            return [ast.Return(ast.Constant(None))]
        case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()):
            return [ast.Pass()]
        case ast.AugAssign() | ast.Raise() | ast.Break() | ast.Continue():
            return [ast.Pass()]
    return []


def _swapped(op: ast.AST) -> Any:
    return SWAPS[type(op)]()


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _short(node: ast.AST) -> str:
    return ast.unparse(node).split("\n")[0][:60]


def changed_code(mutant: Mutant, source: str, filename: str) -> CodeType:
    """Return the compiled form of the mutant's function.

    Raises:
        LookupError: the function is not in the compiled module.
    """
    tree = ast.parse(source)
    function = next(node for name, node in functions_of(tree) if name == mutant.function)
    node = _changeable(function)[mutant.node]
    changed = ast.copy_location(changes_of(node)[mutant.change], node)
    for parent in ast.walk(function):
        for field, value in ast.iter_fields(parent):
            if value is node:
                setattr(parent, field, changed)
            elif isinstance(value, list):
                setattr(parent, field, [changed if each is node else each for each in value])
    module = compile(ast.fix_missing_locations(tree), filename, "exec", dont_inherit=True)
    for code in _codes(module):
        if code.co_qualname == mutant.function:
            return code
    raise LookupError(mutant.function)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


@dataclass(frozen=True)
class Covered:
    """Which tests run which lines, and how long each test takes."""

    tests: dict[tuple[str, int], set[str]]
    seconds: dict[str, float]

    def chosen(self, mutant: Mutant) -> list[str]:
        """Return the tests of a mutant's line, the quickest first, up to `MAX_SECONDS`."""
        own = f"test_{Path(mutant.path).stem}.py"
        tests = self.tests.get((mutant.path, mutant.line), set())
        found: list[str] = []
        total = 0.0
        for test in sorted(tests, key=lambda one: (own not in one, self.seconds[one], one)):
            total += self.seconds[test]
            if found and total > MAX_SECONDS:
                break
            found.append(test)
        return found


def covered(database: Path, durations: Path) -> Covered:
    """Read a coverage file with contexts (``--cov-context=test``) and a JUnit file."""
    seconds: dict[str, float] = {}
    by_file: dict[str, set[str]] = defaultdict(set)
    for case in ET.parse(durations).iter("testcase"):
        # A test that fails without a mutant says nothing about one.
        if not {"failure", "error", "skipped"} & {part.tag for part in case}:
            file, *classes = _file_and_classes(case.get("classname", ""))
            test = "::".join([file, *classes, case.get("name", "")])
            seconds[test] = float(case.get("time", 0))
            by_file[file].add(test)
    tests: dict[tuple[str, int], set[str]] = defaultdict(set)
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(
            "SELECT DISTINCT path, context, abs(fromno) FROM arc "
            "JOIN file ON file.id = file_id JOIN context ON context.id = context_id"
        )
        for path, context, line in rows:
            test, _, phase = context.partition("|")
            place = Path(path).relative_to(REPOSITORY).as_posix(), line
            if phase == "setup":  # of a fixture that other tests of the file may share
                tests[place] |= by_file[test.partition("::")[0]]
            elif phase == "run" and test in seconds:
                tests[place].add(test)
    return Covered(dict(tests), seconds)


def _file_and_classes(name: str) -> list[str]:
    """Return the file of ``tests.report.test_page.TestPage``, and its classes."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        file = f"{'/'.join(parts[:end])}.py"
        if (REPOSITORY / file).is_file():
            return [file, *parts[end:]]
    return [f"{'/'.join(parts)}.py"]


class Runner:
    """A pytest plug-in: instead of running the tests it runs the mutants."""

    def __init__(self, mutants: Sequence[Mutant], covered: Covered, until: float) -> None:
        self.mutants, self.covered, self.until = mutants, covered, until
        self.functions: dict[tuple[str, str], list[FunctionType]] = defaultdict(list)
        self.results: dict[Mutant, str] = {}
        self.in_child = False

    def pytest_collection_modifyitems(self) -> None:
        """Find the functions; later the garbage collector is told to forget them."""
        for path in {mutant.path for mutant in self.mutants}:
            importlib.import_module(path.removesuffix(".py").replace("/", "."))
        for found in gc.get_objects():
            if isinstance(found, FunctionType):
                self.functions[found.__code__.co_filename, found.__code__.co_qualname].append(found)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """End the child at the first failure."""
        if self.in_child and report.failed:
            os._exit(1)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the mutants, two at a time."""
        items = {item.nodeid: item for item in session.items}
        running: dict[int, tuple[Mutant, float, Path]] = {}
        waiting = list(reversed(self.mutants))
        while running or (waiting and time.time() < self.until):
            while waiting and len(running) < 2 and time.time() < self.until:
                mutant = waiting.pop()
                tests = [items[name] for name in self.covered.chosen(mutant) if name in items]
                if not tests:
                    self._note(mutant, "no test")
                    continue
                folder = Path(tempfile.mkdtemp(prefix="mutant-"))
                seconds = sum(self.covered.seconds[test.nodeid] for test in tests)
                child = os.fork()
                if child == 0:
                    self._child(mutant, tests, folder)
                running[child] = mutant, time.time() + 20 + 4 * seconds, folder
            self._wait(running)
        return True

    def _wait(self, running: dict[int, tuple[Mutant, float, Path]]) -> None:
        for child, (mutant, deadline, folder) in list(running.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if not ended and time.time() < deadline:
                continue
            _kill(child, folder)
            if not ended:
                os.waitpid(child, 0)
            shutil.rmtree(folder, ignore_errors=True)
            del running[child]
            words = {0: "survived", 3: "not made"}
            code = os.waitstatus_to_exitcode(status)
            self._note(mutant, words.get(code, "killed") if ended else "too slow")
        time.sleep(0.005)

    def _note(self, mutant: Mutant, result: str) -> None:
        self.results[mutant] = result
        if result not in ("killed", "too slow", "not made"):
            where = f"{mutant.path}:{mutant.line}"
            sys.stdout.write(f"{result}: {where} {mutant.function}: {mutant.says}\n")
            sys.stdout.flush()

    def _child(self, mutant: Mutant, tests: list[pytest.Item], folder: Path) -> None:
        os.setsid()
        self.in_child = True
        os.environ["PYTEST_DEBUG_TEMPROOT"] = os.environ["TMPDIR"] = str(folder)
        tempfile.tempdir = None
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        try:
            file = REPOSITORY / mutant.path
            code = changed_code(mutant, file.read_text(encoding="utf-8"), str(file))
            functions = self.functions[str(file), mutant.function]
            for function in functions:
                function.__code__ = code
            if not functions:
                os._exit(3)
        except (LookupError, SyntaxError, ValueError):
            os._exit(3)
        try:
            for number, test in enumerate(tests):
                following = tests[number + 1] if number + 1 < len(tests) else None
                test.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
        except BaseException:  # a mutant may raise anything, also SystemExit
            os._exit(1)
        os._exit(0)


def _kill(child: int, folder: Path) -> None:
    """Kill what a mutant's tests left: its process group, and sessions that they began."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("PYTEST_DEBUG_TEMPROOT") == str(folder):
                process.kill()


def sample(packages: Sequence[str], size: int, seed: int) -> tuple[list[Mutant], int]:
    every: list[Mutant] = []
    for package in packages:
        for file in sorted((REPOSITORY / "rag_assets" / package).rglob("*.py")):
            path = file.relative_to(REPOSITORY).as_posix()
            every += mutants_of(path, file.read_text(encoding="utf-8"))
    random.Random(seed).shuffle(every)
    return every[:size], len(every)


def table(results: dict[Mutant, str]) -> str:
    lines = [
        f"{'package':<16} {'mutants':>8} {'killed':>8} {'survived':>9} {'no test':>8} {'share':>7}"
    ]
    for package in [*sorted({mutant.package for mutant in results}), "all"]:
        of = Counter(
            result for mutant, result in results.items() if package in (mutant.package, "all")
        )
        killed = of["killed"] + of["too slow"]
        made = killed + of["survived"] + of["no test"]
        lines.append(
            f"{package:<16} {made:>8} {killed:>8} {of['survived']:>9} {of['no test']:>8}"
            f" {killed / max(made, 1):>7.1%}"
        )
    return "\n".join(lines)


def tests_of(mutants: Sequence[Mutant]) -> list[str]:
    """Return the test files that import a mutant's module, of the folder of its package.

    Where none does, all of that folder are its tests.
    """
    texts: dict[Path, dict[str, str]] = {}
    chosen: set[str] = set()
    for path in {mutant.path for mutant in mutants}:
        module = Path(path).relative_to("rag_assets").with_suffix("")
        folder = next(
            place for parent in module.parents if (place := REPOSITORY / "tests" / parent).is_dir()
        )
        if folder not in texts:
            texts[folder] = {
                file.relative_to(REPOSITORY).as_posix(): file.read_text(encoding="utf-8")
                for file in sorted(folder.rglob("test_*.py"))
            }
        package = ".".join(["rag_assets", *module.parts[:-1]])
        named = re.compile(rf"{package}\.{module.name}\b|from {package} import .*\b{module.name}\b")
        importing = {name for name, text in texts[folder].items() if named.search(text)}
        chosen |= importing or texts[folder].keys()
    return sorted(chosen)


def measure(tests: Sequence[str]) -> None:
    """Run the tests once and keep which lines each of them runs (branches too)."""
    BUILD.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    command += ["-m", "not slow"]
    command += [
        "--cov",
        "--cov-branch",
        "--cov-context=test",
        "--cov-report=",
        f"--junitxml={DURATIONS}",
    ]
    subprocess.run(
        command, check=False, cwd=REPOSITORY, env={**os.environ, "COVERAGE_FILE": str(LINES)}
    )


def main() -> int:
    """Run mutants as the command line says, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=main.__doc__)
    parser.add_argument("packages", nargs="*", default=PACKAGES, help="as retrieval/fusion")
    parser.add_argument("--sample", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600, help="start no mutant after these")
    parser.add_argument("--covered", action="store_true", help="the lines covered are known")
    asked = parser.parse_args()
    mutants, count = sample(asked.packages, asked.sample, asked.seed)
    tests = tests_of(mutants)
    if not asked.covered:
        measure(tests)
    runner = Runner(mutants, covered(LINES, DURATIONS), time.time() + 60 * asked.minutes)
    options = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=1"]
    pytest.main([*options, *tests], plugins=[runner])
    done = f"{len(runner.results)} of {len(mutants)} drawn from {count}, seed {asked.seed}"
    sys.stdout.write(f"{table(runner.results)}\n{done}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
