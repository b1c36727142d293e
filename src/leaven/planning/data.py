"""The source of the items, how they are split, and the transforms of each."""

from collections.abc import Mapping
from dataclasses import replace

from leaven.catalog.values import Invocation, Quantity, Setting
from leaven.plan.plan import ReadData, Transforms
from leaven.plan.values import Argument, Bound, Call, Reference, Value
from leaven.planning.building import text_source
from leaven.planning.translate import (
    argument,
    arguments_of,
    because,
    because_of_call,
    call_of,
    call_text,
    function_of,
    is_user_function,
    measurable,
    plain_value,
    recipe_name,
    setting_text,
    value_of,
)
from leaven.recipe.model_statement import keeps_labels, kept_classes
from leaven.recipe.recipe import Data, Model, Recipe
from leaven.recipe.recipe import Transforms as RecipeTransforms

_DEFAULTS = {"sampler": "shuffled", "on_bad_file": "stop", "workers": "auto"}


def read_data(recipe: Recipe) -> ReadData:
    data = recipe.data
    if data.tokenize is not None:
        train = eval = _tokenizing(data.tokenize, recipe.model)
    else:
        assert data.train is not None
        assert data.eval is not None
        train, eval = _transforms(data.train), _transforms(data.eval)
    return ReadData(
        source=_source(data),
        matching=_matching(recipe),
        split=_split(data),
        has_test=_has_test(data),
        train=train,
        eval=eval,
        loading=_loading(recipe),
        samples=data.samples,
        images_in=data.source.card.data.images_in,
        table=data.source.card.bare_name if data.source.card.data.endings else "",
        is_user=data.source.card.kind == "user",
    )


# -- the dataset


def _source(data: Data) -> Call:
    source, card = data.source, data.source.card
    if data.task.is_for_texts:  # the default of the column that images would be in says nothing
        source = replace(source, settings=tuple(each for each in source.settings if each.name != "image"))
    text, reasons = call_text(source), because_of_call(source)
    if card.kind == "user":
        own = (Argument("", Bound(call_of(source))), *_target_reader(data, {}))
        return Call("leaven.runtime.user_dataset", own, text=text, because=reasons)
    if card.target.startswith("leaven."):
        parameters = {each.name: each.target or each.name for each in card.parameters}
        named = {parameters[setting.name]: setting for setting in data.target}  # what is said about the labels
        more = _target_reader(data, named) if card.data.has_columns else []
        if card.data.skips_bad and data.on_bad_file.action.value == "skip":
            more = [*more, argument(data.on_bad_file.action, name="on_bad_file")]
        return call_of(source, without=named, more=more)
    arguments = [Argument("", Reference(card.target))]
    arguments += [argument(setting, source) for setting in source.settings if _is_needed(setting, source)]
    if card.data.split_arguments:
        arguments.append(Argument("splits", plain_value(card.data.split_arguments)))
    if card.data.classes:
        arguments.append(Argument("classes", plain_value(card.data.classes)))
    return Call("leaven.runtime.torchvision_dataset", tuple(arguments), text=text, because=reasons)


def _matching(recipe: Recipe) -> Call | None:
    """Labels become outputs of the model, where its published head is kept."""
    target = recipe.data.task.path_of("match_outputs")
    reasons = because(recipe.model.origin)
    if keeps_labels(recipe.model, recipe.data.task):
        labels = Call("leaven.runtime.text_labels", (Argument("", text_source(recipe.model)),))
        return Call(target, (Argument("", labels),), text="classes: those of the model, by name", because=reasons)
    classes = kept_classes(recipe.model, recipe.data.task)
    if classes is None:
        return None
    text = f"classes: those of {classes}, matched by wnid or name"
    return Call(target, (Argument("", classes),), text=text, because=reasons)


def _target_reader(data: Data, named: Mapping[str, Setting]) -> list[Argument]:
    """The reader of the labels, unless the data is read by it anyway."""
    if (data.task.traits.is_default and not named) or not data.source.card.data.has_columns:
        return []
    arguments = tuple(argument(setting, name=name if at else "") for at, (name, setting) in enumerate(named.items()))
    return [Argument("target", Call(data.task.path_of(data.task.traits.reader), arguments))]


