"""The traits of cards say only what somebody reads."""

import ast
from pathlib import Path

import pytest

import leaven
from leaven.catalog.card import Card, Parameter, Reference, Requirement
from leaven.catalog.traits import BY_KIND, Condition, WeightsPackage

SOURCES = Path(leaven.__file__).parent
RECORDS = (Card, Parameter, Reference, Requirement, Condition, WeightsPackage, *BY_KIND.values())
FIELDS = [f"{record.__name__}.{name}" for record in RECORDS for name in record.__annotations__]


def _read_names() -> set[str]:
    """Every attribute that is read outside of what writes cards."""
    found: set[str] = set()
    writers = {SOURCES / "catalog" / "own.py", *(SOURCES / "survey").glob("*.py")}
    for file in {*SOURCES.rglob("*.py")} - writers:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.MatchClass):
                found.update(node.kwd_attrs)
    return found


@pytest.fixture(scope="module")
def read_names() -> set[str]:
    return _read_names()


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_is_read(field: str, read_names: set[str]) -> None:
    assert field.partition(".")[2] in read_names
