"""How a bundle remembers the layout of the table that its model was trained on."""

from typing import Any

from leaven.formats.tables import PLAIN, Layout

_KINDS: dict[str, Any] = {"separator": str, "header": bool, "quote": str | None, "encoding": str}


def layout_to_json(layout: Layout) -> dict[str, Any]:
    """Whatever is not as usual, as an entry of the bundle; none where all is."""
    unusual = {name: value for name, value in layout._asdict().items() if value != getattr(PLAIN, name)}
    return {"layout": unusual} if unusual else {}


def layout_of(data: Any) -> Layout:
    """The layout of tables that a bundle has; what it should not have is left out."""
    settings = data if isinstance(data, dict) else {}
    known = {
        name: settings[name] for name, kind in _KINDS.items() if name in settings and isinstance(settings[name], kind)
    }
    columns = settings.get("columns")
    return Layout(**known, columns=tuple(map(str, columns)) if isinstance(columns, list | tuple) else ())