def _is_needed(setting: Setting, source: Invocation) -> bool:
    parameter = source.card.parameter(setting.name)
    return setting.name in ("root", "download") or parameter is None or setting.value != parameter.default


# -- splits


def _split(data: Data) -> Call:
    split = data.split.statement
    chosen = [setting for setting in split.settings if setting.value is not None]
    arguments = [Argument(s.name, _share(s), setting_text(s), because(s.origin)) for s in chosen]
    if data.split.is_written:
        arguments.append(Argument("resplit", True))
    shares = ", ".join(f"{setting.name} {setting_text(setting)}" for setting in chosen if setting.name != "seed")
    stratified_by = data.task.traits.stratified_by
    how = f"stratified by {stratified_by}" if stratified_by else "random"
    text = f"split: {shares}, {how}" if shares else _existing(data)
    return Call("leaven.runtime.split", tuple(arguments), text=text, because=because_of_call(split))


def _existing(data: Data) -> str:
    """`existing splits: train, val; no test`."""
    there = [name for name in ("train", "val", "test") if name in data.splits]
    missing = "; no test" if there and "test" not in there else ""
    return f"existing splits{': ' * bool(there)}{', '.join(there)}{missing}"


def _has_test(data: Data) -> bool:
    """Whether there will be a test split; where the data may come with one, it is assumed."""
    share = data.split.test.value
    if share is None and data.splits and not data.split.is_written:
        return "test" in data.splits
    return not (isinstance(share, Quantity) and share.amount == 0)


def _share(setting: Setting) -> Value:
    value = value_of(setting)
    if isinstance(setting.value, Quantity) and setting.value.unit == "samples":
        return Call("leaven.runtime.Count", (Argument("", value),))
    return value


# -- texts


def _tokenizing(tokenize: Invocation, model: Model) -> Transforms:
    """The transform of texts: the tokenizer of the model."""
    chosen = arguments_of(tokenize, by_name=True)
    length = next((f", at most {each.text} tokens of a text" for each in chosen if each.name == "max_length"), "")
    reasons = because_of_call(tokenize)
    call = Call(
        "leaven.runtime.Tokenizer", (Argument("", text_source(model)), *chosen), text="tokenize", because=reasons
    )
    return Transforms((call,), f"tokenized by the model's own tokenizer{length}", reasons, is_tokenizing=True)


# -- transforms


def _transforms(transforms: RecipeTransforms) -> Transforms:
    calls = tuple(call for stage in transforms.stages for call in _transform(stage))
    text = " -> ".join(recipe_name(stage) for stage in transforms.stages) or "nothing"
    own = tuple(recipe_name(stage) for stage in transforms.stages if stage.card.kind == "user")
    random = tuple(recipe_name(stage) for stage in transforms.stages if stage.card.transform.is_random)
    return Transforms(calls, text, because(transforms.origin), random, own)


def _transform(stage: Invocation) -> tuple[Call | Bound, ...]:
    if stage.card.name == "to_tensor":
        reasons = because_of_call(stage)
        to_float = (Argument("", Reference("torch.float32")), Argument("scale", True))
        return (
            Call("torchvision.transforms.v2.ToImage", because=reasons),
            Call("torchvision.transforms.v2.ToDtype", to_float, text=call_text(stage), because=reasons),
        )
    return (function_of(stage) if is_user_function(stage) else call_of(stage),)


# -- batches


def _loading(recipe: Recipe) -> tuple[Argument, ...]:
    """How batches are made: the arguments of `runtime.Data`."""
    train, data = recipe.train, recipe.data
    found = [measurable(train.batch, name="batch_size"), argument(train.seed)]
    for name, setting in (("workers", data.workers.count), ("on_bad_file", data.on_bad_file.action)):
        if setting.value != _DEFAULTS[name] or setting.syntax is not None:
            found.append(argument(setting, name=name))
    if data.sampler.card.name != _DEFAULTS["sampler"]:
        found.append(Argument("sampler", data.sampler.card.name, data.sampler.card.name, because(data.sampler.origin)))
    if data.task.traits.samples:
        found.append(Argument("samples", Call(data.task.path_of(data.task.traits.samples))))
    return tuple(found)
