"""Whatever a server does, a client gives an answer or one line, in time, and repeats no key."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from traceback import format_exception

import numpy as np
import pyarrow.parquet as pq
import pytest

from rag_assets.assets.execution import without_foreign
from rag_assets.errors import DataError, RagAssetsError, StoreError
from rag_assets.llm.models import OpenAIEmbeddings
from rag_assets.servers.client import ServedModelOptions
from rag_assets.store.remote import ENDPOINT_VARIABLES, Address, Objects
from tests.assets.asking import ask
from tests.llm.requests import served
from tests.llm.server import DIMENSION, embeddings, serving
from tests.servers.hostile import (
    ANSWERS,
    CLIENTS,
    ENCODINGS,
    KEY,
    PIECES,
    QUERY_VALUE,
    SECRETS,
    USER,
    VARIABLE,
    Handler,
    Hostile,
    echo,
    endpoint_of,
    leaked,
    within,
)
from tests.tiny_experiment import Tiny


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)


FOREIGN = re.compile(r"\b(httpx2?|httpcore2?|openai|qdrant_client|urllib|json)\.")


def outcome(name: str, endpoint: ServedModelOptions) -> str:
    """Return all that is known of how a client's request ended, as Dagster would store it."""
    try:
        return repr(CLIENTS[name](endpoint))
    except RagAssetsError as found:
        error = found
    assert "\n" not in str(error)
    assert len(str(error)) < 500
    assert (error.__cause__, error.__context__) == (None, None)
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("name", CLIENTS)
def test_whatever_is_answered_is_one_line(name: str) -> None:
    with Hostile(ANSWERS["is empty"]) as server:
        for answer in ANSWERS:
            server.answer = ANSWERS[answer]
            server.received.clear()
            with within(10):  # a busy machine imports a client slowly
                found = outcome(name, endpoint_of(server.with_user, timeout=0.2))
            assert leaked(found) == [], answer
            assert not FOREIGN.search(found.splitlines()[-1]), answer
            assert server.n_received() == 1, answer


