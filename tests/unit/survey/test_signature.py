"""What a signature says of the values a recipe may write."""

import enum
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from torch import Tensor, nn

from leaven.survey import signature
from leaven.survey.docstring import described_arguments, first_sentence


class Mode(enum.Enum):
    NEAREST = "nearest"
    BICUBIC = "bicubic"


def entry(annotation: Any, default: Any = ...) -> dict[str, Any]:
    def taker(x: Any = default) -> None: ...

    if default is ...:

        def taker(x: Any) -> None: ...

    taker.__annotations__["x"] = annotation
    return signature.read(taker).parameters[0]


@pytest.mark.parametrize(
    ("annotation", "type_"),
    [
        (int, "int"),
        (float, "float"),
        (int | float, "float"),
        (bool, "bool"),
        (str, "text"),
        (str | Path, "path"),
        (float | None, "float|none"),
        (tuple[int, int], "list"),
        (int | Sequence[int], "int|list"),
        (Tensor, "list"),
        (float | Tensor, "float"),
        (int | list[float] | Tensor | None, "int|list|none"),
        (Literal["mean", "sum"], "choice"),
        (Literal["mean", "sum"] | None, "choice|none"),
        (Mode, "choice"),
        (Mode | int, "choice"),  # the number is an older way to name a member
        (Callable[[int], int], "any"),
        (type[nn.Module], "any"),
        (dict[str, int], "any"),
        (float | dict[str, float], "float"),
        (Any, "any"),
    ],
)
def test_annotations_give_the_kinds_of_values(annotation: Any, type_: str) -> None:
    assert entry(annotation)["type"] == type_


def test_a_default_widens_an_annotation() -> None:
    assert entry(int, (3, 3))["type"] == "int|list"
    assert entry(float, None)["type"] == "float|none"
    assert entry(float, 0)["type"] == "float"


def test_an_enum_is_written_by_its_values() -> None:
    found = entry(Mode, Mode.BICUBIC)
    assert (found["choices"], found["default"]) == (["nearest", "bicubic"], "bicubic")


def test_without_an_annotation_only_a_specific_default_counts() -> None:
    def taker(a, b=1, c=None, d=0.5, e="x", f=True, g=(1, 2)) -> None: ...  # type: ignore[no-untyped-def]

    types = {found["name"]: found["type"] for found in signature.read(taker).parameters}
    assert types == {"a": "any", "b": "any", "c": "any", "d": "float", "e": "text", "f": "bool", "g": "list"}


def test_a_default_that_is_not_plain_is_described_in_words() -> None:
    found = entry(type[nn.Module], nn.ReLU)
    assert found["summary"] == "Default: ReLU."
    assert "default" not in found
    assert "required" not in found


def test_what_a_constructor_passes_to_its_parent_counts() -> None:
    class Parent:
        def __init__(self, size: int, *, ratio: float = 0.5) -> None: ...

    class Child(Parent):
        def __init__(self, extra: bool = False, **kwargs: Any) -> None:
            super().__init__(**kwargs)

    found = signature.read(Child)
    assert [parameter["name"] for parameter in found.parameters] == ["extra", "size", "ratio"]
    assert not found.open_ended


def test_arguments_that_are_dropped_unread_are_not_taken() -> None:
    class Careless:
        def __init__(self, size: int = 1, **kwargs: Any) -> None:
            self.size = size

    class Careful:
        def __init__(self, size: int = 1, **kwargs: Any) -> None:
            self.rest = kwargs

    assert not signature.read(Careless).open_ended
    assert signature.read(Careful).open_ended


DOCUMENTED = """Crops the :class:`~torch.Tensor` at `random <https://example.org>`_. And more.

    Args:
        size (int or sequence): Expected size. If it is an int,
            a square is made.
        scale, ratio (tuple of float, optional): bounds.
        p: chance, e.g. 0.5. Default 1.

    Returns:
        nothing
    """


def test_a_docstring_gives_its_first_sentence_and_arguments() -> None:
    assert first_sentence(DOCUMENTED) == "Crops the Tensor at random."
    told = described_arguments(DOCUMENTED)
    assert told["size"] == ("int or sequence", "Expected size.")
    assert told["ratio"] == ("tuple of float, optional", "bounds.")
    assert told["p"] == ("", "chance, e.g. 0.5.")
    assert first_sentence(None) == ""
