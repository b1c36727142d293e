"""An evaluation as one HTML page that needs nothing else: pictures are inside of it, and it has no scripts.

Names of classes and files come from strangers, so every text is escaped.
"""

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from PIL import Image

from leaven.tasks.protocol import Case, Evaluation, Plot, Table
from leaven.terminal.score_text import score_text
from leaven.terminal.visible import in_html

WORST = 20  # predictions with their images
_LARGEST = 240  # pixels of the longer side of an image
_FEW = 64  # pixels up to which an image is kept as it is, and shown enlarged

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #24292f; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
.quiet { color: #6b737c; margin: .2rem 0 1rem; }
.scores { display: flex; flex-wrap: wrap; gap: .8rem; }
.scores div { border: 1px solid #d9dee3; border-radius: 8px; padding: .5rem 1rem; overflow-wrap: anywhere; }
.scores b { display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem .2rem 0; text-align: right; border-bottom: 1px solid #e6e9ed; }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere; }
.caveat { border-left: 4px solid #c8453c; padding-left: .8rem; }
.plot { max-width: 100%; }
.cases { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: 1rem; }
.case { border: 1px solid #d9dee3; border-top: 4px solid #c8453c; border-radius: 8px; padding: .6rem; font-size: .85rem;
    overflow-wrap: anywhere; white-space: pre-line; }
.right { border-top-color: #3b9a5f; }
.case img { width: 100%; height: 9rem; object-fit: contain; background: #f3f5f7; border-radius: 4px; }
.case img.small { image-rendering: pixelated; }
.case dl { display: grid; grid-template-columns: auto 1fr; gap: 0 .6rem; margin: .4rem 0 0; white-space: normal; }
.case dt { color: #6b737c; } .case dd { margin: 0; white-space: pre-line; }
.file { color: #6b737c; font-size: .75rem; }
"""


def page(title: str, about: str, found: Evaluation, image: Callable[[int], Any], saved: Mapping[str, float]) -> str:
    """The page of an evaluation; `image` opens the one at a place, `saved` are the scores that the model came with."""
    boxes = ((in_html(name), score_text(value)) for name, value in found.scores.items())
    scores = "".join(f"<div>{name}<b>{value}</b></div>" for name, value in boxes)
    saved_scores = ", ".join(f"{name} {score_text(value)}" for name, value in saved.items())
    skipped = "".join(f"<li>{in_html(file)}</li>" for file in found.skipped)
    parts = [
        f"<h1>{in_html(title)}</h1>",
        f'<p class="quiet">{in_html(about)}</p>',
        f'<div class="scores">{scores}</div>',
        f'<p class="caveat">{in_html(found.caveat)}</p>' if found.caveat else "",
        f'<p class="quiet">When the model was saved: {in_html(saved_scores)}</p>' if saved_scores else "",
        *(_plot(plot) for plot in found.plots()),
        _cases(found.cases(WORST), image),
        *(_table(table) for table in found.tables() if table.rows),
        f"<h2>Not measured, since they can't be read</h2><ul>{skipped}</ul>" if skipped else "",
    ]
    head = f'<meta charset="utf-8"><title>{in_html(title)}</title><style>{_STYLE}</style>'
    viewport = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    body = "\n".join(filter(None, parts))
    return f'<!doctype html>\n<html lang="en"><head>{head}{viewport}</head>\n<body>\n{body}\n</body></html>\n'


def _table(table: Table) -> str:
    heads = "".join(f"<th>{in_html(head)}</th>" for head in table.heads)
    rows = "\n".join(f"<tr>{''.join(f'<td>{in_html(cell)}</td>' for cell in row)}</tr>" for row in table.rows)
    return f"<h2>{in_html(table.title)}</h2>\n<table><tr>{heads}</tr>\n{rows}</table>"


def _plot(plot: Plot) -> str:
    title = in_html(plot.title)
    return f'<h2>{title}</h2>\n<img class="plot" alt="{title}" src="{_data_uri("png", plot.png())}">'


def _cases(cases: Sequence[Case], image: Callable[[int], Any]) -> str:
    if not cases:
        return ""
    shown = "\n".join(_case(case, image) for case in cases)
    title = f"The {len(cases)} worst predictions" if len(cases) > 1 else "The worst prediction"
    wrong = sum(not case.is_right for case in cases)
    if wrong < len(cases):
        title += f", of which {wrong or 'none'} {'are' if wrong > 1 else 'is'} wrong"
    return f'<h2>{title}</h2>\n<div class="cases">{shown}</div>'


def _case(case: Case, image: Callable[[int], Any]) -> str:
    rows = (("predicted", case.predicted), ("actual", case.actual), ("", case.note))
    details = "".join(f"<dt>{head}</dt><dd>{in_html(text)}</dd>" for head, text in rows if text)
    kind = "case right" if case.is_right else "case"
    file = f'<span class="file">{in_html(case.file)}</span>'
    return f'<div class="{kind}">{_image(case, image)}<dl>{details}</dl>{file}</div>'


def _image(case: Case, image: Callable[[int], Any]) -> str:
    """The input of the model: an image, or a text."""
    try:
        opened = case.marked(image(case.at))
        if isinstance(opened, str | tuple):
            return f"<p>{in_html(opened if isinstance(opened, str) else ' / '.join(opened))}</p>"
        assert isinstance(opened, Image.Image)
    except Exception:  # what the model was given need not be an image
        return '<p class="quiet">no image</p>'
    is_small = max(opened.size) <= _FEW
    content = io.BytesIO()
    if is_small:
        opened.save(content, "PNG")
    else:
        opened.thumbnail((_LARGEST, _LARGEST))
        opened.save(content, "JPEG", quality=85)
    format, style = ("png", ' class="small"') if is_small else ("jpeg", "")
    return f'<img{style} alt="" src="{_data_uri(format, content.getvalue())}">'


def _data_uri(format: str, content: bytes) -> str:
    return f"data:image/{format};base64,{base64.b64encode(content).decode()}"
