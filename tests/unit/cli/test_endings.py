"""How a command ends that can't go on: in a line, with an exit code that says why, and with nothing left behind."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leaven.catalog import library

RECIPE = "model resnet18()\ndata digits()\n"
COMMAND = [sys.executable, "-m", "leaven"]
PATIENCE = 300.0  # seconds, for what takes one on an idle machine


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    library.installed().prepare(lambda line: None)
    file = tmp_path / "first.leaven"
    file.write_text(RECIPE)
    return str(file)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("words", [["show"], ["check"], ["check", "--json"], ["--help"]])
def test_output_that_cant_be_written_is_no_bug_of_ours(words: list[str], recipe: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, *words, recipe], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 74
    assert done.stderr == "could not write the output: No space left on device\n"


def run(*words: str, **settings: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *words], env={**os.environ, **settings}, capture_output=True, check=False)


@pytest.mark.skipif(os.name == "nt", reason="a shell is another matter there")
@pytest.mark.parametrize(("content", "code"), [(RECIPE, 0), ("model resnet18(\n", 1)])
def test_output_that_was_closed_changes_no_answer(content: str, code: int, recipe: str) -> None:
    Path(recipe).write_text(content)
    command = f"{shlex.join([*COMMAND, 'check', recipe])} >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (code, b"")


@pytest.mark.parametrize(
    "words",
    [["catalog", "--help"], ["new", "--help"], ["check", "→.leaven"], ["show", "→.leaven"], ["check", "ok→.leaven"]],
)
def test_what_an_encoding_does_not_have_is_escaped(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "→.leaven").write_text("model resnet18(\n")
    (tmp_path / "ok→.leaven").write_text(RECIPE)
    done = run(*words, PYTHONIOENCODING="latin-1")
    assert done.returncode == (1 if words[1] == "→.leaven" else 0)
    assert rb"\u20" in done.stdout + done.stderr or rb"\u2192" in done.stdout + done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text there")
class TestNamesThatAreNoText:
    def test_in_json_they_are_escaped(self, tmp_path: Path) -> None:
        file = os.fsencode(tmp_path) + b"/n\xff.leaven"
        Path(os.fsdecode(file)).write_text("model resnet18(\n")
        done = subprocess.run([*COMMAND, "check", "--json", file], capture_output=True, check=False)
        assert json.loads(done.stdout.decode())["recipe"].endswith("n\udcff.leaven")

    def test_a_class_may_have_one(self, tmp_path: Path) -> None:
        for name in (b"n\xff", b"other"):
            folder = Path(os.fsdecode(os.fsencode(tmp_path / "photos") + b"/" + name))
            folder.mkdir(parents=True)
            (folder / "1.jpg").touch()
            (folder / "2.jpg").touch()
        output = str(tmp_path / "photos.leaven")
        done = run("new", str(tmp_path / "photos"), "--model", "resnet18", "--scratch", "-o", output)
        assert b"Leaven itself failed" not in done.stderr


def test_a_name_with_control_characters_is_shown_by_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a\nb\x1b[31m.leaven").write_text(RECIPE + "\n\n\n")
    for command in ("check", "format"):
        assert run(command, "a\nb\x1b[31m.leaven").stdout.decode().startswith("a␊b␛[31m.leaven")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a folder in use can't be removed")
def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    leave = "import os; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')"
    program = f"{leave}; os.execv({COMMAND[0]!r}, {[*COMMAND, 'check', '-']!r})"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, input=b"model resnet18", capture_output=True, check=False
    )
    assert done.returncode in (1, 2)
    assert b"could not write" not in done.stderr
    assert b"Leaven itself failed" not in done.stderr


@pytest.mark.slow
def test_a_cache_in_the_home_of_nobody_is_no_trouble(recipe: str, tmp_path: Path) -> None:
    done = run("check", recipe, LEAVEN_CACHE="~nobody-has-this-name/cache", TMPDIR=str(tmp_path))
    assert done.returncode == 0


@pytest.mark.parametrize("name", ["json.py", "typing.py", "pathlib.py", "click.py"])
def test_a_file_of_the_users_is_not_run(name: str, recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(recipe).parent
    monkeypatch.chdir(folder)
    (folder / name).write_text("raise SystemExit('the wrong one')")
    done = run("check", "--json", recipe)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_reader_that_has_enough_is_no_trouble(recipe: str) -> None:
    words = ["catalog", "search", "--limit", "10000"]
    with subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""


def _mind_ctrl_c() -> None:
    """What a shell runs in the background is told to ignore it, and so would be all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems don't tell about processes in /proc")
@pytest.mark.parametrize("is_from_terminal", [True, False])
def test_ctrl_c_while_the_libraries_are_read(is_from_terminal: bool, recipe: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    process = subprocess.Popen(
        [*COMMAND, "check", recipe],
        env={**os.environ, "LEAVEN_CACHE": str(cache)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_mind_ctrl_c,
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("indexing the installed libraries")
    helper = _child(process.pid)
    (os.killpg if is_from_terminal else os.kill)(process.pid, signal.SIGINT)
    said = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 130
    assert said.strip() == "interrupted"
    assert list(cache.glob("index/*")) == []
    assert _ends(helper)


def _child(pid: int) -> int:
    """The helper that a process started, once it has worked for a fifth of a second: by then, its parent waits."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            user, system = _state(int(child))[11:13]
            if int(user) + int(system) >= os.sysconf("SC_CLK_TCK") // 5:
                return int(child)
        time.sleep(0.01)
    raise AssertionError("there is no helper process")


def _ends(pid: int) -> bool:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            if _state(pid)[0] == "Z":  # nobody has asked yet how it ended
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def _state(pid: int) -> list[str]:
    """What the system tells about a process, from its state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
