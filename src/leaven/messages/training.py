"""Reports about losses, metrics, optimizers and schedules that do not fit the task or the phase."""

from collections.abc import Sequence

from leaven.catalog import lookup
from leaven.catalog.value_text import quoted, value_text
from leaven.catalog.values import Invocation, Origin, Setting
from leaven.formats.listing import both, in_code, some, some_names
from leaven.formats.target_kind import TargetKind
from leaven.language.diagnostics import Diagnostic, error, warning
from leaven.language.fixes import write
from leaven.language.source import Span
from leaven.messages.describe import labels, tasks
from leaven.messages.places import repeated, setting_span, span_of


def for_other_task(call: Invocation, targets: Sequence[TargetKind], task: str, usual: str) -> Diagnostic:
    """A loss or metric for other targets; `usual` is the default statement of the task."""
    name, noun = call.card.friendly, "metric" if usual.startswith("metrics") else "loss"
    headline = f"`{name}` is a {tasks(targets, task)} {noun}, but the task is {task}"
    if not targets:
        headline = f"`{name}` can't be used for {task}"
    fix = f"use {'another loss' if noun == 'loss' else 'other metrics'}, such as `{usual}`"
    return error("wrong-task", headline, (call, _only(targets, task)), fix=fix)


def unbalanced(
    larger: tuple[str, int], smaller: tuple[str, int], share: float, data: Origin, is_pair: bool
) -> Diagnostic:
    """The classes with the most and the fewest samples; `share` of all are of the first."""
    (most, many), (fewest, few) = larger, smaller
    notes = [f"a model that always predicts `{most}` has an accuracy of {share:.1%}"] if share > 0.5 else []
    rare = f'of="{fewest}"' if is_pair and '"' not in fewest else ""
    headline = f"`{most}` has {many:,} samples, but `{fewest}` has {few:,}"
    fix = f"judge the model by `metrics f1({rare}), accuracy()`, or add `{{ sampler balanced() }}` to the data"
    return warning("unbalanced-classes", headline, (data, "classes of very different sizes"), notes=notes, fix=fix)


def metric_of_unknown_class(of: Setting, names: Sequence[str]) -> Diagnostic:
    near = lookup.nearest(str(of.value), names, limit=1)
    fix = write(span_of(of.origin), quoted(near[0]), "did you mean ", after="?") if near else None
    place = (of, f"its classes are {some_names(names)}")
    return error("unknown-choice", f"the data has no class `{of.value}`", place, fix=fix)


def repeated_score(name: str, again: Invocation, first: Invocation) -> Diagnostic:
    headline = f"two metrics would be recorded as `{name}`"
    return repeated("repeated-score", headline, span_of(again.origin), span_of(first.origin), "remove one of them")


def score_named_loss(metric: Invocation) -> Diagnostic:
    headline = "a metric would be recorded as `loss`, as the loss itself is"
    return error("repeated-score", headline, (metric, "named after the function"), fix="rename the function")


def no_epochs(epochs: Setting, phase: str) -> Diagnostic:
    headline = f"phase `{phase}` has 0 epochs and changes nothing in the model"
    fix = "give it epochs, or remove it; 0 epochs are for phases that prune or re-initialise layers"
    return warning("no-epochs", headline, (epochs, "nothing is trained"), fix=fix)


def sampler_for_other_task(sampler: Invocation, task: str) -> Diagnostic:
    name, targets = sampler.card.bare_name, sampler.card.sampler.targets
    headline = f"`{name}` needs {labels(targets)}, but the task is {task}"
    return error("wrong-task", headline, (sampler, _only(targets, task)), fix=f"remove `{name}`")


def argument_for_other_task(call: Invocation, setting: Setting, targets: Sequence[TargetKind], task: str) -> Diagnostic:
    headline = f"`{setting.name}` of `{call.card.friendly}` is for {tasks(targets, task)}, but the task is {task}"
    return error("wrong-task", headline, (setting, _only(targets, task)), fix=f"remove `{setting.name}`")


def _only(targets: Sequence[TargetKind], task: str) -> str:
    return f"{tasks(targets, task)} only" if targets else "not for this task"


def metric_of_several_numbers(metric: Invocation, usual: str) -> Diagnostic:
    headline = f"`{metric.card.friendly}` is not a single number, so it can't be logged for each epoch"
    fix = f"use other metrics, such as `{usual}`; `leaven evaluate` prints the confusion matrix of a bundle"
    return error("wrong-task", headline, (metric, "several numbers"), fix=fix)


