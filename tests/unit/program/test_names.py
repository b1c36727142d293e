"""No name that a recipe gives to files, techniques, phases and `arg`s is one that its program uses itself."""

import ast
import builtins
import keyword
import shutil
from collections.abc import Callable
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
WITH_OWN_CODE = ("own_code", "own_data")
WITH_A_REPORT = ("detection", "distilled", "segmentation", "text_reviews", "smaller_net")
NAMES = ("own", *WITH_OWN_CODE, *(pytest.param(name, marks=pytest.mark.slow) for name in WITH_A_REPORT))
PYTHONS = {*keyword.kwlist, *dir(builtins), "__name__", "__main__", "__file__", "__builtins__"}
FORMS: dict[str, Callable[[Plan], str]] = {"normal": emit, "standalone": standalone}


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
            return leaven.make_plan(Path("recipe.leaven" if name in WITH_OWN_CODE else "extended.leaven"))

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


def assigned(tree: ast.AST, function: str) -> list[str]:
    """The variables that are assigned what this function or class returns."""
    return [
        node.targets[0].id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and isinstance(node.targets[0], ast.Name)
        and called(node.value) == function
    ]


def shape(program: str, function: str) -> tuple[str, list[str]]:
    """A program with stand-ins for the variables that hold what a function returns, and these variables."""
    tree = ast.parse(program)
    variables = assigned(tree, function)
    tree = _Renaming({name: f"STAND_IN_{at}" for at, name in enumerate(variables)}).visit(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node) == "import_file":
            node.args.pop()  # its name among the modules
    return ast.dump(tree), variables


def every(names: set[str], share: int) -> list[str]:
    """Some of the names, and those of Python that any program has."""
    return [*sorted(names)[::share], "_", "__name__", "class", "type", "print"]


@pytest.mark.parametrize("share", [29])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NAMES)
def test_a_module_may_have_any_name(plan_of: Callable[[str], Plan], name: str, form: str, share: int) -> None:
    """Whatever it is called, the program is the same but for that name, which it uses for nothing else."""
    plan, write = plan_of(name), FORMS[form]
    if form == "standalone" and obstacles(plan):
        pytest.skip("there is no standalone program of this")
    plain = write(renamed(plan, "nothing_else"))
    expected, variables = shape(plain, "import_file")
    assert variables == ["nothing_else"]
    own = names_in(plain) - {"nothing_else"}
    techniques = {use.name for phase in plan.phases for use in phase.techniques}
    avoiding = {each for each in own if each.rstrip("0123456789").rstrip("_") in techniques}  # the module's name
    for alias in every({*own, *PYTHONS, *keyword.softkwlist} - techniques - avoiding, share):
        written, (chosen,) = shape(write(renamed(plan, alias)), "import_file")
        assert written == expected, alias
        assert chosen not in own | PYTHONS, alias


@pytest.mark.parametrize("share", [29])
@pytest.mark.parametrize("form", FORMS)
def test_a_technique_may_have_any_name(plan_of: Callable[[str], Plan], form: str, share: int) -> None:
    plan, write = plan_of("own"), FORMS[form]
    plain = write(plan)
    expected, variables = shape(plain, "Trick")
    assert variables == ["trick", "trick_2"]
    own = names_in(plain) - set(variables)
    for name in every({each.lower() for each in own | PYTHONS}, share):
        written, chosen = shape(write(with_trick(plan, name)), "Trick")
        assert written == expected, name
        assert not {*chosen} & (own | PYTHONS), name


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
