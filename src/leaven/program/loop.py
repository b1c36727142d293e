"""The training loop: batches, steps, the end of an epoch, the end of the phase."""

from collections.abc import Iterable

from leaven.plan.plan import TrainPhase
from leaven.plan.values import Because
from leaven.program.code import INDENT, Bracketed, Code, Item, call, commented, flat, joined, paths, statement, text
from leaven.program.techniques import Used, calls, taught, variables
from leaven.program.values import Values, cite

_NEXT_RATE = "schedule.step()"
ENDS = "the last ends with its best epoch"
LEFT = "the next phase starts from the last epoch's weights"


def loop(phase: TrainPhase, techniques: list[Used], values: Values, *, is_shared: bool) -> list[str]:
    """The loops over epochs and batches, and the end of the phase. A loop that phases share has no `run`, and gets the
    model and the data that each trains on."""
    model, data = ("model", "data") if is_shared else variables(phase)
    train = taught(techniques, data)[1]
    stop: dict[str, Code] = {}
    comment = ""
    if phase.early_stop is not None:
        stop["stop_early"] = text(phase.early_stop.score)
        stop |= {each.name: values.value(each.value) for each in phase.early_stop.settings}
        comment = cite(*phase.early_stop.because)
    finish: dict[str, Code] = {"keep_optimizer": "True"} if phase.gives_optimizer else {}
    return [
        *statement(
            "for epoch in ", call("phase.epochs", **stop), joined(comment, values.once(values.saves)), suffix=":"
        ),
        *unfreeze_later(phase, values),
        *indented(calls(techniques, "before_epoch", values=values), 2),
        f"{INDENT * 2}for inputs, targets in phase.batches({train}.train):",
        *indented(batch_lines(phase, techniques, values, model), 3),
        *_end_of_epoch(phase, techniques, values, model, data, run="phase.run" if is_shared else "run"),
        *indented(calls(techniques, "at_end", values=values), 1),
        *statement("", call("phase.finish", **finish), values.once(_left(phase))),
    ]


def watch(values: Values) -> list[str]:
    """The line by which layers are measured."""
    watched = values.plan.watch
    if watched is None:
        return []
    code = call("phase.watch", *map(text, watched.paths), every=values.value(watched.every.value))
    cited = cite(*(reason for reason in watched.because if not reason.is_default))
    return statement("", code, joined(cited, values.once("recorded in training.jsonl")))


def _left(phase: TrainPhase) -> str:
    """What a phase leaves to the next one."""
    if phase.is_last:
        return ""
    return f"{LEFT}; after an early stop, from the best" if phase.early_stop is not None else LEFT


def is_shareable(phase: TrainPhase, techniques: list[Used]) -> bool:
    """Whether a phase has a loop, which needs nothing that only the function of its phase has."""
    is_plain = not phase.stops and not phase.unfreeze_later and phase.schedule.stepped_by != "score"
    is_loop = phase.trains and phase.solver is None
    return is_loop and is_plain and not any(one.is_in_loop for one in techniques)


def unfreeze_later(phase: TrainPhase, values: Values, epoch: str = "epoch") -> list[str]:
    """The line that unfreezes layers in the middle of a phase."""
    if not phase.unfreeze_later:
        return []
    later = [Bracketed("(", (Item(values.value(w.at.value)), Item(paths(w.paths))), ")") for w in phase.unfreeze_later]
    norms = phase.unfreeze_later[0].norms
    named: dict[str, Code] = {"norms": word_or_paths(norms)} if norms != "frozen" else {}
    cited = cite(*(reason for one in phase.unfreeze_later for reason in one.because))
    code = call(values.runtime("unfreeze_by_epoch"), "phase.model", epoch, *later, **named)
    return statement("", code, cited, depth=2)


def word_or_paths(layers: bool | str | tuple[str, ...]) -> Code:
    """A word for all layers, or the paths of some."""
    if isinstance(layers, tuple):
        return paths(layers)
    return text(layers) if isinstance(layers, str) else repr(layers)


def indented(lines: Iterable[str], depth: int) -> list[str]:
    return [f"{INDENT * depth}{line}" if line else "" for line in lines]


def batch_lines(phase: TrainPhase, techniques: list[Used], values: Values, model: str) -> list[str]:
    """What happens to one batch."""
    first = list(calls(techniques, "on_batch"))
    loss = _loss(phase, techniques, values, model)
    steps = _step_lines(phase, techniques, values)
    if phase.optimizer.needs_closure:
        return [*first, *_closure(loss, values), *steps, _log(phase, values)]
    if phase.accumulate is not None:
        backward = flat(values.backward("loss / phase.batches_in_step"))
        steps = ["if phase.is_step:", *indented(steps, 1)]
        return [*first, *loss, cited_line(backward, phase.accumulate.because), *steps, _log(phase, values)]
    graph = {"create_graph": "True"} if phase.optimizer.is_second_order else {}
    backward = flat(values.backward("loss", **graph))
    computed = [*loss, backward]
    for line in calls(techniques, "around_step"):  # as often as a technique asks for
        computed = [f"for _ in {line}:", *indented(computed, 1)]
    return [*first, *computed, *steps, _log(phase, values)]


