"""What the phases of a plan do to each layer, in a word or two: for looking at a model with a recipe in mind."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from leaven.catalog.layers import LayerParameter, Layers
from leaven.catalog.values import Quantity
from leaven.plan.plan import Plan, Redraw, TrainPhase, UseTechnique


def marks(plan: Plan, layers: Layers) -> dict[str, tuple[str, ...]]:
    """For the path of every layer with weights of its own, a mark for each phase: `still`, `moves`, `moves, anew`."""
    own: dict[str, list[LayerParameter]] = {}
    for parameter in layers.parameters:
        own.setdefault(parameter.module_path, []).append(parameter)
    plain = {module.path for module in layers.modules if module.is_plain}
    return {
        path: tuple(_mark(phase, [each.name for each in weights], path in plain) for phase in plan.phases)
        for path, weights in own.items()
    }


def _mark(phase: TrainPhase, weights: list[str], is_plain: bool) -> str:
    said = [_stillness(phase, weights)] if phase.epochs.value != Quantity(0, "epochs") else []
    for one in phase.preparations:
        if isinstance(one, Redraw):
            said += ["anew"] if any(_is_below(name, one.paths) for name in weights) else []
        elif _is_chosen(one, weights, is_plain):
            said.append("adapted" if one.invocation.card.facts.get("adapter") else "pruned")
    return ", ".join(dict.fromkeys(said)) or "as it was"


def _stillness(phase: TrainPhase, weights: list[str]) -> str:
    if any(_is_below(name, wake.paths) for wake in phase.wakes for name in weights):
        return "joins later"
    hold = phase.hold
    if hold is None:
        return "moves"
    held = {_is_below(name, hold.paths) is not hold.is_all_but for name in weights}
    return "partly still" if len(held) > 1 else "still" if held == {True} else "moves"


def _is_chosen(use: UseTechnique, weights: list[str], is_plain: bool) -> bool:
    """Whether a technique that changes layers changes this one: an adapter only plain ones."""
    on = use.invocation.value("on")
    takes = is_plain if use.invocation.card.facts.get("adapter") else any(name.endswith("weight") for name in weights)
    return takes and on is not None and any(_is_below(name, on) for name in weights)


def _is_below(name: str, paths: Iterable[str]) -> bool:
    return any(fnmatchcase(name, path) or fnmatchcase(name, f"{path}.*") for path in paths)


def in_short(marks_of_layers: Mapping[str, tuple[str, ...]], path: str) -> tuple[str, ...]:
    """The marks of a module: those of all layers below it where they agree, else an ellipsis."""
    below = [m for layer, m in marks_of_layers.items() if layer == path or layer.startswith(f"{path}.")]
    return tuple(words[0] if len(set(words)) == 1 else "…" for words in zip(*below, strict=True))
