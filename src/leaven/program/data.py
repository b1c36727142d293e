"""The function that builds the data."""

from leaven.catalog.values import Invocation, Origin, Quantity, Setting, is_written
from leaven.plan.plan import Plan, ReadData
from leaven.program.code import ARGS, Code, Function, Item, call, listing, statement
from leaven.program.values import Values, cite, cite_call, is_own_function

_MAKERS = {"digits": "runtime.digits", "folder": "runtime.image_folder", "csv": "runtime.table"}
_DATA_DEFAULTS = {"sampler": "shuffled", "on_bad_file": "stop", "workers": "auto"}


def build_data(plan: Plan, values: Values) -> Function:
    with values.noting() as names:
        body = _body(plan, values)
    return Function("build_data", (ARGS,) if "args" in names else (), "runtime.Data", body)


def _body(plan: Plan, values: Values) -> list[str]:
    data, recipe = plan.data, plan.recipe
    lines: list[str] = []
    if data.is_same:
        lines += steps_statement("transform", data.eval, data.because_eval, values)
    else:
        lines += steps_statement("train_transform", data.train, data.because_train, values)
        lines += steps_statement("eval_transform", data.eval, data.because_eval, values)
    lines += statement("dataset = ", _items(data.source, values), cite_call(data.source))
    lines += statement("split = ", _split(data, values), cite_call(data.split))
    train = recipe.train
    seed, batch = train["seed"], train["batch"]
    items: list[Code | Item] = ["dataset", "split"]
    names = ("transform", "transform") if data.is_same else ("train_transform", "eval_transform")
    items += [Item(names[0], "train_transform="), Item(names[1], "eval_transform=")]
    items.append(Item(values.setting(batch), "batch_size="))
    items.append(Item(values.setting(seed), "seed="))
    origins: list[Origin] = [batch.origin, seed.origin]
    for name, invocation in (("workers", recipe.data.workers), ("on_bad_file", recipe.data.on_bad_file)):
        setting = invocation.settings[0]
        if setting.value != _DATA_DEFAULTS[name] or setting.syntax is not None:
            items.append(Item(values.setting(setting), f"{name}="))
            origins.append(invocation.origin)
    if recipe.data.sampler.card.name != "shuffled":
        items.append(Item(values.value(recipe.data.sampler.card.name), "sampler="))
        origins.append(recipe.data.sampler.origin)
    return [*lines, *statement("return ", call("runtime.Data", *items), cite(*origins))]


def steps_statement(name: str, steps: tuple[Invocation, ...], origin: Origin, values: Values) -> list[str]:
    """The transforms, each with its reason where they come from different places."""
    compose = values.imports.use("torchvision.transforms.v2.Compose")
    items = [item for step in steps for item in _step(step, values)]
    whole = cite(origin, *(step.origin for step in steps if is_written(step.origin)))
    if {item.comment for item in items} <= {whole}:
        return statement(f"{name} = ", call(compose, listing(*(item.code for item in items))), whole)
    return statement(f"{name} = ", call(compose, listing(*items)))


def _step(step: Invocation, values: Values) -> list[Item]:
    reason = cite_call(step)
    if step.card.name == "to_tensor":
        return [
            Item(call(values.imports.use("torchvision.transforms.v2.ToImage")), comment=reason),
            Item(
                call(
                    values.imports.use("torchvision.transforms.v2.ToDtype"),
                    values.imports.use("torch.float32"),
                    scale="True",
                ),
                comment=reason,
            ),
        ]
    if is_own_function(step):
        return [Item(values.function(step), comment=reason)]
    return [Item(values.call(step), comment=reason)]


def _items(source: Invocation, values: Values) -> Code:
    card = source.card
    if card.kind == "user":
        return call("runtime.user_dataset", values.call(source))
    if card.name == "csv":
        label = call("task.Label", values.setting(source["label"]))
        return call(_MAKERS["csv"], *values.arguments(source, frozenset({"label"})), target=label)
    if card.name in _MAKERS:
        return values.call(source, function=_MAKERS[card.name])
    items = [Item(values.setting(s), f"{s.name}=") for s in source.settings if _is_needed(s, source)]
    if card.data.split_arguments:
        items.append(Item(repr(card.data.split_arguments).replace("'", '"'), "splits="))
    if card.data.classes:
        items.append(Item(repr(card.data.classes), "classes="))
    return call("runtime.torchvision_dataset", values.imports.use(card.target), *items)


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
            code = call("runtime.Count", code)
        items.append(Item(code, f"{setting.name}="))
    if data.redivide:
        items.append(Item("True", "resplit="))
    return call("runtime.split", "dataset", *items)
