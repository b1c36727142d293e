"""From a plan to the text of a program: one function builds the data, one the model, one per phase trains."""

from collections.abc import Mapping
from textwrap import wrap

from leaven.catalog.values import Arg, FilePath, Pending, Quantity, is_written
from leaven.plan.plan import Call, Measure, Plan
from leaven.program.code import ARGS, WIDTH, Code, Function, Item, call, flat, listing, mapping, statement, text
from leaven.program.data import build_data
from leaven.program.imports import Imports
from leaven.program.model import build_model, built_by, stands_on
from leaven.program.phases import function_name, phase_function, precision_code
from leaven.program.techniques import teacher_functions
from leaven.program.values import Values, argument_name, cite, is_own_function, path_text

_TYPES = {"int": "int", "float": "float"}


def emit(plan: Plan, file: str = "program.py") -> str:
    """The program as text, to be written to a file of that name."""
    imports = Imports()
    for line in (
        "import argparse",
        "from lightning.fabric import Fabric",
        "from torch import nn",
        "from leaven import bundle",
        "from leaven import runtime",
        "from leaven.tasks import classification as task",
    ):
        imports.add(line)
    values = Values(imports, [arg.name for arg in plan.recipe.args])
    teachers = teacher_functions(plan, values)
    functions = [
        _build_run(plan, values),
        build_data(plan, values),
        build_model(plan.model, values),
        *(function for _, function in teachers),
        _build_metrics(plan, values),
        *(phase_function(phase, plan, values, teachers) for phase in plan.phases),
    ]
    functions.append(_main(plan, values, {function.name: function for function in functions}))
    functions.insert(0, _parse_args(plan, values))
    own = _own_modules(plan, imports)
    parts = [_header(plan, file), "\n".join(imports.lines())]
    if own:
        parts.append("\n".join(own))
    start = 'if __name__ == "__main__":\n    runtime.guard(main)\n'
    return "\n\n\n".join(["\n\n".join(parts), *("\n".join(each.lines()) for each in functions), start])


def _header(plan: Plan, file: str) -> str:
    lines = [f'"""{plan.recipe.name}.leaven, compiled by Leaven. Yours to read, run and edit.', ""]
    if plan.summary:
        lines += [*wrap(plan.summary.replace("\\", "\\\\").replace('"""', "'''"), WIDTH), ""]
    usage = (
        (f"python {file}", "train"),
        (f"python {file} --resume RUN", "go on with a run that was interrupted"),
        (f"torchrun --nproc-per-node 2 {file}", "train on two devices"),
    )
    lines += ["Every choice cites the line of the recipe that it comes from, or says that it is a default.", ""]
    lines += [
        *(f"    {command.ljust(len(file) + 35)}{what}" for command, what in usage),
        '"""',
    ]
    return "\n".join(lines)


def _own_modules(plan: Plan, imports: Imports) -> list[str]:
    """The user's files; what is installed is imported like any other library."""
    lines = []
    for module in plan.recipe.modules:
        if module.is_file and module.place is not None:
            made = call("runtime.import_file", text(path_text(module.place)), text(module.alias))
            lines += statement(f"{module.alias} = ", made, depth=0)
        else:
            imports.add(f"import {module.target} as {module.alias}")
    return lines


# -- arguments


def _parse_args(plan: Plan, values: Values) -> Function:
    described = call("argparse.ArgumentParser", description=text(plan.summary or f"{plan.recipe.name}.leaven"))
    lines = statement("parser = ", described)
    for arg in plan.recipe.args:
        if arg.name in values.used_args and arg.name != "output":  # every program has that one
            lines += statement("", _flag(arg, values), cite(arg.origin))
    parsed = call("runtime.parse", "parser", output=values.value(plan.recipe.output))
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
    entries: dict[str, Code] = {measure.label: _metric(measure, values) for measure in plan.metrics}
    comment = cite(*(measure.invocation.origin for measure in plan.metrics))
    return Function("build_metrics", ("classes: int",), "task.Metrics", statement("return ", mapping(entries), comment))


def _metric(measure: Measure, values: Values) -> Code:
    metric = measure.invocation
    if is_own_function(metric):
        return call("task.Mean", values.function(metric))
    if metric.card.kind == "user":
        return values.call(metric)
    supplied = metric.card.metric.supplied
    more: dict[str, Code] = {}
    if "task" in supplied:
        more["task"] = text("multiclass")
    if "num_classes" in supplied:
        more["num_classes"] = "classes"
    given = [item for item in values.arguments(metric) if item.prefix.removesuffix("=") not in more]
    if metric.card.source == "leaven" and metric.card.name != "accuracy":
        average = metric.setting("average")
        if average is not None and not any(item.prefix == "average=" for item in given):
            given.append(Item(values.setting(average), "average="))
    return call(values.target(metric), *(Item(v, f"{k}=") for k, v in more.items()), *given)


# -- main


