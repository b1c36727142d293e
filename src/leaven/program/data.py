"""The function that builds the data."""

from leaven.plan.plan import NumberOutputs, Plan, ReadData, Transforms
from leaven.program.code import ARGS, Code, Function, Item, call, listing, statement
from leaven.program.values import Values, cite_call


def build_data(plan: Plan, values: Values) -> Function:
    with values.noting() as names:
        body = _body(plan, values)
    return Function("build_data", (ARGS,) if "args" in names else (), values.runtime("Data"), body)


def _body(plan: Plan, values: Values) -> list[str]:
    data = plan.data
    names, lines = transforms(data, values)
    if isinstance(plan.task.predicts, NumberOutputs):
        lines.append("    # the numbers are standardised for training; scores are in their own units")
    lines += statement("dataset = ", values.cited_call(data.source), cite_call(data.source))
    if data.matching is not None:
        lines += statement("dataset = ", values.call(data.matching, "dataset"), cite_call(data.matching))
    lines += statement("split = ", values.call(data.split, "dataset"), cite_call(data.split))
    explained = {"on_bad_file": f"when {data.noun}s are read", "samples": "targets move with their images"}
    loading, comment = values.cited_items(data.loading, **explained)
    items: list[Code | Item] = [
        "dataset",
        "split",
        Item(names[0], "train_transform="),
        Item(names[1], "eval_transform="),
        *loading,
    ]
    return [*lines, *statement("return ", call(values.runtime("Data"), *items), comment)]


def transforms(data: ReadData, values: Values) -> tuple[tuple[str, str], list[str]]:
    """The variables of the transforms of training and evaluation, and the lines that define them."""
    names = ("transform", "transform") if data.is_same else ("train_transform", "eval_transform")
    if data.eval.is_tokenizing:
        names = ("tokenize", "tokenize")
    first = [] if data.is_same else _transform_lines(names[0], data.train, values)
    return names, [*first, *_transform_lines(names[1], data.eval, values)]


def _transform_lines(name: str, transforms: Transforms, values: Values) -> list[str]:
    """The transforms; where they come from one place, it is cited once."""
    if transforms.is_tokenizing:
        (call_,) = transforms.calls
        return statement(f"{name} = ", values.value(call_), cite_call(call_))
    compose = values.imports.use("torchvision.transforms.v2.Compose")
    items = [Item(values.value(one), comment=cite_call(one)) for one in transforms.calls]
    if len({item.comment for item in items}) <= 1:
        whole = items[0].comment if items else ""
        return statement(f"{name} = ", call(compose, listing(*(item.code for item in items))), whole)
    return statement(f"{name} = ", call(compose, listing(*items)))
