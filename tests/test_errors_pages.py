"""The example on every page of docs/errors gets exactly the report that is shown there.

`LEAVEN_BLESS=1` writes the reports anew (`make bless`); the difference is to be read as code.
"""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.lang.sections import IS_BLESSING, Section, bless, due_exit_code, read_sections, try_out
from tests.unit.rules.test_teachers import write_bundle

from leaven.catalog import library, versions
from leaven.cli.main import leaven

PAGES = sorted(page for page in (Path(__file__).parents[1] / "docs" / "errors").glob("*.md") if page.stem != "README")
EXAMPLES = [section for page in PAGES for section in read_sections(page) if section.block("report")]
SESSIONS = [section for page in PAGES for section in read_sections(page) if section.title == "Example"]

# Files that can't be shown on a page.
UNSHOWN = {
    "model.pth": b"\x80\x02\x00\x01",
    "labels.leaven": b"# labels\n" + b"#" * 1_199_991,
    "first.leaven": b"model resnet18()\ndata digits()\n",
    "tries.leaven": b"model resnet18()\ndata digits()\noptimizer lbfgs()\ntrain accumulate=2\n",
}


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_an_example_gets_its_report(
    example: Section, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if example.page.stem == "missing-weights":
        request.getfixturevalue("without_starters")
    if example.page.stem == "untrusted-code":
        write_bundle(tmp_path / "teacher.bundle", [str(digit) for digit in range(10)], by="own", name="Net")
    monkeypatch.chdir(tmp_path)
    answer = try_out(example, tmp_path)
    assert answer.crash is None
    if IS_BLESSING:
        bless(example, answer.report)
    else:
        assert answer.report == example.report
    assert f"[{example.page.stem}]: " in answer.report
    assert answer.exit_code == due_exit_code(answer.report)


@pytest.mark.parametrize("example", [one for one in SESSIONS if not one.block("report")], ids=str)
def test_an_example_without_a_recipe_prints_what_is_shown(
    example: Section, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = example.block("console")
    assert session, "an example has a recipe and its report, or a command and its output"
    command, _, output = session.text.partition("\n")
    program, *words = command.removeprefix("$ ").split()
    assert program == "leaven"
    monkeypatch.chdir(tmp_path)
    (tmp_path / words[-1]).write_bytes(UNSHOWN[words[-1]])
    if example.page.stem == "missing-library":
        _break_torch(tmp_path, monkeypatch)
    result = CliRunner().invoke(leaven, words)
    assert isinstance(result.exception, SystemExit)
    assert result.output == output


def _break_torch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch which can't be imported, as the survey finds it."""
    (folder / "torch.py").write_text("raise ImportError('libcudart.so.13: cannot open shared object file')")
    monkeypatch.setenv("LEAVEN_CACHE", str(folder / "cache"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
    broken = library.Library(versions.key())
    broken.prepare(lambda line: None)
    monkeypatch.setattr(library, "installed", lambda: broken)
