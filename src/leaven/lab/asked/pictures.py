"""Pictures over a pipe: thumbnails, changed images, and what is known of a picture before it is decoded.

What can't be trusted about a file is found out in a process of its own: the header is read first, and a picture of
too many pixels, or of a format that is not one of images alone, is never decoded.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps

from leaven.files.regular import open_regular
from leaven.lab.asked import pipe
from leaven.terminal.problem import Problem

MOST_PIXELS = 50_000_000
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "MPO")
_QUALITY = 85


def look(file: str) -> dict[str, Any]:
    """The format and size of a picture, by its header."""
    with open_regular(file) as stream:
        return _checked(_opened(stream, file), file)


def thumbnail(file: str, size: int) -> pipe.Answer:
    """A picture as JPEG, or as PNG where it is transparent, with no side longer than `size`."""
    with open_regular(file) as stream:
        image = _opened(stream, file)
        _checked(image, file)
        image.draft("RGB", (size, size))  # a JPEG is decoded at a fraction of its size
        try:
            image.load()
        except Exception as problem:  # a damaged file makes Pillow raise nearly anything
            raise Problem(f"{Path(file).name} can't be read: {problem}") from None
        return shown(_upright(image), size)


def changed(file: str, edits: Sequence[Any], size: int) -> pipe.Answer:
    """A picture with edits."""
    from leaven.lab.asked.given import edited  # which imports torch

    look(file)
    for one in edits:
        if isinstance(one, dict) and one.get("edit") == "paste":
            look(str(one.get("file")))
    value = edited(Path(file), edits)
    found = value.value if value.edits else value.opened
    if not isinstance(found, Image.Image):
        raise Problem("a changed text has no picture")
    return shown(found, size)


def edit_kinds() -> list[dict[str, Any]]:
    """The kinds of edits, with their arguments."""
    from math import isinf

    from leaven.lab.edits.kinds import KINDS

    return [
        {
            "name": kind.name,
            "takes": kind.noun,
            "summary": kind.summary,
            "neutral": kind.neutral,
            "sweep": list(kind.sweep) if kind.sweep else None,
            "by_word": kind.by_word,
            "parameters": [
                {
                    "name": one.name,
                    "type": one.type,
                    "low": None if isinf(one.low) else one.low,
                    "high": None if isinf(one.high) else one.high,
                    "default": one.default,
                    "choices": list(one.choices),
                }
                for one in kind.parameters
            ],
        }
        for kind in KINDS.values()
    ]


def journal(file: str, offset: int, limit: int) -> dict[str, Any]:
    """A page of the questions in a journal, the newest first."""
    from leaven.lab.journal import Journal

    entries = Journal(file).entries()[::-1]
    wanted = ("call", "models", "input", "edits", "words", "at", "check")
    page = [{name: one.to_json()[name] for name in wanted} for one in entries[offset : offset + limit]]
    return {"items": page, "total": len(entries)}


def shown(image: Image.Image, size: int) -> pipe.Answer:
    """An image at display size, as the content of a file."""
    image.thumbnail((size, size))
    is_clear = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    image = image.convert("RGBA" if is_clear else "RGB")
    content = BytesIO()
    image.save(content, "PNG" if is_clear else "JPEG", quality=_QUALITY)
    kind = "image/png" if is_clear else "image/jpeg"
    return pipe.Answer({"width": image.width, "height": image.height, "type": kind}, content.getvalue())


def _opened(stream: Any, file: str) -> Image.Image:
    try:
        return Image.open(stream)
    except Exception as problem:
        raise Problem(f"{Path(file).name} is not an image that can be read", str(problem)[:200]) from None


def _checked(image: Image.Image, file: str) -> dict[str, Any]:
    width, height = image.size
    if image.format not in FORMATS:
        raise Problem(f"{Path(file).name} has the format {image.format}", f"these are read: {', '.join(FORMATS)}")
    if width * height > MOST_PIXELS:
        pixels = f"{width:,} × {height:,} pixels"
        raise Problem(f"{Path(file).name} has {pixels}, more than {MOST_PIXELS:,}", "give a smaller image")
    return {"format": image.format, "width": width, "height": height}


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # damaged metadata does not damage the image
        return image


kinds = lru_cache(1)(edit_kinds)

CALLS: dict[str, Callable[..., Any]] = {
    "look": look,
    "thumbnail": thumbnail,
    "changed": changed,
    "edits": kinds,
    "journal": journal,
}

if __name__ == "__main__":
    Image.MAX_IMAGE_PIXELS = None  # each is measured here before it is decoded
    pipe.serve(CALLS)
