"""Bad input: always a report and exit code 1, never a traceback or a hang."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import leaven
from leaven.language.diagnostics import Diagnostic
from leaven.language.report import render_full
from leaven.language.source import Source
from leaven.language.source_files import read_source

VALID = "model resnet18()\ndata  digits()\ntrain epochs=1\n"
SECONDS = 300  # for what takes a fraction of one on an idle machine


def reports(path: Path) -> list[Diagnostic]:
    """The diagnostics of a file; each must render."""
    source = read_source(path, path.name)
    diagnostics = [source] if isinstance(source, Diagnostic) else list(leaven.check(source).diagnostics)
    for diagnostic in diagnostics:
        assert render_full(diagnostic)
    return diagnostics


def ids(content: str | bytes, folder: Path) -> list[str]:
    """The ids of the diagnostics of a file with that content."""
    file = folder / "recipe.leaven"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return [diagnostic.id for diagnostic in reports(file)]


def run(*words: str | Path, stdin: bytes | None = None, cwd: Path | None = None) -> tuple[int, str]:
    """The exit code and output of `leaven check`."""
    done = subprocess.run(
        [sys.executable, "-m", "leaven", "check", *map(str, words)],
        input=stdin if stdin is not None else b"",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        timeout=SECONDS,
        check=False,
    )
    printed = done.stdout.decode()
    assert "Traceback" not in printed, printed
    assert "Leaven itself failed" not in printed, printed
    return done.returncode, printed


# -- valid recipes in unusual files


@pytest.mark.parametrize(
    "content",
    [
        VALID.replace("\n", "\r\n"),
        VALID.replace("\n", "\r"),
        VALID.replace(" ", "\t"),
        VALID.replace("\n", "\f\n"),
        VALID.rstrip("\n"),
        "\n\n\n" + VALID + "\n \n\t\n",
        b"\xef\xbb\xbf" + VALID.encode(),
        VALID.replace("\n", ";"),
        VALID + "# " + "é" * 1000,
    ],
    ids=[
        "CRLF",
        "lone CR",
        "tabs",
        "form feeds",
        "no last newline",
        "blank lines",
        "BOM",
        "semicolons",
        "long comment",
    ],
)
def test_a_recipe_is_valid_with_any_line_ends(content: str | bytes, tmp_path: Path) -> None:
    assert ids(content, tmp_path) == []


# -- files without a recipe


@pytest.mark.parametrize(
    "content", ["", " ", "\n\n", "\t\r\n \f", "# a comment", "# one\n\n# two\n", ";", ";;\n;", "\ufeff"]
)
def test_a_file_without_a_statement_is_reported_as_empty(content: str, tmp_path: Path) -> None:
    assert ids(content, tmp_path) == ["empty-recipe"]


@pytest.mark.parametrize(
    "content",
    [
        bytes(range(256)),
        b"\x7fELF\x02\x01\x01\0\0\0",
        b"model\0resnet18",
        VALID.encode("utf-16"),
        VALID.encode("utf-32"),
        b"# caf\xe9\n" + VALID.encode(),
        b"\xff",
        b"\xc0\x80",
        b"\xed\xa0\x80",  # half of a surrogate pair
        "é".encode()[:1],
    ],
)
def test_a_file_that_is_not_utf_8_is_reported(content: bytes, tmp_path: Path) -> None:
    assert ids(content, tmp_path) == ["not-utf8"]


def test_the_first_invalid_byte_is_shown(tmp_path: Path) -> None:
    (tmp_path / "latin.leaven").write_bytes(b"# fine\n# caf\xe9\n")
    (report,) = reports(tmp_path / "latin.leaven")
    assert report.spots[0].span.line == 2
    assert report.spots[0].span.column == 6
    assert "0xE9" in report.spots[0].label


def test_a_bom_in_the_middle_is_reported(tmp_path: Path) -> None:
    assert "unexpected-character" in ids("model resnet18()\n\ufeffdata digits()\n", tmp_path)


@pytest.mark.parametrize("character", ["\v", "\x1b", "\x85", "\u2028", "\xa0", "\u200b", "'", "\U0001f33e", "\x07"])
def test_an_unexpected_character_is_reported(character: str, tmp_path: Path) -> None:
    found = ids(VALID.replace("train ", f"train {character}"), tmp_path)
    assert found
    assert set(found) <= {"unexpected-character", "wrong-quotes"}


def test_an_unclosed_string_does_not_swallow_the_next_line(tmp_path: Path) -> None:
    assert ids('output "runs\n' + VALID, tmp_path) == ["unclosed-string"]


# -- limits


@pytest.mark.parametrize("content", ["#" * 1_100_000, "x " * 550_000, "a" * 1_000_001, VALID + "\n" * 1_000_000])
def test_a_file_above_the_limit_is_not_parsed(content: str, tmp_path: Path) -> None:
    assert ids(content, tmp_path) == ["too-large"]


def test_a_line_of_10_mb_is_not_parsed(tmp_path: Path) -> None:
    assert ids(b"model " + b"x" * 10_000_000, tmp_path) == ["too-large"]


def test_a_file_just_below_the_limit_is_parsed(tmp_path: Path) -> None:
    assert ids(VALID + "#" * (1_000_000 - len(VALID)), tmp_path) == []


def test_a_name_as_long_as_the_file_is_shown_shortened(tmp_path: Path) -> None:
    (tmp_path / "long.leaven").write_text("n" * 500_000)
    assert all(len(render_full(report)) < 10_000 for report in reports(tmp_path / "long.leaven"))


DEEP = {
    "round": "train clip=" + "(" * 10_000 + "1" + ")" * 10_000,
    "round, open": "train clip=" + "(" * 10_000,
    "calls": "model " + "f(" * 10_000 + ")" * 10_000,
    "square": "sweep lr, " + "[" * 10_000 + "]" * 10_000,
    "square, open": "sweep lr, " + "[" * 10_000,
    "braces": "phase {" * 10_000 + "}" * 10_000,
    "braces, open": "{" * 10_000,
    "one of each": "([{" * 10_000,
    "closing": ")]}" * 10_000,
    "unary minus": "train clip=" + "-" * 10_000 + "1",
    "operators": "train clip=1" + " + 1" * 100_000,
    "products": "train clip=1" + "*1" * 100_000,
    "arrows": "model relu" + " -> relu" * 100_000,
    "only operators": "+" * 100_000,
    "commas": "metrics " + "," * 100_000,
    "quotes": '"' * 100_001,
    "dots": "model a" + ".a" * 100_000,
    "semicolons": ";" * 100_000,
    "equal signs": "a" + "=" * 10_000,
    "escapes": 'output "' + "\\" * 100_001,
    "digits": "train seed=" + "9" * 100_000,
    "exponent": "train clip=1e" + "9" * 100_000,
    "underscores": "train seed=1" + "_" * 100_000,
    "units": "train epochs=1 " + "epoch" * 10_000,
}


@pytest.mark.parametrize("name", DEEP)
def test_endless_input_gets_a_report(name: str, tmp_path: Path) -> None:
    found = reports_of(DEEP[name], tmp_path)
    assert any(report.is_error for report in found)
    assert len(found) < 100_000


@pytest.mark.parametrize("name", ["round", "calls", "square", "braces", "one of each", "unary minus", "operators"])
def test_deep_nesting_gets_one_report(name: str, tmp_path: Path) -> None:
    found = reports_of(DEEP[name], tmp_path)
    assert [report.id for report in found if report.id == "too-deep"] == ["too-deep"]
    assert len(found) <= 3  # with the statements that are then missing


def reports_of(content: str, folder: Path) -> list[Diagnostic]:
    (folder / "recipe.leaven").write_text(content, encoding="utf-8")
    return reports(folder / "recipe.leaven")


# -- recipes that grow when they are expanded

HEAD = "model resnet18()\ndata digits()\narg x: int = 1\n"


def lets(first: str, next_one: str, count: int) -> str:
    """`let a0`, and each further one made of the one before it, which `next_one` calls `_`."""
    return f"let a0 = {first}\n" + "".join(
        f"let a{at} = {next_one.replace('_', f'a{at - 1}')}\n" for at in range(1, count)
    )


BOMBS = {
    "a long chain": HEAD + lets("1", "_ + 1", 2000) + "train batch=a1999",
    "a long chain of names": HEAD + lets("1", "_", 2000) + "train batch=a1999",
    "long sums on each other": HEAD + lets("1", "_" + " + 1" * 240, 90) + "train batch=a89",
    "doubled numbers": HEAD + lets("1", "_ + _", 60) + "train seed=a59",
    "squared numbers": HEAD + lets("9" * 18, "_ * _", 20) + "train seed=a19",
    "doubled layers": HEAD + lets("layer1", "_ + _", 60) + "freeze a59",
    "doubled layers, used often": HEAD
    + lets("layer1", "_ + _", 12)
    + "".join(f'phase "{at}", epochs=1 {{ freeze a11 }}\n' for at in range(300)),
    "long unions on each other": HEAD + lets("layer1", "_" + " + layer1" * 100, 20) + "freeze a19",
    "doubled pipelines": "model resnet18()\ndata digits() { train a59 }\n" + lets("resize(32)", "_ -> _", 60),
    "repeated pipelines": "model resnet18()\ndata digits() { train resize(32) * 9999 * 9999 }\n",
    "doubled lists": HEAD + lets("[1]", "[_, _]", 60) + "sweep x, a59",
    "deep lists on each other": HEAD + lets("1", "[" * 90 + "_" + "]" * 90, 30) + "sweep x, a29",
    "a long list of layers": HEAD + "freeze [" + ", ".join(["layer1"] * 5000) + "]",
    "a long union": HEAD + "freeze layer1" + " + layer1" * 240,
    "args on each other": HEAD + "".join(f"arg a{at}: int = {f'a{at - 1}' if at else 1}\n" for at in range(2000)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_expansion_is_bounded(name: str, tmp_path: Path) -> None:
    """Each is valid or gets a report; none takes long or overflows the stack."""
    checked = leaven.check(Source("recipe.leaven", BOMBS[name], tmp_path))
    assert (checked.recipe is None) == any(report.is_error for report in checked.diagnostics)
    if checked.recipe is not None:
        assert leaven.show(checked.recipe)


# -- paths that are not readable files


def test_a_missing_recipe_suggests_the_existing_ones(tmp_path: Path) -> None:
    (tmp_path / "dogs.leaven").write_text(VALID)
    (report,) = reports(tmp_path / "dgs.leaven")
    assert report.id == "missing-file"
    assert report.fix is not None
    assert "dogs.leaven" in report.fix.message


@pytest.mark.parametrize("name", ["no/such/folder/x.leaven", "x" * 5000, "\0", "\udc80", "a\nb", "~", ""])
def test_a_path_that_does_not_exist(name: str, tmp_path: Path) -> None:
    assert [report.id for report in reports(tmp_path / name)] == ["missing-file"]


def test_a_folder_is_not_a_recipe(tmp_path: Path) -> None:
    (report,) = reports(tmp_path)
    assert report.id == "missing-file"
    assert "folder" in report.headline


def test_a_link_to_itself_is_not_a_recipe(tmp_path: Path) -> None:
    (tmp_path / "loop.leaven").symlink_to("loop.leaven")
    assert [report.id for report in reports(tmp_path / "loop.leaven")] == ["missing-file"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file(tmp_path: Path) -> None:
    file = tmp_path / "secret.leaven"
    file.write_text(VALID)
    file.chmod(0)
    assert [report.id for report in reports(file)] == ["missing-file"]


def test_an_existing_file_gets_no_spelling_suggestion(tmp_path: Path) -> None:
    (tmp_path / "loop.leaven").symlink_to("loop.leaven")
    (report,) = reports(tmp_path / "loop.leaven")
    assert "symbolic links" in report.headline
    assert report.fix is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("recipe", ["pipe.leaven", 'extends "pipe.leaven"\n'])
def test_a_named_pipe_does_not_block(recipe: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.leaven")
    (tmp_path / "recipe.leaven").write_text(recipe)
    (report,) = reports(tmp_path / ("pipe.leaven" if recipe == "pipe.leaven" else "recipe.leaven"))
    assert report.id == "missing-file"
    assert "it is a pipe, not a file" in report.headline


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device here")
def test_a_device_is_not_a_recipe() -> None:
    (report,) = reports(Path("/dev/zero"))
    assert "it is a device, not a file" in report.headline


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no names of open files here")
@pytest.mark.parametrize("options", [[], ["--lr", "1e-4"]])
def test_a_recipe_may_come_from_an_open_pipe(options: list[str], tmp_path: Path) -> None:
    """As in `leaven check <(command)`."""
    reader, writer = os.pipe()
    text = "arg lr: float = 1e-3\noptimizer adamw(lr=lr)\n" + VALID
    threading.Timer(0.5, lambda: (os.write(writer, text.encode()), os.close(writer))).start()
    done = subprocess.run(
        [sys.executable, "-m", "leaven", "check", f"/dev/fd/{reader}", *options],
        pass_fds=[reader],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    os.close(reader)
    assert done.returncode == 0, done.stdout
    assert "no errors" in done.stdout


USES = {
    "import": 'import "{}" as mine\nmodel mine.Net()\ndata digits()\n',
    "weights": 'model resnet18(weights="{}")\ndata digits()\n',
    "teacher": 'distill resnet18(weights="{}")\n' + VALID,
    "table": 'model resnet18()\ndata csv("{}", image="a", label="b")\n',
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(("name", "told"), [("pipe", "it is a pipe"), ("loop", "symbolic links")])
def test_a_file_that_a_recipe_uses_must_be_readable(use: str, name: str, told: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    found = reports_of(USES[use].format(name), tmp_path)
    (report,) = [report for report in found if report.is_error]
    assert report.id == "missing-file"
    assert told in report.headline
    assert report.fix is None


def test_a_folder_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (report,) = reports_of(USES["import"].format("package"), tmp_path)
    assert "it is a folder" in report.headline
    assert report.fix is None


def test_an_imported_file_has_a_limit_too(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("numbers = [1, 2, 3]\n" * 60_000)
    (report,) = reports_of(USES["import"].format("mine.py"), tmp_path)
    assert "larger than 1,000,000 bytes" in report.headline


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("use", ["import", "weights", "table"])
def test_a_file_without_read_permission_is_not_reported_as_missing(use: str, tmp_path: Path) -> None:
    (tmp_path / "secret").touch(mode=0)
    (report,) = [report for report in reports_of(USES[use].format("secret"), tmp_path) if report.is_error]
    assert "Permission denied" in report.headline


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("closed", ["photos", "photos/train"])
def test_a_folder_without_read_permission_is_not_reported_as_empty(closed: str, tmp_path: Path) -> None:
    for part in ("train", "val"):
        (tmp_path / "photos" / part / "ants").mkdir(parents=True)
    (tmp_path / closed).chmod(0)
    try:
        (report, *_) = reports_of('model resnet18()\ndata folder("photos")\n', tmp_path)
    finally:
        (tmp_path / closed).chmod(0o755)
    assert "Permission denied" in report.headline


# -- recipes that extend others


def test_a_chain_of_extends_that_is_too_long(tmp_path: Path) -> None:
    for at in range(60):
        (tmp_path / f"r{at}.leaven").write_text(f'extends "r{at + 1}.leaven"\n')
    (tmp_path / "r60.leaven").write_text(VALID)
    found = reports(tmp_path / "r0.leaven")
    assert found[0].id == "too-deep"
    assert "extend" in found[0].headline
    assert reports(tmp_path / "r20.leaven") == []


def test_a_recipe_that_extends_itself(tmp_path: Path) -> None:
    assert "circular-extends" in ids('extends "recipe.leaven"\n' + VALID, tmp_path)


def test_recipes_that_extend_each_other(tmp_path: Path) -> None:
    (tmp_path / "other.leaven").write_text('extends "./recipe.leaven"\n')
    assert "circular-extends" in ids('extends "other.leaven"\n' + VALID, tmp_path)


@pytest.mark.parametrize("target", [".", "", "/", "..", "missing.leaven", "x" * 5000, "binary", "recipe.leaven/x"])
def test_a_target_that_cannot_be_extended(target: str, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\0\1\2")
    found = ids(f'extends "{target}"\n' + VALID, tmp_path)
    assert found[0] in ("missing-file", "not-utf8")


def test_an_error_in_a_base_recipe_is_reported_there(tmp_path: Path) -> None:
    (tmp_path / "base.leaven").write_text("train epochs=(1\n")
    (tmp_path / "recipe.leaven").write_text('extends "base.leaven"\nmodel resnet18()\ndata digits()\n')
    found = reports(tmp_path / "recipe.leaven")
    assert [report.id for report in found] == ["unclosed-bracket"]
    assert found[0].spots[0].span.source.name == "base.leaven"


# -- through the command itself


def test_the_command_reports_each_of_several_bad_files_and_exits_with_1(tmp_path: Path) -> None:
    contents = {
        "empty": b"",
        "binary": bytes(range(256)),
        "utf16": VALID.encode("utf-16"),
        "latin1": b"# caf\xe9",
        "deep": b"(" * 10_000,
        "long": b"x" * 10_000_000,
        "minuses": b"train clip=" + b"-" * 10_000 + b"1",
        "open": b'output "runs',
        "escapes": "model \x1b[2J\u202e".encode(),
    }
    for name, content in contents.items():
        (tmp_path / f"{name}.leaven").write_bytes(content)
    names = [f"{name}.leaven" for name in contents]
    code, printed = run(*names, "missing.leaven", tmp_path, "/dev/null", cwd=tmp_path)
    assert code == 1
    assert "\x1b[2J" not in printed
    for name in (*names, "missing.leaven", "/dev/null"):
        assert f"{name}: " in printed


def test_the_command_reads_standard_input() -> None:
    assert run("-", stdin=VALID.encode())[0] == 0
    assert run("-", stdin=b"\xff\xfe\0m")[0] == 1
    assert run("-", stdin=b"")[0] == 1


def test_the_command_accepts_crlf_and_a_bom(tmp_path: Path) -> None:
    (tmp_path / "windows.leaven").write_bytes(b"\xef\xbb\xbf" + VALID.replace("\n", "\r\n").encode())
    code, printed = run("windows.leaven", cwd=tmp_path)
    assert code == 0, printed


def test_the_command_prints_to_an_ascii_terminal(tmp_path: Path) -> None:
    (tmp_path / "x.leaven").write_text("mödel “resnet18”\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "leaven", "check", "x.leaven"],
        capture_output=True,
        cwd=tmp_path,
        env=environment,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert b"error[" in done.stdout
    assert b"Traceback" not in done.stderr
