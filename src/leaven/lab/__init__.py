"""The lab: questions to a model and to its training, from Python. Names are imported when they are first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leaven.lab.advisor import advice as advice
    from leaven.lab.answers import predictions as predictions
    from leaven.lab.attribution import attribute as attribute
    from leaven.lab.attribution import occlusion as occlusion
    from leaven.lab.comparison.comparing import compare as compare
    from leaven.lab.curves import smallest_flip as smallest_flip
    from leaven.lab.curves import vary as vary
    from leaven.lab.edits.edited import edit as edit
    from leaven.lab.inspector import Inspector as Inspector
    from leaven.lab.journal import Journal as Journal
    from leaven.lab.layer_statistics import statistics as statistics
    from leaven.lab.mistakes.errors import errors as errors
    from leaven.lab.mistakes.samples import samples as samples
    from leaven.lab.recorded_training import new_rows as new_rows
    from leaven.lab.recorded_training import training as training
    from leaven.lab.tracing.trace import trace as trace

_NAMES = {
    "Inspector": "leaven.lab.inspector",
    "Journal": "leaven.lab.journal",
    "advice": "leaven.lab.advisor",
    "attribute": "leaven.lab.attribution",
    "compare": "leaven.lab.comparison.comparing",
    "edit": "leaven.lab.edits.edited",
    "errors": "leaven.lab.mistakes.errors",
    "new_rows": "leaven.lab.recorded_training",
    "occlusion": "leaven.lab.attribution",
    "predictions": "leaven.lab.answers",
    "samples": "leaven.lab.mistakes.samples",
    "smallest_flip": "leaven.lab.curves",
    "statistics": "leaven.lab.layer_statistics",
    "trace": "leaven.lab.tracing.trace",
    "training": "leaven.lab.recorded_training",
    "vary": "leaven.lab.curves",
}


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_NAMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_NAMES])
