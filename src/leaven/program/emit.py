"""From a plan to the text of a program: one function builds the data, one the model, one per phase trains."""

from collections.abc import Mapping
from textwrap import wrap

from leaven.plan.plan import Plan, ProgramArg
from leaven.plan.values import Call
from leaven.program.code import (
    FROM_DATA,
    WIDTH,
    Code,
    Function,
    Item,
    call,
    docstring,
    flat,
    joined,
    listing,
    mapping,
    split_code,
    statement,
    text,
)
from leaven.program.data import build_data
from leaven.program.imports import Imports
from leaven.program.model import build_model
from leaven.program.names import Names, function_names, with_free_names
from leaven.program.phases import phase_functions
from leaven.program.techniques import teacher_functions
from leaven.program.values import Values, cite, cite_all, cite_or_explain
from leaven.terminal.visible import visible

MASK_FOLDER = "leaven.runtime.mask_folder"
_TYPES = {"int": "int", "float": "float"}


def emit(plan: Plan, file: str = "program.py") -> str:
    """The program as text, to be written to a file of that name."""
    return with_free_names(plan, lambda names: _written(plan, file, names))


def _written(plan: Plan, file: str, names: Names) -> str:
    imports = Imports()
    for line in ("import argparse", "from torch import nn"):
        imports.add(line)
    values = Values(imports, names, plan)
    functions = [build_data(plan, values), build_model(plan.model, values, is_numbered=_names_layers(plan))]
    teachers = teacher_functions(plan, values)
    functions += [*(function for _, function in teachers), *phase_functions(plan, values, teachers)]
    functions.append(_main(plan, values, {function.name: function for function in functions}))
    functions.insert(0, _parse_args(plan, values))
    own = own_modules(plan, values)
    explained = "failures are reported at their recipe line or, once this file is edited, at its own"
    start = f'if __name__ == "__main__":\n    {values.runtime("guard")}(main)  # {explained}\n'
    parts = [_header(plan, file), "\n".join(imports.lines())]
    if own:
        parts.append("\n".join(own))
    return "\n\n\n".join(["\n\n".join(parts), *("\n".join(each.lines()) for each in functions), start])


def _names_layers(plan: Plan) -> bool:
    """Whether the program names layers of the model."""
    uses = [use for phase in plan.phases for use in phase.techniques]
    return any(use.layers or use.stages or use.call.argument("layers") for use in uses) or any(
        phase.freeze or phase.unfreeze_later or phase.optimizer.groups for phase in plan.phases
    )


def _header(plan: Plan, file: str) -> str:
    lines = [f"{plan.name}.leaven, compiled by Leaven. Yours to read, run and edit.", ""]
    if plan.summary:
        lines += [*wrap(plan.summary, WIDTH), ""]
    usage = (
        (f"python {file}", "train"),
        (f"python {file} --resume RUN", "resume an interrupted run; RUN is its folder"),
        (f"python {file} --resume RUN --finish", "stop training, and save the best epoch so far"),
        (f"torchrun --nproc-per-node 2 {file}", "train on two devices"),
    )
    recipe = f"{plan.name}.leaven"
    cited = f"`# line N` is the line of {recipe} that a value comes from; values without one are defaults"
    lines += wrap(f"{cited} (`leaven plan {recipe}` gives the reasons).", WIDTH)
    lines += ["", *(f"    {command.ljust(len(file) + 35)}{what}" for command, what in usage)]
    return "\n".join(docstring(*lines))


def own_modules(plan: Plan, values: Values) -> list[str]:
    """The user's files; installed modules are imported like any other library."""
    lines = []
    for module in plan.user_modules:
        if module.is_file:
            made = call(values.runtime("import_file"), text(module.target), text(module.alias))
            lines += statement(f"{values.names.user(module.alias)} = ", made, depth=0)
        else:
            values.imports.add(f"import {module.target} as {values.names.user(module.alias)}")
    return lines


# -- arguments


def parser(plan: Plan, values: Values) -> list[str]:
    """The lines that make the parser of the command line, with the `arg`s that the program uses."""
    told = visible(plan.summary) or f"{visible(plan.name)}.leaven"  # what `--help` prints first
    lines = statement("parser = ", call("argparse.ArgumentParser", description=text(told)))
    for arg in plan.args:
        if arg.name in values.used_args and arg.name != "output":  # every program has that one
            lines += statement("", _flag(arg, values), cite(*arg.because))
    return lines


def _parse_args(plan: Plan, values: Values) -> Function:
    parsed = call(values.runtime("parse"), "parser", output=values.value(plan.output.value))
    lines = [*parser(plan, values), *statement("return ", parsed, cite(*plan.output.because))]
    return Function("parse_args", (), "argparse.Namespace", lines)


def _flag(arg: ProgramArg, values: Values) -> Code:
    items: list[Item] = [Item(text(f"--{arg.name.replace('_', '-')}"))]
    if values.names.arg(arg.name) != arg.name:
        items.append(Item(text(values.names.arg(arg.name)), "dest="))
    if arg.type in _TYPES:
        items.append(Item(_TYPES[arg.type], "type="))
    if arg.type == "bool":
        items.append(Item("argparse.BooleanOptionalAction", "action="))
    if arg.choices:
        items.append(Item(listing(*(text(choice) for choice in arg.choices)), "choices="))
    if arg.default is None:
        items.append(Item("True", "required="))
    else:
        items.append(Item(values.value(arg.default), "default="))
    if arg.help:
        items.append(Item(text(visible(arg.help).replace("%", "%%")), "help="))
    return call("parser.add_argument", *items)


# -- main


