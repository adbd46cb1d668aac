"""What people see, on every face: terminal, notebook, page, JSON, CSV, Markdown, LaTeX and Dagster.

Four experiments (complete labels, none, a drawn sample, answers with judges) are evaluated,
and their faces drawn. ``python -m tests.nets.goldens`` keeps them in ``tests/goldens/``: a file
for each topic, a section for each face. Paths, times, durations and ids are left out.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from click.testing import CliRunner

import rag_assets
from rag_assets.cli import main as program
from tests.dagster_state import materializations
from tests.nets.experiments import build, places
from tests.tiny_experiment import Tiny

FOLDER = Path(__file__).parents[1] / "goldens"
COMMAND = "python -m tests.nets.goldens"
EXPERIMENTS: Mapping[str, str] = {
    "complete": "fusion",
    "none": "open",
    "sample": "sample",
    "answers": "answers",
}
"""Name of the golden -> that of ``experiments.yaml``."""

TWICE = ("complete", "answers")
"""Those that are evaluated before and after a change: they have something to compare."""

WIDTHS = (60, 100, 200)
PAIR = "{path} bm25 {second}"
TOPICS: Mapping[str, str] = {
    "evaluate": "{path}",
    "plan": "{path}",
    "validate": "{path}",
    "ask": "{path} | what does a ticket for a dog cost",
    "leaderboard": "{path}",
    "leaderboard slices": "{path} --by tags",
    "leaderboard answers": "{path} --answers",
    "leaderboard ties": "{path} --ties",
    "leaderboard budget": "{path} --budget 30",
    "compare": "{path}",
    "compare pair": PAIR,
    "compare moves": f"{PAIR} --moves 2",
    "history": "{path}",
    "diff": "{path}",
    "gate": "{path} --against previous",
    "anchor": "{path} --show",
    "attribution": "{path}",
    "attribution queries": "{path} --queries",
    "attribution answers": "{path} --answers",
    "label": "{path} --status",
    "pool": "{path}",
    "status": "",
}
"""Command and what of it -> its arguments; a bar stands before an argument with spaces."""

ALL_FACES = ("leaderboard", "leaderboard answers", "compare", "compare pair", "gate", "history")
"""Topics that are drawn in all widths and formats; of the others, a table and JSON."""

SECOND = {"complete": "rrf", "none": "rrf", "sample": "okapi", "answers": "rrf"}
DAGSTER = (
    "queries", "chunks", "lexical_runs", "metrics", "metrics_summary", "intervals", "comparisons",
    "leaderboard", "overlaps", "attributions", "tuning", "answers", "answer_metrics",
    "answer_summary", "answer_waterfall", "answer_verdicts", "calibrated_means",
    "sampled_labels", "sampled_estimates",
)  # fmt: skip

_VARYING = (
    (r"127\.0\.0\.1:\d+", "<server>"),
    (r"\b\d{8}T\d+(\.\d+)?Z?-[0-9a-f]+", "<evaluation>"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d| UTC)?", "<time>"),
    (r"\b202[67]-(?!01-31)\d\d-\d\d\b", "<date>"),
    (r"<date>(\s+)[0-9a-f]{4}\b", r"<date>\1<id>"),
    (r"^\d\d:\d\d\b", "<clock>"),
    (r"^((code_)?seconds|bytes|size): [\d.]+", r"\1: <n>"),
    (r"<time>(\s*)[0-9a-f]{4}\b", r"<time>\1<id>"),
    (r"\b\d+(\.\d+)? ?(ms|s|sec|seconds?|min|minutes?)\b(?! of| per)", "<duration>"),
    (r"(?<![\w.])(?=\d*[a-f])[0-9a-f]{16,64}\b", "<hash>"),
    (r"[ ]+$", ""),
)


@contextmanager
def evaluated(names: Iterable[str], root: Path) -> Iterator[Mapping[str, Tiny]]:
    """Evaluate all; some before and after a change of a retriever."""
    with places(root, torch=False) as made:
        found = {}
        for name in names:
            tiny = build(EXPERIMENTS[name], root / name, made)
            tiny.config["retrievers"].pop("near", None)
            for k1 in (2.0, 1.2) if name in TWICE else (1.2,):
                tiny.configure("bm25", k1=k1)
                done = invoke(tiny, "evaluate", [str(tiny.folder)])
                if done.exit_code:
                    raise RuntimeError(done.output)
            found[name] = tiny
        yield found


def invoke(tiny: Tiny, command: str, arguments: Sequence[str], width: int = 100) -> Any:
    """Run a command with the store of an experiment."""
    store = ["--store", str(tiny.root / "store")]
    runner = CliRunner(env={"COLUMNS": str(width), "RAG_ASSETS_STORE": None, "DAGSTER_HOME": None})
    return runner.invoke(program, [*command.split(), *arguments, *store])


def faces(name: str, tiny: Tiny) -> Iterator[tuple[str, str]]:
    """Yield the name of each golden of an experiment, and its text."""
    for topic, arguments in TOPICS.items():
        yield (
            topic.replace(" ", "-"),
            _normal(tiny, "".join(_sections(name, tiny, topic, arguments))),
        )
    page = tiny.root / "page.html"
    invoke(tiny, "report", [str(tiny.folder), "--small", "--out", str(page)])
    yield "page", _normal(tiny, text_of(page.read_text(encoding="utf-8")))
    yield "notebook", _normal(tiny, "".join(_notebook(name, tiny)))
    yield "dagster", _normal(tiny, "".join(_dagster(tiny)))


def _sections(name: str, tiny: Tiny, topic: str, arguments: str) -> Iterator[str]:
    """Yield a topic in every format, and in every width of the terminal."""
    command = topic.split()[0]
    words, _, phrase = arguments.format(path=tiny.folder, second=SECOND[name]).partition(" | ")
    given = [*words.split(), *([phrase] if phrase else [])]
    forms = ("table",) if command == "evaluate" else _formats(command)
    for form in forms if topic in ALL_FACES else [one for one in forms if one in ("table", "json")]:
        for width in WIDTHS if form == "table" and topic in ALL_FACES else WIDTHS[1:2]:
            done = invoke(tiny, command, [*given, "--format", form], width)
            head = f"{form} {width}" if form == "table" else form
            status = f", exit {done.exit_code}" if done.exit_code else ""
            yield f"=== {head}{status}\n{done.stdout.rstrip()}\n"
            if done.stderr and form == "table" and width == WIDTHS[1]:
                yield f"=== notes\n{done.stderr.rstrip()}\n"
            if done.exit_code in (1, 2) and not done.stdout:
                return  # refused: in every format alike


def _formats(command: str) -> Sequence[str]:
    found = program.get_command(click.Context(program), command)
    assert found is not None
    (option,) = [one for one in found.params if "--format" in one.opts]
    assert isinstance(option.type, click.Choice)
    return list(option.type.choices)


def _notebook(name: str, tiny: Tiny) -> Iterator[str]:
    """Yield what a notebook prints and shows of each result."""
    place: dict[str, Any] = {"store": tiny.root / "store"}
    board = rag_assets.leaderboard(tiny.folder, **place)
    results: dict[str, Any] = {
        "leaderboard": board,
        "ask": rag_assets.ask(tiny.folder, "ticket for a dog", top_k=2, **place),
    }
    if name != "none":
        results |= {
            "compare": rag_assets.compare(board),
            "history": rag_assets.history(tiny.folder, **place),
        }
    if name in TWICE:
        results["gate"] = rag_assets.gate(tiny.folder, against="previous", **place)
    if name == "answers":
        results |= {"answers": board.answers, "judged": board.judged}
    for topic, result in results.items():
        yield f"=== print({topic})\n{result!r}\n"
        if hasattr(result, "_repr_html_"):
            yield f"=== {topic}\n{text_of(result._repr_html_())}\n"


def _dagster(tiny: Tiny) -> Iterator[str]:
    """Yield the metadata of the first partition of some assets."""
    for asset in DAGSTER:
        events = sorted(materializations(tiny, asset), key=lambda one: str(one.partition))
        if events:
            shown = {name: _value(value) for name, value in events[0].metadata.items()}
            yield f"=== {asset} {events[0].partition or ''}\n"
            yield "".join(f"{name}: {shown[name]}\n" for name in sorted(shown))


def _value(value: Any) -> str:
    records = getattr(value, "records", None)
    if records is not None:
        return "".join(f"\n  {json.dumps(one.data, ensure_ascii=False)}" for one in records)
    return str(getattr(value, "value", value))


class _Text(HTMLParser):
    """Collects the text of a page: a line for each block and each row of a table."""

    HIDDEN = ("script", "style", "svg")
    BLOCKS = ("p", "div", "section", "h1", "h2", "h3", "h4", "li", "tr", "summary", "table", "dt")

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._hidden += tag in self.HIDDEN
        if tag in self.BLOCKS:
            self.parts.append(f"\n{tag}: " if tag[0] == "h" else "\n")
        elif tag in ("td", "th"):
            self.parts.append(" | ")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in self.HIDDEN

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(re.sub(r"\s+", " ", data))


def text_of(html: str) -> str:
    """Return what a page says, without its looks and its charts."""
    parser = _Text()
    parser.feed(html)
    lines = (line.strip() for line in "".join(parser.parts).splitlines())
    return "\n".join(line for line in lines if line)


def _normal(tiny: Tiny, text: str) -> str:
    text = text.replace(str(tiny.root), "<root>").replace(str(Path(sys.executable).parent), "<bin>")
    for pattern, name in _VARYING:
        text = re.sub(pattern, name, text, flags=re.M)
    return f"{text.rstrip()}\n"


def drawn(names: Iterable[str], root: Path) -> dict[str, str]:
    """Return path in ``tests/goldens`` -> text, of all faces of some experiments."""
    with evaluated(names, root) as experiments:
        return {
            f"{name}/{topic}.txt": text
            for name, tiny in experiments.items()
            for topic, text in faces(name, tiny)
        }


def differing(names: Iterable[str], now: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines that differ from what is kept of some experiments."""
    files = [file for name in names for file in sorted((FOLDER / name).glob("*.txt"))]
    kept = {str(file.relative_to(FOLDER)): file for file in files}
    for name in sorted(kept.keys() | now.keys()):
        old = kept[name].read_text(encoding="utf-8") if name in kept else ""
        before, after = old.splitlines(), now.get(name, "").splitlines()
        yield from difflib.unified_diff(before, after, name, f"{name}, now", n=1, lineterm="")


def main(names: Sequence[str]) -> None:
    """Keep all faces of some experiments, or of all, as they are now."""
    with TemporaryDirectory() as folder:
        now = drawn(names, Path(folder))
    sys.stdout.writelines(f"{line}\n" for line in differing(names, now))
    for name in names:
        for file in (FOLDER / name).glob("*.txt"):
            file.unlink()
    for name, text in now.items():
        file = FOLDER / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:] or tuple(EXPERIMENTS))
