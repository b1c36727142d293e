"""Pages as their readers follow them: the blocks of a page are carried out in order, in one folder.

    ```leaven NAME, ```python NAME   a file that the reader saves; so is ```checks NAME
    ```console                       commands, each after `$ `, and what they print
    ```sh                            commands that have to succeed; `leaven run` and `python` take two batches there
    ```python                        a program that has to succeed

In what is printed, a line `…` stands for any lines, and `…` in a line for anything. How wide a gap is, the time that
names a run and the seconds that an epoch takes may differ. A score may differ by 0.2, or by a fifth if it is above 1:
machines don't calculate alike. A number in code (`lr=0.001`) may not. Commands run in children of a server that has
loaded torch already.
"""

import os
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from tests import at_work
from tests.lang.sections import IS_BLESSING

from leaven.runs import processes

FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
ANYTHING = "…"
_NUMBER = r"(?<![=\w.(\[])\d+\.\d+(?:e-?\d+)?"
_LOOSE = re.compile(rf"\d{{4}}-\d\d-\d\d_\d\d-\d\d-\d\d(?:_quick)?(?:_\d+)?| *{_NUMBER}(?: s$)?| {{2,}}|…")
_TOLERANCE = 0.2
_NOT_HERE = ("make", "pip", "source", "torchrun", "git")  # they change the machine, or need more than one


@dataclass(frozen=True)
class Block:
    """A fenced block: the words behind its fence, its text, and the line where it begins."""

    words: tuple[str, ...]
    text: str
    line: int = 0


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(tuple(found["info"].split()), found["text"], text.count("\n", 0, found.start()) + 1)
        for found in FENCE.finditer(text)
    ]


def follow(page: Path, folder: Path) -> None:
    """Do what a page says; an assertion fails where something else happens than it says."""
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        match block.words:
            case ("leaven" | "python" | "csv" | "checks", name):
                file = folder / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(block.text, encoding="utf-8")
            case ("console",):
                for command, shown in commands(block.text):
                    code, said = carry_out(command, folder)
                    is_wrong = any(line.startswith("error") for line in shown)
                    assert (code != 0) == is_wrong, f"{where}: `{command}` ended with {code}\n{said}"
                    if IS_BLESSING and not matches(shown, said):
                        bless(page, shown, said)
                        continue
                    assert matches(shown, said), f"{where}: `{command}` prints\n{said}"
            case ("sh",):
                for line in block.text.splitlines():
                    command = line.partition("  #")[0].strip()
                    if command and command.split()[0] not in _NOT_HERE:
                        before = set(folder.rglob("*_quick"))
                        code, said = carry_out(_quick(command), folder)
                        assert code == 0, f"{where}: `{command}` ended with {code}\n{said}"
                        if "--quick" not in command:  # for the reader it is a run, which later commands may mean
                            for run in set(folder.rglob("*_quick")) - before:
                                run.rename(run.with_name(run.name.removesuffix("_quick")))
            case ("python",):
                program = folder / "block.py"
                program.write_text(block.text, encoding="utf-8")
                code, said = carry_out("python block.py", folder)
                assert code == 0, f"{where}: {said}"


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines that it prints."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        while command.endswith("\\"):
            more, _, output = output.partition("\n")
            command = command.removesuffix("\\") + more.strip()
        yield command, [line.rstrip() for line in output.rstrip().splitlines()]


def matches(shown: list[str], said: str) -> bool:
    """Whether a command said what is shown; of one that shows nothing, nothing is expected."""
    if not shown:
        return True
    pattern = "".join(r"(?:.*\n)*?" if line == ANYTHING else _loosely(line) + r"\n" for line in shown)
    found = re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in said.rstrip().splitlines()))
    numbers = [float(word) for line in shown for word in _LOOSE.findall(line) if _is_score(word)]
    return found is not None and all(map(_is_near, numbers, map(float, found.groups())))


def bless(page: Path, shown: list[str], said: str) -> None:
    """Write what a command said into a page, as far as it was shown: each line becomes the one that is most like it."""
    lines, left = said.rstrip().splitlines(), []
    for line in shown if any(ANYTHING in line for line in shown) else ():
        if line != ANYTHING:
            likeness = [SequenceMatcher(None, line, other).ratio() + matches([line], other) for other in lines]
            at = max(range(len(lines)), key=likeness.__getitem__, default=-1)
            line, lines = (line if matches([line], lines[at]) else lines[at]), lines[at + 1 :]
        left.append(line)
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("\n".join(shown), "\n".join(left or lines), 1), encoding="utf-8")


def _is_near(shown: float, said: float) -> bool:
    return abs(shown - said) <= _TOLERANCE * max(1.0, shown)


def _loosely(line: str) -> str:
    pattern, at = "", 0
    for found in _LOOSE.finditer(line):
        pattern += re.escape(line[at : found.start()])
        pattern += _loose(found[0])
        at = found.end()
    return pattern + re.escape(line[at:])


def _loose(word: str) -> str:
    if word == ANYTHING:
        return ".*"
    if not word.strip():
        return " {2,}"
    if _is_score(word):
        return r" *(\d+\.\d+(?:e-?\d+)?)"
    if "_" in word:
        return r"[\d_-]+_quick(?:_\d+)?" if "_quick" in word else r"[\d_-]+"
    return r" *\d+\.\d+ s"


def _is_score(word: str) -> bool:
    return word.strip()[:1].isdigit() and "_" not in word and not word.endswith(" s")


def _quick(command: str) -> str:
    """The command as a smoke test, which can be resumed but not trained further."""
    if command.startswith("leaven resume"):
        return re.sub(r" --epochs \+\d+", "", command)
    is_training = command.startswith(("leaven run", "python train")) and "--quick" not in command
    return f"{command} --quick" if is_training else command


# -- commands


def carry_out(command: str, folder: Path) -> tuple[int, str]:
    """The exit code of a command that is given in a folder, and all that it prints."""
    words = shlex.split(command)
    if words[0] not in ("leaven", "python") or words[:2] == ["python", "-c"]:
        done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as log:
        process = at_work.server().Process(target=_work, args=(words, folder, log.name))
        process.start()
        process.join(at_work.LIMIT)
        assert process.exitcode is not None, f"`{command}` hangs:\n{log.read()}"
        return process.exitcode, log.read()


def _work(words: list[str], folder: Path, log: str) -> None:
    """In the child: be the command. What `leaven run` turns into is run here too, instead of loading torch anew."""
    os.environ["NO_COLOR"] = "1"
    at_work.become_a_process(log)
    os.chdir(folder)
    processes.run_command = at_work.run_in_a_fork
    os.execv = lambda _python, command: _be(command[2:])  # type: ignore[assignment]
    if words[0] == "python":
        _be(words[1:])
        return
    from leaven.cli.main import main

    sys.argv = words
    main()


def _be(words: list[str]) -> None:
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")
    sys.exit(0)
