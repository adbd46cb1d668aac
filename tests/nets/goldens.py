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
from io import StringIO
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar
from unittest.mock import patch

import click
from click.testing import CliRunner

import rag_assets
from rag_assets.cli import main as program
from rag_assets.cli import terminal
from rag_assets.engine.measurements import Measurements
from rag_assets.plain_text import markdown
from tests.dagster_state import materializations
from tests.nets.experiments import build, places
from tests.page_text import PageText
from tests.tiny_experiment import JUDGMENTS, Tiny

FOLDER = Path(__file__).parents[1] / "goldens"
COMMAND = "python -m tests.nets.goldens"
EXPERIMENTS: Mapping[str, str] = {
    "complete": "fusion",
    "none": "open",
    "drawn": "sample",
    "answers_with_judges": "answers",
}
"""Name of the golden -> that of ``experiments.yaml``."""

WIDTHS = (60, 100, 200)
PAIR = "{path} bm25 {second}"
ANSWERERS = "{path} read@5 edges@5"
TOPICS: Mapping[str, str] = {
    "plan": "{path}",
    "validate": "{path}",
    "ask": "{path} | what does a ticket for a dog cost",
    "leaderboard": "{path}",
    "leaderboard slices": "{path} --by tag",
    "leaderboard answers": "{path} --answers",
    "leaderboard latency": "{path} --latency",
    "leaderboard ties": "{path} --ties --retriever bm25 --retriever {second}",
    "leaderboard budget": "{path} --budget 30 --retriever bm25 --retriever {second}",
    "compare": "{path}",
    "compare pair": PAIR,
    "history": "{path}",
    "diff": "{path} previous latest",
    "gate": "{path} --against previous",
    "anchor": "{path} --show",
    "attribution": "{path}",
    "attribution slices": "{path} --by tag",
    "attribution queries": "{path} --queries",
    "attribution answers": "{path} --answers",
    "label": "{path} --status",
    "pool": "{path}",
    "status": "",
    "evaluate": "{path}",
}
"""Command and what of it -> its arguments; a bar stands before an argument with spaces."""

OWN_TOPICS: Mapping[str, Mapping[str, str]] = {
    "complete": {
        "score": "--run {root}/run.trec --qrels {root}/qrels.txt",
        "leaderboard online": "{path} --online",
        "gate floors": "{path} --against previous --at-least mrr@5=0.99 --at-most hit_rate@3=0.5",
    },
    "drawn": {
        "compare sampled": "{path} --metric sampled_dcg@5",
        "history sampled": "{path} --metric sampled_dcg@5",
        "pool sample": "{path} --sample 3",
    },
    "answers_with_judges": {
        "leaderboard answer slices": "{path} --by tag --metric answer_f1",
        "compare answers": "{path} --metric answer_f1",
        "compare answer pair": ANSWERERS,
        "compare judged": "{path} --metric judged_correct:floor",
        "history answers": "{path} --metric answer_f1",
        "history judged": "{path} --metric judged_correct:floor",
        "gate answers": "{path} --against previous --metric answer_f1",
        "gate judged": "{path} --against previous --metric judged_correct:floor",
        "gate floors": "{path} --at-least answer_f1=0.2 --at-most abstained=0.9 --bound",
        "judge check": "{path} --judge floor",
        "judge sheet": "{path} --questions 3",
    },
}
"""Those of one experiment alone."""

SECOND = {"complete": "rrf", "none": "rrf", "drawn": "okapi", "answers_with_judges": "rrf"}
DAGSTER = (
    "queries", "chunks", "lexical_runs", "metrics", "metrics_summary", "intervals", "comparisons",
    "leaderboard", "overlaps", "attributions", "tuning", "answers", "answer_metrics",
    "answer_summary", "answer_waterfall", "answer_verdicts", "calibrated_means",
    "calibrated_differences", "calibrated_rankings", "sampled_labels", "sampled_estimates",
)  # fmt: skip

_VARYING = (
    (r"127\.0\.0\.1:\d+", "<server>"),
    (r"\b\d{8}T\d+(\.\d+)?Z?-[0-9a-f]+", "<evaluation>"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d| UTC)?", "<time>"),
    (r"\b202[67]-(?!01-31)\d\d-\d\d\b", "<date>"),
    (r"<date>(\s+)[0-9a-f]{4}\b", r"<date>\1<id>"),
    (r"^( *)\d\d:\d\d\b", r"\1<clock>"),
    (r"^((code_)?seconds|bytes|size): [\d.]+", r"\1: <n>"),
    (r"<time>(\s*(?:\| )?)[0-9a-f]{4}\b", r"<time>\1<id>"),
    (
        r"(?<!@)\b\d+(\.\d+)? ?(ms|s|sec|seconds?|min|minutes?)\b(?! of| per (?!query))",
        "<duration>",
    ),
    (r"(?<![\w.])((?=\d*[a-f])[0-9a-f]{12,64}|\d{12}|\d{16}|\d{32}|\d{64})\b", "<hash>"),
    (r"\b\d+\.\d+\.\d+\b", "<version>"),
    (r"[ ]+$", ""),
)


