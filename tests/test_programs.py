"""Each recipe in tests/programs becomes the plan and the program that stand beside it, and that program runs.

`LEAVEN_BLESS=1` writes plans and programs anew (`make bless`); the difference is to be read as code.
"""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import chdir
from functools import cache
from pathlib import Path
from random import Random

import pytest
import timm
import torch
import torchvision
from PIL import Image
from tests import at_work, shapes, tiny_bert
from tests.lang.sections import IS_BLESSING

import leaven
from leaven.formats import run_folder
from leaven.plan.plan import Plan
from leaven.plan.plan_json import from_json, to_json
from leaven.planning.explain import explain
from leaven.program.emit import emit
from leaven.statements.options import Options

ROOT = Path(__file__).parents[1]
GOLDENS = sorted(recipe.parent for recipe in (ROOT / "tests/programs").glob("*/recipe.leaven"))
NEEDS_NETWORK = {"flowers102", "text_pairs"}
RUNNABLE = [folder for folder in GOLDENS if folder.name not in NEEDS_NETWORK]
OPTIONS = {"inherited": Options({"lr": "3e-2"}, ("schedule.warmup=10 steps",), ("ema 0.9",))}
RULES = ["--isolated", "--line-length", "120"]
CITATION = re.compile(r"(?:# |\().*?\blines? ([\d, ]+)")
NO_CHOICE = ("#", "}", "extends", "import")


