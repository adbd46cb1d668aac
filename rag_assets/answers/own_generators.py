"""``type: python`` and ``type: http``: answers of code or of a server of the user's own.

An answer is asked for by the question and the texts of its context alone, and stored as it arrives
like the reply of a language model: so nothing is asked twice. One that is no answer is a failure of
its question.
"""

from __future__ import annotations

import inspect
import json
import threading
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, ClassVar, Literal, Self

import msgspec
from pydantic import model_validator

from rag_assets.answers.generators import Generator, GeneratorAnswer, Question
from rag_assets.answers.own_answers import OwnAnswer, own_answer
from rag_assets.called.asked import AskedOptions, Asker, Connection
from rag_assets.called.code import NamedCode
from rag_assets.called.hits import Rejected
from rag_assets.called.http import HttpOptions, JmesPath, value_at
from rag_assets.called.threads import Ask, CalledCode, is_factory, loaded, takes
from rag_assets.llm.client import STOP, Answer, ChatRequest, Completion, Message, now
from rag_assets.llm.completions import ModelSession
from rag_assets.options import Role, options_of
from rag_assets.servers.failures import Failed
from rag_assets.store.canonical import canonical_json


class OwnGenerator(AskedOptions, Generator):
    """An answerer that names no ``retriever`` and no ``context`` asks it the question alone.

    ``returns`` says what a plain text among its contexts is.
    """

    asked: ClassVar[str] = "what answers"

    returns: Literal["ids", "texts"] = "ids"

    @property
    def takes_contexts(self) -> bool:
        """Whether it may be given contexts."""
        return True

    def described(self, *, alone: bool = False) -> Mapping[str, Any]:
        """Return the options that determine the answers."""
        chosen = options_of(self, Role.INDEX)
        return {name: value for name, value in chosen.items() if name not in self.file_options}

    def asked_as(self) -> Mapping[str, Any]:
        """Return the same, by which a revision is kept."""
        return self.described()

    def identity(self, revision: str | None) -> Mapping[str, str]:
        """Return what stands for it in fingerprints, and where its answers are stored."""
        return {"generator": canonical_json(dict(self.described())), "revision": revision or ""}

    @abstractmethod
    def read(self, answer: Any) -> OwnAnswer:  # noqa: ANN401 (whatever it gave)
        """Return what it gave, checked; raises Rejected if it is no answer."""

    def requests(self, questions: Sequence[Question]) -> list[ChatRequest]:
        """Return what is asked: each question, and the texts of its context."""
        values = ({"question": q.text, "contexts": q.context} for q in questions)
        contents = (Message("user", canonical_json(each)) for each in values)
        return [ChatRequest((message,), None, None, 1, "own answer") for message in contents]

    def own_answers(
        self, questions: Sequence[Question], session: ModelSession
    ) -> list[tuple[OwnAnswer | Failed, float | None]]:
        """Return the answers with their contexts and seconds; no stored one is asked for again."""
        model = _Asked(self, self.identity(session.revision))
        with closing(model), session.completions(len(questions), model) as completions:
            replies = completions.answer(self.requests(questions))
        return [
            (reply, None)
            if isinstance(reply, Failed)
            else (msgspec.json.decode(reply.text, type=OwnAnswer), reply.seconds)
            for reply in replies
        ]

    def answers(
        self, questions: Sequence[Question], session: ModelSession
    ) -> Iterator[GeneratorAnswer]:
        """Ask for each answer that is not stored."""
        for answer, seconds in self.own_answers(questions, session):
            if isinstance(answer, Failed):
                yield GeneratorAnswer(None, error=answer.reason, unanswered=True)
                continue
            yield GeneratorAnswer(
                answer.answer,
                answer.abstained,
                answer.cited,
                prompt_tokens=answer.prompt_tokens,
                completion_tokens=answer.completion_tokens,
                n_contexts=len(answer.contexts) if answer.contexts is not None else None,
                seconds=seconds,
                cost=answer.cost,
            )


class _Asked:
    """Code or a server in the place of a language model; connected by the first question."""

    def __init__(self, options: OwnGenerator, identity: Mapping[str, str]) -> None:
        self.identity, self.concurrency = identity, options.concurrency
        self._options, self._lock = options, threading.Lock()
        self._connection: Connection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def answer(self, request: ChatRequest) -> Answer:
        with self._lock:
            if self._connection is None:
                self._connection = self._options.connect()
                self._asker = Asker(self._connection)
        values = json.loads(request.messages[0].content)
        values["contexts"] = values["contexts"] or []
        try:
            answer, seconds = self._asker.ask(values, self._options.read)
        except Rejected as problem:
            return Failed(str(problem))
        tokens = (answer.prompt_tokens, answer.completion_tokens)
        reply = msgspec.json.encode(answer).decode()
        return Completion(reply, *tokens, STOP, seconds, None, now())