def kept_optimizer(phase: str, origin: Origin, previous: str | None) -> Diagnostic:
    """`previous` is the optimizer of the phase before; None where no phase trains with one before it."""
    reason = f"the previous phase uses `{previous}`" if previous is not None else "no earlier phase has an optimizer"
    label, fix = "nothing to keep", "remove `keep=optimizer`"
    if previous is not None:
        label, fix = "another optimizer", f"{fix}, or use the same optimizer in both"
    return error("kept-optimizer", f'phase "{phase}" has `keep=optimizer`, but {reason}', (origin, label), fix=fix)


def long_warmup(warmup: Setting, epochs: Setting) -> Diagnostic:
    headline = f"the warm-up lasts {value_text(warmup.value)}, but the phase has only {value_text(epochs.value)}"
    spots = (warmup, "the full learning rate is never reached"), (epochs, "the length of the phase")
    return error("long-warmup", headline, *spots, fix="write a shorter one, or a percentage: `warmup=10%`")


# -- heads that are solved


def solved_without_loop(part: Span | Setting, name: str, solver: Invocation) -> Diagnostic:
    """`part` is a statement about the training loop, or the number of epochs."""
    headline = f"solving the head takes no training loop, so `{name}` has no effect"
    spots = (part, "has no effect"), (_solver(solver), "finds the best weights at once")
    return error("solved-head", headline, *spots, fix=f"remove `{name}`, or `solver` to train the head step by step")


def solved_with_technique(solver: Invocation, other: Invocation) -> Diagnostic:
    name = other.card.bare_name
    spots = (other, "changes the training loop"), (_solver(solver), "there is no training loop")
    fix = f"move `{name}` to another phase, or remove `solver` to train the head step by step"
    return error("incompatible-techniques", f"`{name}` can't be used when the head is solved", *spots, fix=fix)


def solved_with_random_images(solver: Invocation, transforms: Origin, random: Sequence[str]) -> Diagnostic:
    """`random` are the transforms that change images at random."""
    are = "is" if len(random) == 1 else "are"
    headline = f"solving the head needs fixed features, but {both(in_code(random[:2]))} {are} random"
    spots = (setting_span(_solver(solver), solver), "needs every image once"), (transforms, "random transforms")
    fix = "add `features views=8` to the phase to use 8 random views of every image, or remove the random transforms"
    return error("random-features", headline, *spots, fix=fix)


def not_a_linear_head(solver: Invocation, model: str, layers: Sequence[str]) -> Diagnostic:
    """`layers` are those that are trainable, each with its type."""
    headline = f"only a head of one linear layer can be solved; {model} has {len(layers)} trainable layers"
    if len(layers) == 1:
        headline = f"only a linear head can be solved; that of {model} is not linear"
    place = (setting_span(_solver(solver), solver), "needs one linear layer")
    notes = [f"trainable: {some(layers, 3)}"] if layers else []
    fix = "remove `solver` to train these layers step by step"
    return error("not-a-linear-head", headline, place, notes=notes, fix=fix)


def _solver(call: Invocation) -> Setting:
    return call[call.card.technique.solver]


# -- models that compute their losses themselves


def not_solved(solver: Invocation, task: str) -> Diagnostic:
    headline = f"the head of a model for {task} can't be solved"
    fix = "train it: remove `solver=`"
    return error("wrong-task", headline, (solver, "its losses depend on which boxes are matched"), fix=fix)


def channels_stay(pruning: Invocation, task: str) -> Diagnostic:
    headline = f"channels of a model for {task} can't be pruned"
    fix = "prune single weights instead: `prune unstructured(), …`"
    label = "dependencies between channels can't be traced through boxes"
    return error("wrong-task", headline, (pruning, label), fix=fix)


def not_measured(setting: Setting, task: str) -> Diagnostic:
    headline = f"`{setting.name}=auto` can't be measured in {task}"
    fix = f"set it: `train {setting.name}=…`"
    return error("wrong-task", headline, (setting, "it is measured with images alone"), fix=fix)


def no_loss_to_watch(schedule: Invocation, better: str) -> Diagnostic:
    name = schedule.card.bare_name
    headline = "`loss` is not measured in validation, as the model computes its losses in training only"
    fix = f"name another score: `schedule {name}(score={better})`"
    return error("unknown-score", headline, (schedule, f"`{name}` watches `val.loss`"), fix=fix)
