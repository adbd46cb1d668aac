from __future__ import annotations

import json
from pathlib import Path

import pytest

from rag_assets.chunking.fixed import NoneChunking
from rag_assets.chunking.recursive import RecursiveChunking
from rag_assets.errors import DataError, UsageError
from rag_assets.evaluation.metric_names import Metric
from rag_assets.experiment import load_experiment
from rag_assets.experiment.names import checked_name, name_from
from rag_assets.models.model_names import DEFAULT_MODEL
from rag_assets.retrieval.dense.embedding import BiEncoder
from rag_assets.retrieval.fusion.methods import RRF
from rag_assets.retrieval.lexical.bm25 import BM25
from rag_assets.retrieval.reranking.local import MaxSim
from tests.experiment.conftest import Load

DEFAULT_METRICS = ("hit_rate", "mrr", "ndcg", "recall", "precision", "map")


def test_every_default_of_a_folder_without_yaml(folder: Path) -> None:
    experiment = load_experiment(folder)
    assert (experiment.name, experiment.source, experiment.has_file) == ("tiny", folder, False)
    assert (experiment.dataset.format, experiment.dataset.root) == ("beir", folder)
    assert experiment.judge == "document"
    assert experiment.chunkings == {"whole": NoneChunking(strategy="none")}
    assert experiment.retrievers == {
        "bm25": BM25(type="bm25", chunking="whole", analyzer="auto", k1=1.2, b=0.75),
        "minilm": BiEncoder(
            type="embedding",
            chunking="whole",
            model=DEFAULT_MODEL,
            query_prompt=None,
            document_prompt=None,
        ),
        "hybrid": RRF(type="rrf", inputs=("bm25", "minilm"), k=60, candidates=100),
        "maxsim": MaxSim(type="maxsim", input="hybrid", candidates=20),
    }
    assert experiment.top_k == experiment.listed_top_k == (1, 3, 5, 10, 100)
    assert (experiment.metrics, experiment.extra_metrics) == (DEFAULT_METRICS, ())
    assert (experiment.primary, experiment.baseline) == (Metric("ndcg", 10), "bm25")


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n", "{}\n", "retrievers: {}\n"])
def test_an_empty_yaml_is_the_default_experiment(load: Load, folder: Path, text: str) -> None:
    bare = load_experiment(folder)
    experiment = load(text)
    assert experiment.has_file
    assert experiment.source == folder / "experiment.yaml"
    for part in ("name", "judge", "chunkings", "retrievers", "top_k", "metrics", "primary"):
        assert getattr(experiment, part) == getattr(bare, part)


def test_defaults_of_a_folder_of_files(tmp_path: Path) -> None:
    rows = {
        "queries.jsonl": {"query_id": "q", "text": "ferry"},
        "judgments.jsonl": {"query_id": "q", "doc_id": "a.md", "quote": "The ferry leaves."},
    }
    (tmp_path / "a.md").write_text("# A\n\nThe ferry leaves.\n", encoding="utf-8")
    for name, row in rows.items():
        (tmp_path / name).write_text(json.dumps(row), encoding="utf-8")
    experiment = load_experiment(tmp_path)
    assert (experiment.dataset.format, experiment.judge) == ("markdown", "evidence")
    assert experiment.chunkings == {
        "sections_200": RecursiveChunking(
            strategy="recursive", max_tokens=200, overlap=30, tokenizer=DEFAULT_MODEL
        )
    }
    assert experiment.chunking_of("bm25") == "sections_200"


def test_default_experiment_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "Doc QA.json"
    content = {"queries": {"q": "x"}, "corpus": {"d": "x"}, "relevant_docs": {"q": ["d"]}}
    file.write_text(json.dumps({**content, "mode": "text"}), encoding="utf-8")
    experiment = load_experiment(file)
    assert (experiment.name, experiment.has_file, experiment.source) == ("doc-qa", False, file)
    assert experiment.chunkings == {"whole": NoneChunking(strategy="none")}


def test_a_folder_and_its_yaml_file(load: Load, folder: Path) -> None:
    by_folder = load("top_k: [2]\n")
    by_file = load_experiment(folder / "experiment.yaml")
    assert by_folder == by_file == load_experiment(str(folder / "experiment.yaml"))
    other = folder / "small.yml"
    other.write_text("top_k: [2]\n", encoding="utf-8")
    experiment = load_experiment(other)
    assert (experiment.name, experiment.top_k) == ("small", (2,)), "two in a folder are two"
    (folder / "experiment.yaml").unlink()
    assert not load_experiment(folder).has_file


def test_a_path_through_a_parent_names_the_real_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_experiment(folder / "qrels" / "..") == load_experiment(folder)
    monkeypatch.chdir(folder / "qrels")
    assert load_experiment("..").name == "tiny"
    monkeypatch.chdir(folder)
    assert load_experiment(".").name == "tiny"


