"""Reports about techniques that do not fit each other, the phase, the model or the data."""

from collections.abc import Sequence
from typing import Literal

from leaven.catalog.card import Requirement
from leaven.catalog.value_text import value_text
from leaven.catalog.values import Invocation, Origin, Quantity, Setting
from leaven.formats.listing import both, either
from leaven.language.diagnostics import Diagnostic, error, warning
from leaven.messages.describe import length_in, tasks


def incompatible(first: Invocation, second: Invocation, reason: str) -> Diagnostic:
    headline = f"`{first.card.bare_name}` and `{second.card.bare_name}` can't be used in the same phase"
    notes = [reason] if reason else []
    fix = "remove one of them, or move one to another phase"
    spots = (second, "conflicts with it"), (first, "used here")
    return error("incompatible-techniques", headline, *spots, notes=notes, fix=fix)


def missing_library(call: Invocation, requires: Requirement) -> Diagnostic:
    headline = f"`{call.card.name}` needs the library {requires.library}, which is not installed"
    fix = f"`pip install {requires.package}` installs it"
    return error("missing-library", headline, (call, f"uses {requires.library}"), fix=fix)


def wrong_task(call: Invocation, task: str, *, is_other_input: bool) -> Diagnostic:
    technique = call.card.technique
    if technique.targets and not is_other_input:
        made_for = " ".join([either(technique.inputs), tasks(technique.targets, task)][not technique.inputs :])
    else:
        made_for = both([f"{input}s" for input in technique.inputs])
    headline = f"`{call.card.bare_name}` is for {made_for}, but the task is {task}"
    return error("wrong-task", headline, (call, f"{made_for} only"), fix=f"remove `{call.card.bare_name}`")


def soft_labels(call: Invocation, loss: Invocation) -> Diagnostic:
    headline = f"`{call.card.bare_name}` mixes labels, but the loss `{loss.card.bare_name}` takes only class indices"
    fix = f"remove `{call.card.bare_name}`, or use another loss: `loss cross_entropy()`"
    return error("soft-labels", headline, (call, "produces soft labels"), (loss, "takes only hard labels"), fix=fix)


def overridden_train_step(call: Invocation, override: Origin) -> Diagnostic:
    name = call.card.bare_name
    headline = f"`{name}` needs the model's outputs, but the overridden `train_step` returns only the loss"
    spots = (call, "computes a loss from the outputs"), (override, "returns only the loss")
    fix = f"remove one of them, or compute in `train_step` what `{name}` adds"
    return error("overridden-train-step", headline, *spots, fix=fix)


def closure_optimizer(call: Invocation, optimizer: Invocation) -> Diagnostic:
    theirs = (optimizer, "computes the loss and gradients several times per step")
    name, theirs_name = call.card.bare_name, optimizer.card.friendly
    headline = f"`{name}` changes the gradients of a step, but `{theirs_name}` computes its own"
    fix = "use another optimizer, such as `optimizer sgd(lr=0.1, momentum=0.9)`"
    return error("closure-optimizer", headline, (call, "would not see the gradients"), theirs, fix=fix)


def accumulated_steps(call: Invocation, accumulate: Setting) -> Diagnostic:
    headline = f"`{call.card.bare_name}` needs the gradients of one batch twice, but `accumulate` sums several batches"
    spots = (call, "needs one batch per step"), (accumulate, "several batches per step")
    fix = "remove `accumulate` and make the batch as large as memory allows"
    return error("accumulated-steps", headline, *spots, fix=fix)


def after_phase(call: Invocation, name: str, value: Quantity, epochs: Setting) -> Diagnostic:
    action = f"starts after {value_text(value)}" if name == "start" else f"has `{name}={value_text(value)}`"
    headline = f"`{call.card.bare_name}` {action}, but the phase has only {length_in(epochs, value.unit)}"
    fix = "write a smaller number, or make the phase longer"
    return error("after-phase", headline, (call, "never happens"), (epochs, "the length of the phase"), fix=fix)


def fixed_input_size(call: Invocation, model: str, size: tuple[int, int]) -> Diagnostic:
    headline = f"`{call.card.bare_name}` makes images smaller, but {model} takes only {size[0]} x {size[1]}"
    fix = f"remove `{call.card.bare_name}`, or use a model that takes any size, such as a ResNet"
    return error("fixed-input-size", headline, (call, "uses other sizes"), fix=fix)


def no_residual_branches(call: Invocation, model: str) -> Diagnostic:
    headline = f"`{call.card.bare_name}` skips residual branches, but {model} has none that can be skipped"
    fix = f"remove `{call.card.bare_name}`, or use a model with such blocks: `res_block`, or a ResNet from timm"
    return error("no-residual-branches", headline, (call, "nothing to skip"), fix=fix)


def balanced_twice(call: Invocation, others: Sequence[tuple[Origin, str]]) -> Diagnostic:
    headline = f"`{call.card.bare_name}` compensates for imbalanced classes, but something else already does"
    return error("balanced-twice", headline, (call, "compensates again"), *others, fix="keep one of them")


def not_a_technique(call: Invocation, reason: str, similar: tuple[str, str] | None) -> Diagnostic:
    """`similar` is a method of the class, and the hook that was likely meant."""
    fix = "write a class with a method such as `on_batch(self, images, targets)`"
    if similar is not None:
        fix = f"`{similar[0]}` resembles `{similar[1]}`"
    headline = f"`{call.card.name}` is not a technique: {reason}"
    return error("not-a-technique", headline, (call, "used as a technique"), fix=fix)


def wrong_hook_signature(call: Invocation, hook: str, arguments: Sequence[str]) -> Diagnostic:
    headline = f"`{hook}` of `{call.card.name}` can't be called with the {len(arguments)} arguments that programs pass"
    fix = f"its signature is `def {hook}({', '.join(('self', *arguments))})`"
    return error("wrong-signature", headline, (call, f"is called as `{hook}({', '.join(arguments)})`"), fix=fix)


def unused_method(call: Invocation, method: str, similar: str) -> Diagnostic:
    headline = f"programs never call `{method}` of `{call.card.name}`"
    return warning("unused-name", headline, (call, "defines it"), fix=f"it resembles `{similar}`")


def constructed_too_early(call: Invocation, hook: str, wanted: str) -> Diagnostic:
    headline = f"`{call.card.bare_name}` has `{hook}`, so it is constructed before the `{wanted}` that it takes exists"
    fix = f"remove `{wanted}` from its constructor, or split it into two techniques"
    return error("constructed-too-early", headline, (call, f"takes `{wanted}`"), fix=fix)


# -- training where each process has only a part of the parameters


_ON_PARTS = {  # the label, and what helps besides another strategy
    "technique": ("needs whole parameters", "remove `{}`"),
    "optimizer": ("needs whole parameters", "another optimizer, such as `optimizer adamw()`"),
    "override": ("needs the whole model", "remove the `{}`"),
    "setting": ("not supported with sharded parameters", "remove it"),
}


def on_parts(
    what: Literal["technique", "optimizer", "override", "setting"], name: str, origin: Origin, strategy: Setting
) -> Diagnostic:
    label, help = _ON_PARTS[what]
    headline, split = f"`{name}` can't be used with `strategy=fsdp`", "each process has only a part of every parameter"
    fix = f"use `strategy=ddp`, or {help.format(name)}"
    return error("incompatible-sharding", headline, (origin, label), (strategy, split), fix=fix)
