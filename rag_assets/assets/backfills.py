"""Into how many runs a backfill is cut."""

from __future__ import annotations

import os
import re

import dagster as dg

from rag_assets.errors import UsageError

VARIABLE = "RAG_ASSETS_BACKFILL"


def backfill_policy() -> dg.BackfillPolicy:
    """Return the policy of all assets with partitions: ``RAG_ASSETS_BACKFILL``.

    ``single_run``, the default, is one run for each range of partitions: right for one machine.
    ``multi_run`` is a run for each partition, ``multi_run(n)`` for each n: for runs on several
    machines with a common store.

    Raises:
        UsageError: it is none of these.
    """
    text = os.environ.get(VARIABLE) or "single_run"
    found = re.fullmatch(r"single_run|multi_run(?:\(([1-9][0-9]{0,5})\))?", text, re.ASCII)
    if found is None:
        raise UsageError(
            f"{VARIABLE} must be single_run, multi_run or multi_run(n), n partitions a run; "
            f"found {text!r}"
        )
    if text == "single_run":
        return dg.BackfillPolicy.single_run()
    return dg.BackfillPolicy.multi_run(int(found[1] or 1))
