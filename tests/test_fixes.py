"""Every fix that a report suggests is applied: the report is gone, and nothing new is wrong. Other help is advice.

The edits are those of `leaven check --json`, applied to the files and options as an editor does.
"""

import json
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.lang.sections import RECIPE, Section, lay_out, read_sections

from leaven.cli.main import leaven

PAGES = sorted((Path(__file__).parent / "lang").glob("*.md"))
SECTIONS = [section for page in PAGES for section in read_sections(page) if section.block("leaven")]

LEFT = "; then also fix: "

# A second mistake, which the first one hid, is reported next.
REVEALING = {
    "own_code: An imported file does not exist",
    "several: A recipe translated from YAML",
    "techniques: A technique is misspelt",
}

Report = dict[str, Any]


@pytest.mark.parametrize("section", SECTIONS, ids=str)
def test_a_fix_removes_its_report_and_adds_none(section: Section, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    words = lay_out(section, tmp_path)
    found = reports(words)
    for report in found:
        if not report["edits"]:
            assert not is_pasteable(report["help"] or ""), "what can be pasted is an edit"
            continue
        files = {edit["file"]: Path(edit["file"]).read_text(encoding="utf-8") for edit in in_files(report)}
        after = Counter(fact(one) for one in reports(apply(report, words)) if one["severity"] == "error")
        for file, text in files.items():
            Path(file).write_text(text, encoding="utf-8", newline="")
        others = Counter(fact(one) for one in found if one["severity"] == "error" and one is not report)
        _, _, remains = report["help"].partition(LEFT)
        new = [headline for (_, headline), count in (after - others).items() for _ in range(count)]
        if str(section) not in REVEALING:
            assert new == [remains] * bool(remains), report["help"]
        assert fact(report) not in after or fact(report) in others


def is_pasteable(help: str) -> bool:
    """Advice says `for example`, `such as` or `usage`, or leaves out what only the user knows."""
    return re.search(r"(^|[^,] )(write|did you mean) `[^`…]*`", help) is not None


def reports(words: list[str]) -> list[Report]:
    result = CliRunner().invoke(leaven, ["check", RECIPE, "--json", *words])
    answer = json.loads(result.stdout)
    return list(answer["diagnostics"])


def fact(report: Report) -> tuple[str, str]:
    return report["id"], report["headline"]


def in_files(report: Report) -> list[Report]:
    return [edit for edit in report["edits"] if not edit["file"].startswith("--")]


def apply(report: Report, words: list[str]) -> list[str]:
    """Apply the edits of a report to the files; returns the options with its edits of them."""
    for edit in sorted(report["edits"], key=lambda edit: -edit["start"]["offset"]):
        start, end = edit["start"]["offset"], edit["end"]["offset"]
        if edit["file"].startswith("--"):
            at = words.index(edit["file"])
            text = words[at + 1]
            changed = [edit["file"], text[:start] + edit["text"] + text[end:]]
            words = [*words[:at], *(shlex.split(edit["text"]) if edit["is_option"] else changed), *words[at + 2 :]]
        else:
            file = Path(edit["file"])
            text = file.read_text(encoding="utf-8")
            file.write_text(text[:start] + edit["text"] + text[end:], encoding="utf-8", newline="")
    return words
