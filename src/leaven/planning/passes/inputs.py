"""Whether the same image leads to the same input in every epoch, as far as a recipe tells."""

from collections.abc import Iterator

from leaven.plan.plan import BuildModel, Chain, Plan, TrainPhase, Transforms
from leaven.plan.values import Argument, Call

SPLITS = {"train": "training", "val": "validation"}  # that a plan stores something for, in words
_DURING_TRAINING = ("train_step", "eval_step", "after_epoch")  # overrides that may use images, or change the model


def why_never_stored(plan: Plan) -> Iterator[str]:
    """Why nothing that depends on images can be stored in any phase."""
    if not plan.caches:
        yield "`cache=off`"
    if plan.data.is_user:
        yield "the images come from code of your own, which may give others each time"


def why_not_stored(phase: TrainPhase, plan: Plan) -> Iterator[str]:
    """Why nothing that depends on images can be stored in a phase, whatever the transforms are."""
    yield from why_never_stored(plan)
    if plan.task.moves_targets and not phase.loss_by_model:
        yield "the targets are moved with the images"
    if phase.loss_by_model:
        yield "the model computes its losses from the images themselves"
    if phase.epochs.value == 1 and phase.solver is None:
        yield "there is only one epoch"
    for override in phase.overrides:
        if override.hook in _DURING_TRAINING:
            yield f"{override.hook} is your own code, which may use images or change frozen layers"
    if phase.compile is not None and phase.compile.value is not False:
        yield "the model is compiled, which changes the last digits of its outputs"
    for use in phase.techniques:
        if use.call.is_user and set(use.hooks) - {"on_model"}:
            yield f"`{use.name}` is your own code, which may use images or change frozen layers"
        if use.changes == "input":
            yield f"`{use.name}` changes the images"
        if use.compares_features:
            yield f"layers are read while they run, by `{use.name}`"


def own_code_in(plan: Plan, model: BuildModel, phase: TrainPhase | None = None) -> str:
    """The user's code that a model is made of, or that has changed it until a phase; empty where there is none.

    Such code may read files, the clock or the environment. Outputs that it computes are not kept for later runs, which
    a run decides by the code that it sees running.
    """
    parts = model.source.components if isinstance(model.source, Chain) else (model.source,)
    before = () if phase is None else plan.phases[: 1 + [each.name for each in plan.phases].index(phase.name)]
    changing = [use.call for each in before for use in each.techniques if "on_model" in use.hooks]
    return next((call.target for call in (*parts, *changing) if call.is_user), "")


def not_kept(own: str) -> str:
    """That outputs of the user's code are not kept for later runs, as a part of a reason; empty where there is none."""
    return f"; outputs that your own code computes ({own}) are not kept for later runs" if own else ""


def times(views: Argument | None, plan: Plan) -> str:
    """How often something runs that runs once."""
    return f"per {plan.data.noun}" if views is None else f"for each of {views.text} views of an image"


def why_padded(plan: Plan) -> str:
    """Why outputs for texts are not the same in every epoch, to the last digit; empty where they are."""
    transforms = plan.data.eval
    padding = [one.argument("padding") for one in transforms.calls if isinstance(one, Call)]
    if not transforms.is_tokenizing or any(each is not None and each.value == "max_length" for each in padding):
        return ""
    return "their outputs differ slightly with padding"


def why_varying(transforms: Transforms) -> str:
    """Why images may differ from one epoch to the next; empty where they don't."""
    if transforms.random:
        return f"images are changed at random by {', '.join(transforms.random)}"
    if transforms.own:
        return f"{', '.join(transforms.own)} is your own code, which may change images at random"
    return ""
