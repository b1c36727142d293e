"""No name that a recipe gives to files, techniques, phases and `arg`s is one that its program uses itself."""

import ast
import builtins
import keyword
import shutil
from collections.abc import Callable, Collection
from contextlib import chdir
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from tests import at_work
from tests.test_programs import GOLDENS, lay_out_data

import leaven
from leaven.plan.plan import Override, Plan, UserModule
from leaven.plan.values import Call, Reference
from leaven.program.emit import emit
from leaven.program.names import names_in
from leaven.program.standalone import obstacles, standalone

MINE = """\
from torch import nn
from torch.nn.functional import cross_entropy


class Net(nn.Module):
    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU())
        self.out = nn.Linear(width, classes)

    def forward(self, images):
        return self.out(self.body(images))


class Trick:
    def __init__(self) -> None:
        self.batches = 0

    def on_batch(self, images, targets):
        self.batches += 1
        return images, targets

    def on_loss(self, loss, images, outputs, targets):
        return loss * 1.0

    def state_dict(self):
        return {"batches": self.batches}

    def load_state_dict(self, state):
        self.batches = state["batches"]


def margin(outputs, targets, scale: float = 1.0):
    return cross_entropy(outputs, targets) * scale


def train_step(model, batch, criterion):
    inputs, targets = batch
    return criterion(model(inputs), targets)


def report(phase, model, scores):
    print("reported by the user's function")
"""
OWN = """\
import "mine.py" as mine
arg width: int = 4
arg lr: float = 1e-2
model mine.Net(width)
data digits() { split train=64 samples, val=32 samples, test=32 samples }
loss mine.margin(scale=0.5)
phase "head", epochs=1 { override train_step, mine.train_step; mixup 0.2 }
phase "all", epochs=2 {
    optimizer sgd(lr=lr)
    mine.Trick
    mine.Trick
    ema 0.9
    distill before_phase("all")
    override after_epoch, mine.report
}
"""
EXTENDED = 'extends "recipe.leaven"\nimport "mine.py" as mine\noverride after_epoch, mine.report\n'
WITH_OWN_CODE = ("own_code",)
WITH_A_REPORT = ("detection", "distilled", "segmentation", "text_reviews")
NAMES = ("own", *WITH_OWN_CODE, *(pytest.param(name, marks=pytest.mark.slow) for name in WITH_A_REPORT))
PYTHONS = {*keyword.kwlist, *dir(builtins), "__name__", "__main__", "__file__", "__builtins__"}
FORMS: dict[str, Callable[[Plan], str]] = {"normal": emit, "standalone": standalone}
SHARES = [  # of names that are tried one by one
    ("normal", 29),
    ("standalone", 29),
    pytest.param("normal", 1, marks=pytest.mark.slow),
    pytest.param("standalone", 5, marks=pytest.mark.slow),
]


@pytest.fixture(scope="module")
def plan_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Plan]:
    """The plan of a recipe with user code: a golden one, another with a function of the user's, or the one above."""

    @cache
    def plan(name: str) -> Plan:
        folder = tmp_path_factory.mktemp(name)
        golden = next((each for each in GOLDENS if each.name == name), None)
        if golden is not None:
            shutil.copytree(golden, folder, dirs_exist_ok=True)
            lay_out_data(folder)
        if name not in WITH_OWN_CODE:
            (folder / "mine.py").write_text(MINE)
            (folder / "extended.leaven").write_text(OWN if golden is None else EXTENDED)
        with chdir(folder):
            made = leaven.make_plan(Path("recipe.leaven" if name in WITH_OWN_CODE else "extended.leaven"))
        return replace(made, asked=None)  # tests change the plan, and a standalone program is written as it was asked

    return plan