def deterministic(plan: Plan, values: Values) -> list[str]:
    if plan.deterministic is None:
        return []
    values.imports.add("import torch")
    return statement("", call("torch.use_deterministic_algorithms", "True"), cite(*plan.deterministic.because))


def _run(plan: Plan, values: Values) -> list[str]:
    """The line that begins the run, or resumes it."""
    explained = {"epochs": "of all phases; only to estimate the time left"}
    if (threads := plan.run.argument("threads")) is not None and not cite(*threads.because):
        explained["threads"] = cite_or_explain(*threads.because)
    items, comment = values.cited_items(plan.run.arguments, **explained)
    return statement("run = ", call(values.target(plan.run), "args", *items), comment)


def _building(plan: Plan, values: Values, functions: Mapping[str, Function]) -> list[str]:
    """The lines of `main` that build data, model and metrics."""
    built = {name: flat(call(f"build_{name}", *functions[f"build_{name}"].given())) for name in ("data", "model")}
    lines = [f"    {name} = {code}" for name, code in built.items()]
    with values.in_place(FROM_DATA):
        lines += metrics(plan, values, f": {values.task('Metrics')}")
    if plan.data.measured_batch is not None:
        chosen = call("run.choose_batch_size", "model", "data")
        cited = cite(*plan.data.measured_batch.because)
        lines += statement("", chosen, f"{cited}{': ' * bool(cited)}doubled as long as that is faster")
    for one in plan.data.decoded:
        named: dict[str, Code] = {"transforms": str(one.transforms)} if one.transforms else {}
        comment = f"images are decoded{one.text} once"
        if one.approximate is not None:
            named["exact"] = "False"
            comment = cite(*one.approximate.because) or comment
        lines += statement("", call("run.store_decoded", split_code(one.split), **named), comment)
    return lines


def training(plan: Plan, values: Values, functions: Mapping[str, Function], depth: int = 1) -> list[str]:
    """The lines of `main` that call the phases."""
    lines: list[str] = []
    for phase, name in zip(plan.phases, function_names(plan), strict=True):
        if phase.is_remembered:
            copied = call(values.runtime("frozen_copy"), "model")
            lines += statement(f"{values.names.models_before[phase.name]} = ", copied, depth=depth)
        given = [parameter.partition(":")[0] for parameter in functions[name].parameters]
        lines += statement("", call(name, *given), depth=depth)
    return lines


def metrics(plan: Plan, values: Values, typed: str = "") -> list[str]:
    """The line that makes the metrics; where there are none, it says of which type they would be."""
    entries: dict[str, Code] = {metric.name: values.call(metric.call) for metric in plan.metrics}
    ignored = [each.value for metric in plan.metrics if (each := metric.call.argument("ignore_index")) is not None]
    ignore = plan.data.source.argument("ignore")
    stored = f"mask value {255 if ignore is None else ignore.text}" * (plan.data.source.target == MASK_FOLDER)
    unlabelled = f"{values.value(ignored[0])}: {stored or 'pixels without a class'}, or padding" if ignored else ""
    cited = joined(cite_all(metric.call for metric in plan.metrics), unlabelled)
    return statement(f"metrics{'' if entries else typed} = ", mapping(entries), cited)


def _main(plan: Plan, values: Values, functions: Mapping[str, Function]) -> Function:
    lines = [
        *deterministic(plan, values),
        "    args = parse_args()",
        *_run(plan, values),
        *_building(plan, values, functions),
        "",
    ]
    if is_block := len(plan.phases) > 1:
        around = call("run.training", *(text(phase.name) for phase in plan.phases))
        lines += statement("with ", around, "with --finish, phases after the best epoch so far are skipped", suffix=":")
    lines += training(plan, values, functions, depth=1 + is_block)
    lines += ["", *_best(plan), *tested(plan, values), "    run.report(scores)", *merged(plan, values)]
    saved = call(values.imports.use("leaven.bundle.save_run"), "run", "model", "data", "scores")
    return Function("main", (), "None", [*lines, *statement("", saved)])


def _best(plan: Plan) -> list[str]:
    """The line that loads the weights with which the run ends."""
    keep = plan.checkpoint("keep")
    is_last = keep is not None and keep.value == "last" and plan.phases[-1].early_stop is None
    of = "" if len(plan.phases) == 1 else " of the last phase"
    which = "no others are kept: the last ones" if is_last else f"the best epoch{of}, by {plan.monitor}"
    methods = [use.call.argument("method") for phase in plan.phases for use in phase.techniques]
    names = {each.value.name for each in methods if each is not None and isinstance(each.value, Call)}
    masks = "masks over pruned weights become permanent" if "Unstructured" in names else ""
    return statement("", "run.load_best(model)", joined(which, masks))


def tested(plan: Plan, values: Values) -> list[str]:
    """The scores on the test split, by the same step as in the validation of the last phase."""
    own = plan.phases[-1].override("eval_step")
    evaluated = values.evaluation("model", "data.test", own=own)
    return statement("scores = ", evaluated, cite(*own.because) if own is not None else "")


def merged(plan: Plan, values: Values) -> list[str]:
    """Adapters become part of the weights."""
    found = [use for phase in plan.phases for use in phase.techniques if use.is_merged]
    if not found:
        return []
    merge = values.imports.use("leaven.techniques.merge_adapters")
    cited = cite(*(reason for use in found for reason in use.call.because[:1]))
    keeps_some = any(use.is_adapter and not use.is_merged for phase in plan.phases for use in phase.techniques)
    explained = f"into the layers that they adapt{', unless merge=False' * keeps_some}"
    return statement("", call(merge, "model"), joined(cited, explained))
