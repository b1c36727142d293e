"""Every mistake in tests/lang/*.md gets exactly the report that is written there.

`LEAVEN_BLESS=1` writes the reports anew (`make bless`); the difference is to be read as code.
"""

import re
from pathlib import Path

import pytest
from tests.lang.sections import IS_BLESSING, Section, bless, due_exit_code, read_sections, try_out

PAGES = sorted((Path(__file__).parent / "lang").glob("*.md"))
SECTIONS = [section for page in PAGES for section in read_sections(page) if section.block("leaven")]


@pytest.mark.parametrize("section", SECTIONS, ids=str)
def test_a_mistake_gets_its_report(section: Section, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = try_out(section, tmp_path)
    assert answer.crash is None
    if IS_BLESSING:
        bless(section, answer.report)
    else:
        assert answer.report == section.report
    assert answer.report, "this recipe has no mistake"
    assert "Traceback" not in answer.report
    assert answer.exit_code == due_exit_code(answer.report)


@pytest.mark.skipif(IS_BLESSING, reason="the reports are being written")
def test_every_section_is_a_different_mistake() -> None:
    titles = [section.title for section in SECTIONS]
    reports = [section.report for section in SECTIONS]
    assert len(set(titles)) == len(titles)
    assert len(set(reports)) == len(reports)


@pytest.mark.parametrize("section", SECTIONS, ids=str)
def test_headlines_are_one_fact_in_lower_case(section: Section) -> None:
    for severity, headline in re.findall(r"^(error|warning)\[[\w-]+\]: (.*)$", section.report, flags=re.M):
        assert not headline.endswith("."), severity
        assert not re.match(r"[A-Z][a-z]", headline), headline
