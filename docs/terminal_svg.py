"""Render a terminal as SVG: `python docs/terminal_svg.py docs/quickstart.txt` writes docs/quickstart.svg.

The text is commands (`$ …`) and their output. Commands are white, scores green, paths grey.
"""

import re
import sys
from html import escape
from pathlib import Path

LINE, LETTER, SIZE, EDGE, BAR = 19, 8.1, 13, 18, 34
FONT = "'DejaVu Sans Mono', Menlo, Consolas, monospace"
COLOURS = {"typed": "#ffffff", "score": "#8fd694", "quiet": "#8b949e", "saved": "#f2cc60"}
WORDS = re.compile(
    r"(?P<typed>^\$ .*)"
    r"|(?P<quiet>^using .*|^run .*|^try it: .*)"
    r"|(?P<saved>^saved .*)"
    r"|(?P<score>(?<=accuracy )\d\.\d+|\d+\.\d+ %)"
)


def draw(text: str) -> str:
    """The SVG of a terminal that shows a text."""
    lines = text.rstrip("\n").split("\n")
    width = round(2 * EDGE + LETTER * max(map(len, lines)))
    height = BAR + 2 * EDGE + LINE * (len(lines) - 1)
    title = escape(next((line[2:] for line in lines if line.startswith("$ ")), "a terminal"))
    dots = "".join(
        f'<circle cx="{20 + 18 * at}" cy="17" r="5.5" fill="{colour}"/>'
        for at, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    rows = "\n".join(
        f'<text x="{EDGE}" y="{BAR + EDGE + LINE * at}" xml:space="preserve">{_coloured(line)}</text>'
        for at, line in enumerate(lines)
        if line
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="{FONT}" font-size="{SIZE}" fill="#c9d1d9">\n<title>{title}</title>\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="#161b22"/>\n{dots}\n{rows}\n</svg>\n'
    )


def _coloured(line: str) -> str:
    parts, at = [], 0
    for found in WORDS.finditer(line):
        parts.append(escape(line[at : found.start()]))
        parts.append(f'<tspan fill="{COLOURS[str(found.lastgroup)]}">{escape(found[0])}</tspan>')
        at = found.end()
    return "".join([*parts, escape(line[at:])])


if __name__ == "__main__":
    for name in sys.argv[1:]:
        text = Path(name)
        text.with_suffix(".svg").write_text(draw(text.read_text(encoding="utf-8")), encoding="utf-8")
