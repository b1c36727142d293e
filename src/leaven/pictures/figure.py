"""A figure in Leaven's style, and how it is saved. What is drawn on it is left to the other files of this room.

    with drawing(8, 4) as figure:
        axes = figure.subplots()
        ...
        save(figure, Path("curves.png"))

Whatever draws does so inside `drawing`, because matplotlib reads the style when lines and texts are made. Figures are
made without pyplot, so no window is opened, and the backend that the user's own code has chosen is left alone.
"""

import io
import logging
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from leaven.files.atomic_files import write_atomically

BLUE, ORANGE, GREEN, RED, PURPLE, BROWN = COLORS = ("#2f6db3", "#e07b39", "#3b9a5f", "#c8453c", "#7e5aa8", "#8a6d4b")
GREY = "#8b939c"  # of what is there for comparison
INK = "#24292f"  # of texts
FORMATS = ("png", "pdf", "svg", "jpg")  # by the ending of a file's name
DPI = 120
_INSTALL = "pip install matplotlib"

_FONT = "DejaVu Sans"  # comes with matplotlib, so figures look the same everywhere
_OTHER_SCRIPTS = (  # fonts with the letters that it lacks, of which systems have one or the other
    *(f"Noto Sans CJK {region}" for region in ("JP", "SC", "TC", "KR")),
    *("PingFang SC", "Hiragino Sans", "Apple SD Gothic Neo", "Arial Unicode MS"),
    *("Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "Nirmala UI", "Leelawadee UI"),
    *("WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Droid Sans Fallback"),
    *(f"Noto Sans {script}" for script in ("Devanagari", "Bengali", "Tamil", "Telugu", "Thai")),
)
_STYLE: dict[str, Any] = {
    "font.size": 9,
    "text.parse_math": False,  # the name of a class may have a `$`
    "text.color": INK,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelcolor": INK,
    "axes.edgecolor": "#c9d0d7",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "axes.axisbelow": True,
    "grid.color": "#e6e9ed",
    "grid.linewidth": 0.8,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "image.interpolation": "nearest",  # a pixel is shown as it is
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
}


class CantDraw(Exception):
    """Why a figure can't be drawn, in one sentence."""


def is_installed() -> bool:
    """Whether figures can be drawn here; does not import matplotlib."""
    return find_spec("matplotlib") is not None


def check_installed(what: str) -> None:
    """Refuse what draws figures where that can't be done."""
    if not is_installed():
        raise CantDraw(f"{what} needs matplotlib: {_INSTALL}")


@contextmanager
def drawing(width: float, height: float) -> Iterator[Any]:
    """An empty figure of a size in inches, and the style that is drawn in as long as the context lasts."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # else it logs about fonts and its cache
    try:
        matplotlib: Any = import_module("matplotlib")
        fonts: Any = import_module("matplotlib.font_manager")
        figures: Any = import_module("matplotlib.figure")
    except ImportError:
        raise CantDraw(f"this needs matplotlib: {_INSTALL}") from None
    with warnings.catch_warnings(), matplotlib.rc_context():
        matplotlib.rcParams.update(matplotlib.rcParamsDefault)
        installed = set(fonts.fontManager.get_font_names())
        families = [_FONT, *(font for font in _OTHER_SCRIPTS if font in installed)]
        matplotlib.rcParams.update(
            {**_STYLE, "font.family": families, "axes.prop_cycle": matplotlib.cycler(color=COLORS)}
        )
        warnings.filterwarnings("ignore", message="Glyph")  # a letter that no font has is drawn as a box
        yield figures.Figure(figsize=(width, height), dpi=DPI)


@contextmanager
def panels(count: int, across: int, width: float, height: float) -> Iterator[tuple[Any, list[Any]]]:
    """A figure with so many panels of a size in inches, and their axes; at most so many are beside each other."""
    across = min(count, across)
    down = math.ceil(count / across)
    with drawing(width * across, height * down) as figure:
        grid = list(figure.subplots(down, across, squeeze=False).ravel())
        for axes in grid[count:]:
            axes.set_axis_off()
        yield figure, grid[:count]


def save(figure: Any, file: Path) -> None:
    """Write a figure to a file, atomically, in the format that the file's name says. Raises `OSError` if it can't."""
    format = format_of(file)
    write_atomically(file, lambda beside: beside.write_bytes(_rendered(figure, format)))


def format_of(file: Path) -> str:
    """The format that a file's name says."""
    format = file.suffix.lower().lstrip(".")
    if format not in FORMATS:
        raise CantDraw(f"{file} must end in {', '.join(f'.{each}' for each in FORMATS[:-1])} or .{FORMATS[-1]}")
    return format


def png(figure: Any) -> bytes:
    """A figure as the content of a PNG file, for a page that contains it."""
    return _rendered(figure, "png")


def _rendered(figure: Any, format: str) -> bytes:
    """The content of a file. It has neither date nor version, so that the same figure is the same file."""
    content = io.BytesIO()
    unstamped = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(format)
    figure.savefig(content, format=format, dpi=DPI, metadata=unstamped)
    return content.getvalue()
