"""Scores: under which names metrics are recorded, and which one `val.accuracy` means."""

import re
from collections.abc import Iterable
from unicodedata import normalize

from leaven.binding.scope import Scope
from leaven.catalog.values import Invocation, Score, Unknown
from leaven.language import syntax
from leaven.messages import values as messages


def metric_label(metric: Invocation) -> str:
    """The name under which a metric is recorded: `accuracy`, `accuracy_top5`, `f1_spam`."""
    top, of = metric.value("top"), metric.value("of")
    name = metric.card.bare_name.lower() if metric.card.kind == "metric" else metric.card.bare_name
    if isinstance(of, str) and metric.card.kind == "metric":
        word = re.sub(r"\W+", "_", normalize("NFKC", of)).strip("_") or "class"  # that can be written in a recipe
        return f"{name}_{word}"
    return f"{name}_top{top}" if isinstance(top, int) and top > 1 else name


def measured_scores(metrics: Iterable[Invocation]) -> list[str]:
    """The names of the scores that metrics give."""
    return [name for metric in metrics for name in metric.card.metric.scores or (metric_label(metric),)]


def read_score(value: syntax.Name, scope: Scope) -> Score | Unknown:
    """The score that a name means; one that nothing measures is reported."""
    split, _, metric = value.path.partition(".")
    if split not in messages.SPLITS or not metric:
        return scope.add(messages.not_a_score(value))
    is_training_loss = (split, metric) == ("train", "loss")
    if scope.measured is not None and metric not in scope.measured and not is_training_loss:
        return scope.add(messages.not_measured(value, scope.measured))
    return Score(split, metric)
