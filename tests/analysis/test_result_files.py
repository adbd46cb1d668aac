"""Paired differences of result files of other tools, against arithmetic written out."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from rag_assets.analysis.result_files import compare_files, read_values
from rag_assets.errors import DataError, UsageError


def written(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def inspect_log(*values: object) -> dict[str, Any]:
    samples = [
        {
            "id": number,
            "epoch": 1,
            "input": "x",
            "scores": {"match": {"value": value, "answer": ""}},
        }
        for number, value in enumerate(values, 1)
    ]
    head = {"task": "ferry", "model": "m"}
    return {"version": 2, "status": "success", "eval": head, "samples": samples}


def lm_samples(*values: float, filter_name: str = "none") -> list[dict[str, Any]]:
    return [
        {
            "doc_id": number,
            "doc": {"question": "x"},
            "target": "4",
            "resps": [["4"]],
            "filter": filter_name,
            "metrics": ["exact_match"],
            "exact_match": value,
        }
        for number, value in enumerate(values)
    ]


def test_a_log_of_inspect(tmp_path: Path) -> None:
    """Letters, numbers, booleans, several values of a scorer, and the mean over epochs."""
    log = inspect_log("C", "I", "P", "N", 0.25, True)
    log["samples"].append({"id": 1, "epoch": 2, "scores": {"match": {"value": "I"}}})
    log["samples"].append({"id": 7, "epoch": 1, "scores": {"rubric": {"value": {"tone": 0.5}}}})
    assert read_values(written(tmp_path / "log.json", log)) == {
        "match": {"1": 0.5, "2": 0.0, "3": 0.5, "4": 0.0, "5": 0.25, "6": 1.0},
        "rubric/tone": {"7": 0.5},
    }


def test_a_zipped_log_of_inspect(tmp_path: Path) -> None:
    """As Inspect writes it: a file for each sample and epoch, and others beside these."""
    log = inspect_log("C", "I", 0.25)
    with zipfile.ZipFile(tmp_path / "log.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_journal/start.json", json.dumps({"version": 2, "eval": log["eval"]}))
        for sample in log["samples"]:
            archive.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))
        archive.writestr("summaries.json", json.dumps(log["samples"]))
    assert read_values(tmp_path / "log.eval") == read_values(written(tmp_path / "log.json", log))
    with pytest.raises(DataError, match="cannot be read as a log of Inspect"):
        read_values(written(tmp_path / "broken.eval", "PK"))


def test_samples_of_lm_evaluation_harness(tmp_path: Path) -> None:
    """A filter is a part of the name, as in its results."""
    rows = lm_samples(1.0, 0.0) + lm_samples(1.0, 1.0, filter_name="flexible-extract")
    assert read_values(written(tmp_path / "samples_gsm8k.jsonl", lines(rows))) == {
        "exact_match": {"0": 1.0, "1": 0.0},
        "exact_match,flexible-extract": {"0": 1.0, "1": 1.0},
    }


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "a.json",
            [{"query_id": "q1", "ndcg@10": 0.5, "note": "x"}, {"query_id": "q2", "ndcg@10": 1}],
        ),
        ("a.json", {"q1": {"ndcg@10": 0.5}, "q2": {"ndcg@10": 1}}),
        ("a.jsonl", '{"query_id": "q1", "ndcg@10": 0.5}\n{"query_id": "q2", "ndcg@10": 1}\n'),
        ("a.csv", "query_id,ndcg@10,mrr,note\r\nq1,0.5,,x\r\nq2,1e0,,\r\nq3,,,3 of 4\r\n"),
    ],
)
def test_rows_of_questions(tmp_path: Path, name: str, content: object) -> None:
    """As `score --per-query` prints them, and objects as pytrec_eval returns them."""
    assert read_values(written(tmp_path / name, content)) == {"ndcg@10": {"q1": 0.5, "q2": 1.0}}


def test_a_cell_that_is_no_number_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a.csv:3: `mrr`: is 'n/a'; must be a number, or empty"):
        read_values(written(tmp_path / "a.csv", "query_id,doc_id,mrr\n1,2,0.5\n2,2,n/a\n"))


def test_the_paired_difference(tmp_path: Path) -> None:
    """Six questions that all change from wrong to right: 2 of 2^6 patterns of signs are as far."""
    a = written(tmp_path / "a.json", inspect_log(*"IIIIII", "C"))
    b = written(tmp_path / "b.json", inspect_log(*"CCCCCC", "C", "C"))
    row, sheet = compare_files(a, b)
    assert (row["n"], row["won"], row["tied"], row["lost"]) == (7, 6, 1, 0)
    assert row["mean_a"] == pytest.approx(1 / 7)
    assert row["difference"] == pytest.approx(6 / 7)
    assert row["p_randomisation"] == pytest.approx(2 / 2**6)
    assert sheet.notes[0].startswith(f"{b} is better than {a} on match by 0.8571 [")
    assert sheet.notes[1:] == [f"questions of {b} that the other file lacks: 1"]
    mistakes = [
        written(tmp_path / f"{n}.json", {"q1": {"fp@5": n}, "q2": {"fp@5": 1}}) for n in (0, 2)
    ]
    row, _ = compare_files(mistakes[0], mistakes[1])
    assert (row["difference"], row["won"], row["lost"]) == (1, 0, 1)  # fewer of them are better
    same, _ = compare_files(a, a.with_name("a.json"))
    assert same["difference"] == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"results": {"gsm8k": {"em,none": 0.5}}, "configs": {}}, "holds means, no values"),
        ({"task_name": "x", "scores": {"test": [{"ndcg_at_10": 0.7}]}}, "holds means, no values"),
        ([{"name": "x", "score": 1}], "`[0]`: row with name, score; must be of: an Inspect log"),
        ({"samples": [{"id": 1, "scores": {"match": 3}}]}, "`[0]`: is no row of an Inspect log"),
        ([{"query_id": "q1", "x": None}], "holds no value of a question"),
        ([3], "`[0]`: is 3; must be an object"),
    ],
    ids=["lm-evaluation-harness", "mteb", "other rows", "no scores", "no numbers", "no row"],
)
def test_what_holds_no_values_of_questions_is_refused(
    tmp_path: Path, content: object, message: str
) -> None:
    path = written(tmp_path / "a.json", content)
    with pytest.raises(DataError) as caught:
        read_values(path)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_files_with_nothing_in_common(tmp_path: Path) -> None:
    a = written(tmp_path / "a.json", {"q1": {"ndcg": 1}})
    b = written(tmp_path / "b.json", {"q1": {"mrr": 1}})
    c = written(tmp_path / "c.json", {"q2": {"ndcg": 1}})
    with pytest.raises(UsageError, match="no metric is in both files"):
        compare_files(a, b)
    with pytest.raises(UsageError, match="have no question with a value of ndcg in common"):
        compare_files(a, c)