@pytest.mark.parametrize("status", [200, 401])
@pytest.mark.parametrize("name", CLIENTS)
def test_what_is_repeated_is_hidden(
    name: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with Hostile(echo(str, status)) as server:
        for encoding, encode in ENCODINGS.items():
            server.answer = echo(encode, status)
            for address in (server.with_user, server.with_query):
                found = outcome(name, endpoint_of(address))
                assert leaked(found) == [], encoding
    assert leaked(caplog.text) == []
    sent = [f"{path} {headers}" for path, headers, _ in server.received]
    assert all("Basic " in one for one in sent[::2])
    assert all(KEY in one for one in sent[1::2])
    assert all("api_key=" in one for one in sent)


@pytest.mark.parametrize("name", CLIENTS)
def test_no_redirect_is_followed(name: str) -> None:
    with Hostile(echo(str, 200)) as other, Hostile(echo(str, 200)) as server:
        for status in (301, 302, 303, 307, 308):
            server.answer = partial(Handler.send, content=b"", status=status, Location=other.root)
            found = outcome(name, endpoint_of(server.with_query))
            assert f"HTTP {status}: a redirect to {other.root}, which is not followed" in found
    assert other.received == []


def test_no_library_knows_a_credential(caplog: pytest.LogCaptureFixture) -> None:
    for library in ("httpx", "httpx2"):
        caplog.set_level(logging.DEBUG, library)
    with Hostile(echo(str, 200)) as server:
        for name in CLIENTS:
            outcome(name, endpoint_of(server.with_user))
    assert "HTTP Request: POST" in caplog.text
    assert leaked(caplog.text) == []


@pytest.mark.parametrize("name", ["language model", "embeddings", "rerank_api"])
def test_without_a_key_none_is_sent(name: str) -> None:
    with Hostile(echo(str, 400)) as server:
        outcome(name, served(f"{server.root}/v1", retries=0))
    assert "authorization" not in server.received[0][1]


def test_a_key_that_is_a_word_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORD", "answer")
    with serving() as server:
        endpoint = served(server.base_url, api_key_env="WORD", retries=0)
        assert "answer to: my text" in outcome("language model", endpoint)


def test_megabytes_of_numbers_are_read_in_time() -> None:
    texts = [str(number) for number in range(2_000)]
    reply = embeddings({"input": texts, "model": "m"})
    with serving() as server:
        server.on("", reply)
        client = OpenAIEmbeddings(served(server.base_url, retries=0), batch_size=2_000)
        with within(5):
            ((_, vectors),) = client.embed(texts)
    assert vectors.shape == (2_000, DIMENSION)
    assert vectors.dtype == np.float32
    assert not [secret for secret in SECRETS if secret.encode() in reply.body]


S3: Mapping[str, Callable[[Objects, Path], object]] = {
    "list": lambda store, _: store.listed(""),
    "read": lambda store, _: store.find("current"),
    "fetch": lambda store, folder: store.fetch("a", folder / "a"),
    "write": lambda store, _: store.write("current", b"my id"),
    "write if unchanged": lambda store, _: store.write("current", b"my id", '"1"'),
    "delete": lambda store, _: store.delete("current"),
}


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name credentials of S3, and have every request sent once."""
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    for name, secret in zip(names, (USER, KEY, QUERY_VALUE), strict=True):
        monkeypatch.setenv(name, secret)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")


def s3_outcome(name: str, root: str, folder: Path, seconds: float = 5) -> str:
    try:
        store = Objects(Address("bucket", "prefix", root), seconds=seconds)
        return repr(S3[name](store, folder))
    except StoreError as found:
        error = found
    assert "\n" not in str(error)
    assert len(str(error)) < 500
    assert (error.__cause__, error.__context__) == (None, None)
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("name", S3)
def test_whatever_a_store_on_s3_answers_is_one_line(name: str, keys: None, tmp_path: Path) -> None:
    with Hostile(ANSWERS["is empty"]) as server:
        for answer in ANSWERS:
            server.answer = ANSWERS[answer]
            server.received.clear()
            with within(10):  # a busy machine needs time to connect at all
                found = s3_outcome(name, server.root, tmp_path, seconds=0.4)
            assert leaked(found) == [], answer
            assert server.n_received(), answer


@pytest.mark.parametrize("lacking", ["Key", "LastModified", "Size"])
def test_a_list_on_s3_that_lacks_something_is_one_line(
    lacking: str, keys: None, tmp_path: Path
) -> None:
    item = {"Key": "prefix/a", "LastModified": "2026-01-01T00:00:00Z", "Size": "1"}
    fields = "".join(f"<{name}>{text}</{name}>" for name, text in item.items() if name != lacking)
    page = f"<ListBucketResult><Contents>{fields}</Contents></ListBucketResult>".encode()
    with Hostile(partial(Handler.send, content=page)) as server:
        assert "does not speak S3" in s3_outcome("list", server.root, tmp_path)


def test_a_store_on_s3_leads_nowhere_else(keys: None, tmp_path: Path) -> None:
    with Hostile(echo(str, 200)) as other, Hostile(echo(str, 200)) as server:
        answer = partial(Handler.send, content=b"", X_Amz_Bucket_Region="eu-west-1")
        problem = f"({ENDPOINT_VARIABLES[-1]}) redirects to another place, which is not followed"
        for status in (301, 302, 303, 307, 308):
            server.answer = partial(answer, status=status, Location=f"{other.root}/bucket/a")
            for name in S3:
                assert problem in s3_outcome(name, server.root, tmp_path), (status, name)
    assert len(server.received) >= 30
    assert other.received == []


def test_a_store_on_s3_that_is_silent_is_not_waited_for(keys: None, tmp_path: Path) -> None:
    with Hostile(ANSWERS["hangs"]) as server, within(10):  # a busy machine imports a client slowly
        store = Objects(Address("bucket", "prefix", server.root), silence=0.2)
        with pytest.raises(StoreError, match="no answer in time at http:"):
            store.listed("")


def test_a_store_on_s3_repeats_nothing(keys: None, tmp_path: Path) -> None:
    with Hostile(echo(str, 403)) as server:
        for status, (name, encode) in product((403, 400), ENCODINGS.items()):
            server.answer = echo(encode, status)
            assert leaked(s3_outcome("list", server.root, tmp_path)) == [], name
    assert all("x-amz-security-token" in headers for _, headers, _ in server.received)


def holding(folder: Path, *forms: str) -> list[Path]:
    """Files that hold a text: as it is, or in a compressed column."""
    wanted = [form.encode() for form in forms]
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        contents = [path.read_bytes()]
        if path.suffix == ".parquet":
            table = pq.read_table(path, partitioning=None)
            contents.append(repr([table.schema.metadata, table.to_pydict()]).encode())
        if any(form in content for form in wanted for content in contents):
            found.append(path)
    return found


@pytest.mark.parametrize("status", [200, 401])
def test_servers_that_repeat_all_spread_nothing(tmp_path: Path, status: int) -> None:
    """Store, Dagster's databases, log, terminal and report, for one client after the other."""
    pytest.importorskip("qdrant_client", reason="needs pip install 'rag-assets[qdrant]'")
    tiny = Tiny(tmp_path).write()
    tiny.config["top_k"] = [5]
    reranking = {"input": "bm25", "candidates": 3}
    with Hostile(echo(str, status)) as server:
        with_user = {"model": "m", "base_url": server.with_user, "retries": 0, "api_key_env": None}
        keyed = {**with_user, "base_url": f"{server.root}/v1", "api_key_env": VARIABLE}
        place = {"url": server.root, "collection": "c", "api_key_env": VARIABLE}
        ask(tiny, server.with_query, VARIABLE)
        bm25, told = tiny.config["retrievers"]["bm25"], []
        asking = {
            "clear": tiny.config["retrievers"]["clear"],
            "listwise": {"type": "listwise", **reranking, **with_user},
            "reranked": {"type": "rerank_api", **reranking, **keyed},
            "dense": {"type": "openai_embedding", "chunking": "parts", **with_user},
            "qdrant": {"type": "qdrant", "chunking": "parts", **place},
        }
        names = list(asking)
        # What fails ends an evaluation; three of them read the answers of status 200.
        at_once = [names[:3], names[3:4], names[4:]] if status == 200 else [[one] for one in names]
        for some in at_once:
            tiny.config["retrievers"] = {"bm25": bm25, **{name: asking[name] for name in some}}
            tiny.write_config()
            told.append(tiny.command("-v", "evaluate", ".", columns=200))
    asked = {
        (path.partition("?")[0], headers.get("authorization", "").partition(" ")[0])
        for path, headers, _ in server.received
    }
    assert asked >= {
        ("/v1/chat/completions", "Bearer"),
        ("/v1/chat/completions", "Basic"),
        ("/v1/embeddings", "Basic"),
        ("/v1/rerank", "Bearer"),
        ("/collections/c", ""),
    }
    told.append(tiny.command("-v", "report", ".", columns=200))
    for one in told:
        assert "Traceback" not in one.output
        assert one.exception is None or isinstance(one.exception, SystemExit)
        assert leaked(one.output) == []
    forms = [encode(secret) for secret in SECRETS for encode in ENCODINGS.values()] + [*PIECES]
    assert any((tiny.settings.store / "dagster").rglob("*.db"))
    assert [path for path in holding(tmp_path, *forms) if path.name != "experiment.yaml"] == []
    assert holding(tiny.settings.store, "fares.md"), "what is stored is looked at"


def test_what_dagster_stores_has_nothing_foreign_in_its_chain() -> None:
    full, error = StoreError("the disk is full"), DataError("no table")
    full.__cause__, error.__cause__ = OSError(KEY), full
    told = "".join(format_exception(without_foreign(error)))
    assert KEY not in told
    assert "the disk is full" in told
