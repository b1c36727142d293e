"""The training loop: batches, steps, the end of an epoch, the end of the phase."""

from collections.abc import Iterable

from leaven.catalog.values import Origin
from leaven.plan.plan import Plan, TrainPhase
from leaven.program.code import INDENT, Bracketed, Code, Item, call, listing, statement, text
from leaven.program.schedules import is_warmed_up
from leaven.program.techniques import Used, calls
from leaven.program.values import Values, cite, cite_call, user_name
from leaven.recipe.recipe import Override


def loop(phase: TrainPhase, techniques: list[Used], plan: Plan, values: Values, *, is_shared: bool) -> list[str]:
    """The loops over epochs and batches, and the end of the phase. A loop that phases share has no `run` and `data`."""
    stop: dict[str, Code] = {}
    comment = ""
    if phase.early_stop is not None:
        score, at_least = phase.early_stop.value("score"), phase.early_stop["at_least"]
        stop["stop_early"] = text(str(score))
        stop["patience"] = values.setting(phase.early_stop["patience"])
        if at_least.value:
            stop["at_least"] = values.setting(at_least)
        comment = cite_call(phase.early_stop)
    finish: dict[str, Code] = {"keep_optimizer": "True"} if phase.gives_optimizer else {}
    return [
        *statement("for _ in ", call("phase.epochs", **stop), comment, suffix=":"),
        *_unfreeze_later(phase, values),
        *_indented(calls(techniques, "before_epoch"), 2),
        f"{INDENT * 2}for images, labels in phase.batches():",
        *_indented(_batch(phase, techniques, plan, values), 3),
        *_end_of_epoch(phase, techniques, values, is_shared=is_shared),
        *_indented(calls(techniques, "at_end"), 1),
        *statement("", call("phase.finish", **finish)),
    ]


def is_shareable(phase: TrainPhase, techniques: list[Used]) -> bool:
    """Whether the loop needs nothing that only the function of its phase has."""
    is_plain = phase.early_stop is None and not phase.unfreeze_later and phase.steps_schedule_by != "score"
    return is_plain and not any(one.is_in_loop for one in techniques)


def _unfreeze_later(phase: TrainPhase, values: Values) -> list[str]:
    """The line that unfreezes layers in the middle of a phase."""
    if not phase.unfreeze_later:
        return []
    later = [Bracketed("(", (Item(values.setting(w.at)), Item(_paths(w.paths))), ")") for w in phase.unfreeze_later]
    named: dict[str, Code] = {"norms": text("train")} if phase.unfreeze_later[0].norms == "train" else {}
    cited = cite(*(one.because for one in phase.unfreeze_later))
    code = call(values.runtime("unfreeze_by_epoch"), "model", "phase.epoch", *later, **named)
    return statement("", code, cited, depth=2)


def _paths(paths: Iterable[str]) -> Code:
    return listing(*(text(path) for path in paths))


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
    if accumulate.value != 1:
        backward = f"phase.backward(loss / {values.operand(accumulate)})"
        steps = ["if phase.is_step:", *_indented(steps, 1)]
        return [*first, *loss, _cited(backward, accumulate.origin), *steps, "phase.log(loss)"]
    backward = "phase.backward(loss, create_graph=True)" if optimizer.is_second_order else "phase.backward(loss)"
    return [*first, *_around([*loss, backward], techniques), *steps, "phase.log(loss)"]


def _loss(phase: TrainPhase, techniques: list[Used]) -> list[str]:
    """The lines that compute the loss of a batch."""
    if phase.train_step is not None:
        return [
            _cited(f"loss = {_name(phase.train_step)}(model, (images, labels), criterion)", phase.train_step.origin)
        ]
    changed = list(calls(techniques, "on_loss"))
    if not changed:
        return ["loss = criterion(model(images), labels)"]
    return ["outputs = model(images)", "loss = criterion(outputs, labels)", *changed]


def _around(lines: list[str], techniques: list[Used]) -> list[str]:
    """Forward and backward as often as a technique asks for."""
    for line in calls(techniques, "around_step"):
        lines = [f"for _ in {line}:", *_indented(lines, 1)]
    return lines


def _closure(loss: list[str], values: Values) -> list[str]:
    """The loss as a function, for an optimizer that computes it several times in a step."""
    values.imports.use("torch.Tensor")
    return [
        "",
        "def closure(images: torch.Tensor = images, labels: torch.Tensor = labels) -> torch.Tensor:",
        "    optimizer.zero_grad()",
        *_indented(loss, 1),
        "    phase.backward(loss)",
        "    return loss",
        "",
        "loss = optimizer.step(closure)",
    ]


def _step_lines(phase: TrainPhase, techniques: list[Used], plan: Plan, values: Values) -> list[str]:
    clip = plan.recipe.train["clip"]
    lines = list(calls(techniques, "on_gradients"))
    if clip.value is not None:
        clipped = f"phase.clip_gradients(optimizer, max_norm={values.setting(clip)})"
        lines.append(_cited(clipped, clip.origin))
    if not phase.optimizer.card.optimizer.needs_closure:
        lines += ["optimizer.step()", "optimizer.zero_grad()"]
    if phase.steps_schedule_by == "step":
        lines.append("schedule.step()")
    if phase.steps_schedule_by == "score" and is_warmed_up(phase.schedule):
        lines.append("schedule.warm_up()")
    return [*lines, *calls(techniques, "after_step")]


def _end_of_epoch(phase: TrainPhase, techniques: list[Used], values: Values, *, is_shared: bool) -> list[str]:
    run, data = ("phase.run", "phase.data") if is_shared else ("run", "data")
    averaged = [f"averaged = {line}" for line in calls(techniques, "model_for_eval")]
    arguments: list[Code] = [run, "averaged" if averaged else "model", f"{data}.val", "metrics", "criterion"]
    cited = ""
    if phase.eval_step is not None:
        arguments.append(f"step={_name(phase.eval_step)}")
        cited = cite(phase.eval_step.origin)
    scores = call(values.task("evaluate"), *arguments)
    more: dict[str, Code] = {"weights": "averaged"} if averaged else {}
    rest: list[str] = []
    if phase.steps_schedule_by == "epoch":
        rest.append("schedule.step()")
    if phase.steps_schedule_by == "score":
        rest.append(f"schedule.step(scores[{text(str(phase.schedule.value('score', 'val.loss')))}])")
    rest += calls(techniques, "after_epoch")
    if phase.after_epoch is not None:
        rest.append(_cited(f"{_name(phase.after_epoch)}(phase, model, scores)", phase.after_epoch.origin))
    if any("scores" in line for line in rest):
        ended = [
            *statement("scores = ", scores, cited, depth=2),
            *statement("", call("phase.end_epoch", "scores", **more), depth=2),
        ]
    else:
        ended = statement("", call("phase.end_epoch", scores, **more), cited, depth=2)
    return [*_indented(averaged, 2), *ended, *_indented(rest, 2)]


def _cited(line: str, origin: Origin) -> str:
    cited = cite(origin)
    return f"{line}  # {cited}" if cited else line


def _name(override: Override) -> str:
    return user_name(f"{override.function.module}.{override.function.name}")
