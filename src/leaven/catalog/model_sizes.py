"""How many parameters timm's models have. timm tells only by building one, so the numbers are kept in a file.

`tests/unit/catalog/test_model_sizes.py` writes the file.
"""

import json
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("timm_parameters.json")


@cache
def of_timm() -> dict[str, int]:
    """The number of parameters of each model, by its name."""
    found: dict[str, int] = json.loads(FILE.read_text(encoding="utf-8"))
    return found
