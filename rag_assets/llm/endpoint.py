"""Which language model is asked where the experiment, a program or variables say it together."""

from __future__ import annotations

import os
from collections.abc import Mapping

from rag_assets.errors import UsageError
from rag_assets.servers.client import ServedModelOptions, checked_address
from rag_assets.servers.secrets import host_of, is_loopback
from rag_assets.servers.transport import Server

BASE_URL_VARIABLE = "OPENAI_BASE_URL"
API_KEY_VARIABLE = "OPENAI_API_KEY"
MODEL_VARIABLE = "RAG_ASSETS_LLM_MODEL"
DEFAULT_BASE_URL = "https://api.openai.com/v1"
NO_MODEL = f"no LLM is named; give `model`, or set {MODEL_VARIABLE}"


def model_named(model: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the name of a model at its server: as it is given, else that of the variable.

    Raises:
        UsageError: there is neither.
    """
    name = model or environ.get(MODEL_VARIABLE)
    if not name:
        raise UsageError(NO_MODEL)
    return name


def address_of(base_url: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the address of an experiment's language model.

    Texts leave this machine only for a host that the experiment names. So ``OPENAI_BASE_URL``
    counts for a server on this machine alone; whoever can set a variable gets no documents.

    Args:
        base_url: as the experiment names it; None: that of the variable, else OpenAI's.
        environ: the variables.

    Raises:
        UsageError: only the variable names it, and it is another machine's, or no address.
    """
    given = environ.get(BASE_URL_VARIABLE)
    if base_url or not given:
        return base_url or DEFAULT_BASE_URL
    if not is_loopback(given):
        raise UsageError(
            f"{BASE_URL_VARIABLE} names {host_of(given)}, and the experiment does not: texts leave "
            "this machine only for a host that the experiment names; add to `llm` the line "
            f"`base_url: {Server(given).place}`, or unset the variable"
        )
    try:
        return checked_address(given)
    except ValueError as error:
        problem = str(error)
    raise UsageError(f"{BASE_URL_VARIABLE} {problem}")  # out here, nothing is its context


def endpoint_from_environment(
    model: str | None = None, environ: Mapping[str, str] = os.environ
) -> ServedModelOptions:
    """Return the model that ``OPENAI_BASE_URL`` and ``RAG_ASSETS_LLM_MODEL`` name.

    The key is that of ``OPENAI_API_KEY``. A server on this machine needs none: without the
    variable none is sent there.

    Args:
        model: goes before the variable.
        environ: the variables.

    Raises:
        UsageError: no model is named, or the address is that of another machine.
    """
    base_url = address_of(None, environ)
    needs_key = bool(environ.get(API_KEY_VARIABLE)) or not is_loopback(base_url)
    variable = API_KEY_VARIABLE if needs_key else None
    name = model_named(model, environ)
    return ServedModelOptions(model=name, base_url=base_url, api_key_env=variable)
