"""The folder of a journey: documents, questions, labels, an experiment, and what happens to it."""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import yaml

from tests.labels.page.served import Client, moment
from tests.made_tables import sheet_rows, write_sheet
from tests.tiny_experiment import DOCUMENTS

LAB = "lab"
"""The folder's name, as it is typed: commands run in the folder above it."""

SPARE = ("pier.md", "# Pier\n\nNobody remembers the old wooden pier.\n")
"""A document that no question is about, so that it can be deleted."""

SEARCH = """
from pathlib import Path

HERE = Path(__file__).parent


def retrieve(question, k):
    asked = set(question.lower().split())
    passages = [
        (len(asked & set(part.lower().split())), name.relative_to(HERE).as_posix(), part.strip())
        for name in sorted(HERE.rglob("*.md"))
        for part in name.read_text().split("\\n\\n")[1:]
    ]
    best = sorted(passages, reverse=True)[:k]
    return [{"text": text, "source": name} for score, name, text in best if score >= LEAST]


def answer(question, contexts):
    return {"answer": contexts[0] if contexts else "", "cited": [1][: len(contexts)]}


def chain(question):
    found = retrieve(question, 3)
    return {"answer": found[0]["text"] if found else "", "contexts": found}
"""
SQL = """
SELECT text, source FROM passages
ORDER BY len(list_intersect(string_split(lower(:query), ' '), string_split(lower(text), ' '))) DESC,
text LIMIT :k
"""
WORDINGS = ("{0} {1} {2}", "what is said of {1} and {0}", "tell me about {2} {0}", "{1} or {2}")


class Row(NamedTuple):
    """What differs between journeys: values of :data:`VALUES`, several of ``then``."""

    labels: str
    search: str
    answers: str
    metric: str
    questions: str
    store: str
    between: str
    then: str


VALUES: Mapping[str, tuple[str, ...]] = {
    "labels": ("none", "drawn", "page", "complete", "judge"),
    "search": ("bm25", "embedding", "fused", "reranked", "python", "http", "sql", "run_file"),
    "answers": ("none", "llm", "file"),
    "metric": ("more", "less", "count", "answers"),
    "questions": ("1", "10", "60"),
    "store": ("empty", "warm", "other"),
    "between": ("nothing", "setting", "edited", "deleted", "label", "marked", "added"),
    "then": (
        *("ask", "plan", "evaluate", "leaderboard", "compare", "diff", "gate", "report"),
        *("label", "pool", "history", "export-run", "status", "dagster", "python"),
    ),
}
METRICS = {"more": "ndcg@3", "less": "fp@3", "count": "tp@3", "answers": "answer_f1"}


class Question(NamedTuple):
    """A question that one sentence of a document answers."""

    query_id: str
    text: str
    document: str
    sentence: str


def questions(n: int) -> list[Question]:
    """Return so many different questions."""
    sentences = [
        (name, line)
        for name, text in DOCUMENTS.items()
        for line in text.splitlines()
        if line and not line.startswith("#")
    ]
    made: list[Question] = []
    for wording, (name, line) in itertools.islice(itertools.product(WORDINGS, sentences), n):
        words = sorted(set(re.findall(r"[a-z]{4,}", line.lower())), key=lambda w: (-len(w), w))
        made.append(Question(f"q{len(made):02}", wording.format(*words), name, line))
    return made


