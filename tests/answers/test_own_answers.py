"""Answers of the user's own code: each question is asked once, and a failure is its own."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from rag_assets.answers.contexts_stage import answer_contexts_key
from rag_assets.answers.generators import Question
from rag_assets.answers.own_answers import OwnAnswer, own_answer
from rag_assets.answers.own_generators import PythonGenerator
from rag_assets.answers.stage import answer_metrics_key, answers_key
from rag_assets.called.hits import Hit, Rejected
from rag_assets.errors import ConfigError, UsageError
from rag_assets.experiment import load_experiment
from rag_assets.llm.completions import Completions, ModelSession
from rag_assets.llm.replies import ReplyStore
from rag_assets.pipeline.failed_queries import try_again, unanswered
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages import required_partitions
from rag_assets.retrieval.external.stage import rankings_key
from rag_assets.retrieval.runs_stage import run_key
from tests.answers.answering import with_answers
from tests.retrieval.external.loopback import Reply, Request, serving
from tests.tiny_experiment import QUERIES, Tiny, planned

APP = """
from pathlib import Path

LOG = Path("<root>") / "log.txt"


def log(question):
    with LOG.open("a") as file:
        file.write(question + "\\n")


def answer(question, contexts):
    log(question)
    return {"answer": (contexts or ["none"])[0], "cited": [1] if contexts else [], "cost": 0.5}


def chain(question):
    log(question)
    if "dog" in question and (LOG.parent / "down").exists():
        raise OSError("down")
    return {
        "answer": "10 crowns [1]",
        "contexts": ["fares.md", ("timetable.md", 0, 40)],
        "prompt_tokens": 7,
        "completion_tokens": 2,
    }
