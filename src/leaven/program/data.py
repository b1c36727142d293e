"""The function that builds the data."""

from collections.abc import Mapping

from leaven.catalog.values import Invocation, Quantity, Setting, is_written
from leaven.plan.plan import Plan, ReadData
from leaven.program.code import ARGS, Code, Function, Item, call, flat, listing, statement
from leaven.program.values import Values, cite, cite_call, is_own_function
from leaven.recipe.recipe import Data
from leaven.recipe.task import USUAL

_DEFAULTS = {"sampler": "shuffled", "on_bad_file": "stop", "workers": "auto"}


def build_data(plan: Plan, values: Values) -> Function:
    with values.noting() as names:
        body = _body(plan, values)
    return Function("build_data", (ARGS,) if "args" in names else (), values.runtime("Data"), body)


def _body(plan: Plan, values: Values) -> list[str]:
    data, recipe = plan.data, plan.recipe
    lines: list[str] = []
    names = ("transform", "transform") if data.is_same else ("train_transform", "eval_transform")
    if not data.is_same:
        lines += _transform(names[0], data.train, values)
    lines += _transform(names[1], data.eval, values)
    lines += statement("dataset = ", _dataset(recipe.data, values), cite_call(data.source))
    lines += statement("split = ", _split(data, values), cite_call(data.split))
    seed, batch = recipe.train["seed"], recipe.train["batch"]
    items: list[Code | Item] = [
        "dataset",
        "split",
        Item(names[0], "train_transform="),
        Item(names[1], "eval_transform="),
    ]
    items += [Item(values.setting(batch), "batch_size="), Item(values.setting(seed), "seed=")]
    origins = [batch.origin, seed.origin]
    for name, invocation in (("workers", recipe.data.workers), ("on_bad_file", recipe.data.on_bad_file)):
        setting = invocation.settings[0]
        if setting.value != _DEFAULTS[name] or setting.syntax is not None:
            items.append(Item(values.setting(setting), f"{name}="))
            origins.append(invocation.origin)
    if recipe.data.sampler.card.name != _DEFAULTS["sampler"]:
        items.append(Item(values.value(recipe.data.sampler.card.name), "sampler="))
        origins.append(recipe.data.sampler.origin)
    return [*lines, *statement("return ", call(values.runtime("Data"), *items), cite(*origins))]


def _transform(name: str, transforms: tuple[Invocation, ...], values: Values) -> list[str]:
    """The transforms; where they come from one place, it is cited once."""
    compose = values.imports.use("torchvision.transforms.v2.Compose")
    items = [item for one in transforms for item in _items(one, values)]
    whole = cite(*(one.origin for one in transforms if is_written(one.origin)))
    if {item.comment for item in items} <= {whole}:
        return statement(f"{name} = ", call(compose, listing(*(item.code for item in items))), whole)
    return statement(f"{name} = ", call(compose, listing(*items)))


def _items(transform: Invocation, values: Values) -> list[Item]:
    cited = cite_call(transform)
    if transform.card.name == "to_tensor":
        float32 = values.imports.use("torch.float32")
        to_dtype = call(values.imports.use("torchvision.transforms.v2.ToDtype"), float32, scale="True")
        to_image = call(values.imports.use("torchvision.transforms.v2.ToImage"))
        return [Item(to_image, comment=cited), Item(to_dtype, comment=cited)]
    if is_own_function(transform):
        return [Item(values.function(transform), comment=cited)]
    return [Item(values.call(transform), comment=cited)]


def _dataset(data: Data, values: Values) -> Code:
    source, card = data.source, data.source.card
    if card.kind == "user":
        arguments = values.arguments(source)
        made = f"lambda: {flat(call(values.target(source), *arguments))}" if arguments else values.target(source)
        return call(values.runtime("user_dataset"), made, **_reader(data, values, {}))
    if card.target.startswith("leaven."):
        named = _target(data)
        given = values.arguments(source, frozenset(named))
        return call(values.imports.use(card.target), *given, **_reader(data, values, named))
    items = [Item(values.setting(s), f"{s.name}=") for s in source.settings if _is_needed(s, source)]
    if card.data.split_arguments:
        items.append(Item(repr(card.data.split_arguments).replace("'", '"'), "splits="))
    if card.data.classes:
        items.append(Item(repr(card.data.classes), "classes="))
    return call(values.runtime("torchvision_dataset"), values.imports.use(card.target), *items)


def _target(data: Data) -> dict[str, Setting]:
    """What the recipe says about the labels, by the names that the task's reader gives it."""
    parameters = {each.name: each.target or each.name for each in data.source.card.parameters}
    return {parameters[setting.name]: setting for setting in data.target}


def _reader(data: Data, values: Values, named: Mapping[str, Setting]) -> dict[str, Code]:
    """What reads the labels, unless it is what data is read by anyway."""
    if data.task.name == USUAL and not named:
        return {}
    assert data.task.known is not None
    items = [
        Item(values.setting(setting), f"{name}=" if at else "") for at, (name, setting) in enumerate(named.items())
    ]
    return {"target": call(values.task(data.task.known.reader), *items)}


def _is_needed(setting: Setting, source: Invocation) -> bool:
    parameter = source.card.parameter(setting.name)
    return setting.name in ("root", "download") or parameter is None or setting.value != parameter.default


def _split(data: ReadData, values: Values) -> Code:
    items: list[Item] = []
    for setting in data.split.settings:
        if setting.value is None:
            continue
        code = values.setting(setting)
        if isinstance(setting.value, Quantity) and setting.value.unit == "items":
            code = call(values.runtime("Count"), code)
        items.append(Item(code, f"{setting.name}="))
    if data.redivide:
        items.append(Item("True", "resplit="))
    return call(values.runtime("split"), "dataset", *items)