def passages() -> list[tuple[str, str]]:
    """Return document and text of every paragraph."""
    texts = {**DOCUMENTS, SPARE[0]: SPARE[1]}
    return [(name, part) for name, text in texts.items() for part in paragraphs(text)]


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs below the title."""
    return [part.strip() for part in text.split("\n\n")[1:]]


def best_passages(question: str) -> list[tuple[str, str]]:
    """Return the passages that share most words with a question."""
    asked = set(question.lower().split())
    return sorted(passages(), key=lambda one: (-len(asked & set(one[1].lower().split())), one))[:5]


@dataclass
class Folder:
    """The files of one journey, below ``root``.

    Attributes:
        root: where commands run.
        row: what the journey is.
        model: base URL of a server of language models.
        search: URL of a search behind HTTP.
    """

    root: Path
    row: Row
    model: str
    search: str
    n_lines: int = field(default=0, init=False)

    @property
    def path(self) -> Path:
        """The experiment's folder."""
        return self.root / LAB

    @property
    def is_labelled_on_page(self) -> bool:
        return self.row.labels in ("drawn", "page")

    def write(self) -> None:
        """Write all files."""
        self.asked = questions(int(self.row.questions))
        for name, text in (*DOCUMENTS.items(), SPARE):
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_text(text, encoding="utf-8")
        lines = [
            {"query_id": q.query_id, "text": q.text, "answers": [q.sentence]} for q in self.asked
        ]
        if self.row.labels == "samples":
            self._write_samples()
        else:
            self._write_lines("queries.jsonl", lines)
        if self.row.labels == "complete":
            labels = [
                {"query_id": q.query_id, "doc_id": q.document, "quote": q.sentence}
                for q in self.asked
            ]
            self._write_lines("judgments.jsonl", labels)
        self._write_search(least=0)
        said = {q.query_id: q.sentence.rstrip(".") for q in self.asked[::2]}
        answered = {q.query_id: said.get(q.query_id, "nobody knows") for q in self.asked}
        (self.path / "answers.json").write_text(json.dumps(answered), encoding="utf-8")
        self.config = self._config()
        self.write_config()

    def write_config(self) -> None:
        text = yaml.safe_dump(self.config, sort_keys=False)
        (self.path / "experiment.yaml").write_text(text, encoding="utf-8")

    def change(self, run: Callable[..., Any]) -> None:
        """Let happen what happens between two evaluations; commands go through ``run``."""
        match self.row.between:
            case "setting":
                self._set()
            case "edited":
                with (self.path / "crew.md").open("a", encoding="utf-8") as file:
                    file.write("\nThe cook sails with the crew.\n")
            case "deleted":
                (self.path / SPARE[0]).unlink()
            case "label" if self.is_labelled_on_page:
                run("label", LAB, "--no-browser", person=self.answers_one)
            case "label":
                sheet = f"{self.root}/labels.csv"
                run("pool", LAB, "--out", sheet)
                self._grade(Path(sheet))
                run("pool", LAB, "--import", sheet)
            case "marked":
                run("label", LAB, "--no-browser", person=self.marks)
            case "added":
                added = {"type": "bm25", "analyzer": "standard"}
                chunking = {"chunking": "parts"} if "parts" in self._chunkings() else {}
                self.config["retrievers"]["added"] = added | chunking
                self.write_config()

    def labels_on_page(self, client: Client) -> None:
        """Be a person on the page of labels, who grades half of what is asked, or everything."""
        task = client.ask("next")
        n = task["progress"]["left"]
        for _ in range(n if self.row.labels == "page" else (n + 1) // 2):
            task = self.answers(client, task["task"])

    def answers_one(self, client: Client) -> None:
        """Be a person who takes back the last answer, and gives one."""
        self._ask(client, "undo")
        self.answers(client, client.ask("next")["task"])

    def marks(self, client: Client) -> None:
        """Be a person who marks the first question, and answers its passage all the same."""
        self._ask(client, "mark", query_id=self.asked[0].query_id, mark="unclear")
        task = client.ask("next")["task"]
        if task is not None:
            self.answers(client, task)
        client.ask("standing")

    def answers(self, client: Client, task: Mapping[str, Any]) -> Any:
        """Be a person who grades a passage: 2 where it holds what answers the question."""
        text = task["text"]["text"]
        asked = next(q for q in self.asked if q.query_id == task["query_id"])
        grade = 2 if asked.sentence in text else 0
        status, reply = client.answer("ada", self._moment(), task, grade=grade)
        assert status == 200, reply
        return reply

    def _ask(self, client: Client, path: str, **body: Any) -> Any:
        return client.ask(path, by="ada", at=self._moment(), **body)

    def _moment(self) -> str:
        self.n_lines += 1
        return moment(self.n_lines)

    def _grade(self, sheet: Path) -> None:
        rows = enumerate(sheet_rows(sheet))
        write_sheet(sheet, [{**row, "grade": str(n % 2)} for n, row in rows])

    def _config(self) -> dict[str, Any]:
        row = self.row
        bm25 = {"type": "bm25", "analyzer": "english", "chunking": "parts"}
        mine = self._searches()[row.search]
        others = {"wide": bm25 | {"chunking": "whole"}} if row.search == "fused" else {}
        reads_other = row.search in ("fused", "reranked")
        # A person with one question has often one search too.
        plain = {"plain": bm25} if row.questions != "1" or reads_other else {}
        chunkings = {
            "parts": {"strategy": "recursive", "max_tokens": 16, "overlap": 0},
            "whole": {"strategy": "none"},
        }
        measures = {"more": ["ndcg", "recall"], "less": ["recall", "fp"], "count": ["mrr", "tp"]}
        metrics = measures.get(row.metric, ["recall"])
        config: dict[str, Any] = {
            "name": LAB,
            "chunking": chunkings,
            "retrievers": {**plain, **others, "mine": mine},
            "top_k": [1, 3],
            "metrics": metrics,
            "primary": f"{metrics[0]}@3",
            "measurements": {"latency_sample": 1},
            "statistics": {"resamples": 500},
        }
        used = {one.get("chunking") for one in config["retrievers"].values()}
        config["chunking"] = {name: one for name, one in chunkings.items() if name in used}
        if not config["chunking"]:
            del config["chunking"]
        if row.answers != "none":
            writer = {
                "llm": {"type": "llm", "llm": "small", "max_tokens": 32},
                "file": {"type": "file", "path": "answers.json"},
                "own": {"type": "python", "call": "search.py:answer"},
                "chain": {"type": "python", "call": "search.py:chain", "revision": "1"},
            }[row.answers]
            config["generators"] = {"writer": writer}
            config["answers"] = {"read": {"retriever": "mine", "generator": "writer"}}
        if row.answers == "llm":
            config["llms"] = {
                "small": {"base_url": self.model, "model": "tiny", "api_key_env": None}
            }
        if row.labels == "judge":
            config["judges"] = {"floor": {"type": "words", "depth": 3}}
        return config

    def _searches(self) -> dict[str, dict[str, Any]]:
        database = self.path / "passages.duckdb"
        return {
            "bm25": {"type": "bm25", "analyzer": "standard", "chunking": "parts", "k1": 1.2},
            "embedding": {"type": "embedding", "chunking": "parts"},
            "fused": {"type": "rrf", "inputs": ["plain", "wide"], "candidates": 10},
            "reranked": {"type": "mmr", "input": "plain", "candidates": 10},
            "python": {"type": "python", "call": "search.py:retrieve"},
            "http": {
                **{"type": "http", "url": f"{self.search}?q={{query}}&n={{k}}", "method": "GET"},
                **{"hits": "hits", "text": "text", "source": "source", "revision": "1"},
            },
            "sql": {"type": "sql", "database": database.name, "query": SQL, "revision": "1"},
            "run_file": {"type": "run_file", "path": "hits.jsonl", "chunking": "own"},
            "chain": {"type": "generator", "generator": "writer"},
        }

    def _write_search(self, least: int) -> None:
        """Write what a search of one's own consists of, whichever it is."""
        code = SEARCH.replace("LEAST", str(least))
        (self.path / "search.py").write_text(code, encoding="utf-8")
        if self.row.search == "run_file":
            lines = [
                {
                    "query_id": q.query_id,
                    "hits": [
                        {"text": text, "source": name}
                        for name, text in best_passages(q.text)[least:]
                    ],
                }
                for q in self.asked
            ]
            self._write_lines("hits.jsonl", lines)
        if self.row.search == "sql":
            with duckdb.connect(str(self.path / "passages.duckdb")) as database:
                database.execute("CREATE OR REPLACE TABLE passages (source text, text text)")
                database.executemany("INSERT INTO passages VALUES (?, ?)", passages())

    def _chunkings(self) -> Mapping[str, Any]:
        chunkings: Mapping[str, Any] = self.config.get("chunking", {})
        return chunkings

    def _set(self) -> None:
        """Change a setting of the search."""
        mine = self.config["retrievers"]["mine"]
        match self.row.search:
            case "python" | "run_file":
                self._write_search(least=1)
            case "http" | "sql":
                mine["revision"] = "2"
            case "chain":
                self._write_search(least=1)
                self.config["generators"]["writer"]["revision"] = "2"
            case "fused" | "reranked":
                mine["candidates"] = 5
            case "bm25":
                mine["k1"] = 1.8
            case "embedding":
                mine["chunking"] = "sentences"
                self.config.setdefault("chunking", {})["sentences"] = {"strategy": "sentences"}
        self.write_config()

    def _write_samples(self) -> None:
        """Write questions and labels as Ragas does."""
        with (self.path / "testset.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["user_input", "reference_contexts", "reference"])
            writer.writerows([q.text, str([q.sentence]), q.sentence] for q in self.asked)

    def _write_lines(self, name: str, rows: list[dict[str, Any]]) -> None:
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (self.path / name).write_text(text, encoding="utf-8")