@contextmanager
def evaluated(names: Iterable[str], root: Path) -> Iterator[Mapping[str, Tiny]]:
    """Evaluate all before and after a change of a retriever, so that there is a past to compare."""
    with places(root, torch=False) as made, _same_timings():
        experiments = {}
        for name in names:
            tiny = build(EXPERIMENTS[name], root / name, made, is_labelled=name != "drawn")
            _change(name, tiny)
            for k1 in (2.0, 1.2):
                tiny.configure("bm25", k1=k1)
                done = invoke(tiny, "evaluate", [str(tiny.folder)])
                if done.exit_code:
                    raise RuntimeError(done.output)
            run = ["--retriever", "bm25", "--out", str(tiny.root / "run.trec")]
            invoke(tiny, "export-run", [str(tiny.folder), *run])
            _write_qrels(tiny)
            experiments[name] = tiny
        yield experiments


def _change(name: str, tiny: Tiny) -> None:
    """Let all be timed, and leave out what would show the same again."""
    config = tiny.config
    config["measurements"] = {"latency_sample": 2}
    for alike in ("near", "convex", "sum", "mnz", "borda"):
        config["retrievers"].pop(alike, None)
    if name == "complete":
        config["top_k"] = [3, 5]
        tiny.write_rows("clicks.jsonl", [*_clicks()])
        votes = [{"query_id": "q1", "doc_id": "lost.md", "vote": vote} for vote in ("up", "down")]
        tiny.write_rows("votes.jsonl", votes)
        config["online"] = {"clicks": "clicks.jsonl", "feedback": "votes.jsonl", "by": "week"}
    if name == "answers_with_judges":
        config["top_k"] = config["answers"]["random"]["top_k"] = [5]


def _write_qrels(tiny: Tiny) -> None:
    """Label the passages of the exported run whose document is labelled, and one it has not."""
    documents = {(row["query_id"], row["doc_id"]) for row in JUDGMENTS}
    rows = (line.split() for line in (tiny.root / "run.trec").read_text("utf-8").splitlines())
    passages = {(row[0], row[2]) for row in rows if (row[0], row[2].partition("#")[0]) in documents}
    passages.add(("q2", "lost.md#0-15"))
    lines = [f"{query_id} 0 {passage} 1\n" for query_id, passage in sorted(passages)]
    (tiny.root / "qrels.txt").write_text("".join(lines), encoding="utf-8")


def _clicks() -> Iterator[Mapping[str, object]]:
    """Yield searches of three users in two weeks, by two retrievers alone and interleaved."""
    results = ["lost.md", "engines.md"]
    teams = {"retrievers": ["bm25", "rrf"], "teams": [0, 1]}
    makers: list[dict[str, object]] = [{"retriever": "bm25"}, {"retriever": "rrf"}, teams]
    for number, (user, maker) in enumerate(product(("ada", "bob", "eve"), makers)):
        search = {"query_id": f"s{number}", "query_response_hit_ids": results}
        at = f"2026-01-{10 + number:02}T09:00:00Z"
        yield search | {"client_id": user, "timestamp": at, "query_attributes": maker}
        clicked = {"object": {"object_id": results[number % 2]}}
        if number % 4:
            yield {"action_name": "click", "query_id": f"s{number}", "event_attributes": clicked}


@contextmanager
def _same_timings() -> Iterator[None]:
    """Let all work take as long on any machine: what is shown of it is compared too."""
    add = Measurements.add

    def steady(
        self: Measurements,
        what: str,
        fingerprint: str,
        seconds: float | None,
        *rest: Any,
        **more: Any,
    ) -> None:
        times: dict[str, Any] = {
            name: 2.0 for name in ("p50_ms", "p95_ms", "p99_ms") if name in more
        }
        if "samples_ms" in more:
            times["samples_ms"] = dict.fromkeys(more["samples_ms"] or {}, 2.0)
        add(self, what, fingerprint, None if seconds is None else 0.5, *rest, **{**more, **times})

    with patch.object(Measurements, "add", steady):
        yield


def invoke(tiny: Tiny, command: str, arguments: Sequence[str], width: int = 100) -> Any:
    """Run a command with the store of an experiment."""
    store = [] if command == "score" else ["--store", str(tiny.root / "store")]
    runner = CliRunner(env={"COLUMNS": str(width), "RAG_ASSETS_STORE": None, "DAGSTER_HOME": None})
    return runner.invoke(program, [*command.split(), *arguments, *store])


def faces(name: str, tiny: Tiny) -> Iterator[tuple[str, str]]:
    """Yield the name of each golden of an experiment, and its text."""
    for topic, arguments in {**TOPICS, **OWN_TOPICS.get(name, {})}.items():
        text = "".join(_sections(name, tiny, topic, arguments))
        yield topic.replace(" ", "-"), _normal(tiny, text)
    page = tiny.root / "page.html"
    invoke(tiny, "report", [str(tiny.folder), "--out", str(page)])
    yield "page", _normal(tiny, text_of(page.read_text(encoding="utf-8")))
    yield "notebook", _normal(tiny, "".join(_notebook(name, tiny)))
    yield "dagster", _normal(tiny, "".join(_dagster(tiny)))


