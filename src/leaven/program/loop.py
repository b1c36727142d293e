"""The loop of a phase: batches, steps, the end of an epoch, and what goes on from there."""

from collections.abc import Iterable

from leaven.plan.plan import Plan, TrainPhase
from leaven.program.code import INDENT, Bracketed, Code, Item, call, listing, statement, text
from leaven.program.schedules import is_warmed_up
from leaven.program.techniques import Used, calls
from leaven.program.values import Values, cite, cite_call
from leaven.recipe.recipe import Override


def loop(phase: TrainPhase, techniques: list[Used], plan: Plan, values: Values) -> list[str]:
    """The loops over epochs and batches, and what follows them."""
    stop: dict[str, Code] = {}
    comment = ""
    if phase.early_stop is not None:
        score, at_least = phase.early_stop.value("score"), phase.early_stop["at_least"]
        stop["stop_early"] = text(str(score))
        stop["patience"] = values.setting(phase.early_stop["patience"])
        if at_least.value:
            stop["at_least"] = values.setting(at_least)
        comment = cite_call(phase.early_stop)
    return [
        *statement("for _ in ", call("phase.epochs", **stop), comment, suffix=":"),
        *_wakes(phase, values),
        *_indented(calls(techniques, "before_epoch"), 2),
        f"{INDENT * 2}for images, labels in phase.batches():",
        *_indented(_batch(phase, techniques, plan, values), 3),
        *_end_of_epoch(phase, techniques),
        *_indented(calls(techniques, "at_end"), 1),
        *_hand_on(phase),
    ]


def _wakes(phase: TrainPhase, values: Values) -> list[str]:
    """The line that lets layers join in the middle of a phase."""
    if not phase.unfreeze_later:
        return []
    later = [Bracketed("(", (Item(values.setting(w.at)), Item(_paths(w.paths))), ")") for w in phase.unfreeze_later]
    named: dict[str, Code] = {"norms": text("train")} if phase.unfreeze_later[0].norms == "train" else {}
    reason = cite(*(wake.because for wake in phase.unfreeze_later))
    return statement("", call("runtime.unfreeze_by_epoch", "module", "phase.epoch", *later, **named), reason, depth=2)


def _paths(paths: Iterable[str]) -> Code:
    return listing(*(text(path) for path in paths))


def _hand_on(phase: TrainPhase) -> list[str]:
    if phase.is_last:
        return []
    return [f"    phase.finish({'module, optimizer' if phase.gives_optimizer else 'module'})"]


def _indented(lines: Iterable[str], depth: int) -> list[str]:
    return [f"{INDENT * depth}{line}" if line else "" for line in lines]


def _batch(phase: TrainPhase, techniques: list[Used], plan: Plan, values: Values) -> list[str]:
    """What happens to one batch."""
    first = list(calls(techniques, "on_batch"))
    loss = _loss(phase, techniques)
    accumulate = plan.recipe.train["accumulate"]
    steps = _step_lines(phase, techniques, plan, values)
    optimizer = phase.optimizer.card.optimizer
    if optimizer.needs_closure:
        return [*first, *_closure(loss, values), *steps, "phase.log(loss)"]
    backward = "fabric.backward(loss, create_graph=True)" if optimizer.is_second_order else "fabric.backward(loss)"
    if accumulate.value == 1:
        return [*first, *_around([*loss, backward], techniques), *steps, "phase.log(loss)"]
    return [
        *first,
        "with fabric.no_backward_sync(model, enabled=not phase.is_step):",
        *_indented(loss, 1),
        f"    fabric.backward(loss / {values.operand(accumulate)})  # {cite(accumulate.origin)}",
        "if phase.is_step:",
        *_indented(steps, 1),
        "phase.log(loss)",
    ]


def _loss(phase: TrainPhase, techniques: list[Used]) -> list[str]:
    """The lines that compute the loss of a batch."""
    if phase.train_step is not None:
        computed = f"{_name(phase.train_step)}(model, (images, labels), criterion)"
        return [f"loss = {computed}  # {cite(phase.train_step.origin)}"]
    changed = list(calls(techniques, "on_loss"))
    if not changed:
        return ["loss = criterion(model(images), labels)"]
    return ["outputs = model(images)", "loss = criterion(outputs, labels)", *changed]


def _around(lines: list[str], techniques: list[Used]) -> list[str]:
    """The gradient computed as often as a technique asks for."""
    for line in calls(techniques, "around_step"):
        lines = [f"for _ in {line}:", *_indented(lines, 1)]
    return lines


def _closure(loss: list[str], values: Values) -> list[str]:
    """The loss as a function, for an optimizer that looks at it more than once in a step."""
    values.imports.use("torch.Tensor")
    return [
        "",
        "def closure(images: torch.Tensor = images, labels: torch.Tensor = labels) -> torch.Tensor:",
        "    optimizer.zero_grad()",
        *_indented(loss, 1),
        "    fabric.backward(loss)",
        "    return loss",
        "",
        "loss = optimizer.step(closure)",
    ]


def _step_lines(phase: TrainPhase, techniques: list[Used], plan: Plan, values: Values) -> list[str]:
    clip = plan.recipe.train["clip"]
    lines = list(calls(techniques, "on_gradients"))
    if clip.value is not None:
        lines.append(f"fabric.clip_gradients(model, optimizer, max_norm={values.setting(clip)})  # {cite(clip.origin)}")
    if not phase.optimizer.card.optimizer.needs_closure:
        lines += ["optimizer.step()", "optimizer.zero_grad()"]
    if phase.steps_schedule_by == "step":
        lines.append("schedule.step()")
    if phase.steps_schedule_by == "score" and is_warmed_up(phase.schedule):
        lines.append("schedule.climb()")
    return [*lines, *calls(techniques, "after_step")]


def _end_of_epoch(phase: TrainPhase, techniques: list[Used]) -> list[str]:
    lines = [f"measured = {line}" for line in calls(techniques, "model_for_eval")]
    measured = "measured" if lines else "module"
    arguments: list[Code] = ["run", measured, "data.val", "metrics", "criterion"]
    reason = ""
    if phase.eval_step is not None:
        arguments.append(f"step={_name(phase.eval_step)}")
        reason = cite(phase.eval_step.origin)
    evaluated = statement("scores = ", call("task.evaluate", *arguments), reason, depth=2)
    rest = [f"phase.end_epoch(scores{', weights=measured' if lines else ''})"]
    if phase.steps_schedule_by == "epoch":
        rest.append("schedule.step()")
    if phase.steps_schedule_by == "score":
        rest.append(f"schedule.step(scores[{text(str(phase.schedule.value('score', 'val.loss')))}])")
    rest += calls(techniques, "after_epoch")
    if phase.after_epoch is not None:
        rest.append(f"{_name(phase.after_epoch)}(phase, module, scores)  # {cite(phase.after_epoch.origin)}")
    return [*_indented(lines, 2), *evaluated, *_indented(rest, 2)]


def _name(override: Override) -> str:
    return f"{override.function.module}.{override.function.name}"
