"""What Dagster shows of an experiment that cannot be loaded: one asset with a check that failed.

Without `from __future__ import annotations`: Dagster reads the annotation of `context` itself.
"""

import re
from collections.abc import Callable, Sequence

import dagster as dg

from rag_assets.assets.execution import sensor_seconds
from rag_assets.errors import RagAssetsError
from rag_assets.plain_text import markdown

CHECK = "can_be_loaded"


def unloadable(key: Sequence[str], load: Callable[[], object], problem: str) -> dg.Definitions:
    """Return an asset in place of those of an experiment; the rest of the project is as it was.

    A sensor that is on reports the failed check, so it is red without anybody running it.

    Args:
        key: of the asset.
        load: raises what is wrong with the experiment when the check runs.
        problem: what was wrong when the code location was loaded: one line.
    """
    spec = dg.AssetSpec(key, description=f"Cannot be loaded: {markdown(problem)}")
    name = re.sub(r"\W", "_", "__".join(key), flags=re.ASCII)

    @dg.asset_check(asset=spec.key, name=CHECK, description="The experiment can be loaded.")
    def check() -> dg.AssetCheckResult:
        try:
            load()
        except RagAssetsError as error:
            return dg.AssetCheckResult(passed=False, description=markdown(str(error)))
        return dg.AssetCheckResult(passed=True, description="Reload the code location.")

    @dg.sensor(
        name=f"{name}_{CHECK}",
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=sensor_seconds(),
        description="Reports that the experiment cannot be loaded.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        if context.cursor == problem:
            return dg.SkipReason(problem)
        failed = dg.AssetCheckEvaluation(
            asset_key=spec.key, check_name=CHECK, passed=False, description=markdown(problem)
        )
        return dg.SensorResult(asset_events=[failed], cursor=problem)

    return dg.Definitions(assets=[spec], asset_checks=[check], sensors=[sensor])