def _log(phase: TrainPhase, values: Values) -> str:
    logged = values.log(has_names=phase.loss_by_model and phase.override("train_step") is None)
    return commented(logged, values.once("NaN ends the run"))


def _loss(phase: TrainPhase, techniques: list[Used], values: Values, model: str) -> list[str]:
    """The lines that compute the loss of a batch."""
    if (own := phase.override("train_step")) is not None:
        criterion = "None" if phase.loss_by_model else "criterion"
        stepped = f"{values.names.user(own.function)}({model}, (inputs, targets), {criterion})"
        return [cited_line(f"loss = {stepped}", own.because)]
    if phase.loss_by_model:
        changed = list(calls(techniques, "on_loss", "losses"))
        return [f"losses = {model}(inputs, targets)  # dict of losses", "loss = sum(losses.values())", *changed]
    changed = list(calls(techniques, "on_loss"))
    if not changed:
        return [f"loss = criterion({model}(inputs), targets)"]
    return [f"outputs = {model}(inputs)", "loss = criterion(outputs, targets)", *changed]


def _closure(loss: list[str], values: Values) -> list[str]:
    """The loss as a function, for an optimizer that computes it several times in a step."""
    values.imports.use("torch.Tensor")
    return [
        "",
        "def closure(inputs: torch.Tensor = inputs, targets: torch.Tensor = targets) -> torch.Tensor:",
        "    optimizer.zero_grad()",
        *indented(loss, 1),
        f"    {flat(values.backward('loss'))}",
        "    return loss",
        "",
        "loss = optimizer.step(closure)",
    ]


def _step_lines(phase: TrainPhase, techniques: list[Used], values: Values) -> list[str]:
    lines = list(calls(techniques, "on_gradients", values=values))
    if phase.clip is not None:
        clipped = values.clip(values.value(phase.clip.value))
        lines.append(cited_line(flat(clipped), phase.clip.because))
    if not phase.optimizer.needs_closure:
        lines += ["optimizer.step()", "optimizer.zero_grad()"]
    if phase.schedule.stepped_by == "step":
        lines.append(_NEXT_RATE)
    if phase.schedule.stepped_by == "score" and phase.schedule.warms_up:
        lines.append("schedule.warm_up()")
    return [*lines, *calls(techniques, "after_step")]


def _end_of_epoch(
    phase: TrainPhase, techniques: list[Used], values: Values, model: str, data: str, *, run: str
) -> list[str]:
    averaged = [f"averaged = {line}" for line in calls(techniques, "model_for_eval")]
    own = phase.override("eval_step")
    criterion = "" if phase.loss_by_model else "criterion"
    scores = values.evaluation("averaged" if averaged else model, f"{data}.val", criterion, own, run)
    cited = cite(*own.because) if own is not None else ""
    more: dict[str, Code] = {"weights": "averaged"} if averaged else {}
    rest = after_epoch(phase, techniques, values, model)
    if any(line != _NEXT_RATE for line in rest):  # it needs the scores
        ended = [
            *statement("scores = ", scores, cited, depth=2),
            *statement("", call("phase.end_epoch", "scores", **more), values.once(values.keeps), depth=2),
        ]
    else:
        ended = statement(
            "", call("phase.end_epoch", scores, **more), joined(cited, values.once(values.keeps)), depth=2
        )
    return [*indented(averaged, 2), *ended, *indented(rest, 2)]


def after_epoch(phase: TrainPhase, techniques: list[Used], values: Values, model: str) -> list[str]:
    """The lines after an epoch has its scores: schedule, techniques, and the user's code."""
    lines: list[str] = []
    if phase.schedule.stepped_by == "epoch":
        lines.append(_NEXT_RATE)
    if phase.schedule.stepped_by == "score":
        lines.append(f"schedule.step(scores[{text(phase.schedule.score)}])")
    lines += calls(techniques, "after_epoch")
    if (own := phase.override("after_epoch")) is not None:
        lines.append(cited_line(f"{values.names.user(own.function)}(phase, {model}, scores)", own.because))
    return lines


def cited_line(line: str, reasons: Iterable[Because]) -> str:
    return commented(line, cite(*reasons))