def name(folder: Path) -> str:
    return folder.name


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recipes, each with the data that it reads beside it."""
    place = tmp_path_factory.mktemp("programs")
    for golden in GOLDENS:
        folder = place / golden.name
        shutil.copytree(golden, folder, ignore=shutil.ignore_patterns("program.py", "plan.txt", "__pycache__"))
        lay_out_data(folder)
    return place


def lay_out_data(folder: Path) -> None:
    """What the recipes read: photographs of three animals, others already divided, a table of birds, and weights."""
    recipe = (folder / "recipe.leaven").read_text(encoding="utf-8")
    if "photos" in recipe:
        for number, animal in enumerate(("lynx", "otter", "wolf")):
            draw(folder / "photos" / animal, 10, number)
    if "hymenoptera" in recipe:
        for number, part in enumerate(("train/ants", "train/bees", "val/ants", "val/bees")):
            draw(folder / "hymenoptera" / part, 6, number)
    if "birds.csv" in recipe:
        birds = ["sparrow"] * 18 + ["robin"] * 8 + ["wren"] * 6
        draw(folder / "birds", len(birds), 0)
        lines = ["file,bird", *(f"birds/{number}.jpg,{bird}" for number, bird in enumerate(birds))]
        (folder / "birds.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if "shapes/boxes.json" in recipe:
        shapes.write_coco(folder / "shapes", 12)
    if "faces.csv" in recipe:
        draw(folder / "faces", 32, 0)
        lines = ["file,age,smile", *(f"faces/{number}.jpg,{20 + number},{number % 7 / 7:.2f}" for number in range(32))]
        (folder / "faces.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if "roads" in recipe:
        draw(folder / "roads" / "images", 24, 0)
        (folder / "roads" / "masks").mkdir()
        for number in range(24):
            mask = Image.new("L", Image.open(folder / "roads" / "images" / f"{number}.jpg").size)
            mask.paste(1 + number % 2, (2, 2, 12 + number, 14))
            mask.save(folder / "roads" / "masks" / f"{number}.png")
    if "beach.csv" in recipe:
        draw(folder / "beach", 32, 0)
        tags = ["sand;dog", "sea", "sand;sea;people", ""]
        lines = ["file,tags", *(f"beach/{number}.jpg,{tags[number % 4]}" for number in range(32))]
        (folder / "beach.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if "reviews.csv" in recipe:
        tiny_bert.write_csv(folder / "reviews.csv", 40)
    if "pairs.jsonl" in recipe:
        rows = [{"premise": text, "hypothesis": "it was good", "label": kind} for text, kind in tiny_bert.reviews(40)]
        (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    for weights in ("resnet18.pth", "detector.pth"):
        if weights in recipe:
            (folder / weights).touch()


def draw(folder: Path, count: int, seed: int) -> None:
    folder.mkdir(parents=True)
    chance = Random(seed)
    for number in range(count):
        Image.frombytes("RGB", (80, 64), chance.randbytes(80 * 64 * 3)).save(folder / f"{number}.jpg")


# -- what is written


@cache
def plan_of(folder: Path) -> Plan:
    with chdir(folder):
        return leaven.make_plan(Path("recipe.leaven"), OPTIONS.get(folder.name))


@pytest.mark.parametrize("golden", GOLDENS, ids=name)
def test_a_recipe_becomes_its_plan_and_program(golden: Path, workshop: Path) -> None:
    plan = plan_of(workshop / golden.name)
    for file, text in (("plan.txt", explain(plan)), ("program.py", emit(plan))):
        if IS_BLESSING:
            (golden / file).write_text(text, encoding="utf-8")
        assert text == (golden / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("golden", GOLDENS, ids=name)
def test_a_plan_reads_back_equal(golden: Path, workshop: Path) -> None:
    """The file says all that the plan does: its reasons, and every word of the program."""
    plan = plan_of(workshop / golden.name)
    read = from_json(to_json(plan))
    assert read == plan
    assert to_json(read) == to_json(plan)
    assert emit(read) == emit(plan)
    assert explain(read) == explain(plan)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "3", '{"format": "2"}', '{"kind": "Plan"}', '{"kind": "Path"}', "[" * 100_000]
)
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        from_json(text)


def test_there_are_programs_of_all_kinds() -> None:
    assert len(GOLDENS) >= 12
    assert len(RUNNABLE) >= 10


@pytest.mark.parametrize("golden", GOLDENS, ids=name)
def test_every_line_of_the_recipe_is_cited(golden: Path) -> None:
    program = (golden / "program.py").read_text(encoding="utf-8")
    cited = {int(number) for lines in CITATION.findall(program) for number in re.findall(r"\d+", lines)}
    recipe = (golden / "recipe.leaven").read_text(encoding="utf-8").splitlines()
    choices = [at for at, line in enumerate(recipe, 1) if not line.strip().startswith(NO_CHOICE) and line.strip()]
    assert [recipe[at - 1] for at in choices if at not in cited] == []


# -- how it is written


@pytest.mark.parametrize(
    "command",
    [
        ["format", "--check"],
        # `epoch` is at hand in every loop
        ["check", "--select", "E,F,I,UP,B", "--ignore", "B007", "--config", 'lint.isort.known-first-party=["leaven"]'],
    ],
    ids=["format", "check"],
)
def test_programs_are_clean(command: Sequence[str]) -> None:
    programs = [str(golden / "program.py") for golden in GOLDENS]
    done = run([sys.executable, "-m", "ruff", *command, *RULES, "--no-cache", *programs])
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_programs_have_the_right_types(tmp_path: Path, cache: Path) -> None:
    for golden in GOLDENS:
        shutil.copyfile(golden / "program.py", tmp_path / f"{golden.name}.py")
    options = ["--ignore-missing-imports", "--config-file", os.devnull, "--cache-dir", str(cache / "mypy")]
    done = run([sys.executable, "-m", "mypy", *options, *map(str, sorted(tmp_path.glob("*.py")))])
    assert done.returncode == 0, done.stdout


def run(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MYPYPATH": str(ROOT / "src")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=False)


# -- what it does


@pytest.mark.parametrize("golden", RUNNABLE, ids=name)
def test_a_program_runs_to_its_bundle(golden: Path, workshop: Path) -> None:
    file = workshop / golden.name / "program.py"
    program = (golden / "program.py").read_text(encoding="utf-8")
    file.write_text(program, encoding="utf-8")
    (file.parent / run_folder.PLAN).write_text(to_json(plan_of(file.parent), program), encoding="utf-8")
    if (file.parent / "resnet18.pth").is_file():
        torch.save(timm.create_model("resnet18").state_dict(), file.parent / "resnet18.pth")
    if (file.parent / "detector.pth").is_file():
        detector = torchvision.models.get_model("ssdlite320_mobilenet_v3_large", weights_backbone=None)
        torch.save(detector.state_dict(), file.parent / "detector.pth")
    said = at_work.run(file, "--quick", "--devices", "1").said
    (made,) = (workshop / golden.name / "runs").glob(f"*/*/{run_folder.BUNDLE}")
    for file in (run_folder.LOCK, run_folder.METRICS, run_folder.SCORES, run_folder.LAST, run_folder.BEST):
        assert (made.parent / file).stat().st_size, file
    assert (made.parent / run_folder.PROGRAM).read_text(encoding="utf-8") == program
    with (made.parent / run_folder.METRICS).open(encoding="utf-8", newline="") as table:
        rows = list(csv.DictReader(table))
    assert len(rows) == program.count("run.phase(")  # of every phase one epoch
    assert str(made.relative_to(workshop / golden.name)) in said
