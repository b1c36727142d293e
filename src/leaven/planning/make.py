"""From a checked recipe to a plan. Pure: the same recipe gives the same plan."""

from dataclasses import dataclass

from leaven.catalog.selectors import Selection
from leaven.catalog.values import Invocation, Origin
from leaven.plan.plan import ClassOutputs, NumberOutputs, Outputs, Plan, Task, VocabularyOutputs
from leaven.plan.values import Argument
from leaven.planning import run
from leaven.planning.building import build_model
from leaven.planning.data import read_data
from leaven.planning.phases import phases_of
from leaven.planning.sweeps import sweep_of
from leaven.planning.translate import argument, because, path_text
from leaven.planning.watching import watch_layers
from leaven.recipe.recipe import Freeze, Recipe, Reinit, Technique, Unfreeze
from leaven.recipe.sweeps import has_unknown_bounds
from leaven.recipe.task import Task as RecipeTask

_OUTPUTS: dict[str, Outputs] = {
    "classes": ClassOutputs(),
    "numbers": NumberOutputs(),
    "vocabulary": VocabularyOutputs(),
}


@dataclass(frozen=True, slots=True)
class NotBuilt:
    """A part of the language that this version can check but not yet run."""

    what: str
    origin: Origin
    fix: str = "remove it to run the recipe; `leaven check` and `leaven show` accept it"


def make_plan(recipe: Recipe) -> Plan | tuple[NotBuilt, ...]:
    """The plan of a recipe; or what of it can't be run yet."""
    missing = (*_missing(recipe), *_unknown_layers(recipe))
    if missing:
        return missing
    train, metrics = recipe.train, run.metrics_of(recipe)
    monitor = run.monitored(recipe, metrics)
    sweep = sweep_of(recipe, metrics, monitor)
    return Plan(
        name=recipe.name,
        summary=recipe.summary,
        task=_task(recipe.data.task),
        user_modules=run.user_modules(recipe),
        args=run.program_args(recipe, sweep),
        output=Argument("output", path_text(recipe.output.place), recipe.output.text, because(recipe.output_origin)),
        run=run.run_call(recipe, metrics, monitor),
        deterministic=argument(train.deterministic) if train.deterministic.value else None,
        monitor=monitor,
        data=read_data(recipe),
        model=build_model(recipe.model, recipe),
        metrics=metrics,
        phases=phases_of(recipe, metrics),
        sweep=sweep,
        caches=train.cache.value != "off",
        approximate=argument(train.exact) if not train.exact.value else None,
        watch=watch_layers(recipe),
    )


def _task(task: RecipeTask) -> Task:
    known = task.traits
    return Task(task.name, _OUTPUTS[known.predicts], known.moves_targets, known.has_eval_loss, task.has_one_class)


def _missing(recipe: Recipe) -> list[NotBuilt]:
    found: list[NotBuilt] = []
    for phase in recipe.phases:
        found += [NotBuilt(f"`{call.card.name}`", call.origin) for call in phase.calls if not _is_built(call)]
        if phase.optimizer.invocation.card.optimizer.needs_closure and recipe.train.accumulate.value != 1:
            found.append(NotBuilt("`accumulate` with lbfgs", recipe.train.statement.origin))
    for sweep in recipe.sweeps:
        if has_unknown_bounds(sweep):
            fix = "give that `arg` a default, or its value as an option"
            found.append(NotBuilt("a sweep whose range depends on an `arg` without a value", sweep.origin, fix))
    return list({(one.what, str(one.origin)): one for one in found}.values())


def _is_built(call: Invocation) -> bool:
    technique = call.card.technique
    return bool(technique.hooks or technique.stores_views) or _freezes(call)


def _freezes(call: Invocation) -> bool:
    return bool(call.card.technique.trains_only or call.card.technique.unfreezes)


def _unknown_layers(recipe: Recipe) -> list[NotBuilt]:
    """The parts that choose layers, where these are known only when the program runs."""
    found: list[Origin] = []
    for phase in recipe.phases:
        for technique in phase.techniques:
            match technique:
                case Freeze(layers, _, origin) | Unfreeze(layers, _, origin) | Reinit(layers, _, origin):
                    found += [origin] if layers.parameters is None else []
                case Technique(call):
                    found += [call.origin] if _is_unknown(call, recipe) else []
        found += [group.origin for group in phase.optimizer.groups if group.layers.parameters is None]
    watched = recipe.watch.layers.value
    if isinstance(watched, Selection) and (watched.parameters is None or recipe.model.layers is None):
        found.append(recipe.watch.statement.origin)
    return [NotBuilt("choosing layers that are known only when the model or an `arg` is", origin) for origin in found]


def _is_unknown(call: Invocation, recipe: Recipe) -> bool:
    """Whether a technique is for certain layers and it is not known which."""
    settings = [s for s in call.settings if isinstance(s.value, Selection)]
    if any(setting.value.parameters is None for setting in settings):
        return True
    takes_layers = any("selector" in parameter.types for parameter in call.card.parameters)
    return recipe.model.layers is None and (takes_layers or _freezes(call))