def test_dataset_path_is_relative_to_the_yaml(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "elsewhere"
    home.mkdir()
    (home / "experiment.yaml").write_text("dataset: {path: ../tiny}\n", encoding="utf-8")
    monkeypatch.chdir("/")
    experiment = load_experiment(home)
    assert (experiment.name, experiment.dataset.root) == ("elsewhere", folder)


@pytest.mark.parametrize("name", ["nowhere", "x" * 5000, "a\nb"])
def test_nothing_at_the_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        load_experiment(tmp_path / name)


def test_a_folder_of_no_known_format(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="an empty folder; looked for"):
        load_experiment(tmp_path)


def test_cut_offs(load: Load) -> None:
    experiment = load("top_k: [10, 3, 3, 1]\n")
    assert experiment.top_k == experiment.listed_top_k == (1, 3, 10)
    experiment = load("top_k: [1, 10]\nmetrics: [ndcg, recall@30, P@10]\n")
    assert experiment.metrics == ("ndcg",)
    assert experiment.extra_metrics == (Metric("recall", 30), Metric("precision", 10))
    assert (experiment.top_k, experiment.listed_top_k) == ((1, 10, 30), (1, 10))
    assert experiment.measures_at(1) == ("ndcg",)
    assert experiment.measures_at(10) == ("ndcg", "precision")
    assert experiment.measures_at(30) == ("recall",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("top_k: [1, 3]\n", "ndcg@3"),
        ("metrics: [mrr, map]\n", "mrr@10"),
        ("metrics: [mrr, ndcg]\ntop_k: [20, 5]\n", "ndcg@20"),
        ("metrics: [recall@30]\n", "recall@30"),
        ("primary: MAP@7\n", "map@7"),
        ("primary: ndcg_cut_5\n", "ndcg@5"),
        ("primary: RBP(p=0.5)@5\n", "rbp(p=0.5)@5"),
        ("metrics: [P(rel=2)]\n", "precision(rel=2)@10"),
    ],
)
def test_primary(load: Load, text: str, expected: str) -> None:
    experiment = load(text)
    assert str(experiment.primary) == expected
    assert experiment.primary.cutoff in experiment.top_k
    assert experiment.primary.column in experiment.measures_at(experiment.primary.cutoff or 0)


def test_names_of_a_metric_are_one_metric(load: Load) -> None:
    names = "nDCG, recip_rank, mrr, MRR, P(rel=1), P(rel=2), RBP, rbp(p=0.8)"
    expected = ("ndcg", "mrr", "precision", "precision(rel=2)", "rbp(p=0.8)")
    assert load(f"metrics: [{names}]\n").metrics == expected


def test_what_yaml_may_hold(load: Load) -> None:
    experiment = load("chunking: {w: {strategy: none}}\nretrievers: {a: {type: bm25}}\n")
    assert experiment.chunking_of("a") == "w"
    experiment = load("retrievers:\n  a: &a {type: bm25, k1: 2}\n  b: {<<: *a, b: 0}\n")
    assert experiment.retrievers["b"] == BM25(type="bm25", chunking="whole", k1=2, b=0)
    assert load("name: marked\n".encode("utf-8-sig")).name == "marked"


def test_graph_of_retrievers(load: Load) -> None:
    experiment = load(
        "top_k: [2, 150]\nprimary: ndcg@2\nretrievers:\n  a: {type: bm25}\n"
        "  e: {type: embedding}\n  x: {type: bm25}\n"
        "  f: {type: rrf, inputs: [a, e], candidates: 200}\n"
        "  g: {type: rrf, inputs: [e, x], candidates: top_k}\n"
    )
    assert [experiment.family(name) for name in experiment.retrievers] == [
        "lexical",
        "embedding",
        "lexical",
        "fused",
        "fused",
    ]
    assert experiment.of_family("fused") == ("f", "g")
    assert (experiment.inputs("f"), experiment.inputs("a")) == (("a", "e"), ())
    assert experiment.chunkings_of("g") == ("whole",)
    assert experiment.candidate_depths("e") == {200, 2, 150}
    assert [experiment.depth(name) for name in "aexfg"] == [200, 200, 150, 150, 150]
    with pytest.raises(ValueError, match="f has no chunking"):
        experiment.chunking_of("f")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("My Data", "my-data"),
        ("a..b", "a.b"),
        (".hidden", "hidden"),
        ("_x_", "x"),
        ("Überfahrt", "berfahrt"),
        ("資料", "experiment"),
        ("a|b<c>", "a-b-c"),
        ("v1.2_x", "v1.2_x"),
    ],
)
def test_name_from_a_folder(text: str, expected: str) -> None:
    assert name_from(text) == expected
    assert checked_name(name_from(text)) == expected