def renamed(value: Any, alias: str) -> Any:
    """A plan whose user module has another name."""
    if isinstance(value, tuple):
        return tuple(renamed(each, alias) for each in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed = {each.name: renamed(getattr(value, each.name), alias) for each in fields(value)}
    match value:
        case UserModule():
            changed["alias"] = alias
        case Call(is_user=True) | Reference(is_user=True):
            changed["target"] = f"{alias}.{value.target.partition('.')[2]}"
        case Override():
            changed["function"] = f"{alias}.{value.function.partition('.')[2]}"
    return replace(value, **changed)


def with_trick(plan: Plan, name: str) -> Plan:
    """A plan in which the techniques of the user's have another name."""

    def change(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(change(each) for each in value)
        if not is_dataclass(value) or isinstance(value, type):
            return value
        changed = {each.name: change(getattr(value, each.name)) for each in fields(value)}
        if getattr(value, "name", "") == "trick" and "hooks" in changed:
            changed["name"] = name
        return replace(value, **changed)

    return change(plan)  # type: ignore[no-any-return]


class _Renaming(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        node.arg = self.names.get(node.arg or "", node.arg)
        return self.generic_visit(node)  # type: ignore[return-value]


def called(call: ast.Call) -> str:
    """The last name of the function or class that is called."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def assigned(scope: ast.Module | ast.FunctionDef, functions: Collection[str]) -> list[str]:
    """The variables of a scope that are assigned what one of these functions or classes returns."""
    return [
        node.targets[0].id
        for node in scope.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and isinstance(node.targets[0], ast.Name)
        and called(node.value) in functions
    ]


def shape(program: str, *functions: str) -> tuple[str, list[str]]:
    """A program with stand-ins for the variables that hold what these functions return, and these variables."""
    tree = ast.parse(program)
    found: list[str] = []
    for scope in [tree, *(node for node in tree.body if isinstance(node, ast.FunctionDef))]:
        variables = assigned(scope, functions)
        assert len({*variables}) == len(variables)
        if variables:
            _Renaming({name: f"STAND_IN_{at}" for at, name in enumerate(variables)}).visit(scope)
        found += variables
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node) == "import_file":
            node.args.pop()  # its name among the modules
    return ast.dump(tree), found


def classes_of_techniques(plan: Plan) -> set[str]:
    return {use.call.target.rpartition(".")[2] for phase in plan.phases for use in phase.techniques}


def every(names: set[str], share: int) -> list[str]:
    """Some of the names, and those of Python that any program has."""
    return [*sorted(names)[::share], "_", "__name__", "class", "type", "print"]


@pytest.mark.parametrize(("form", "share"), SHARES)
@pytest.mark.parametrize("name", ["own", *WITH_OWN_CODE])
def test_a_module_may_have_any_name(plan_of: Callable[[str], Plan], name: str, share: int, form: str) -> None:
    """Whatever it is called, the program is the same but for that name, which it uses for nothing else."""
    plan, write = plan_of(name), FORMS[form]
    plain = write(renamed(plan, "nothing_else"))
    expected, variables = shape(plain, "import_file", *classes_of_techniques(plan))
    assert variables[0] == "nothing_else"
    own = names_in(plain) - {*variables}
    for alias in every({*own, *variables, *PYTHONS, *keyword.softkwlist}, share):
        written, chosen = shape(write(renamed(plan, alias)), "import_file", *classes_of_techniques(plan))
        assert written == expected, alias
        assert not {*chosen} & (own | PYTHONS), alias
        assert chosen[0] not in chosen[1:], alias


@pytest.mark.parametrize(("form", "share"), SHARES)
def test_a_technique_may_have_any_name(plan_of: Callable[[str], Plan], form: str, share: int) -> None:
    plan, write = plan_of("own"), FORMS[form]
    plain = write(plan)
    expected, variables = shape(plain, *classes_of_techniques(plan))
    assert variables == ["mixup", "trick", "trick_2", "ema", "distill"]
    own = names_in(plain) - {*variables}
    for name in every({each.lower() for each in {*own, *variables, *PYTHONS}}, share):
        written, chosen = shape(write(with_trick(plan, name)), *classes_of_techniques(plan))
        assert written == expected, name
        assert not {*chosen} & (own | PYTHONS), name


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NAMES)
def test_modules_of_every_name_at_once(plan_of: Callable[[str], Plan], name: str, form: str) -> None:
    plan, write = plan_of(name), FORMS[form]
    if form == "standalone" and obstacles(plan):
        pytest.skip("there is no standalone program of this")
    plan = renamed(plan, "nothing_else")
    plain = write(plan)
    variables = shape(plain, "import_file", *classes_of_techniques(plan))[1]
    own = names_in(plain) - {*variables}
    aliases = {*own, *variables[1:], *PYTHONS, *keyword.softkwlist, "_", "__", "a-b", "a_b", "a b"}
    others = tuple(UserModule(alias, "mine.py", is_file=True) for alias in sorted(aliases))
    written = write(replace(plan, user_modules=(*plan.user_modules, *others)))
    chosen = shape(written, "import_file", *classes_of_techniques(plan))[1]
    assert len(chosen) == len(variables) + len(others)
    assert not {*chosen} & (own | PYTHONS)
    modules = chosen[: 1 + len(others)]
    assert len({*modules}) == len(modules)
    assert not {*modules} & {*chosen[len(modules) :]}


@pytest.mark.parametrize("form", FORMS)
def test_techniques_of_every_name_at_once(plan_of: Callable[[str], Plan], form: str) -> None:
    plan, write = plan_of("own"), FORMS[form]
    own = names_in(write(plan)) - {"mixup", "trick", "trick_2", "ema", "distill"}
    trick = next(use for use in plan.phases[-1].techniques if use.name == "trick")
    others = [replace(trick, name=name) for name in sorted({each.lower() for each in own | PYTHONS})]
    last = replace(plan.phases[-1], steps=(*plan.phases[-1].steps, *others))
    written = ast.parse(write(replace(plan, phases=(*plan.phases[:-1], last))))
    (trained,) = (node for node in written.body if isinstance(node, ast.FunctionDef) and node.name == "train_all")
    chosen = assigned(trained, {"Trick"})
    assert len({*chosen}) == len(chosen) == len(others) + 2
    assert not {*chosen} & (own | PYTHONS)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NAMES)
def test_a_program_defines_every_name_once(plan_of: Callable[[str], Plan], name: str, form: str) -> None:
    if form == "standalone" and obstacles(plan_of(name)):
        pytest.skip("there is no standalone program of this")
    found: list[str] = []
    for node in ast.parse(FORMS[form](plan_of(name))).body:
        match node:
            case ast.FunctionDef(name=defined) | ast.ClassDef(name=defined):
                found.append(defined)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                found += {each.asname or each.name.partition(".")[0] for each in aliases}
            case ast.Assign(targets=[ast.Name(id=defined)]) | ast.AnnAssign(target=ast.Name(id=defined)):
                found.append(defined)
    assert sorted(set(found)) == sorted(found)


# -- they run

ODD = """\
import "inputs.py" as {module}
arg used: int = 4
arg args: float = 1e-2
arg machines_: int = 3
let model = "sgd"
let run = 2
model {module}.Net(used)
data digits() {{ split train=64 samples, val=32 samples, test=32 samples }}
loss {module}.margin(scale=0.5)
phase "a!", epochs=1 {{ override train_step, {module}.train_step; mixup 0.2 }}
phase "a?", epochs=1 {{ optimizer sgd(lr=args); mixup 0.2 }}
phase "a 2", epochs=run {{
    {module}.{first}
    {module}.{second}
    {module}.{second}
    override after_epoch, {module}.report
}}
"""


@pytest.mark.parametrize(
    ("module", "first", "second"),
    [
        ("inputs", "Inputs", "Self"),
        ("_", "Model", "Class"),
        pytest.param("__main__", "Data", "Phase", marks=pytest.mark.slow),
        pytest.param("random", "Run", "Main", marks=pytest.mark.slow),
        pytest.param("leaven", "Outputs", "List", marks=pytest.mark.slow),
        pytest.param("Path", "Np", "Match", marks=pytest.mark.slow),
        pytest.param("math", "Torch", "Runtime", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_programs_with_odd_names_run(tmp_path: Path, form: str, module: str, first: str, second: str) -> None:
    tricks = f"\n\nclass {first}(Trick): pass\n\n\nclass {second}(Trick): pass\n"
    hooks = MINE[MINE.index("    def __init__(self) -> None:") : MINE.index("def margin")]
    (tmp_path / "inputs.py").write_text(MINE + tricks.replace("(Trick): pass", f":\n{hooks}"))
    file = at_work.program(tmp_path, ODD.format(module=module, first=first, second=second))
    if form == "standalone":
        with chdir(tmp_path):
            file.write_text(standalone(leaven.make_plan(Path("recipe.leaven"))))
    assert at_work.run(file).said.count("reported by the user's function") == 2
    (made,) = tmp_path.glob("runs/recipe/*/model.*")
    assert made.suffix == (".bundle" if form == "normal" else ".pth")


def test_a_file_of_losses_beside_a_detector(tmp_path: Path) -> None:
    golden = next(each for each in GOLDENS if each.name == "detection")
    shutil.copyfile(golden / "recipe.leaven", tmp_path / "recipe.leaven")
    lay_out_data(tmp_path)
    detector = torchvision.models.get_model("ssdlite320_mobilenet_v3_large", weights_backbone=None)
    torch.save(detector.state_dict(), tmp_path / "detector.pth")
    (tmp_path / "losses.py").write_text(MINE)
    extended = EXTENDED.replace("mine.py", "losses.py").replace("mine", "losses")
    file = at_work.program(tmp_path, extended, "extended")
    assert "reported by the user's function" in at_work.run(file, "--quick", "--devices", "1").said
