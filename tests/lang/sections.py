"""Recipes with their reports, written down as Markdown: how such a page is read, tried out and rewritten.

A section is a heading and the fenced blocks below it. The word after the fence says what a block is:

    ```leaven                the recipe; it is saved as recipe.leaven
    ```python net.py         another file that the recipe needs, with its name
    ```csv faces.csv         a table; the images that it lists are there, unless they are called `missing…`
    ```files                 files that need only be there, one path per line; a folder ends with `/`. Images have two
                             pixels: as a mask, one of class 0 and one of class 1; with `=40x30`, so many
    ```options               words of the command line after `leaven check recipe.leaven`
    ```report                what `leaven check` prints, without its last line, which sums up

Everything else is prose for the reader. A section without a `report` block is prose too.
"""

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner
from PIL import Image

from leaven.cli.main import leaven

IS_BLESSING = os.environ.get("LEAVEN_BLESS") == "1"
RECIPE = "recipe.leaven"
TINY = "P2\n2 1\n255\n0 1\n"  # PGM, the format of images that is text; Pillow does not mind the name of the file
_HEADING = re.compile(r"#{1,3} +(.+)")
_IMAGE = re.compile(r"(?<![\w./-])(?!missing)[\w./-]+\.(?:jpg|png)\b")  # in a table
_FENCE = re.compile(r"```(\w*) *(.*)")


@dataclass(frozen=True)
class Block:
    """A fenced block; the lines of its text are `start` to `end` of the page, counted from 0."""

    word: str
    name: str
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Section:
    """A heading with its blocks."""

    page: Path
    title: str
    blocks: tuple[Block, ...]

    def block(self, word: str) -> Block | None:
        return next((block for block in self.blocks if block.word == word), None)

    @property
    def report(self) -> str:
        block = self.block("report")
        return block.text.rstrip("\n") if block else ""

    def __str__(self) -> str:
        return f"{self.page.stem}: {self.title}"


@dataclass(frozen=True)
class Answer:
    """What the command did: all that it printed but the last line, and how it ended."""

    report: str
    exit_code: int
    crash: BaseException | None


def read_sections(page: Path) -> list[Section]:
    """The sections of a page, in order; what stands above the first heading is none."""
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    sections: list[Section] = []
    title, blocks, at = "", [], 0
    while at < len(lines):
        heading, fence = _HEADING.match(lines[at]), _FENCE.match(lines[at])
        if heading:
            if title:
                sections.append(Section(page, title, tuple(blocks)))
            title, blocks = heading[1].strip(), []
        elif fence:
            end = next(n for n in range(at + 1, len(lines)) if lines[n].rstrip() == "```")
            blocks.append(Block(fence[1], fence[2].strip(), at + 1, end, "".join(lines[at + 1 : end])))
            at = end
        at += 1
    return [*sections, Section(page, title, tuple(blocks))] if title else sections


def lay_out(section: Section, folder: Path) -> list[str]:
    """Write the section's files into a folder; the options of its command."""
    options: list[str] = []
    for block in section.blocks:
        if block.word == "files":
            for path in block.text.split():
                if path.endswith("/"):
                    (folder / path).mkdir(parents=True)
                else:
                    name, _, size = path.partition("=")
                    _write(folder / name, TINY if _IMAGE.fullmatch(name) else "")
                    if size:
                        width, height = map(int, size.split("x"))
                        Image.new("RGB", (width, height)).save(folder / name)
        elif block.word == "options":
            options = shlex.split(block.text)
        elif block.name:
            _write(folder / block.name, block.text)
            for image in _IMAGE.findall(block.text) if block.word in ("csv", "tsv", "json", "jsonl") else ():
                _write((folder / block.name).parent / image, "")
        elif block.word == "leaven" and not (folder / RECIPE).exists():
            _write(folder / RECIPE, block.text)
    return options


def try_out(section: Section, folder: Path) -> Answer:
    """Let `leaven check` look at the section's recipe in a folder, the working directory."""
    options = lay_out(section, folder)
    result = CliRunner().invoke(leaven, ["check", RECIPE, *options])
    crash = None if isinstance(result.exception, SystemExit) else result.exception
    lines = result.stdout.rstrip("\n").split("\n")
    return Answer("\n".join(lines[:-1]).strip("\n"), result.exit_code, crash)


def due_exit_code(report: str) -> int:
    """0 without errors; 2 where every error lies in an option; else 1."""
    errors = [part for part in re.split(r"^(?=\w+\[)", report, flags=re.M) if part.startswith("error[")]
    if not errors:
        return 0
    return 2 if all(re.search(r"^ *--> --", part, flags=re.M) for part in errors) else 1


def bless(section: Section, report: str) -> None:
    """Write a report into its section, in the place of the one that is there."""
    now = next(one for one in read_sections(section.page) if one.title == section.title)
    lines = section.page.read_text(encoding="utf-8").splitlines(keepends=True)
    block = now.block("report")
    if block is not None:
        lines[block.start : block.end] = [report + "\n"]
    else:
        end = now.blocks[-1].end + 1
        lines[end:end] = ["\n", "```report\n", report + "\n", "```\n"]
    section.page.write_text("".join(lines), encoding="utf-8")


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8", newline="")
