"""Facts of a card that help to choose it: its traits as labelled texts, and how many parameters a model has."""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from leaven.catalog import layers, model_survey
from leaven.catalog.card import Card
from leaven.catalog.traits import DataTraits, LossTraits, MetricTraits, ModelTraits, ScheduleTraits, TechniqueTraits

SIZES_OF_TIMM = Path(__file__).with_name("timm_parameters.json")  # timm tells only by building a model


def facts_of(card: Card) -> list[tuple[str, str]]:
    """Each fact with its label; only those that are known."""
    return [(label, fact) for label, fact in _facts(card) if fact]


@cache
def sizes_of_timm() -> dict[str, int]:
    """How many parameters each of timm's models has, by its name."""
    sizes: dict[str, int] = json.loads(SIZES_OF_TIMM.read_text(encoding="utf-8"))
    return sizes


def parameter_count(card: Card) -> int | None:
    """How many parameters a model has: as published, or as counted when its layers were looked up."""
    known = card.model.parameters or sizes_of_timm().get(card.model.timm_name)
    if known is not None:
        return known
    with model_survey.only_cached():
        found = layers.ask({"target": card.target, "timm_name": card.model.timm_name or None, "arguments": {}})
    return sum(each.count for each in found.parameters) if found is not None and found.parameters else None


def _facts(card: Card) -> Iterator[tuple[str, str]]:
    match card.traits:
        case TechniqueTraits() as technique:
            yield "changes", f"the {technique.changes}" if technique.changes else ""
            yield "cost", technique.cost
            yield "made for", ", ".join((*technique.inputs, *technique.targets))
            yield "not together with", ", ".join(technique.conflicts)
            yield "needs", card.requires.library if card.requires else ""
        case ModelTraits() as model:
            yield "task", model.task
            yield "input", _sizes(model.input_size) + (", no other size" if model.has_fixed_input_size else "")
            yield "normalisation", f"mean {_listed(model.mean)}, std {_listed(model.std)}" if model.mean else ""
            yield "classes", _number(model.classes)
            yield "parameters", _number(parameter_count(card))
            yield "weights", ", ".join(model.weights) or ("" if model.has_weights else "none published")
            yield "license", model.license
        case DataTraits() as data:
            yield "task", " or ".join(data.task_by_argument.values()) or data.task
            yield "classes", _number(data.classes)
            yield "channels", _number(data.channels)
            yield "image size", _sizes(data.size)
            yield "official splits", ", ".join(data.splits)
            yield "license", data.license
        case LossTraits(takes_soft_labels=False):
            yield "soft labels", "not taken"
        case MetricTraits(higher_is_better=bool(better)):
            yield "better", "higher" if better else "lower"
        case ScheduleTraits(stepped_by=often):
            yield "stepped", "every epoch, by a score" if often == "score" else f"every {often}"
    yield "paper", card.reference.paper + (f" ({card.reference.year})" if card.reference.year else "")
    yield "url", card.reference.url


def _sizes(size: Sequence[int] | None) -> str:
    return " x ".join(map(str, size or ()))


def _number(number: int | None) -> str:
    return f"{number:,}" if number else ""


def _listed(numbers: Sequence[float]) -> str:
    return f"({', '.join(map(str, numbers))})"
