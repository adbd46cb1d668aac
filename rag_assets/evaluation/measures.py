"""Our own measures of a ranking and its judgments, each with its formula and its source.

The formulas are those of trec_eval (Buckley and NIST, https://github.com/usnistgov/trec_eval),
carried over to evidence: the first unit that satisfies an evidence earns, a later one earns nothing
but counts as relevant for precision. Where each evidence is one document the two are the same. With
R = number of evidences with a grade of at least the relevance level (``rel``, 1 by default),
``rel(i)`` = 1 when the unit at rank i satisfies any of them, and gain(i) = the highest grade among
the evidences first satisfied at rank i.

A unit is judged when it has a grade of 0 or more, and judged non-relevant when its highest grade is
below the level. A grade below 0 means pooled and not judged, as in trec_eval. Gains (of nDCG,
DCG, CG and ERR) know no level.

A query without a positive judgment has null metrics: it has no value, and is counted apart. One
that has some, but none at the level asked for, has the value 0, as with ``trec_eval -l``.

The SQL of a measure reads the tables of :mod:`rag_assets.evaluation.metric_sql`.
"""

from __future__ import annotations

from sys import float_info
from typing import Annotated, ClassVar

from pydantic import Field

from rag_assets.evaluation.measure import Measure, RankingMeasure
from rag_assets.evaluation.trec_measures import TREC_MEASURES
from rag_assets.plugins import Kind, members

LARGEST_GMAX = 1000
"""Powers of 2 up to it are numbers in float64; also the most that ``beta`` may be."""

Grade = Annotated[int, Field(ge=1, le=LARGEST_GMAX)]


class RelevanceMeasure(Measure):
    """A measure over relevant units or evidences, at the level 1.

    Attributes:
        sql: the value, over the sums of ``level_{rel}`` and of :attr:`sums`; null counts 0.
        sums: what is summed for it over the relevant units in the first top_k.
    """

    sql: ClassVar[str]
    sums: ClassVar[str] = ""


class LevelMeasure(RelevanceMeasure):
    """A measure at a level; ``rel`` is the lowest relevant grade."""

    rel: Grade = 1


class GroupMeasure(RelevanceMeasure):
    """A measure over evidences as groups: a query needs every group (AND), any unit of one (OR).

    G is their number, and ``first(g)`` the rank of the first unit that satisfies g. All are at most
    1, and each group counts once however many of its units are retrieved. Recall, F1, MRR and MAP
    are AutoRAG's definitions (``autorag/evaluation/metric/retrieval.py``, 0.3.27) of the list cut
    at k, where no document repeats; its nDCG is not bounded, and ours is another.
    """


class GainMeasure(Measure):
    """DCG over gains; ``gain`` is the SQL of what a grade earns.

    Attributes:
        sql: its value by the DCG and the ideal one, with ``{name}`` for its name.
        discount: SQL of what the gain of a rank is divided by.
    """

    gain: ClassVar[str]
    sql: ClassVar[str] = "dcg_{name} / ideal_{name}"
    discount: ClassVar[str] = "log2(rank + 1)"


class HitRate(LevelMeasure):
    """Success."""

    name = "hit_rate"
    formula = "1 when any rank <= k is relevant (success)"
    aliases = ("success", "hit", "hits")
    sql = "(n_units_{rel} > 0)::INTEGER"


class ReciprocalRank(LevelMeasure):
    """Its mean is MRR."""

    name = "mrr"
    formula = "1 / rank of the first relevant unit, 0 when it is deeper than k"
    aliases = ("rr", "recip_rank")
    sql = "1 / first_{rel}"


class Ndcg(GainMeasure):
    """Gains that are the grades themselves."""

    name = "ndcg"
    formula = (
        "DCG / ideal DCG; DCG = sum of gain(i) / log2(i + 1); the ideal has the grades of all "
        "evidences, the highest first, one a rank, cut at k"
    )
    aliases = ("ndcg_cut",)
    gain = "grade"


class NdcgExp(GainMeasure):
    """Exponential gains."""

    name = "ndcg_exp"
    formula = "the same with 2^gain - 1"
    source = "Burges et al. 2005, as gdeval of the TREC Web track has it"
    gain = "(pow(2, grade) - 1)"


class Dcg(GainMeasure):
    """Linear in the labels, so a sample of them estimates its mean without bias.

    A query counts as much as its grades allow, and the value can exceed 1.
    """

    name = "dcg"
    formula = "sum of gain(i) / log2(i + 1) over the first k, not divided by the ideal"
    source = "Järvelin and Kekäläinen 2002, with the discount that trec_eval has"
    highest = float_info.max
    gain = "grade"
    sql = "dcg_{name}"


class DcgExp(GainMeasure):
    """Exponential gains, not divided by the ideal."""

    name = "dcg_exp"
    formula = "sum of (2^gain(i) - 1) / log2(i + 1) over the first k, not divided by the ideal"
    source = "Burges et al. 2005"
    highest = float_info.max
    gain = NdcgExp.gain
    sql = "dcg_{name}"


