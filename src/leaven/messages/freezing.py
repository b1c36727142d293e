"""Reports about what is frozen, unfrozen, re-initialised, adapted and pruned."""

from collections.abc import Sequence

from leaven.catalog.layers import LayerParameter
from leaven.catalog.value_text import value_text
from leaven.catalog.values import Invocation, Origin, Quantity, Setting
from leaven.formats.listing import some
from leaven.language.diagnostics import Diagnostic, error, warning
from leaven.language.fixes import Fix, shortened, write
from leaven.messages.describe import length_in
from leaven.messages.places import setting_span, span_of

MOST_NAMED = 3
_ADAPTABLE = "adapters are added to linear layers and to convolutions without groups, dilation or special padding"


def unfrozen_in_vain(unfreeze: Origin, replaced_by: Origin | None) -> Diagnostic:
    if replaced_by is not None:
        headline = "a later statement overrides this for all of its layers"
        fix = "remove one of them, or change their order"
        return warning("nothing-frozen", headline, (unfreeze, "has no effect"), (replaced_by, "overrides it"), fix=fix)
    headline = "none of these layers is frozen above this line"
    fix = "remove the line, or unfreeze layers that are frozen above it"
    return warning("nothing-frozen", headline, (unfreeze, "has no effect"), fix=fix)


def nothing_trainable(who: str, model: str, causes: Sequence[Origin], is_at_first: bool) -> Diagnostic:
    *others, last = causes
    headline = f"{who} has no trainable layers{' at first' if is_at_first else ''}"
    spots = (last, f"every layer of {model} is frozen"), *((cause, "frozen here") for cause in others)
    return error("nothing-trainable", headline, *spots, fix="leave some layers trainable: `freeze all - head`")


def frozen_new_head(model: str, cause: Origin) -> Diagnostic:
    headline = f"the head of {model} is new and frozen: it stays random"
    fix = "don't freeze the head: `freeze all - head`"
    return warning("frozen-new-head", headline, (cause, "freezes the head"), fix=fix)


def frozen_untrained(cause: Origin) -> Diagnostic:
    headline = "the frozen layers have no trained weights: they stay random"
    fix = 'add `pretrained=true` or `weights="…"` to the model'
    return warning("frozen-untrained", headline, (cause, "freezes random weights"), fix=fix)


def frozen_reinit(reinit: Origin, causes: Sequence[Origin]) -> Diagnostic:
    headline = "these layers are re-initialised and frozen: they would stay random"
    fix = "freeze other layers, or don't re-initialise these"
    spots = (reinit, "re-initialised"), *((cause, "frozen") for cause in causes)
    return error("frozen-reinit", headline, *spots, fix=fix)


def frozen_group(group: Origin, causes: Sequence[Origin]) -> Diagnostic:
    spots = (group, "not passed to the optimizer"), *((cause, "frozen") for cause in causes)
    fix = "remove the group, or don't freeze its layers"
    return warning("frozen-group", "every layer of this group is frozen", *spots, fix=fix)


def covered_group(group: Origin, later: Origin) -> Diagnostic:
    headline = "later groups take every layer of this one"
    fix = "put the narrower group last"
    return warning("covered-group", headline, (group, "has no effect"), (later, "takes its layers"), fix=fix)


def no_such_layers(call: Invocation, model: str, word: str) -> Diagnostic:
    fix = "train only the head with `linear_probe`, or choose other layers with `freeze`"
    return error("unknown-layer", f"{model} has no {word} to train", (call, f"trains its {word}"), fix=fix)


# -- unfreezing in the course of a phase


def unfrozen_after_phase(unfreeze: Origin, at: Quantity, epochs: Setting) -> Diagnostic:
    headline = f"the layers are unfrozen after {value_text(at)}, but the phase has only {length_in(epochs, at.unit)}"
    fix = "write a smaller number, or make the phase longer"
    return error("after-phase", headline, (unfreeze, "never happens"), (epochs, "the length of the phase"), fix=fix)


def never_unfrozen(call: Invocation, last: Quantity, epochs: Setting) -> Diagnostic:
    after, length = value_text(last), length_in(epochs, last.unit)
    headline = f"`{call.card.bare_name}` unfreezes the last stage after {after}, but the phase has only {length}"
    fix = f"write a smaller `{call.card.technique.unfreezes_after}`, or make the phase longer"
    spots = (call, "some stages stay frozen"), (epochs, "the length of the phase")
    return warning("after-phase", headline, *spots, fix=fix)


def unfrozen_twice(call: Invocation, unfreeze: Origin) -> Diagnostic:
    headline = f"`{call.card.bare_name}` and `unfreeze … at=` both decide when layers are unfrozen"
    fix = "remove one of them"
    return error("unfrozen-twice", headline, (call, "conflicts with it"), (unfreeze, "used here"), fix=fix)


def unfrozen_and_frozen(call: Invocation, freezes: Invocation) -> Diagnostic:
    names = call.card.bare_name, freezes.card.bare_name
    headline = f"`{names[0]}` unfreezes layers, but `{names[1]}` freezes them for the whole phase"
    fix = "remove one of them, or move one to another phase"
    return error("nothing-to-unfreeze", headline, (call, "unfreezes them"), (freezes, "freezes them"), fix=fix)


