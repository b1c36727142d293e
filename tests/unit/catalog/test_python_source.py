"""Signatures read from source code: what a recipe may pass to a class that nobody has run."""

import ast

import pytest

from leaven.catalog.card import Parameter
from leaven.catalog.python_source import ClassSource, names_in, read_class


def read(source: str) -> ClassSource:
    names = names_in(ast.parse(source))
    return read_class(names.classes["Mine"], names)


def taken(annotation: str) -> Parameter:
    source = f"Mode = Literal['sum', 'mean']\nclass Mine:\n    def __init__(self, one: {annotation}): ...\n"
    [parameter] = read(source).parameters
    return parameter


@pytest.mark.parametrize(
    ("annotation", "type_"),
    [
        ("int", "int"),
        ("str", "text|path"),
        ("float | None", "float|none"),
        ("Optional[bool]", "bool|none"),
        ("Literal['a', 'b']", "choice"),
        ("Mode | None", "choice|none"),
        ("Sequence[int]", "list"),
        ("int | list[int] | None", "int|list|none"),
        ("nn.Module", "any"),
        ("'Data'", "any"),
        ("int | nn.Module", "any"),
        ("Literal[1, 'a']", "any"),
        ("dict[str, int]", "any"),
    ],
)
def test_annotations_become_types_of_parameters(annotation: str, type_: str) -> None:
    assert taken(annotation).type == type_


def test_choices_and_items_come_from_the_annotation() -> None:
    assert taken("Mode").choices == ("sum", "mean")
    assert taken("int | Sequence[int]").items == "int"
    assert taken("Sequence[Layer]").type == "any"


def test_defaults_and_keyword_only_parameters() -> None:
    source = "class Mine:\n    def __init__(self, a, b=2, *rest, c, d=len('x'), **more): ...\n"
    found = read(source)
    assert [(p.name, p.required, p.default, p.positional) for p in found.parameters] == [
        ("a", True, None, True),
        ("b", False, 2, True),
        ("c", True, None, False),
        ("d", False, None, False),
        ("rest", False, None, True),
    ]
    assert found.open_ended


def test_constructor_and_hooks_come_from_a_base_in_the_same_file() -> None:
    source = (
        "class Base:\n    def __init__(self, model, rate=0.1): ...\n    def at_end(self, model): ...\n"
        "class Mine(Base):\n    def on_batch(self, images, labels): ...\n    def helper(self): ...\n"
    )
    found = read(source)
    assert [parameter.name for parameter in found.parameters] == ["model", "rate"]
    assert found.technique.hooks == ("on_batch", "at_end")
    assert found.technique.wants == ("model",)


@pytest.mark.parametrize(
    ("source", "is_open"),
    [
        ("class Mine(nn.Module): ...", False),
        ("class Mine(Elsewhere): ...", True),
        ("class Mine: ...", False),
    ],
)
def test_a_base_from_elsewhere_may_take_anything(source: str, is_open: bool) -> None:
    assert read(source).open_ended is is_open
