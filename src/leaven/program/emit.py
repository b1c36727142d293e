"""From a plan to the text of a program: one function builds the data, one the model, one per phase trains."""

from collections.abc import Mapping
from textwrap import wrap

from leaven.catalog.values import Arg, FilePath, Pending, Quantity, is_written
from leaven.plan.plan import Measure, Plan
from leaven.program.code import ARGS, WIDTH, Code, Function, Item, call, flat, listing, mapping, statement, text
from leaven.program.data import build_data
from leaven.program.imports import Imports
from leaven.program.model import build_model
from leaven.program.phases import function_name, phase_functions, precision_code
from leaven.program.techniques import teacher_functions
from leaven.program.values import Values, argument_name, cite, is_own_function, path_text, user_name

_TYPES = {"int": "int", "float": "float"}
_LOGGERS = {"tensorboard": "TensorBoard", "mlflow": "MLflow"}


def emit(plan: Plan, file: str = "program.py") -> str:
    """The program as text, to be written to a file of that name."""
    imports = Imports()
    for line in ("import argparse", "from torch import nn"):
        imports.add(line)
    values = Values(imports, plan.recipe.data.task)
    teachers = teacher_functions(plan, values)
    functions = [
        _build_run(plan, values),
        build_data(plan, values),
        build_model(plan.model, values),
        *(function for _, function in teachers),
        _build_metrics(plan, values),
        *phase_functions(plan, values, teachers),
    ]
    functions.append(_main(plan, values, {function.name: function for function in functions}))
    functions.insert(0, _parse_args(plan, values))
    own = _own_modules(plan, values)
    start = f'if __name__ == "__main__":\n    {values.runtime("guard")}(main)\n'
    parts = [_header(plan, file), "\n".join(imports.lines())]
    if own:
        parts.append("\n".join(own))
    return "\n\n\n".join(["\n\n".join(parts), *("\n".join(each.lines()) for each in functions), start])


def _header(plan: Plan, file: str) -> str:
    lines = [f'"""{plan.recipe.name}.leaven, compiled by Leaven. Yours to read, run and edit.', ""]
    if plan.summary:
        lines += [*wrap(plan.summary.replace("\\", "\\\\").replace('"""', "'''"), WIDTH), ""]
    usage = (
        (f"python {file}", "train"),
        (f"python {file} --resume RUN", "resume an interrupted run"),
        (f"torchrun --nproc-per-node 2 {file}", "train on two devices"),
    )
    reasons = f"`leaven plan {plan.recipe.name}.leaven` gives the reasons"
    lines += wrap(f"Comments cite the lines of the recipe; what has none is a default ({reasons}).", WIDTH)
    return "\n".join([*lines, "", *(f"    {command.ljust(len(file) + 35)}{what}" for command, what in usage), '"""'])


def _own_modules(plan: Plan, values: Values) -> list[str]:
    """The user's files; installed modules are imported like any other library."""
    lines = []
    for module in plan.recipe.modules:
        if module.is_file and module.place is not None:
            made = call(values.runtime("import_file"), text(path_text(module.place)), text(module.alias))
            lines += statement(f"{user_name(module.alias)} = ", made, depth=0)
        else:
            values.imports.add(f"import {module.target} as {user_name(module.alias)}")
    return lines


# -- arguments


def _parse_args(plan: Plan, values: Values) -> Function:
    described = call("argparse.ArgumentParser", description=text(plan.summary or f"{plan.recipe.name}.leaven"))
    lines = statement("parser = ", described)
    for arg in plan.recipe.args:
        if arg.name in values.used_args and arg.name != "output":  # every program has that one
            lines += statement("", _flag(arg, values), cite(arg.origin))
    parsed = call(values.runtime("parse"), "parser", output=values.value(plan.recipe.output))
    lines += statement("return ", parsed, cite(plan.recipe.output_origin))
    return Function("parse_args", (), "argparse.Namespace", lines)


def _flag(arg: Arg, values: Values) -> Code:
    items: list[Item] = [Item(text(f"--{arg.name.replace('_', '-')}"))]
    if argument_name(arg.name) != arg.name:
        items.append(Item(text(argument_name(arg.name)), "dest="))
    if arg.type in _TYPES:
        items.append(Item(_TYPES[arg.type], "type="))
    if arg.type == "bool":
        items.append(Item("argparse.BooleanOptionalAction", "action="))
    if arg.choices:
        items.append(Item(listing(*(text(choice) for choice in arg.choices)), "choices="))
    if arg.value is None or isinstance(arg.value, Pending):
        items.append(Item("True", "required="))
    else:
        items.append(Item(_default(arg, values), "default="))
    if arg.help:
        items.append(Item(text(arg.help.replace("%", "%%")), "help="))
    return call("parser.add_argument", *items)


def _default(arg: Arg, values: Values) -> Code:
    value = arg.value
    if isinstance(value, Quantity):
        return repr(value.amount)
    return text(path_text(value.place)) if isinstance(value, FilePath) else values.value(value)


# -- metrics


