"""What the documentation says is so: recipes can be read, commands print what is shown, links lead somewhere.

The examples in docs/errors, with the reports they get, are tried out elsewhere; here, that every id has its page and
that what a page proposes is right.
"""

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from tests.lang.sections import Section, read_sections, try_out

from leaven.cli.main import leaven
from leaven.language.parser import parse
from leaven.language.report import render_full
from leaven.language.source import Source

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCS = sorted(ROOT.glob("docs/**/*.md"))
ERRORS = sorted(page for page in ROOT.glob("docs/errors/*.md") if page.stem != "README")
CARDS = sorted(ROOT.glob("src/leaven/**/*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *DOCS]
REPORTING = {"error", "report", "_report", "note", "warn", "Finding"}

FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"(?:(?<!`)`|^\$ )leaven ([a-z]+)(?: ([a-z]+))?", re.MULTILINE)
ANYTHING = "…"


@dataclass(frozen=True)
class Block:
    """A fenced block: the words behind its fence, and its text."""

    words: tuple[str, ...]
    text: str


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(tuple(match["info"].split()), match["text"]) for match in FENCE.finditer(text)]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


# -- recipes


@pytest.mark.parametrize("page", [page for page in [*PAGES, *CARDS] if page not in ERRORS], ids=name)
def test_every_recipe_in_the_docs_can_be_read(page: Path) -> None:
    for block in blocks(page):
        if block.words[:1] == ("leaven",) and "broken" not in block.words:
            mistakes = parse(Source(name(page), block.text)).diagnostics
            assert not mistakes, "\n\n".join(map(render_full, mistakes))


# -- what the README shows


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A folder with the examples and with what the README asks its reader to save."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for block in blocks(README):
        if len(block.words) == 2 and block.words[0] == "leaven":
            (tmp_path / block.words[1]).write_text(block.text, encoding="utf-8")
    return tmp_path


def shown_commands() -> Iterator[tuple[str, str]]:
    """The commands in the README's console blocks, each with what it prints."""
    for block in blocks(README):
        if block.words == ("console",):
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                yield command, output


@pytest.mark.parametrize(("command", "output"), list(shown_commands()))
def test_a_command_in_the_readme_prints_what_is_shown(command: str, output: str, scratch: Path) -> None:
    program, *words = shlex.split(command)
    assert program == "leaven"
    done = run([sys.executable, "-m", "leaven", *words], scratch)
    shown = [line.rstrip() for line in output.splitlines()]
    pattern = "".join(r"(?:.*\n)*?" if line == ANYTHING else re.escape(line) + r"\n" for line in shown)
    plain = "".join(line.rstrip() + "\n" for line in done.stdout.rstrip().splitlines())
    assert re.fullmatch(pattern, plain), f"it prints\n{plain}{done.stderr}"


def test_the_readme_shows_commands() -> None:
    assert len(list(shown_commands())) >= 3


def test_the_python_in_the_readme_runs(scratch: Path) -> None:
    programs = [block.text for block in blocks(README) if block.words == ("python",)]
    assert programs
    for program in programs:
        done = run([sys.executable, "-c", program], scratch)
        assert done.returncode == 0, done.stderr
        assert "model " in done.stdout


def test_the_python_in_the_readme_is_right_for_a_recipe_with_mistakes_too(scratch: Path) -> None:
    for block in blocks(README):
        if block.words == ("python",):
            done = run([sys.executable, "-c", block.text.replace("examples/quickstart", "digits")], scratch)
            assert done.returncode == 0, done.stderr
            assert done.stdout.startswith("unknown-layer resnet18 has no layer named `layre4`\n")


def run(command: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False)


# -- what is mentioned is there


@pytest.mark.parametrize("page", [README, ROOT / "docs/README.md", ROOT / "docs/language.md", *ERRORS], ids=name)
def test_every_command_that_is_mentioned_exists(page: Path) -> None:
    for command, below in COMMAND.findall(page.read_text(encoding="utf-8")):
        assert command in leaven.commands, f"leaven {command}"
        group = leaven.commands[command]
        if isinstance(group, click.Group):
            assert below in ("", *group.commands), f"leaven {command} {below}"


def test_every_make_target_in_the_readme_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    mentioned = set(re.findall(r"(?:`|^)make ([a-z]+)", README.read_text(), re.MULTILINE))
    assert mentioned >= {"demo", "test", "check"}
    assert mentioned <= targets


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    prose = INLINE_CODE.sub("", FENCE.sub("", page.read_text(encoding="utf-8")))
    for link in LINK.findall(prose):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def anchors(page: Path) -> set[str]:
    """The names that a page's headings can be linked by."""
    headings = re.findall(r"^#+ +(.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


# -- reports and their pages


def reported_ids() -> set[str]:
    """The ids in the sources: what stands first in a call that makes a report."""
    found: set[str] = set()
    for file in ROOT.glob("src/leaven/**/*.py"):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and call.args and called(call) in REPORTING:
                texts = (part.value for part in ast.walk(call.args[0]) if isinstance(part, ast.Constant))
                found |= {text for text in texts if isinstance(text, str) and re.fullmatch(r"[a-z]+(-[a-z]+)*", text)}
    return found


def called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=word) | ast.Attribute(attr=word):
            return word
    return ""


def test_every_report_has_a_page() -> None:
    assert {page.stem for page in ERRORS} == reported_ids()


def test_the_index_of_reports_lists_every_page_once() -> None:
    listed = LINK.findall((ROOT / "docs/errors/README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == [page.name for page in ERRORS]


def test_the_list_of_decisions_is_complete() -> None:
    pages = [page for page in DOCS if page.parent.name == "decisions" and page.stem != "README"]
    listed = LINK.findall((ROOT / "docs/decisions/README.md").read_text(encoding="utf-8"))
    assert listed == [page.name for page in pages]


@pytest.mark.parametrize("page", ERRORS, ids=name)
def test_a_page_of_a_report_has_its_parts(page: Path) -> None:
    assert [section.title for section in read_sections(page)] == [page.stem, "Example", "How to mend it"]
    example = read_sections(page)[1]
    shown = example.block("report") or example.block("console")
    assert shown, "what does the report look like?"
    assert f"[{page.stem}]: " in shown.text


@pytest.mark.parametrize("page", ERRORS, ids=name)
def test_what_a_page_proposes_is_right(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, example, mended = read_sections(page)
    if not any(block.word == "leaven" for block in mended.blocks):
        pytest.skip("the page mends it in words")
    if not any(block.word == "leaven" and not block.name for block in mended.blocks):
        files = tuple(block for block in example.blocks if block.word != "report")
    else:
        files = tuple(block for block in example.blocks if block.name or block.word == "files")
    monkeypatch.chdir(tmp_path)
    answer = try_out(Section(page, mended.title, (*files, *mended.blocks)), tmp_path)
    assert answer.crash is None
    assert answer.exit_code == 0, answer.report
    assert "warning[" not in answer.report
