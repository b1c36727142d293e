"""What the documentation says is so: recipes can be read, what is mentioned is there, links lead somewhere.

Pages that show commands are followed in test_pages.py, and the examples in docs/errors, with the reports they get, are
tried out elsewhere; here, that every id has its page and that what a page proposes is right.
"""

import ast
import re
from pathlib import Path
from runpy import run_path

import click
import pytest
from tests.lang.sections import IS_BLESSING, Section, read_sections, try_out
from tests.pages import FENCE, blocks

from leaven.cli.command_group import imported
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
REPORTING = {"repeated", "warning", "error", "report", "_report", "note", "warn", "Finding", "Fault", "BadTarget"}

INLINE_CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"(?:(?<!`)`|^\$ )leaven ([a-z]+)(?: ([a-z]+))?", re.MULTILINE)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


# -- recipes


@pytest.mark.parametrize("page", [page for page in [*PAGES, *CARDS] if page not in ERRORS], ids=name)
def test_every_recipe_in_the_docs_can_be_read(page: Path) -> None:
    for block in blocks(page):
        if block.words[:1] == ("leaven",) and "broken" not in block.words:
            mistakes = parse(Source(name(page), block.text)).diagnostics
            assert not mistakes, "\n\n".join(map(render_full, mistakes))


# -- what is mentioned is there


@pytest.mark.parametrize("page", [README, *DOCS], ids=name)
def test_every_command_that_is_mentioned_exists(page: Path) -> None:
    for command, below in COMMAND.findall(page.read_text(encoding="utf-8")):
        assert command in leaven.commands, f"leaven {command}"
        group = imported(leaven.commands[command])
        if isinstance(group, click.Group):
            assert below in ("", *group.commands), f"leaven {command} {below}"


def test_every_make_target_in_the_readme_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    mentioned = set(re.findall(r"(?:`|^)make ([a-z-]+)", README.read_text(), re.MULTILINE))
    assert mentioned >= {"demo", "test", "check"}
    assert mentioned <= targets


def test_the_terminal_in_the_readme_shows_what_was_printed() -> None:
    draw = run_path(str(ROOT / "docs/terminal_svg.py"))["draw"]
    shown = (ROOT / "docs/quickstart.txt").read_text(encoding="utf-8")
    assert (ROOT / "docs/quickstart.svg").read_text(encoding="utf-8") == draw(shown)
    assert "$ leaven run examples/quickstart.leaven\n" in shown


def test_the_catalog_page_lists_every_card() -> None:
    """What the libraries offer is compared where the same versions are installed."""
    script, page = run_path(str(ROOT / "docs/catalog_page.py")), ROOT / "docs/catalog.md"
    if IS_BLESSING:
        page.write_text(script["page"](script["library_section"]()), encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    is_same = script["versions_line"]() in text
    libraries = script["library_section"]() if is_same else text[text.index(script["LIBRARIES"]) :]
    assert text == script["page"](libraries), "run `python docs/catalog_page.py`"


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
    """The names that a page can be linked by: its headings, and ids that are written out."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    ids = re.findall(r'^<a id="([^"]+)"></a>$', text, re.MULTILINE)
    return {*ids, *(re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings)}


# -- reports and their pages


def reported_ids() -> set[str]:
    """The ids in the sources: what stands first in a call that makes a report."""
    found: set[str] = set()
    for file in ROOT.glob("src/leaven/**/*.py"):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and call.args and called(call) in REPORTING:
                texts = (part.value for part in ast.walk(call.args[0]) if isinstance(part, ast.Constant))
                found |= {text for text in texts if isinstance(text, str) and re.fullmatch(r"[a-z]+(-[a-z\d]+)*", text)}
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
    assert [section.title for section in read_sections(page)] == [page.stem, "Example", "How to fix it"]
    example = read_sections(page)[1]
    shown = example.block("report") or example.block("console")
    assert shown, "what does the report look like?"
    assert f"[{page.stem}]: " in shown.text


def proposes_recipe(page: Path) -> bool:
    """Whether a page shows the fix as a recipe; some say it in words, such as which package to install."""
    return any(block.word == "leaven" for block in read_sections(page)[2].blocks)


@pytest.mark.parametrize("page", [page for page in ERRORS if proposes_recipe(page)], ids=name)
def test_what_a_page_proposes_is_right(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, example, fixed = read_sections(page)
    if not any(block.word == "leaven" and not block.name for block in fixed.blocks):
        files = tuple(block for block in example.blocks if block.word != "report")
    else:
        is_moved = any(block.word == "files" for block in fixed.blocks)  # files of the fix replace the others
        files = tuple(block for block in example.blocks if block.name or (block.word == "files" and not is_moved))
    monkeypatch.chdir(tmp_path)
    answer = try_out(Section(page, fixed.title, (*files, *fixed.blocks)), tmp_path)
    assert answer.crash is None
    assert answer.exit_code == 0, answer.report
    assert "warning[" not in answer.report
