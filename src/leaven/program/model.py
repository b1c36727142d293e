"""The functions that build the model and its teachers."""

from dataclasses import replace

from leaven.plan.plan import BuildModel, Chain, FileWeights, PublishedInputs, StarterWeights, StoredInputs
from leaven.program.code import ARGS, Code, Function, Item, call, commented, joined, paths, statement, text
from leaven.program.values import Values, cite, cite_call


def build_model(
    model: BuildModel,
    values: Values,
    name: str = "build_model",
    *,
    is_teacher: bool = False,
    is_numbered: bool = False,
) -> Function:
    with values.noting() as names:
        body = model_lines(model, values, "return ", is_teacher=is_teacher, is_numbered=is_numbered)
    types = {values.outputs: f"{values.outputs}: int", "channels": "channels: int", "args": ARGS}
    parameters = tuple(typed for parameter, typed in types.items() if parameter in names)
    decorator = values.runtime("model_builder")
    use = (
        "on several devices, the first process loads the weights before the others"
        if is_teacher
        else "lets the bundle rebuild the model"
    )
    return Function(
        name, parameters, "nn.Module", body, decorator=commented(decorator, values.once(use)) if decorator else ""
    )


def model_lines(
    model: BuildModel, values: Values, result: str, *, is_teacher: bool = False, is_numbered: bool = False
) -> list[str]:
    """The lines that build a model, and then return it or assign it to `model`."""
    code, cited = _built(model, values, is_numbered=is_numbered)
    changes = [*_weights(model, values), *_head(model, values), *(_inputs(model, values) if is_teacher else ())]
    if not changes:
        return statement(result, code, cited)
    returned = ["    return model"] if result == "return " else []
    return [*statement("model = ", code, cited), *changes, *returned]


def _built(model: BuildModel, values: Values, *, is_numbered: bool) -> tuple[Code, str]:
    """The call that makes the model, and what it cites; `is_numbered` where layers are named by their numbers."""
    if not isinstance(model.source, Chain):
        return values.call(model.source), cite(*model.because, *model.because_weights)
    cited = cite(*model.because)
    items = [Item(values.call(component), comment=cite_call(component)) for component in model.source.components]
    if {item.comment for item in items} <= {cited}:
        items = [Item(item.code) for item in items]
    if is_numbered:
        items = [replace(item, comment=joined(f"layer {at}", item.comment)) for at, item in enumerate(items)]
    return replace(call(values.imports.use("torch.nn.Sequential"), *items), is_tall=True), cited


def _weights(model: BuildModel, values: Values) -> list[str]:
    new: dict[str, Code] = {"new": paths(model.new)} if model.new else {}
    file: Code
    match model.weights:
        case StarterWeights(package) if model.by != "transformers":  # which loads them itself
            file = values.packaged(package)
        case FileWeights(place):
            file = values.value(place)
        case _:
            return []
    return statement("", call(values.runtime("load_weights"), "model", file, **new), cite(*model.because_weights))


def _head(model: BuildModel, values: Values) -> list[str]:
    lines: list[str] = []
    if model.removes_auxiliary_heads:
        lines += statement("", call(values.runtime("remove_auxiliary_heads"), "model"))
    if model.fitted_head is not None:
        has_decoder = model.fitted_head.target.endswith(".add_decoder")
        changed = "removes the classifier, changes `forward`" * has_decoder
        lines += statement("", values.call(model.fitted_head, "model"), changed)
    if model.replaced_head is not None:
        head = call(values.runtime("replace_head"), "model", text(model.replaced_head), values.name(values.outputs))
        lines += statement("", head)
    return lines


def _inputs(model: BuildModel, values: Values) -> list[str]:
    """The inputs that a teacher was trained on, where they are known."""
    match model.inputs:
        case StoredInputs(file):
            code = call(values.runtime("read_input_spec"), "model", values.value(file))
        case PublishedInputs():
            size, mean, std = map(values.value, (model.inputs.size, model.inputs.mean, model.inputs.std))
            code = call(values.runtime("set_input_spec"), "model", size=size, mean=mean, std=std)
        case None:
            return []
    return statement("", code)
