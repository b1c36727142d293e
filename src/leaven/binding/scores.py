"""Scores: under which names metrics are recorded, and which one training watches when a recipe says `val.accuracy`."""

import re
from collections.abc import Sequence

from leaven.binding.scope import Scope
from leaven.catalog import lookup
from leaven.catalog.values import Invocation, Score, Unknown
from leaven.language import syntax
from leaven.language.diagnostics import Edit, Fix, Spot


def metric_label(metric: Invocation) -> str:
    """The name under which a metric is recorded: `accuracy`, `accuracy_top5`."""
    top = metric.value("top")
    name = metric.card.bare_name.lower() if metric.card.kind == "metric" else metric.card.bare_name
    return f"{name}_top{top}" if isinstance(top, int) and top > 1 else name


def read_score(value: syntax.Name, scope: Scope) -> Score | Unknown:
    """The score that a name means; one that nothing measures is reported."""
    split, _, metric = value.path.partition(".")
    if split in ("train", "val", "test") and metric:
        measured = scope.measured
        return Score(split, metric) if measured is None or metric in measured else _unmeasured(value, measured, scope)
    joined = re.fullmatch(r"(train|val|test)_(\w+)", value.path)
    near = lookup.nearest(split, ("train", "val", "test"), limit=1)
    better = f"{near[0]}.{metric}" if near and metric else f"val.{metric or split}"
    better = f"{joined[1]}.{joined[2]}" if joined else better
    return scope.report(
        "unknown-score",
        f"`{value.path}` is not a score",
        Spot(value.span, "expected a split and a metric"),
        notes=["a score is `val.accuracy` or `val.loss`; the splits are train, val and test"],
        fix=Fix(f"did you mean `{better}`?", Edit(value.span, better)),
    )


def _unmeasured(value: syntax.Name, measured: Sequence[str], scope: Scope) -> Unknown:
    split, _, metric = value.path.partition(".")
    near = lookup.nearest(metric, measured, limit=1)
    better = f"{split}.{near[0]}" if near else ""
    added = f"measure it: `metrics {metric}()`" if lookup.find("metric", metric) else None
    listed = ", ".join(f"`{split}.{name}`" for name in measured)
    return scope.report(
        "unknown-score",
        f"nothing measures `{metric}`",
        Spot(value.span, f"the scores are {listed}"),
        fix=Fix(f"did you mean `{better}`?", Edit(value.span, better)) if near else added,
    )
