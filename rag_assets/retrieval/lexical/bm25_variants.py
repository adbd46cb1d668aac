"""The variants of BM25: which engine computes which, and what their parameter ``delta`` is.

With the symbols of :mod:`.lexical.builtin_engine`, K = k1 * (1 - b + b * |d| / avgdl), and
c = f / (1 - b + b * |d| / avgdl), a token t of the query that occurs f > 0 times in d adds::

    lucene     ln(1 + (N - n + 0.5) / (n + 0.5))       * f / (f + K)
    robertson  max(0, ln((N - n + 0.5) / (n + 0.5)))   * f / (f + K)
    atire      ln(N / n)                               * (k1 + 1) * f / (f + K)
    bm25l      ln((N + 1) / (n + 0.5))                 * (k1 + 1) * (c + delta) / (k1 + c + delta)
    bm25plus   ln((N + 1) / n)                         * ((k1 + 1) * f / (f + K) + delta)
    okapi      that of :mod:`rag_assets.retrieval.lexical.rank_bm25_engine`

and a token that does not occur in d adds nothing. ``robertson`` and ``atire`` give 0 for a token in
at least half of the chunks, or in all: it tells nothing, and chunks that hold nothing else of the
query are no hits. No variant's idf is negative, except that of ``okapi``.

Sources: Kamphuis, de Vries, Boytsov, Lin: Which BM25 Do You Mean? (ECIR 2020), table 1; for bm25l
Lv and Zhai: When Documents Are Very Long, BM25 Fails! (SIGIR 2011); for bm25plus Lv and Zhai:
Lower-Bounding Term Frequency Normalization (CIKM 2011). Both sum over the tokens that the query
shares with the document; delta for absent tokens too, as some packages have it, adds the same to
every chunk, or takes the effect of delta away. The floor of ``robertson`` at 0 is that of bm25s.
"""

from __future__ import annotations

from rag_assets.errors import UsageError, allowed_names

VARIANTS: dict[str, tuple[str, ...]] = {
    "builtin": ("lucene", "robertson", "atire", "bm25l", "bm25plus"),
    "rank_bm25": ("okapi", "bm25plus"),
}
"""Engine -> the variants that it computes, its default first."""

DEFAULT_DELTA: dict[str, float] = {"bm25l": 0.5, "bm25plus": 1.0}
"""Variant with the parameter -> the value that its authors propose."""

REFUSED: dict[tuple[str, str], str] = {
    ("rank_bm25", "bm25l"): (
        "the BM25L of rank_bm25 0.2.2 multiplies by the frequency of a word once more than the "
        "formula of Lv and Zhai; use engine builtin, which has it as published"
    ),
}
"""Engine and variant that its package has, and computes wrongly -> what is wrong."""


def resolve_variant(engine: str, variant: str | None) -> str:
    """Return the variant, or the engine's default for None.

    Raises:
        UsageError: there is no such engine, or it does not compute the variant as published.
    """
    if engine not in VARIANTS:
        raise UsageError(f"engine {allowed_names(engine, VARIANTS)}")
    computed = VARIANTS[engine]
    if variant is None:
        return computed[0]
    if (engine, variant) in REFUSED:
        raise UsageError(REFUSED[engine, variant])
    if variant not in computed:
        raise UsageError(f"engine {engine} computes {', '.join(computed)}; found '{variant}'")
    return variant


def resolve_delta(variant: str, delta: float | None) -> float | None:
    """Return ``delta``, or the variant's default for None; None where it has no such parameter.

    Raises:
        UsageError: the variant has no delta, or it is not above 0.
    """
    if delta is None:
        return DEFAULT_DELTA.get(variant)
    if variant not in DEFAULT_DELTA:
        owners = " and ".join(DEFAULT_DELTA)
        raise UsageError(f"delta belongs to the variants {owners}, not to {variant}")
    if not 0 < delta < float("inf"):
        raise UsageError(f"delta is {delta}; must be above 0")
    return delta