"""


class Own(Tiny):
    """An experiment with answers of its own, which are written down."""

    def write_app(self, code: str = APP) -> None:
        (self.folder / "app.py").write_text(code.replace("<root>", str(self.root)), "utf-8")

    @property
    def asked(self) -> list[str]:
        """The questions since this was last looked at, sorted."""
        file = self.root / "log.txt"
        lines = sorted(file.read_text(encoding="utf-8").splitlines()) if file.exists() else []
        file.unlink(missing_ok=True)
        return lines

    def requests(self) -> int | None:
        """What a plan says that the generator is asked."""
        return sum(o.requests or 0 for o in planned(self).outgoing if o.client == "generators.mine")


NOWHERE = "who is the captain"
"""A question for which nothing is found."""

ALL = sorted([*(row["text"] for row in QUERIES), NOWHERE])
READ = {"generator": "mine", "retriever": "bm25", "top_k": [3]}
"""An answerer that is given what a retriever finds."""


@pytest.fixture
def own(tmp_path: Path, computed: Tiny) -> Own:
    tiny = Own(tmp_path / "tiny")
    tiny.start_from(computed)
    tiny.write()
    tiny.write_app()
    return tiny


def given(own: Own, call: str = "answer", **answers: Any) -> Own:
    generator = {"type": "python", "call": f"app.py:{call}", "revision": "1"}
    with_answers(own, generators={"mine": generator}, answers=answers)
    return own


def test_each_question_with_its_context_is_asked_once_and_measured(own: Own) -> None:
    given(own, read=READ)
    assert own.requests() == len(ALL)
    own.run()
    assert own.asked == ALL
    assert own.requests() == 0
    assert own.run() == set()
    rows = {row["query_id"]: row for row in own.rows(answers_key("read@3"))}
    assert rows["q1"]["answer"] == "A dog needs a ticket of 10 crowns."
    assert rows["q1"]["cited"] == [1]
    assert {row["cost"] for row in rows.values()} == {0.5}
    metrics = {row["query_id"]: row for row in own.rows(answer_metrics_key("read@3"))}
    assert metrics["q1"]["evidence_cited"] == 1
    own.snapshot()
    (shown,) = json.loads(own.command("leaderboard", ".", "--answers", "--format", "json").stdout)
    assert (shown["answerer"], shown["answer_cost"]) == ("read", 0.5)
    texts = contexts(own)
    # Another name, and another answerer with the same contexts, ask nothing.
    own.config["answers"]["again"] = READ
    own.write_config()
    own.run()
    assert own.asked == []
    own.configure("bm25", k1=0.1, b=0.0)
    pipeline = own.pipeline()
    for asset, keys in required_partitions(
        pipeline.experiment, Selection.of(pipeline.experiment)
    ).items():
        if asset == "answers":
            break
        pipeline.materialize(asset, keys)
    changed = [
        query_id for query_id, digests in contexts(own).items() if digests != texts[query_id]
    ]
    assert 0 < len(changed) < len(ALL)
    assert own.requests() == len(changed)
    own.run()
    assert len(own.asked) == len(changed)
    own.configure("bm25", k1=1.2, b=0.75)
    own.run()
    assert own.asked == []


def contexts(own: Own) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for row in own.rows(answer_contexts_key("read@3")):
        found[row["query_id"]] = (*found.get(row["query_id"], ()), row["text_digest"])
    return found


def chained(own: Own, **answerer: Any) -> Own:
    given(own, "chain", mine={"generator": "mine", "retriever": "chain", **answerer})
    own.config["retrievers"]["chain"] = {"type": "generator", "generator": "mine"}
    own.write_config()
    return own


def test_a_chain_is_an_answerer_and_a_retriever_for_one_call_a_question(own: Own) -> None:
    chained(own)
    assert own.requests() == len(ALL)
    own.run()
    assert own.asked == ALL
    assert own.run() == set()
    run = own.rows(run_key(own.pipeline().experiment, "chain", 5))
    found = [row["unit_id"] for row in run if row["query_id"] == "q1"]
    assert found == ["fares.md", "timetable.md#0-40"]
    rows = {row["query_id"]: row for row in own.rows(answers_key("mine@5"))}
    assert (rows["q1"]["cited"], rows["q1"]["prompt_tokens"]) == ([1], 7)
    metrics = {row["query_id"]: row for row in own.rows(answer_metrics_key("mine@5"))}
    assert metrics["q1"]["evidence_cited"] == 1
    assert metrics["q3"]["evidence_cited"] == 0
    assert [cell for cell in own.pipeline().experiment.answer_cells] == ["mine@5"]
    own.snapshot()
    assert "chain" in own.command("leaderboard", ".").output


def test_a_question_that_fails_is_asked_once_too_and_again_when_that_is_wanted(own: Own) -> None:
    (own.root / "down").touch()
    chained(own)
    own.run()
    assert own.asked == ALL
    (row,) = [row for row in own.rows(answers_key("mine@5")) if row["error"]]
    assert (row["query_id"], row["error"]) == ("q1", "OSError: down")
    assert unanswered(own.pipeline()) == {rankings_key("chain"): 1}
    (own.root / "down").unlink()
    assert own.run() == set()
    assert try_again(own.pipeline()) == 1
    own.run()
    assert own.asked == [QUERIES[0]["text"]]
    assert not any(row["error"] for row in own.rows(answers_key("mine@5")))


def test_without_a_context_the_question_alone_is_asked_and_with_one_that_is_said(own: Own) -> None:
    none = {"generator": "mine", "context": "none"}
    given(own, "chain", alone={"generator": "mine"}, none=none, read=READ)
    own.run()
    assert own.asked == sorted([*ALL, NOWHERE])
    (first, *_) = own.rows(answers_key("alone@-"))
    assert first["answer"] == "10 crowns [1]"
    errors = {row["error"] for row in own.rows(answers_key("read@3"))}
    assert "it takes the question alone, and was given contexts" in errors


def test_always_asks_once_in_each_evaluation(own: Own) -> None:
    chained(own)
    own.config["generators"]["mine"]["revision"] = "always"
    own.write_config()
    own.run()
    assert own.asked == ALL
    assert own.command("evaluate", ".").exit_code in (0, 3)
    assert own.asked == ALL
    actions = {step.key.asset: step.action for step in planned(own).steps}
    assert (actions["external_rankings"], actions["answers"]) == ("compute", "check")
    assert own.requests() == len(ALL)
    assert own.asked == []


def test_another_source_is_another_generator_where_no_revision_stands_for_it(own: Own) -> None:
    given(own, read=READ)
    del own.config["generators"]["mine"]["revision"]
    own.write_config()
    own.run()
    assert own.asked == ALL
    own.write_app(APP.replace("def chain(question):", "def chain(question):\n    pass"))
    assert own.run() == set()
    own.write_app(APP.replace('["none"]', '["nothing"]'))
    own.run()
    assert own.asked == ALL


def test_code_of_a_fork_is_not_run(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    event = own.root / "event.json"
    event.write_text(json.dumps({"pull_request": {"head": {"repo": {"full_name": "who/app"}}}}))
    monkeypatch.setenv("GITHUB_EVENT_NAME", "pull_request")
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(event))
    monkeypatch.setenv("GITHUB_REPOSITORY", "mine/app")
    chained(own)
    with pytest.raises(UsageError, match="a pull request from who/app; read the code, then allow"):
        own.run()
    given(own, read=READ)
    del own.config["retrievers"]["chain"]
    own.write_config()
    with pytest.raises(UsageError, match="a pull request from who/app; read the code, then allow"):
        own.run()
    assert own.asked == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda c: c["retrievers"]["chain"].update(generator="nobody"), "unknown generator"),
        (lambda c: c["generators"]["mine"].pop("revision"), "needs `revision`"),
        (
            lambda c: c["retrievers"]["chain"].update(generator="copied"),
            "'copied' retrieves nothing; allowed are types python and http",
        ),
        (lambda c: c["retrievers"]["chain"].update(chunking="parts"), "own"),
        (lambda c: c["generators"]["mine"].update(call="nowhere.py:f"), "nowhere"),
        (
            lambda c: c["generators"].update(far={"type": "http", "url": "http://x/", "body": 1}),
            "far",
        ),
        (lambda c: asks_by(c, "{question}"), r"has no place for '\{contexts\}'"),
        (lambda c: asks_by(c, "{query}"), r"have no '\{question\}'"),
    ],
)
def test_what_cannot_be_asked_is_said(
    own: Own, change: Callable[[dict[str, Any]], object], problem: str
) -> None:
    chained(own)
    own.config["generators"]["copied"] = {"type": "extractive"}
    change(own.config)
    own.write_config()
    with pytest.raises(ConfigError, match=problem):
        load_experiment(own.folder)


def asks_by(config: dict[str, Any], place: str) -> None:
    """Let an answerer with contexts send a body with one place in it."""
    config["generators"]["far"] = http_generator("http://127.0.0.1:9", body={"q": place})
    config["answers"]["read"] = {**READ, "generator": "far"}


# As a message and a document of LangChain, a response of LlamaIndex and an answer of Haystack.
MESSAGE = SimpleNamespace(content="yes", usage_metadata={"input_tokens": 3, "output_tokens": 1})
DOCUMENT = SimpleNamespace(page_content="A dog", metadata={"source": "fares.md"})
NODE = SimpleNamespace(text="A dog", metadata={"file_name": "fares.md"})
RESPONSE = SimpleNamespace(response="yes", source_nodes=[SimpleNamespace(node=NODE, score=0.5)])
GENERATED = SimpleNamespace(data="yes", documents=(DOCUMENT,))

FROM_FARES = Hit(text="A dog", source="fares.md")
OUTPUTS = {"retriever": {"documents": [DOCUMENT]}, "llm": {"replies": ["yes"], "meta": [{}]}}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("yes", OwnAnswer("yes")),
        ("yes [2]", OwnAnswer("yes [2]", cited=[2])),
        ("", OwnAnswer("")),
        ({"answer": None}, OwnAnswer("")),
        ({"answer": "no", "abstained": True, "cost": 1}, OwnAnswer("no", True, cost=1.0)),
        ({"answer": "a", "contexts": ["x", "y"], "cited": ["y", 1]}, None),
        (MESSAGE, OwnAnswer("yes", prompt_tokens=3, completion_tokens=1)),
        (
            {"input": "q", "context": [DOCUMENT], "answer": "yes"},
            OwnAnswer("yes", contexts=[FROM_FARES]),
        ),
        ({"query": "q", "result": "yes", "source_documents": []}, OwnAnswer("yes", contexts=[])),
        (RESPONSE, OwnAnswer("yes", contexts=[FROM_FARES._replace(score=0.5)])),
        (OUTPUTS, OwnAnswer("yes", contexts=[FROM_FARES])),
        ({"llm": {"replies": [MESSAGE]}}, OwnAnswer("yes")),
        ({"answers": {"answers": [GENERATED]}}, OwnAnswer("yes", contexts=[FROM_FARES])),
        (OwnAnswer("yes", contexts=[Hit(id="d", score=0.1)]), None),
    ],
)
def test_an_answer_has_many_forms(value: object, expected: OwnAnswer | None) -> None:
    answer = own_answer(value)
    assert msgspec.json.decode(msgspec.json.encode(answer), type=OwnAnswer) == answer
    if expected is not None:
        assert answer == expected
    else:
        assert answer.cited in ([2, 1], None)


@pytest.fixture
def ask(tmp_path: Path) -> Callable[..., list[OwnAnswer | Any]]:
    """Ask code for the answers to three questions."""

    def asked(code: str, name: str = "f", **options: Any) -> list[Any]:
        file = tmp_path / "app.py"
        file.write_text(code, encoding="utf-8")
        generator = PythonGenerator(type="python", call=f"{file}:{name}", **options)
        store = ReplyStore(tmp_path / f"replies-{len(list(tmp_path.iterdir()))}")

        @contextmanager
        def completions(total: int, model: Any) -> Iterator[Completions]:
            yield Completions(model, store)

        questions = [Question(name, name, ("a text",)) for name in ("one", "two", "three")]
        if options.get("alone") or name != "f":
            questions = [one._replace(context=None) for one in questions]
        answers = generator.own_answers(questions, ModelSession(completions))
        return [answer for answer, _ in answers]

    return asked


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("async def g(q): return q", "g"),
        ("class C:\n  async def __call__(self, q): return q\ng = C()", "g"),
        ("class C:\n  def invoke(self, q, config=None): return {'answer': q}", "C"),
        ("class C:\n  def query(self, q): return q\ndef g(): return C()", "g"),
        ("def g(q, contexts): return q if contexts == [] else 1", "g"),
    ],
)
def test_functions_classes_and_objects_are_asked(
    ask: Callable[..., list[Any]], code: str, name: str
) -> None:
    assert [one.answer for one in ask(code, name)] == ["one", "two", "three"]


# What code raises is told as that of a search is, of which tests/retrieval/external has more.
HOSTILE = """
import asyncio, itertools, sys, threading, time
class Odd(BaseException): pass
class Meta:
    def __getattr__(self, name): raise Odd(name)