def _sections(name: str, tiny: Tiny, topic: str, arguments: str) -> Iterator[str]:
    """Yield a topic in every format, and in every width of the terminal that changes it."""
    command = topic.split()[0] if not topic.startswith("judge ") else topic
    places = {"path": tiny.folder, "root": tiny.root, "second": SECOND[name]}
    words, _, phrase = arguments.format(**places).partition(" | ")
    given = [*words.split(), *([phrase] if phrase else [])]
    texts: dict[str, list[str]] = {}
    for form in _formats(command):
        for_people = form in ("table", "")
        with _in_other_widths() as others:
            done = invoke(tiny, command, [*given, *(["--format", form] if form else [])])
        if isinstance(done.exception, Exception):
            raise done.exception
        printed = {WIDTHS[1]: done.stdout} | (others if for_people else {})
        for width, text in printed.items():
            texts.setdefault(text.rstrip(), []).append(
                f"{form} {width}".strip() if for_people else form
            )
        if for_people and done.stderr:
            texts.setdefault(done.stderr.rstrip(), []).append("notes")
        if done.exit_code in (1, 2) and not done.stdout:
            break  # refused: in every format alike
    status = f"exit {done.exit_code}\n" if done.exit_code else ""
    yield status + "".join(
        f"=== {', '.join(heads)}\n{text}\n" for text, heads in texts.items() if text
    )


@contextmanager
def _in_other_widths() -> Iterator[dict[int, str]]:
    """Print what a command prints on terminals of other widths too; they are full at the end."""
    texts: dict[int, str] = {}
    files = {width: StringIO() for width in WIDTHS if width != WIDTHS[1]}
    consoles = {width: terminal._Console(file=files[width], width=width) for width in files}
    printed = terminal._Console.print
    echo = click.echo

    def print_everywhere(self: Any, *objects: Any, **options: Any) -> None:
        printed(self, *objects, **options)
        for console in consoles.values() if not self.stderr else ():
            printed(console, *objects, **options)

    def echo_everywhere(message: Any, *, nl: bool = True, err: bool = False) -> None:
        echo(message, nl=nl, err=err)
        for file in files.values() if not err else ():
            echo(message, file, nl)

    with (
        patch.object(terminal._Console, "print", print_everywhere),
        patch.object(click, "echo", echo_everywhere),
    ):
        yield texts
    texts |= {
        width: "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())
        for width, file in files.items()
    }


def _formats(command: str) -> Sequence[str]:
    """Return the forms of a command: one without a name where there is but one."""
    context = click.Context(program)
    chosen: click.Command = program
    for word in command.split():
        assert isinstance(chosen, click.Group)
        below = chosen.get_command(context, word)
        assert below is not None
        chosen = below
    for option in chosen.params:
        if "--format" in option.opts and isinstance(option.type, click.Choice):
            return list(option.type.choices)
    return [""]


def _notebook(name: str, tiny: Tiny) -> Iterator[str]:
    """Yield what a notebook prints and shows of each result."""
    place: dict[str, Any] = {"store": tiny.root / "store"}
    board = rag_assets.leaderboard(tiny.folder, **place)
    results: dict[str, Any] = {
        "leaderboard": board,
        "ask": rag_assets.ask(tiny.folder, "ticket for a dog", top_k=2, **place),
    }
    if board.has_metrics:
        results |= {
            "compare": rag_assets.compare(board),
            "compare pair": rag_assets.compare(board, "bm25", SECOND[name]),
            "history": rag_assets.history(tiny.folder, **place),
            "gate": rag_assets.gate(tiny.folder, against="previous", **place),
        }
    if name == "drawn":
        results["sampled"] = board.sampled
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


class _Text(PageText):
    """A line for each block and each row of a table."""

    BLOCKS = ("p", "div", "section", "h1", "h2", "h3", "h4", "li", "tr", "summary", "table", "dt")
    SEPARATE: ClassVar = {"td": " | ", "th": " | ", "dd": ": ", "small": " "}

    def begins(self, tag: str, attributes: object) -> str:
        if tag in self.BLOCKS:
            return f"\n{tag}: " if tag[0] == "h" else "\n"
        return self.SEPARATE.get(tag, "")

    def handle_data(self, data: str) -> None:
        super().handle_data(re.sub(r"\s+", " ", data))


def text_of(html: str) -> str:
    """Return what a page says, without its looks and its charts."""
    parser = _Text(("script", "style", "svg"))
    parser.feed(html)
    lines = (line.strip() for line in "".join(parser.parts).splitlines())
    return "\n".join(line for line in lines if line)


def _normal(tiny: Tiny, text: str) -> str:
    text = text.replace(markdown(str(tiny.root)), "<root>")
    text = text.replace(str(tiny.root), "<root>").replace(str(Path(sys.executable).parent), "<bin>")
    for pattern, name in _VARYING:
        text = re.sub(pattern, name, text, flags=re.M)
    # The last bits of sums depend on the machine.
    text = re.sub(r"\b\d+\.\d{12,}(e-?\d+)?\b", lambda one: f"{float(one[0]):.10g}", text)
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
