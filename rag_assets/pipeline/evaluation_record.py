"""Ends an evaluation: its snapshot, its row of the history, and the pointer to the current one.

A snapshot says too where the evaluation comes from: who made it, from which configuration, code and
packages. None of it can be read from the artifacts later. Keys and passwords are in none of it: a
configuration names the environment variable of a key, and addresses are kept without user and
query.
"""

from __future__ import annotations

import getpass
import logging
import platform
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from rag_assets.errors import DataError, StoreError
from rag_assets.experiment.config import ChunkingConfig
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.hosts import judge_and_question_warnings
from rag_assets.options import FileOptions
from rag_assets.package_versions import version
from rag_assets.pipeline.evaluations import (
    CURRENT,
    RANKINGS,
    Evaluation,
    Origin,
    SnapshotEntry,
    named_entries,
    new_evaluation_id,
    pointer_text,
    read_evaluation,
    snapshot_file,
    snapshot_ids,
    snapshot_text,
)
from rag_assets.pipeline.failed_queries import left_open, unfinished
from rag_assets.pipeline.history import history_table
from rag_assets.pipeline.history_files import COMPACTED, HistoryFiles, is_compacted
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.retrieval.base import Retriever
from rag_assets.store.artifacts import Artifact
from rag_assets.store.atomic import remove, write_text
from rag_assets.store.locks import check_lease
from rag_assets.store.settings import StoreSettings

_log = logging.getLogger("rag_assets")

PACKAGES = ("rag-assets", "dagster", "duckdb", "numpy", "pyarrow", "scipy")
"""What computes or stores the numbers of every experiment; engines are in their own artifacts."""

GIT_SECONDS = 5
"""How long git may take before the commit is unknown."""

_ADDRESS = re.compile(r"^(?P<scheme>[a-z][a-z0-9+.-]*://)(?:[^/@]*@)?(?P<place>[^?#]*)", re.I)


def origin_of(
    experiment: Experiment,
    code_versions: Mapping[str, str],
    files: Mapping[str, Mapping[str, str]] | None = None,
) -> Origin:
    """Return where an evaluation that ends now comes from."""
    user, packages = None, {"python": platform.python_version()}
    with suppress(OSError, KeyError, ImportError):  # an account without a name, as in a container
        user = getpass.getuser()
    for name in PACKAGES:
        with suppress(PackageNotFoundError):  # run from a folder that was not installed
            packages[name] = version(name)
    source = experiment.source
    folder = source if source.is_dir() else source.parent
    commit = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--", ".") if commit else None
    return Origin(
        user=user,
        git_commit=commit,
        git_dirty=None if changed is None else bool(changed),
        configuration=configuration_of(experiment),
        code_versions=code_versions,
        packages=packages,
        files=files or {},
    )


def named_files(pipeline: Pipeline) -> dict[str, Mapping[str, str]]:
    """Return key of the YAML -> name and SHA-256 of the file that it names, if it can be read."""
    files: dict[str, Mapping[str, str]] = {}
    for key, file in pipeline.experiment.named_files.items():
        with suppress(DataError):
            files[key] = {"name": file.name, "sha256": pipeline.file_digest(file)}
    return files


