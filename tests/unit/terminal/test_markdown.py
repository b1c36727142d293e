"""Pages are rendered for a terminal: nothing of them is lost, and no line is wider than it."""

import re

import pytest

from leaven.catalog import own
from leaven.language.highlight import highlight
from leaven.messages.explanations import explanation, report_ids
from leaven.terminal.colors import painter
from leaven.terminal.markdown import render
from leaven.terminal.width import columns

PAGE = """\
# A page

A paragraph with `code` in it, a [link](other.md), and **bold words** that are
wrapped anew.
- an item that is so long that it has to go on in the next line
- another

```leaven base.leaven
model resnet18()

train epochs=3
```

| word | meaning |
|---|---|
| `lr` | how far a step goes |
| epochs | how often |
"""

RENDERED = """\
A page

A paragraph with `code` in it, a link,
and bold words that are wrapped
anew.
- an item that is so long that it has
  to go on in the next line
- another

    base.leaven:
    model resnet18()

    train epochs=3

word    meaning
`lr`    how far a step goes
epochs  how often
"""


def test_a_page_is_laid_out() -> None:
    assert render(PAGE, 40, painter(False), highlight) == RENDERED


def test_colours_change_nothing_else() -> None:
    colored = render(PAGE, 40, painter(True), highlight)
    assert "\x1b[1;34mmodel\x1b[0m" in colored
    assert "\x1b[1mA page\x1b[0m" in colored
    assert re.sub(r"\x1b\[[\d;]*m", "", colored) == RENDERED


PAGES = [
    *((name, explanation(name)) for name in report_ids()),
    *((name, card.article) for name in own.names("technique") if (card := own.read("technique", name))),
]


@pytest.mark.parametrize(("name", "text"), PAGES, ids=[name for name, _ in PAGES])
def test_every_page_keeps_its_words(name: str, text: str) -> None:
    shown = render(text, 80, painter(False), highlight)
    prose = re.sub(r"^```.*$|\]\([^)]*\)|^\|[-|: ]*\|$", " ", text, flags=re.MULTILINE)
    words = re.findall(r"\w+", prose)
    assert re.findall(r"\w+", re.sub(r"^    \S+\.\w+:$", "", shown, flags=re.MULTILINE)) == words
    code = {
        line.strip()
        for block in re.findall(r"^```.*?^```", text, re.MULTILINE | re.DOTALL)
        for line in block.split("\n")
    }
    long = [line for line in shown.splitlines() if columns(line) >= 80 and line.strip() not in code]
    assert not [line for line in long if not line.startswith("|") and "  " not in line.strip()], long