class IdealDcg(GainMeasure):
    """What is best possible: it says how much a query's labels allow, and nothing of a ranking."""

    name = "idcg"
    formula = "DCG of the ideal: the grades of all evidences, the highest first, cut at k"
    source = "Järvelin and Kekäläinen 2002, with the discount that trec_eval has"
    highest = float_info.max
    gain = "grade"
    sql = "ideal_{name}"


class CumulativeGain(GainMeasure):
    """What the first k are worth in whatever order."""

    name = "cg"
    formula = "sum of gain(i) over the first k"
    source = "Järvelin and Kekäläinen 2002"
    highest = float_info.max
    gain = "grade"
    sql = "dcg_{name}"
    discount = "1"


class Recall(LevelMeasure):
    """The share of the evidences."""

    name = "recall"
    formula = "evidences satisfied in the first k / R"
    aliases = ("r", "set_recall", "sensitivity", "tpr")
    sql = "n_found_{rel} / r_{rel}"


class CappedRecall(LevelMeasure):
    """Recall that can be 1 also where R is larger than k."""

    name = "recall_cap"
    formula = "evidences satisfied in the first k, at most k of them / min(R, k)"
    source = "BEIR's capped recall"
    aliases = ("r_cap",)
    needs_cutoff = True
    sql = (
        "CASE WHEN n_found_{rel} > 0 "
        "THEN least(n_found_{rel}, r_{rel}, top_k) / least(r_{rel}, top_k) END"
    )


class Precision(LevelMeasure):
    """The share of relevant units."""

    name = "precision"
    formula = "relevant units in the first k / k, also when fewer than k were retrieved"
    aliases = ("p", "ppv")
    needs_cutoff = True
    sql = "n_units_{rel} / top_k"


class SetPrecision(LevelMeasure):
    """Precision of what was retrieved, however many that is."""

    name = "set_p"
    formula = "relevant units in the first k / units retrieved there"
    source = "trec_eval's set_P"
    sql = "n_units_{rel} / n_retrieved"


class SetMap(LevelMeasure):
    """A measure of trec_eval for sets."""

    name = "set_map"
    formula = "`set_p@k` times `recall@k`"
    source = "trec_eval's set_map"
    sql = "n_units_{rel} / n_retrieved * (n_found_{rel} / r_{rel})"


class F1(LevelMeasure):
    """Precision and recall in one number."""

    name = "f1"
    formula = "harmonic mean of precision@k and recall@k"
    needs_cutoff = True
    sql = "2 / (top_k / n_units_{rel} + r_{rel} / n_found_{rel})"


class FBeta(LevelMeasure):
    """``beta`` is how many times as important recall is as precision; 1 is F1."""

    name = "f_beta"
    formula = "(1 + beta^2) * P * R / (beta^2 * P + R), P = precision@k, R = recall@k"
    source = "van Rijsbergen 1979"
    aliases = ("fbeta",)
    needs_cutoff = True
    shown = frozenset({"beta"})
    sql = (
        "(1 + pow({beta}, 2)) / (top_k / n_units_{rel} + pow({beta}, 2) * r_{rel} / n_found_{rel})"
    )

    beta: Annotated[int | float, Field(gt=0, le=LARGEST_GMAX)] = 2


class TruePositives(LevelMeasure):
    """A count: its mean is units a query."""

    name = "tp"
    formula = "relevant units in the first k"
    aliases = ("num_rel_ret",)
    highest = float_info.max
    sql = "n_units_{rel}"


class FalsePositives(LevelMeasure):
    """A count; what has no judgment is among them."""

    name = "fp"
    formula = "units retrieved in the first k that are not relevant; lower is better"
    highest = float_info.max
    lower_is_better = True
    sql = "n_retrieved - coalesce(n_units_{rel}, 0)"


class FalseNegatives(LevelMeasure):
    """A count; evidences that no unit of the chunking satisfies are among them."""

    name = "fn"
    formula = "R - evidences satisfied in the first k; lower is better"
    highest = float_info.max
    lower_is_better = True
    sql = "r_{rel} - coalesce(n_found_{rel}, 0)"


class TrueNegatives(LevelMeasure):
    """A count; with ``tp``, ``fp`` and ``fn`` it is N, where each evidence is one unit."""

    name = "tn"
    formula = "N - units retrieved in the first k - fn, N = units that the retriever can return"
    highest = float_info.max
    needs_size = True
    sql = "greatest(n_all - coalesce(n_retrieved, 0) - r_{rel} + coalesce(n_found_{rel}, 0), 0)"


class AveragePrecision(LevelMeasure):
    """Its mean is MAP."""

    name = "map"
    formula = (
        "sum over evidences satisfied in the first k of the precision at the rank that first "
        "satisfies it / R"
    )
    aliases = ("ap", "map_cut")
    sql = "precisions_{rel} / r_{rel}"
    sums = "sum(n_new * nth / rank ORDER BY rank) AS precisions_{rel}"


class RPrecision(LevelMeasure):
    """Precision at R."""

    name = "r_precision"
    formula = "relevant units in the first R / R"
    aliases = ("rprec",)
    sql = "in_first_r_{rel} / r_{rel}"
    sums = "count(*) FILTER (rank <= r) AS in_first_r_{rel}"