def configuration_of(experiment: Experiment) -> Mapping[str, Any]:
    """Return all that an ``experiment.yaml`` says, with defaults, and nothing of this machine.

    The contents of the files that it names are in the digests of the artifacts, so their paths are
    left out: a folder that was moved is the same experiment.
    """
    config = experiment.config
    blocks = {
        "judge": experiment.judge,
        "chunking": {name: _chunking(part) for name, part in experiment.chunkings.items()},
        "query_sets": {n: _dumped(part, {"path"}) for n, part in experiment.query_sets.items()},
        "llm": _dumped(config.llm) if config.llm is not None else None,
        **({"llms": {n: _dumped(part) for n, part in config.llms.items()}} if config.llms else {}),
        "retrievers": {name: _retriever(part) for name, part in experiment.retrievers.items()},
        "top_k": list(experiment.top_k),
        "metrics": [*experiment.metrics, *map(str, experiment.extra_metrics)],
        "primary": str(experiment.primary),
        "baseline": experiment.baseline,
        "split": _dumped(config.split) if config.split is not None else None,
        "weight": experiment.weight,
        "statistics": _dumped(experiment.statistics),
        "context_tokenizer": config.context.tokenizer,
    }
    if config.dataset.sample is not None:
        blocks["sample"] = _dumped(config.dataset.sample)
    if experiment.functions:
        blocks["functions"] = experiment.function_versions
    if experiment.questions is not None:
        blocks["questions"] = _without_files(experiment.questions)
    if experiment.answerers:
        generators = experiment.generators.items()
        blocks["generators"] = {name: _without_files(part) for name, part in generators}
        blocks["answers"] = {name: _dumped(part) for name, part in experiment.answerers.items()}
        blocks["answer_metrics"] = _dumped(config.answer_metrics)
    if experiment.online is not None:
        blocks["online"] = _without_files(experiment.online)
    if experiment.judges:
        blocks["judges"] = {name: _without_files(part) for name, part in experiment.judges.items()}
    return {name: _without_credentials(value) for name, value in blocks.items()}


def _chunking(options: ChunkingConfig) -> dict[str, Any]:
    """Return how documents are cut, and by which texts chunks are found where that is said."""
    texts = options.index_texts
    block = {} if texts is None else {"index_texts": [_without_files(text) for text in texts]}
    return {**_dumped(options), **block}


def _retriever(options: Retriever) -> dict[str, Any]:
    """Return its options, without ``recency`` where there is none, as in evaluations before it."""
    dumped = _without_files(options)
    return {name: value for name, value in dumped.items() if (name, value) != ("recency", None)}


def _dumped(options: BaseModel, exclude: set[str] | None = None) -> dict[str, Any]:
    return options.model_dump(mode="json", exclude=exclude)


def _without_files(options: FileOptions) -> dict[str, Any]:
    return _dumped(options, set(options.file_options))