class Text(str):
    def __str__(self): raise Odd("str")
    def encode(self, *given): raise Odd("encode")
class Silent:
    answer = "x"
    def __repr__(self): raise Odd("repr")
class Keys(dict):
    def items(self): raise Odd("items")
class Deep(Exception): pass
def deep(n=0): return deep(n + 1)
def busy():
    while True: time.sleep(0.01); yield from ()
async def late(): await asyncio.sleep(60)
async def fails(): raise ValueError("async")
def f(question, contexts):
    if question != "two": return question
    {hostile}
"""


@pytest.mark.parametrize(
    ("hostile", "problem"),
    [
        ("raise ValueError('no')", "ValueError: no"),
        ("raise ValueError('a\\nb\\x00\\x1b[31mc')", "ValueError: a b"),
        ("raise ValueError(10**6 * 'x')", "ValueError: xxx"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("raise StopIteration('x')", "StopIteration: x"),
        ("raise asyncio.CancelledError('x')", "CancelledError"),
        ("raise MemoryError", "MemoryError"),
        ("sys.exit(3)", "SystemExit: 3"),
        ("return fails()", "ValueError: async"),
        ("return late()", "no answer within 1 s"),
        ("threading.Event().wait()", "no answer within 1 s"),
        ("return {'answer': 'x', 'contexts': busy()}", "no answer within 1 s"),
        ("return deep()", "RecursionError"),
        ("pass", "returned nothing, not an answer"),
        ("return 3", "returned 3, not an answer"),
        ("return True", "returned true, not an answer"),
        ("return 1j", "returned complex"),
        ("return b'bytes'", "returned bytes"),
        ("return ['x']", "returned a list of 1"),
        ("return {}", "returned an empty object"),
        ("return object", "not an answer"),
        ("return Meta()", "Odd:"),
        ("return Text('x')", "Odd: encode"),
        ("return Silent()", "fine"),
        ("return Keys(answer='x')", "Odd: items"),
        ("return {'answer': 3}", "`answer` is 3; it must be a text of at most 10,000,000"),
        ("return {'answer': b'x'}", "`answer` is bytes"),
        ("return {'answer': 50_000_000 * 'x'}", "it must be a text of at most 10,000,000"),
        ("return {'answer': 'x', 'cites': [1]}", 'has the key "cites"; allowed: answer'),
        ("return {'answer': 'x', 1: 2}", "has the key 1; allowed"),
        ("return {'answer': 'x', 'cited': [0]}", "`cited` has 0; contexts are numbered from 1"),
        ("return {'answer': 'x', 'cited': [-1]}", "`cited` is -1; it must be a whole number"),
        ("return {'answer': 'x', 'cited': ['d']}", 'has "d", and no context has this id'),
        ("return {'answer': 'x', 'cited': 1}", "`cited` is 1; it must be a list"),
        ("return {'answer': 'x', 'contexts': 'text'}", "not a list of hits"),
        ("return {'answer': 'x', 'contexts': [{'x': 1}]}", "hit 1 has the key 'x'"),
        ("return {'answer': 'x', 'prompt_tokens': 1.5}", "`prompt_tokens` is 1.5"),
        ("return {'answer': 'x', 'completion_tokens': -1}", "`completion_tokens` is -1"),
        ("return {'answer': 'x', 'cost': float('nan')}", "`cost` is NaN; it must be a finite"),
        ("return {'answer': 'x', 'cost': '1'}", '`cost` is "1"; it must be a finite number'),
        ("return {'answer': 'x', 'abstained': 1}", "`abstained` is 1; it must be true or false"),
        ("return {'llm': {'replies': []}}", "not an answer"),
        ("return {'llm': {'replies': [3]}}", "`answer` is 3"),
    ],
)
def test_hostile_code_fails_its_question_alone(
    ask: Callable[..., list[Any]], hostile: str, problem: str
) -> None:
    timeout = 1 if "within 1 s" in problem else 60  # a busy machine is no reason to fail
    first, second, third = ask(HOSTILE.replace("{hostile}", hostile), timeout=timeout)
    assert (first.answer, third.answer) == ("one", "three")
    if problem != "fine":
        assert problem in second.reason
        assert len(second.reason) < 1000
        assert second.reason.isprintable()


def test_a_late_coroutine_is_late_however_late_its_asker_looks(
    ask: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = Future.result

    def on_a_busy_machine(future: Future[Any], timeout: float | None = None) -> object:
        if timeout is not None:
            time.sleep(0.5)
        return result(future, timeout)

    monkeypatch.setattr(Future, "result", on_a_busy_machine)
    first, second, third = ask(HOSTILE.replace("{hostile}", "return late()"), timeout=0.3)
    assert (first.answer, third.answer) == ("one", "three")
    assert second.reason == "no answer within 0.3 s"


def test_any_characters_are_kept_and_endless_contexts_cut(ask: Callable[..., list[Any]]) -> None:
    code = (
        "return {'answer': 'a\\x00\\ud800\\x1b[31m\\u202e',"
        " 'contexts': map(str, itertools.count())}"
    )
    _, second, _ = ask(HOSTILE.replace("{hostile}", code))
    assert second.answer == "a\x00?\x1b[31m\u202e"
    assert len(second.contexts) == 1000


def test_a_text_is_no_id_unless_that_is_said() -> None:
    assert own_answer({"answer": "x", "contexts": ["a"]}).contexts == [Hit(id="a")]
    assert own_answer({"answer": "x", "contexts": ["a"]}, as_texts=True).contexts == [Hit(text="a")]
    with pytest.raises(Rejected, match="not a list of hits"):
        own_answer({"answer": "x", "contexts": "a"})


def http_generator(root: str, **changes: Any) -> dict[str, Any]:
    return {
        "type": "http",
        "url": f"{root}/answer",
        "body": {"q": "{question}", "passages": "{contexts}", "note": "{query}"},
        "answer": "out.text",
        "cited": "out.sources",
        "contexts": "out.docs[].{id: name}",
        "cost": "usage.money",
        "error": "problem",
        "revision": "1",
        "retries": 0,
        "backoff": 0,
        **changes,
    }


def served(own: Own, root: str, **changes: Any) -> Own:
    generator = http_generator(root, **changes)
    with_answers(own, generators={"mine": generator}, answers={"read": READ})
    return own


def test_a_server_is_asked_once_for_each_question_with_its_context(own: Own) -> None:
    def answer(request: Request) -> Reply:
        text = request.body["passages"][0]
        return Reply({"out": {"text": text, "sources": [1]}, "usage": {"money": 2}})

    with serving(answer) as server:
        served(own, server.root)
        assert own.requests() == len(ALL)
        own.run()
        assert sorted(one.body["q"] for one in server.received) == ALL
        assert {one.body["note"] for one in server.received} == {"{query}"}
        assert own.run() == set()
        assert own.requests() == 0
        row = own.rows(answers_key("read@3"))[0]
        assert (row["answer"], row["cited"]) == ("A dog needs a ticket of 10 crowns.", [1])
        assert len(server.received) == len(ALL)


HOSTILE_REPLIES = [
    (Reply(b"no"), "it is not JSON"),
    (Reply(b"\xff\xfe{}"), "it is not JSON"),
    (Reply({}), "`answer: out.text` matches nothing in an empty object"),
    (Reply({"message": "tired"}), "the server says: tired"),
    (Reply({"problem": "x"}), "the server says: x"),
    (Reply({"out": {"text": ["a"]}}), "`answer` is a list of 1; it must be a text"),
    (Reply({"out": {"text": "a", "sources": ["z"]}}), "no context has this id"),
    (Reply({"out": {"text": "a", "docs": [{"x": 1}]}}), "hit 1: has only none of them"),
    (Reply({"usage": {"money": "1"}, "out": {"text": "a"}}), "`cost` is"),
    (Reply({}, 500), "HTTP 500"),
    (Reply({}, 302, {"Location": "http://192.0.2.1/"}), "a redirect to"),
]


def test_a_hostile_server_fails_the_question_alone(own: Own) -> None:
    """One server for each reply, all of which one evaluation asks."""

    def answer(request: Request) -> Reply:
        reply, _ = HOSTILE_REPLIES[int(request.path.split("/")[1])]
        return reply if "dog" in request.body["q"] else Reply({"out": {"text": "yes"}})

    names = [f"hostile-{number}" for number in range(len(HOSTILE_REPLIES))]
    with serving(answer) as server:
        own.run()
        generators = {
            name: http_generator(f"{server.root}/{number}") for number, name in enumerate(names)
        }
        answers = {name: {**READ, "generator": name} for name in names}
        with_answers(own, generators=generators, answers=answers)
        own.run()
    wrong = []
    for name, (_, problem) in zip(names, HOSTILE_REPLIES, strict=True):
        errors = {row["query_id"]: row["error"] for row in own.rows(answers_key(f"{name}@3"))}
        message = str(errors.pop("q1"))
        if problem not in message or {*errors.values()} != {None}:
            wrong.append((problem, message, errors))
    assert wrong == []