class Bpref(LevelMeasure):
    """Of judged units alone."""

    name = "bpref"
    formula = (
        "sum over the evidences found of 1 - min(n, R) / min(N, R), and of 1 where n = 0, / R; "
        "n = judged non-relevant units above the rank that first satisfies it, N = all of the "
        "query, with evidences that no unit satisfies"
    )
    source = "Buckley and Voorhees 2004, as trec_eval's m_bpref.c has it"
    sql = "preferences_{rel} / r_{rel}"
    sums = """sum(
        n_new * (1 - CASE WHEN n_bad = 0 THEN 0 ELSE least(n_bad, r) / least(bad, r) END)
        ORDER BY rank) AS preferences_{rel}"""


class RankBiasedPrecision(LevelMeasure):
    """``p`` is the persistence of the reader."""

    name = "rbp"
    formula = "(1 - p) * sum of rel(i) * p^(i - 1)"
    source = "Moffat and Zobel 2008"
    shown = frozenset({"p"})
    sql = '(1 - {p}) * "seen {column}"'
    sums = """sum(pow({p}, rank - 1) ORDER BY rank) AS "seen {column}\""""

    p: Annotated[float, Field(gt=0, lt=1)] = 0.8


class ExpectedReciprocalRank(Measure):
    """``gmax`` is the highest grade that can be given."""

    name = "err"
    formula = (
        "sum of s(i) / i * product over j < i of (1 - s(j)), with s(i) = (2^gain(i) - 1) / 2^gmax"
    )
    source = "Chapelle et al. 2009; gmax = 4 as in gdeval"
    shown = frozenset({"gmax"})

    gmax: Grade = 4


class Judged(Measure):
    """How much of what was retrieved is judged at all."""

    name = "judged"
    formula = "judged units / units retrieved in the first k; null when there are none"


class GroupRecall(GroupMeasure):
    """Recall, by AutoRAG's name."""

    name = "group_recall"
    formula = "groups with first(g) <= k / G. The same number as `recall@k`"
    sql = Recall.sql


class GroupF1(GroupMeasure):
    """F1 of what was retrieved, however many that is."""

    name = "group_f1"
    formula = (
        "harmonic mean of `group_recall@k` and the share of relevant units among those *retrieved* "
        "in the first k. (`precision@k` divides by k.)"
    )
    aliases = ("set_f",)
    sql = (
        "2 * (n_found_{rel} / r_{rel}) * (n_units_{rel} / n_retrieved) "
        "/ (n_found_{rel} / r_{rel} + n_units_{rel} / n_retrieved)"
    )


class GroupMrr(GroupMeasure):
    """Mean over the groups, each with a first unit of its own."""

    name = "group_mrr"
    formula = "mean over groups of 1 / first(g), 0 below k"
    sql = "group_reciprocals / r_{rel}"


class GroupMap(GroupMeasure):
    """Mean over the groups, each with a precision of its own."""

    name = "group_map"
    formula = (
        "mean over groups of the average precision of each: with the group's units in the first k "
        "at ranks r(1) < r(2) < ..., the mean of i / r(i); 0 without one"
    )
    sql = "group_precisions / r_{rel}"


class GroupNdcg(GroupMeasure):
    """A unit that satisfies two groups at once gains both, and still at most the ideal.

    Where no unit satisfies two groups it is ``ndcg@k``.
    """

    name = "group_ndcg"
    formula = (
        "only the first unit of a not yet satisfied group gains, its grade. The j-th group in the "
        "order of first(g) gains at position max(first(g), j), discount log2(position + 1), "
        "nothing below k; the ideal has one entry a group, highest grades first, cut at k"
    )
    sql = "group_dcg / ideal_ndcg"


class FullRecall(GroupMeasure):
    """Whether nothing that is needed is missing."""

    name = "full_recall"
    formula = "1 when every group has first(g) <= k"
    sql = "(n_found_{rel} = r_{rel})::INTEGER"


OWN_MEASURES: tuple[type[Measure], ...] = (
    HitRate,
    ReciprocalRank,
    Ndcg,
    NdcgExp,
    Dcg,
    DcgExp,
    IdealDcg,
    CumulativeGain,
    Recall,
    CappedRecall,
    Precision,
    SetPrecision,
    SetMap,
    F1,
    FBeta,
    TruePositives,
    FalsePositives,
    FalseNegatives,
    TrueNegatives,
    AveragePrecision,
    RPrecision,
    Bpref,
    RankBiasedPrecision,
    ExpectedReciprocalRank,
    Judged,
    GroupRecall,
    GroupF1,
    GroupMrr,
    GroupMap,
    GroupNdcg,
    FullRecall,
    *TREC_MEASURES,
)
"""In the order in which columns stand."""

KIND: Kind[Measure] = Kind("metric", "rag_assets.metrics", (RankingMeasure,), "name", ("formula",))

MEASURE_TYPES = members(
    KIND, {each.name: f"{each.__module__}:{each.__name__}" for each in OWN_MEASURES}
)
"""Our own measures of a ranking, then those of packages."""
