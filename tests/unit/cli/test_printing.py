"""Names from strangers, and what exceptions say, are printed by every command and command nothing."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image
from tests import at_work
from tests.unit.bundle.conftest import save_colours
from tests.unit.terminal.test_visible import COMMANDS

from leaven import bundle, make_plan
from leaven.cli.main import leaven as commands
from leaven.program.standalone import standalone
from leaven.tasks.classification import Classes

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp"
SOURCES = Path(__file__).parents[3] / "src" / "leaven"
NET = "model conv(4) -> global_pool() -> linear(classes)\n"


def leaven(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "leaven", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", errors="surrogateescape")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images in folders of hostile names, and a recipe with a hostile phase."""
    folder = tmp_path_factory.mktemp("hostile")
    for name, colour in ((f"red{HOSTILE}<script>", "red"), ("blue", "blue")):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(8):
            Image.new("RGB", (12, 12 + number), colour).save(folder / "photos" / name / f"{number}{HOSTILE}.png")
    data = 'data folder("photos") { eval resize([12, 12]); workers 0 }\n'
    phase = f'train batch=4\nphase "learn{HOSTILE}", epochs=1 {{ }}\n'
    (folder / "a.leaven").write_text(NET + data + phase, encoding="utf-8")
    return folder


@pytest.mark.slow
def test_a_run_and_its_model(folder: Path) -> None:
    """From the plan to a page: nothing that is printed has an escape, and no card or page a tag of a class."""
    program = at_work.program(folder, (folder / "a.leaven").read_text(encoding="utf-8"))
    said = at_work.run(program).said
    assert not COMMANDS.search(said)
    assert "learn␛]0;owned␇␛[2J<U+009B>31m<U+202E>gnp 1/1" in said
    (made,) = folder.glob("**/model.bundle")
    model = bundle.load(made)
    assert "<script>" not in model.card
    assert not COMMANDS.search(model.card)
    for words in (["predict", str(made), "photos"], ["evaluate", str(made), "--data", "photos", "--html", "a.html"]):
        done = leaven(folder, *words)
        assert done.returncode == 0, done.stderr
        assert not COMMANDS.search(done.stdout + done.stderr)
    assert "<script>" not in (folder / "a.html").read_text(encoding="utf-8")
    told = leaven(folder, "predict", str(made), "photos", "--json").stdout
    assert not COMMANDS.search(told)
    assert {one["label"] for one in json.loads(told)} <= {f"red{HOSTILE}<script>", "blue"}


def test_a_standalone_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of a phase is one line, and the help of an `arg` commands nothing; such a folder is refused before."""
    monkeypatch.chdir(tmp_path)
    data = "data digits() { split train=32 samples, val=16 samples, test=16 samples }\n"
    phases = f'phase "learn\\nmore{HOSTILE}", epochs=1 {{ optimizer sgd(lr=lr) }}\nphase "b", epochs=1\n'
    text = f'# {HOSTILE}\narg lr: float = 1e-2 "{HOSTILE}"\n{NET}{data}{phases}'
    program = at_work.program(tmp_path, text)
    program.write_text(standalone(make_plan(Path("recipe.leaven"))), encoding="utf-8")
    said = at_work.run(program).said
    assert "learn␊more␛]0;owned␇␛[2J<U+009B>31m<U+202E>gnp 1/1" in said
    assert not COMMANDS.search(said)
    helped = at_work.run(program, "--help").said
    assert "owned" in helped
    assert not COMMANDS.search(helped)


def test_what_is_shown_in_a_pipe_is_the_recipe(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    shown = CliRunner().invoke(commands, ["show", "a.leaven"]).output
    assert f'phase "learn{HOSTILE}"' in shown


@pytest.mark.skipif(sys.platform == "win32", reason="terminals are other there")
def test_logs_in_a_terminal_redraw_their_bars_and_command_nothing() -> None:
    controlling, terminal = os.openpty()
    code = "import sys; from leaven.cli.printing import echo_printed; echo_printed(sys.argv[1])"
    text = f"epoch 1: 50%\repoch 1: 100%\n{HOSTILE}\tdone"
    subprocess.run([sys.executable, "-c", code, text], stdout=terminal, check=True)
    os.close(terminal)
    said = os.read(controlling, 10_000).decode()
    os.close(controlling)
    assert said.expandtabs() == "epoch 1: 50%\repoch 1: 100%\r\n␛]0;owned␇␛[2J<U+009B>31m<U+202E>gnp\tdone".expandtabs()
    piped = subprocess.run([sys.executable, "-c", code, text], capture_output=True, check=True)
    assert piped.stdout.decode() == text


def test_commands_about_recipes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for words in (["check"], ["plan"], ["inspect"], ["check", "--json"]):
        done = CliRunner().invoke(commands, [*words, "a.leaven"])
        assert done.exit_code == 0, done.output
        assert not COMMANDS.search(done.output)


def test_what_an_exception_says(folder: Path) -> None:
    """User code raises; the report is a few lines, each without commands."""
    code = f"class Loud:\n    def on_model(self, model):\n        raise ValueError({HOSTILE!r})\n"
    (folder / "mine.py").write_text(code, encoding="utf-8")
    recipe = 'import "mine.py"\n' + (folder / "a.leaven").read_text(encoding="utf-8") + "mine.Loud\n"
    running = at_work.start(at_work.program(folder, recipe, "b"))
    assert running.end() == 1
    assert "error: ValueError: ␛]0;owned␇␛[2J" in running.said
    assert not COMMANDS.search(running.said)


def test_names_that_are_not_known(folder: Path) -> None:
    for words in (
        [f"{HOSTILE}\r"],
        ["predict", f"{HOSTILE}\r.bundle", "a.png"],
        ["explain", HOSTILE],
        ["new", HOSTILE],
        ["run", "a.leaven", f"--{HOSTILE}"],
    ):
        done = leaven(folder, *words)
        assert done.returncode != 0
        assert not COMMANDS.search(done.stdout + done.stderr), words


def test_commands_print_in_one_place() -> None:
    """`click.echo` and `print` know nothing of what they print."""
    found = [
        f"{file.name}: {line.strip()}"
        for file in (SOURCES / "cli").glob("*.py")
        for line in file.read_text(encoding="utf-8").splitlines()
        if file.name != "printing.py" and re.search(r"click\.s?echo\(|(?<![\w.])print\(", line)
    ]
    assert found == []


def test_a_class_is_no_tag_on_a_card(tmp_path: Path) -> None:
    names = ("<script>alert(1)</script>", "a|b `c` [d](javascript:e)", "x\n# y")
    made = save_colours(tmp_path / "`<b>`.bundle", Classes(names))
    card = bundle.load(made).card
    outside = re.sub(r"```.*?```", "", card, flags=re.DOTALL)
    assert r"&lt;script&gt;alert(1)&lt;/script&gt;, a\|b \`c\` \[d\](javascript:e), x␊# y" in outside
    assert "<b>" not in re.sub(r"(`+).+?(?<!`)\1(?!`)", "", outside)
