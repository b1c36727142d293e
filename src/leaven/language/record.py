"""The base class of values that are compared by their content."""

from collections.abc import Container
from dataclasses import dataclass, field, fields
from typing import ClassVar, dataclass_transform


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Record:
    """A dataclass with equality, hash and repr over the fields that are compared.

    It is frozen for the type checker only: generating the methods of a frozen dataclass takes about 1 ms, and a check
    needs more than 60 such classes.
    """

    _compared: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, without: Container[str] = ()) -> None:
        """Fields that are named in `without` are not compared, nor those with `compare=False`."""
        dataclass(eq=False, repr=False)(cls)
        names = (one.name for one in fields(cls) if one.compare)  # type: ignore[arg-type]
        cls._compared = tuple(name for name in names if name not in without)

    def _content(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self._compared)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Record) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash((type(self), self._content()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._content()}"