def _main(plan: Plan, values: Values, functions: Mapping[str, Function]) -> Function:
    def called(name: str, *given: str) -> str:
        parameters = functions[name].parameters
        channels = ["data.channels"] if "channels: int" in parameters else []
        return flat(call(name, *given, *channels, *(["args"] if ARGS in parameters else [])))

    lines = [
        "    args = parse_args()",
        "    run = build_run(args)",
        "    with run.fabric.rank_zero_first():  # what must be downloaded is, once",
        f"        data = {called('build_data')}",
        f"        module = {called('build_model', 'len(data.classes)')}",
        "    metrics = build_metrics(len(data.classes))",
        "",
    ]
    for phase in plan.phases:
        lines.append(f"    {called(function_name(phase, plan), 'run', 'module', 'data', 'metrics')}")
    lines += ["", "    scores = run.finish(module, lambda module: task.evaluate(run, module, data.test, metrics))"]
    lines += _merged(plan, values)
    over = stands_on(plan, values)
    more: dict[str, Code] = {"over": over} if over is not None else {}
    saved = call(
        "bundle.save",
        'run.folder / "model.bundle"',
        "module",
        built_by=built_by(plan, values),
        preprocess="data.eval_transform",
        example="data.example",
        target="data.target",
        scores="scores",
        folder="run.folder",
        **more,
    )
    is_own = isinstance(plan.model.source, Call) and plan.model.source.library == "user"
    told = "        run.announce(saved, trust_code=True)" if is_own else "        run.announce(saved)"
    lines += ["    if run.fabric.is_global_zero:", *statement("saved = ", saved, depth=2), told]
    return Function("main", (), "None", lines)


def _merged(plan: Plan, values: Values) -> list[str]:
    """Adapters become part of the weights."""
    used = [use.invocation for phase in plan.phases for use in phase.techniques]
    hung = [call for call in used if call.card.technique.is_adapter and call.value("merge") is not False]
    if not hung:
        return []
    merge = values.imports.use("leaven.techniques.merge_adapters")
    return statement("", call(merge, "module"), cite(*(each.origin for each in hung)))


def _build_run(plan: Plan, values: Values) -> Function:
    lines = _deterministic(plan, values)
    lines += statement("fabric = ", _fabric(plan, values), _cite_train(plan, "precision", "devices", "strategy"))
    lines += ["    fabric.launch()"]
    lines += statement("return ", _run(plan, values), _cite_run(plan))
    return Function("build_run", (ARGS,), "runtime.Run", lines)


def _deterministic(plan: Plan, values: Values) -> list[str]:
    setting = plan.recipe.train["deterministic"]
    if not setting.value:
        return []
    values.imports.add("import torch")
    return [f"    torch.use_deterministic_algorithms(True)  # {cite(setting.origin)}"]


def _fabric(plan: Plan, values: Values) -> Code:
    train = plan.recipe.train
    devices = train["devices"]
    asked = f"args.devices or {flat(values.setting(devices))}"
    named: dict[str, Code] = {"devices": asked, "num_nodes": "args.machines"}
    strategy, precision = train["strategy"], train["precision"]
    if strategy.value != "auto":
        named["strategy"] = text(strategy.value)
    named["precision"] = precision_code(str(precision.value))
    return call("Fabric", **named)


def _run(plan: Plan, values: Values) -> Code:
    seed = plan.recipe.train["seed"]
    named: dict[str, Code] = {"seed": values.setting(seed), "monitor": text(plan.watch)}
    lower = [measure.label for measure in plan.metrics if measure.lower_is_better]
    if lower:
        named["lower_is_better"] = listing(*(text(label) for label in lower))
    loggers = [_logger(log.card.name, values.arguments(log), values) for log in plan.recipe.logs]
    loggers = [logger for logger in loggers if logger is not None]
    if loggers:
        named["loggers"] = listing(*(logger for logger in loggers if logger is not None))
    saving = _saving(plan, values)
    if saving:
        named["checkpoint"] = call("runtime.CheckpointPolicy", **saving)
    return call("runtime.Run", "args", "fabric", **named)


def _logger(name: str, given: list[Item], values: Values) -> Code | None:
    maker = {"tensorboard": "runtime.TensorBoard", "mlflow": "runtime.MLflow"}.get(name)
    if maker is None or not given:
        return maker
    values.imports.add("from functools import partial")
    return call("partial", maker, *given)


def _saving(plan: Plan, values: Values) -> dict[str, Code]:
    every, keep = plan.recipe.checkpoint["every"], plan.recipe.checkpoint["keep"]
    found: dict[str, Code] = {}
    if is_written(every.origin) and isinstance(every.value, Quantity):
        found[every.value.unit] = values.setting(every)
    if keep.value != "last_and_best":
        found["keep"] = values.setting(keep)
    return found


def _cite_train(plan: Plan, *names: str) -> str:
    return cite(*(plan.recipe.train[name].origin for name in names))


def _cite_run(plan: Plan) -> str:
    seed = plan.recipe.train["seed"]
    logs = [log.origin for log in plan.recipe.logs]
    return cite(seed.origin, *logs, *([plan.recipe.checkpoint.origin] if _is_said(plan) else []))


def _is_said(plan: Plan) -> bool:
    return is_written(plan.recipe.checkpoint.origin)