def _build_metrics(plan: Plan, values: Values) -> Function:
    with values.noting() as names:
        entries: dict[str, Code] = {measure.label: _metric(measure, plan, values) for measure in plan.metrics}
    cited = cite(*(measure.invocation.origin for measure in plan.metrics))
    body = statement("return ", mapping(entries), cited)
    parameters = (f"{values.outputs}: int",) if values.outputs in names else ()
    return Function("build_metrics", parameters, values.task("Metrics"), body)


def _metric(measure: Measure, plan: Plan, values: Values) -> Code:
    metric = measure.invocation
    if is_own_function(metric):
        return call(values.task("Mean"), values.function(metric))
    if metric.card.kind == "user":
        return values.call(metric)
    task = plan.recipe.data.task.known
    assert task is not None
    more: dict[str, Code] = {
        name: values.name(values.outputs) if value == "outputs" else text(value)
        for name, value in task.metric_arguments.items()
        if name in metric.card.metric.supplied
    }
    given = [item for item in values.arguments(metric) if item.prefix.removesuffix("=") not in more]
    if metric.card.source == "leaven" and metric.card.name != "accuracy":
        average = metric.setting("average")
        if average is not None and not any(item.prefix == "average=" for item in given):
            given.append(Item(values.setting(average), "average="))
    return call(values.target(metric), *(Item(v, f"{k}=") for k, v in more.items()), *given)


# -- the run


def _build_run(plan: Plan, values: Values) -> Function:
    train, checkpoint = plan.recipe.train, plan.recipe.checkpoint
    used = [train["seed"].origin, *(log.origin for log in plan.recipe.logs)]
    named: dict[str, Code] = {"seed": values.setting(train["seed"]), "monitor": text(plan.watch)}
    lower = [measure.label for measure in plan.metrics if measure.lower_is_better]
    if lower:
        named["lower_is_better"] = listing(*(text(label) for label in lower))
    for name in ("devices", "strategy", "precision"):
        if is_written(train[name].origin) or train[name].syntax is not None:
            setting = train[name]
            named[name] = precision_code(str(setting.value), values) if name == "precision" else values.setting(setting)
            used.append(setting.origin)
    loggers = [_logger(log.card.name, values.arguments(log), values) for log in plan.recipe.logs]
    if found := [logger for logger in loggers if logger is not None]:
        named["loggers"] = listing(*found)
    if policy := _checkpoint(plan, values):
        named["checkpoint"] = call(values.runtime("CheckpointPolicy"), **policy)
    if is_written(checkpoint.origin):
        used.append(checkpoint.origin)
    lines = _deterministic(plan, values)
    lines += statement("return ", call(values.runtime("Run"), "args", **named), cite(*used))
    return Function("build_run", (ARGS,), values.runtime("Run"), lines)


def _deterministic(plan: Plan, values: Values) -> list[str]:
    setting = plan.recipe.train["deterministic"]
    if not setting.value:
        return []
    values.imports.add("import torch")
    return statement("", call("torch.use_deterministic_algorithms", "True"), cite(setting.origin))


def _logger(name: str, given: list[Item], values: Values) -> Code | None:
    if name not in _LOGGERS:
        return None
    made = values.runtime(_LOGGERS[name])
    if not given:
        return made
    values.imports.add("from functools import partial")
    return call("partial", made, *given)


def _checkpoint(plan: Plan, values: Values) -> dict[str, Code]:
    every, keep = plan.recipe.checkpoint["every"], plan.recipe.checkpoint["keep"]
    found: dict[str, Code] = {}
    if is_written(every.origin) and isinstance(every.value, Quantity):
        found[every.value.unit] = values.setting(every)
    if keep.value != "last_and_best":
        found["keep"] = values.setting(keep)
    return found


# -- main


def _main(plan: Plan, values: Values, functions: Mapping[str, Function]) -> Function:
    def built(name: str) -> str:
        return flat(call(name, *functions[name].given()))

    lines = [
        "    args = parse_args()",
        "    run = build_run(args)",
        f"    data = {built('build_data')}",
        f"    model = {built('build_model')}",
        f"    metrics = {built('build_metrics')}",
        "",
    ]
    for phase in plan.phases:
        name = function_name(phase, plan)
        args = ["args"] if ARGS in functions[name].parameters else []
        lines += statement("", call(name, "run", "model", "data", "metrics", *args))
    evaluated = call(values.task("evaluate"), "run", "model", "data.test", "metrics")
    saved = call(values.imports.use("leaven.bundle.save_run"), "run", "model", "data", "scores")
    lines += ["", "    run.load_best(model)", *statement("scores = ", evaluated), "    run.finish(scores)"]
    return Function("main", (), "None", [*lines, *_merged(plan, values), *statement("", saved)])


def _merged(plan: Plan, values: Values) -> list[str]:
    """Adapters become part of the weights."""
    used = [use.invocation for phase in plan.phases for use in phase.techniques]
    adapters = [one for one in used if one.card.technique.is_adapter and one.value("merge") is not False]
    if not adapters:
        return []
    merge = values.imports.use("leaven.techniques.merge_adapters")
    return statement("", call(merge, "model"), cite(*(each.origin for each in adapters)))
