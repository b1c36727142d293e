"""Reports about scores."""

import re
from collections.abc import Sequence

from leaven.catalog import lookup
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic, error
from leaven.messages.suggestions import similar

SPLITS = ("train", "val", "test")


def not_a_score(name: syntax.Name) -> Diagnostic:
    split, _, metric = name.path.partition(".")
    joined = re.fullmatch(r"(train|val|test)_(\w+)", name.path)
    near = lookup.nearest(split, SPLITS, limit=1)
    better = f"{near[0]}.{metric}" if near and metric else f"val.{metric or split}"
    headline = f"`{name.path}` is not a score"
    notes = ["a score is `val.accuracy` or `val.loss`; the splits are train, val and test"]
    fix = similar(name.span, [f"{joined[1]}.{joined[2]}" if joined else better])
    return error("unknown-score", headline, (name, "expected a split and a metric"), notes=notes, fix=fix)


def not_measured(name: syntax.Name, measured: Sequence[str]) -> Diagnostic:
    split, _, metric = name.path.partition(".")
    near = [f"{split}.{word}" for word in lookup.nearest(metric, measured, limit=1)]
    listed = ", ".join(f"`{split}.{word}`" for word in measured)
    fix = similar(name.span, near) or (f"add `metrics {metric}()`" if lookup.find("metric", metric) else None)
    return error("unknown-score", f"`{metric}` is not measured", (name, f"the scores are {listed}"), fix=fix)
