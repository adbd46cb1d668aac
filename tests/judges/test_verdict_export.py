"""What a judge said goes into a file, and a recorded judge says the same without asking."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rag_assets.cli import main
from rag_assets.judges.verdicts_stage import answer_verdicts_key, relevance_verdicts_key
from tests.answers.answering import with_answers
from tests.llm.server import Server, says, serving
from tests.tiny_experiment import Tiny


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(lambda text: f"It says {len(text)}.\n##final score: {len(text) % 2}") as one:
        one.on("southern harbour", says("no score"))
        yield one


@pytest.fixture
def judged(tmp_path: Path, server: Server) -> Tiny:
    tiny = Tiny(tmp_path)
    tiny.config["retrievers"] = {"bm25": tiny.config["retrievers"]["bm25"]}
    model = {"base_url": server.base_url, "model": "small", "api_key_env": None}
    judges = {"strict": {"type": "llm"}, "floor": {"type": "words"}}
    answers = {"read": {"generator": "predicted"}}
    with_answers(tiny.write(), llm=model, judges=judges, answers=answers)
    tiny.run()
    return tiny


def export(tiny: Tiny, judge: str) -> tuple[Path, str, int]:
    out = tiny.folder / f"{judge}.jsonl"
    words = ["judge", "export", str(tiny.folder), "--judge", judge, "--out", str(out)]
    done = CliRunner().invoke(main, [*words, "--store", str(tiny.root / "store")])
    return out, done.output, done.exit_code


def grades(tiny: Tiny, judge: str) -> list[dict[str, Any]]:
    pipeline = tiny.pipeline()
    keys = (relevance_verdicts_key(judge), answer_verdicts_key(judge))
    rows = [row for key in keys for row in pipeline.artifact(key).table().to_pylist()]
    return [{name: row[name] for name in row if name != "reply"} for row in rows]


@pytest.mark.parametrize("judge", ["strict", "floor"])
def test_a_recorded_judge_says_what_the_file_says(judged: Tiny, server: Server, judge: str) -> None:
    out, output, code = export(judged, judge)
    assert (code, output) == (
        0,
        f"{out}: {len(out.read_text().splitlines())} verdicts of {judge}\n",
    )
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert all("reply" in line for line in lines) is (judge == "strict")
    judged.config["judges"]["again"] = {"type": "recorded", "path": f"{judge}.jsonl"}
    judged.write_config()
    asked = len(server.received)
    judged.run()
    assert len(server.received) == asked
    assert grades(judged, "again") == grades(judged, judge)
    if judge == "strict":
        assert {one["problem"] for one in grades(judged, "again")} == {None, "unparsed"}
    judged.replace("fares.md", "40 crowns", "45 crowns")
    judged.run()
    problems = [one["problem"] for one in grades(judged, "again")]
    assert "recorded of another text" in problems


def test_what_cannot_be_exported_is_said(judged: Tiny) -> None:
    assert "--judge: unknown judge 'strct' (did you mean 'strict'?)" in export(judged, "strct")[1]
    out, _, _ = export(judged, "floor")
    judged.config["judges"] = {"again": {"type": "recorded", "path": out.name}}
    judged.write_config()
    assert f"the verdicts of 'again' are recorded: {out}" in export(judged, "again")[1]
    judged.config["judges"] = {"late": {"type": "words", "right": 0.9}}
    judged.write_config()
    _, output, code = export(judged, "late")
    assert code != 0
    assert "is not up to date; run `rag-assets evaluate` first" in output
