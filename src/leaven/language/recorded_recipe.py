"""The recipe that a run has recorded, as far as it can be compiled without running code that comes with the run."""

from pathlib import Path

from leaven.formats.run_folder import LOCK, RESOLVED, read_json
from leaven.language.parser import parse
from leaven.language.source import Source
from leaven.language.syntax import Import


def recorded_recipe(run: Path) -> Source | None:
    """The resolved recipe of a run; None where it has none, or one that imports Python files."""
    try:
        text = (run / RESOLVED).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    folder = read_json(run / LOCK).get("recipe_folder")
    source = Source(RESOLVED, text, Path(folder) if isinstance(folder, str) else run.resolve().parents[2])
    is_code = any(isinstance(statement, Import) for statement in parse(source).tree.statements)
    return None if is_code else source