def _without_credentials(value: Any) -> Any:  # noqa: ANN401 (any JSON)
    """Cut user, password and query out of every address."""
    if isinstance(value, Mapping):
        return {name: _without_credentials(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_credentials(part) for part in value]
    address = _ADDRESS.match(value) if isinstance(value, str) else None
    return f"{address['scheme']}{address['place']}" if address else value


def _git(folder: Path, *words: str) -> str | None:
    """Return what git prints; None where there is no git, no repository or no commit."""
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(folder), *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=GIT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.strip()


def snapshot(
    pipeline: Pipeline,
    *,
    started: datetime,
    trigger: str = "",
    computed: int = 0,
    dagster_runs: tuple[str, ...] = (),
) -> Evaluation:
    """Return what is current now as an evaluation that ends now; nothing is written."""
    experiment = pipeline.experiment
    entries = tuple(
        _entry(pipeline, dict(key.partition), artifact)
        for stage in pipeline.stages()
        for key in stage.keys(experiment)
        if (artifact := pipeline.current(key)) is not None
    )
    n_cells = len(experiment.retrievers) * len(experiment.top_k)
    cells = (
        entry.asset == "metrics" if experiment.has_qrels else entry.asset.endswith("_runs")
        for entry in entries
    )
    is_whole = sum(cells) == n_cells
    is_open = any(left_open(pipeline, asset) for asset in ("answers", "index_texts"))
    # Of each stage's own code, whatever the experiment names.
    code_versions = {
        stage.name: pipeline.code_version(stage.own_code()) for stage in pipeline.stages()
    }
    return Evaluation(
        evaluation_id=new_evaluation_id(started),
        experiment=experiment.name,
        source=str(experiment.source),
        started=started.isoformat(timespec="milliseconds"),
        finished=datetime.now(UTC).isoformat(timespec="milliseconds"),
        trigger=trigger,
        primary=str(experiment.primary),
        baseline=experiment.baseline,
        complete=is_whole and not is_open and not unfinished(pipeline, experiment.retrievers),
        computed=computed,
        dagster_runs=dagster_runs,
        entries=entries,
        rankings=tuple(_rankings(pipeline, entries)),
        origin=origin_of(experiment, code_versions, named_files(pipeline)),
        remarks=(*experiment.unread_files, *judge_and_question_warnings(experiment)),
    )


def record(
    pipeline: Pipeline,
    *,
    started: datetime,
    trigger: str,
    computed: int,
    dagster_runs: tuple[str, ...] = (),
) -> Evaluation:
    """Write the snapshot of what is current now and its row of the history, and make it current."""
    evaluation = snapshot(
        pipeline, started=started, trigger=trigger, computed=computed, dagster_runs=dagster_runs
    )
    root, settings = pipeline.root, pipeline.settings
    pipeline.store.verified.save()
    file = snapshot_file(root, evaluation.evaluation_id)
    write_text(file, snapshot_text(evaluation))
    try:
        check_lease(settings)
    except StoreError:
        remove(file)
        raise
    HistoryFiles(root, settings.locks).add(history_table(root, [evaluation]))
    write_text(root / CURRENT, _publish(settings, root, evaluation))
    return evaluation


def _publish(settings: StoreSettings, root: Path, evaluation: Evaluation) -> str:
    """Send an evaluation to a remote store, if there is one; return which is the current one then.

    No reader ever sees a part of an evaluation: first what it names is sent, then its row of the
    history, then its snapshot, and the pointer last. An evaluation whose sending was interrupted is
    sent by the next one, before that. If another machine has made one current that ended later,
    that one stays.
    """
    remote = settings.remote
    if remote is None:
        return evaluation.evaluation_id
    snapshots = [snapshot_file(root, name) for name in snapshot_ids(root)]
    unsent = [file for file in snapshots if remote.name(file) not in remote.listing]
    named = {settings.store / entry["path"] for file in unsent for entry in named_entries(file)}
    remote.send_new(named)
    files = HistoryFiles(root, settings.locks)
    remote.send(files.paths())
    there = [settings.store / name for name in remote.listing if name.startswith(f"{root.name}/h")]
    single = [file for file in there if not is_compacted(file) and not file.exists()]
    if len(single) >= COMPACTED:  # their rows are in files that were sent
        remote.delete(single)
    remote.send(unsent)
    finished = (evaluation.finished, evaluation.evaluation_id)

    def later(content: bytes | None) -> bytes | None:
        file = snapshot_file(root, pointer_text(content) or "")
        try:
            if not file.exists():
                remote.objects.fetch(remote.name(file), file)
            other = read_evaluation(file)
        except StoreError:  # gone or damaged: this one takes its place
            return evaluation.evaluation_id.encode()
        is_later = (other.finished, other.evaluation_id) > finished
        return None if is_later else evaluation.evaluation_id.encode()

    current = pointer_text(remote.merge(root / CURRENT, later)) or evaluation.evaluation_id
    if current != evaluation.evaluation_id:
        _log.warning(
            "%s: evaluation %s is in the history; %s, of another machine, ended later and is the "
            "current one",
            root.name,
            evaluation.evaluation_id,
            current,
        )
    return current


def _entry(pipeline: Pipeline, partition: Mapping[str, str], artifact: Artifact) -> SnapshotEntry:
    manifest = artifact.manifest
    return SnapshotEntry(
        asset=manifest.asset,
        partition=partition,
        fingerprint=manifest.fingerprint,
        digest=manifest.digests["all"],
        rows=manifest.rows,
        path=artifact.path.relative_to(pipeline.settings.store).as_posix(),
        files=manifest.files,
    )


def _rankings(pipeline: Pipeline, entries: Iterable[SnapshotEntry]) -> Iterator[SnapshotEntry]:
    """Yield the rankings that the runs were cut from; one that is gone is not needed for them."""
    seen = set()
    for entry in entries:
        artifact = pipeline.current(entry.key) if entry.asset.endswith("_runs") else None
        named = str(artifact.manifest.facts.get("ranking", "")) if artifact is not None else ""
        retriever = entry.partition.get("retriever", "")
        if named and (retriever, named) not in seen:
            seen.add((retriever, named))
            ranking = pipeline.store.find(RANKINGS, named)
            if ranking is not None:
                depth = str(ranking.manifest.facts["depth"])
                yield _entry(pipeline, {"retriever": retriever, "depth": depth}, ranking)