def nothing_to_unfreeze(call: Invocation, cause: Origin | None) -> Diagnostic:
    name, place = call.card.bare_name, (call, "nothing to unfreeze")
    if cause is None:
        headline = f"`{name}` unfreezes the model stage by stage, but it has no stages besides its head"
        fix = f"remove `{name}`, or name the layers: `freeze all - head` and `unfreeze …, at=2 epochs`"
        return error("nothing-to-unfreeze", headline, place, fix=fix)
    headline = f"`{shortened(span_of(cause).text)}` leaves `{name}` nothing to unfreeze"
    notes = [f"`{name}` freezes the layers itself and unfreezes them stage by stage"]
    frozen = (cause, "frozen for the whole phase")
    return error("nothing-to-unfreeze", headline, place, frozen, notes=notes, fix="remove the `freeze`")


# -- adapters


def adapter_without_base(call: Invocation, merge: Setting) -> Diagnostic:
    headline = "`merge=false` saves only the adapter, but its base model is not published"
    notes = ["whoever loads the adapter can't download a model trained from scratch"]
    fix = "remove `merge=false` to save the whole model"
    place = (setting_span(merge, call), "saves only the adapter")
    return error("adapter-without-base", headline, place, notes=notes, fix=fix)


def nothing_to_adapt(call: Invocation, model: str) -> Diagnostic:
    headline = f"{model} has no layers that `{call.card.name}` could adapt"
    fix = f"remove `{call.card.name}` to train the model's own layers"
    return error("empty-selector", headline, (call, "nothing to adapt"), notes=[_ADAPTABLE], fix=fix)


def head_only(call: Invocation, on: Setting, model: str) -> Diagnostic:
    """An adapter or a pruning of the head alone."""
    headline = f"the head of {model} can't be pruned: its outputs are the classes"
    if call.card.technique.is_adapter:
        headline = f"`{call.card.name}` can't adapt the head: the head is trained in full"
    place = (setting_span(on, call), "the head only")
    return error("empty-selector", headline, place, fix="remove `on`, or choose other layers")


def not_adaptable(call: Invocation, on: Setting, model: str, types: Sequence[str]) -> Diagnostic:
    named = [f"`{kind}`{' with groups or dilation' if kind == 'Conv2d' else ''}" for kind in types]
    return _unsuitable(call, on, f"`{call.card.name}` can't adapt any of these layers of {model}", named, _ADAPTABLE)


def not_prunable(call: Invocation, on: Setting, model: str, chosen: Sequence[LayerParameter]) -> Diagnostic:
    named = [f"`{kind}`" for kind in dict.fromkeys(parameter.module_type for parameter in chosen)]
    note = "only the weights of convolutions and linear layers are pruned; norms follow the layers around them"
    return _unsuitable(call, on, f"none of these layers of {model} can be pruned", named, note)


def _unsuitable(call: Invocation, on: Setting, headline: str, types: Sequence[str], note: str) -> Diagnostic:
    place = (setting_span(on, call), f"of type {some(types, MOST_NAMED)}")
    fix = "remove `on`, or choose other layers (`leaven inspect` lists them)"
    return error("empty-selector", headline, place, notes=[note], fix=fix)


def adapted_twice(call: Invocation, other: Invocation, layer: str) -> Diagnostic:
    headline = f"`{layer}` would get two adapters"
    fix = "choose layers for each with `on=`, or remove one of them"
    return error("adapted-twice", headline, (call, "adds a second one"), (other, "adds the first one"), fix=fix)


def rank_too_large(rank: Setting, call: Invocation, layer: str, largest: int) -> Diagnostic:
    headline = f"rank {rank.value} is larger than `{layer}`"
    fix = f"use `rank={largest}`, or exclude such layers from `on`"
    return warning("wrong-value", headline, (setting_span(rank, call), f"at most {largest} is useful"), fix=fix)


# -- pruning


def pruning_order(call: Invocation, earlier: Invocation, is_adapter: bool) -> Diagnostic:
    headline = "structured pruning can't follow unstructured pruning"
    note = "unstructured pruning masks individual weights, and the mask has the shape of the unpruned layer"
    if is_adapter:
        headline = f"pruning can't follow `{earlier.card.name}`"
        note = "an adapter is trained for the layer as it was before pruning"
    fix = "change their order"
    return error("pruning-order", headline, (call, "comes later"), (earlier, "comes first"), notes=[note], fix=fix)


def adapter_after_pruning(adapter: Invocation, pruning: Invocation) -> Diagnostic:
    headline = f"`{adapter.card.name}` can't follow unstructured pruning"
    spots = (adapter, "would restore pruned weights"), (pruning, "sets individual weights to zero")
    fix = f"prune whole channels with `structured()`, or remove `{adapter.card.name}`"
    return error("adapter-after-pruning", headline, *spots, fix=fix)


def pruned_reinit(reinit: Origin, pruning: Invocation) -> Diagnostic:
    place = span_of(reinit)
    fix = write(place.at_end, ', method="kaiming"', shown=place, after=", which keeps pruned weights at zero")
    if "method=" in place.text:
        fix = Fix("choose other layers")
    spots = (reinit, "re-initialises whole layers"), (pruning, "keeps some weights at zero")
    return error("pruned-reinit", "`reinit` would restore pruned weights of these layers", *spots, fix=fix)


def gradual_channels(call: Invocation, over: Setting) -> Diagnostic:
    headline = "whole channels are removed at once, not over several epochs"
    fix = "remove `over`, or write several phases, each with a smaller `amount`"
    return error("gradual-channels", headline, (setting_span(over, call), "not possible for channels"), fix=fix)


def pruning_too_slow(call: Invocation, over: Setting, epochs: Setting) -> Diagnostic:
    headline = f"pruning takes {value_text(over.value)}, but the phase has only {value_text(epochs.value)}"
    spots = (setting_span(over, call), "the amount would not be reached"), (epochs, "the length of the phase")
    return error("after-phase", headline, *spots, fix="write fewer epochs, or make the phase longer")
