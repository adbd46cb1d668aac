"""Members of packages: every kind is tried in an experiment, and what is wrong is said."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rag_assets.errors import ConfigError
from rag_assets.plugins import Members, members
from tests.conftest import REPOSITORY
from tests.installed import install, python
from tests.test_contributing import blocks
from tests.tiny_experiment import QUERIES, Tiny

MORE = REPOSITORY / "tests" / "plug_ins"
POINTS = (MORE / "pyproject.toml").read_text(encoding="utf-8")

RUN = """
import json, sys
from pathlib import Path
from rag_assets.query_sets.stage import query_set_key
from rag_assets.retrieval.runs_stage import run_key
from tests.tiny_experiment import Tiny

tiny = Tiny(Path(sys.argv[1]))
computed = sorted({name.split("/")[0] for name in map(str, tiny.run())})
pipeline = tiny.pipeline()
keys = {"variants": query_set_key("long-words")}
keys |= {name: run_key(pipeline.experiment, name, 5) for name in ("bm25", "bm25-whole", "fused")}
tables = {name: pipeline.artifact(key).table().to_pylist() for name, key in keys.items()}
print(json.dumps([tables, computed]))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = {
        str(file.relative_to(MORE)): file.read_text(encoding="utf-8") for file in MORE.rglob("*.py")
    }
    return install(tmp_path_factory.mktemp("site"), files, POINTS)


def experiment(root: Path) -> Tiny:
    tiny = Tiny(root)
    tiny.config["query_sets"] = {"long-words": {"strategy": "keywords", "letters": 6}}
    bm25 = tiny.config["retrievers"]
    tiny.config["retrievers"] = {
        "bm25": bm25["bm25"],
        "bm25-whole": {**bm25["bm25-whole"], "query_set": "long-words"},
        "fused": {"type": "decayed", "inputs": ["bm25", "bm25-whole"], "decay": 0.5},
    }
    return tiny.write()


def test_a_query_set_and_a_fusion_are_evaluated(site: Path, tmp_path: Path) -> None:
    tiny = experiment(tmp_path)
    done = python(site, "-c", RUN, str(tiny.root))
    assert done.returncode == 0, done.stderr
    rows, _ = json.loads(done.stdout)
    for query in QUERIES:
        long_words = " ".join(word for word in query["text"].split() if len(word) >= 6)
        own = [row["text"] for row in rows["variants"] if row["query_id"] == query["query_id"]]
        assert own == [query["text"], *([long_words] if long_words else [])]
        ranks: dict[str, float] = {}
        for name in ("bm25", "bm25-whole"):
            for row in rows[name]:
                if row["query_id"] == query["query_id"]:
                    unit = str(row["unit_id"])
                    ranks[unit] = ranks.get(unit, 0.0) + 0.5 ** int(row["rank"])
        fused = {
            r["unit_id"]: r["score"] for r in rows["fused"] if r["query_id"] == query["query_id"]
        }
        best = sorted(ranks.values(), reverse=True)[: len(fused)]
        assert sorted(fused.values(), reverse=True)[:3] == pytest.approx(best[:3])


@pytest.mark.slow
def test_an_edit_of_a_package_computes_anew_what_it_makes(site: Path, tmp_path: Path) -> None:
    tiny = experiment(tmp_path / "tiny")
    assert python(site, "-c", RUN, str(tiny.root)).returncode == 0
    assert json.loads(python(site, "-c", RUN, str(tiny.root)).stdout)[1] == []
    other = install(
        tmp_path / "other",
        {
            str(file.relative_to(site)): file.read_text(encoding="utf-8") + "\nEDITED = True\n"
            for file in site.rglob("*.py")
        },
        POINTS,
    )
    computed = json.loads(python(other, "-c", RUN, str(tiny.root)).stdout)[1]
    assert {"query_sets", "fused_runs"} <= set(computed)
    assert not {"chunks", "lexical_index", "documents"} & set(computed)


@pytest.mark.slow
def test_a_format_is_recognised_and_evaluated(site: Path, tmp_path: Path) -> None:
    entries = [{"id": q["query_id"], "question": q["text"], "answer": q["text"]} for q in QUERIES]
    file = tmp_path / "questions.json"
    file.write_text(json.dumps({"faq": entries}), encoding="utf-8")
    yaml = tmp_path / "faq.yaml"
    yaml.write_text(
        "dataset: {path: questions.json}\nretrievers: {bm25: {type: bm25}}\ntop_k: [1]\n"
    )
    command = ("-m", "rag_assets.cli", "evaluate", str(yaml), "--store", str(tmp_path / "store"))
    done = python(site, *command, "--format", "json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert row["hit_rate"] == 1.0
    assert python(site, "-m", "rag_assets.cli", "validate", str(file)).returncode == 0


def test_the_contracts_hold(site: Path) -> None:
    tests = str(MORE / "acme_more_contracts.py")
    done = python(site, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests)
    assert done.returncode == 0, done.stdout


def kinds() -> dict[str, Members[object]]:
    """Each kind with doors that are empty here."""
    from rag_assets.experiment.load import KINDS

    return {kind.kind.group: kind for kind in KINDS}


BROKEN = {
    "rag_assets.metrics": (
        blocks()["acme_metrics.py"],
        "SearchLength",
        ('name = "search_length"', 'name = "length"'),
        'must have the attribute `name = "member"`',
    ),
    "rag_assets.chunkers": (
        blocks()["acme_chunkers.py"],
        "LineChunking",
        ("def cutter", "def cutters"),
        "lacks the methods cutter",
    ),
    "rag_assets.query_sets": (
        (MORE / "acme_more" / "query_sets.py").read_text(encoding="utf-8"),
        "Keywords",
        ("(ComputedQuerySet)", ""),
        "is not a class of a family, which are ComputedQuerySet, PromptedQuerySet",
    ),
    "rag_assets.formats": (
        (MORE / "acme_more" / "formats.py").read_text(encoding="utf-8"),
        "FaqDataset",
        ("    layout: ", "    outlay: "),
        'must have the attribute `format = "member"`',
    ),
}
"""Group of entry points -> the source of a member, its class, what is replaced in it, and what is
said of that."""


def install_odd(folder: Path, group: str, entry_point: str, source: str = "") -> None:
    """Install a package with one member."""
    project = f'[project]\nname = "odd"\nversion = "3"\n[project.entry-points."{group}"]\n'
    install(folder, {"odd_module.py": source}, project + entry_point)


@pytest.mark.parametrize("group", BROKEN)
def test_what_is_wrong_is_said_of_every_kind(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, name, replaced, problem = BROKEN[group]
    assert replaced[0] in source
    install_odd(tmp_path, group, f'member = "odd_module:{name}"', source.replace(*replaced))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "odd_module", raising=False)
    with pytest.raises(ConfigError) as caught:
        members(kinds()[group].kind, {}).check()
    place = f"entry point {group} 'member' = 'odd_module:{name}' of odd 3: "
    assert str(caught.value) == place + problem


@pytest.mark.parametrize("group", [*BROKEN, "rag_assets.retrievers"])
def test_a_name_of_ours_is_not_taken(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = kinds()[group]
    taken = next(iter(kind))
    install_odd(tmp_path, group, f'{taken} = "odd_module:Thing"')
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=f"the {kind.kind.noun} exists already, in rag_assets$"):
        members(kind.kind, {name: "nowhere:Thing" for name in kind}).check()
