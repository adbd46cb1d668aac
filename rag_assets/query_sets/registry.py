"""All strategies for query sets: ours, and those of packages (group ``rag_assets.query_sets``)."""

from __future__ import annotations

from rag_assets.plugins import Kind, members
from rag_assets.query_sets.prompted import PromptedQuerySet
from rag_assets.query_sets.query_set import ComputedQuerySet, QuerySet

BASES: tuple[type[QuerySet], ...] = (ComputedQuerySet, PromptedQuerySet)

KIND = Kind("strategy", "rag_assets.query_sets", BASES, "strategy")

_OWN = {
    "file": "file:FileQuerySet",
    "rewrite": "rewriting:RewriteQuerySet",
    "multi_query": "rewriting:MultiQuerySet",
    "hyde": "rewriting:HydeQuerySet",
    "decompose": "rewriting:DecomposeQuerySet",
    "step_back": "rewriting:StepBackQuerySet",
    "self_query": "self_query:SelfQuerySet",
}
"""``strategy`` -> module of this package, and class, in the order in which people see them."""

QUERY_SET_TYPES = members(KIND, {name: f"{__package__}.{place}" for name, place in _OWN.items()})
"""Every ``strategy``."""