class PythonGenerator(NamedCode, OwnGenerator):
    """Answers of your own Python code.

    ``call`` is ``package.module:name`` of an installed module, or ``path/to/file.py:name`` relative
    to the YAML file. It names a function of (question, contexts), where contexts are texts, or of
    the question alone; an object with ``invoke`` (LangChain) or ``query`` (LlamaIndex), which is
    asked the question alone; or a class or a function without arguments that gives one. Async
    functions too. It returns a text, or a mapping or an object with ``answer`` and, as far as there
    are such, ``cited``, ``contexts``, ``prompt_tokens``, ``completion_tokens``, ``cost`` and
    ``abstained``.
    """

    type: Literal["python"]

    def described(self, *, alone: bool = False) -> Mapping[str, Any]:
        """Return the options; of a file the name alone, as its source counts."""
        return {**super().described(alone=alone), "call": self.named_call}

    def identity(self, revision: str | None) -> Mapping[str, str]:
        """Return the same with the version of the source, where no revision stands for it."""
        return {**super().identity(revision), **self.versions()}

    def connect(self) -> Connection:
        """Load the code, in a thread."""
        return CalledCode(lambda: loaded(self.call, self._asking), self._read, self)

    def read(self, answer: OwnAnswer) -> OwnAnswer:
        """Return it: it was read in the thread that asked."""
        return answer

    def _read(self, answer: object, values: Mapping[str, Any]) -> OwnAnswer:
        return own_answer(answer, as_texts=self.returns == "texts")

    def _asking(self) -> Ask:
        """Return how it is asked; raises Rejected if it cannot be."""
        target: Any = self.load()
        options = self.options
        if inspect.isclass(target) or is_factory(target, options):
            target, options = target(**options), {}
        names = [] if inspect.isroutine(target) else ["invoke", "query"]
        methods = [one for name in names if callable(one := getattr(target, name, None))]
        if not methods and callable(target) and takes(target, 2, options):
            return lambda values: target(values["question"], values["contexts"], **options)
        asked_alone = methods[0] if methods else target
        if not callable(asked_alone) or not takes(asked_alone, 1, options):
            given = ", ".join(["question", "contexts", *(f"{name}=" for name in options)])
            raise Rejected(
                f"is a {type(target).__name__} that cannot be called with ({given}), "
                "nor has it `invoke` or `query`"
            )

        def ask(values: Mapping[str, Any]) -> object:
            if values["contexts"]:
                raise Rejected("it takes the question alone, and was given contexts")
            return asked_alone(values["question"], **options)

        return ask


class HttpGenerator(HttpOptions, OwnGenerator):
    """Answers of a server of your own.

    In ``body`` and behind the ``?`` of ``url``, ``{question}`` and ``{contexts}`` (a list of texts)
    stand for what is asked. ``answer`` is a JMESPath to the text of the answer; ``cited``,
    ``contexts``, ``prompt_tokens``, ``completion_tokens``, ``cost`` and ``abstained`` lead to the
    rest of what a function returns. ``retries`` and ``backoff`` are those of a search.
    """

    type: Literal["http"]
    answer: JmesPath
    abstained: JmesPath | None = None
    cited: JmesPath | None = None
    contexts: JmesPath | None = None
    prompt_tokens: JmesPath | None = None
    completion_tokens: JmesPath | None = None
    cost: JmesPath | None = None

    @model_validator(mode="after")
    def _asks_the_question(self) -> Self:
        self.checked_places(["question"])
        return self

    @property
    def takes_contexts(self) -> bool:
        """Whether the request has a place for them."""
        return "contexts" in self.checked_places(["question"])

    def described(self, *, alone: bool = False) -> Mapping[str, Any]:
        """Return the options, without headers that hold a variable."""
        return {**super().described(alone=alone), "headers": self.sent_headers}

    def read(self, answer: Any) -> OwnAnswer:  # noqa: ANN401 (JSON)
        """Return what the paths lead to, checked."""
        self.check_error(answer)
        paths = {name: getattr(self, name) for name in OwnAnswer._fields}
        fields = {
            name: value_at(f"`{name}: {path}`", path, answer, is_needed=name == "answer")
            for name, path in paths.items()
            if path is not None
        }
        return own_answer(fields, as_texts=self.returns == "texts")
