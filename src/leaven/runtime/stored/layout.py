"""What the outputs of a computation are: tensors with a row per sample, and numbers that follow from their shape."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from leaven.runtime.stored.arrays import Form
from leaven.runtime.stored.identity import NotStored

_BATCH_SIZE = "batch size"


@dataclass(frozen=True)
class Layout:
    """For each output its form or, where it is no tensor, its value: a number, the batch size, or several of these."""

    outputs: tuple[Any, ...]

    @classmethod
    def of(cls, outputs: Sequence[Any], fewer: Sequence[Any], sizes: tuple[int, int]) -> "Layout":
        """That of the outputs for a batch, given those for a smaller one, too."""
        return cls(tuple(_output(one, other, sizes) for one, other in zip(outputs, fewer, strict=True)))

    @property
    def forms(self) -> list[Form]:
        return [output for output in self.outputs if isinstance(output, Form)]

    @property
    def row_bytes(self) -> int:
        return sum(form.row_bytes for form in self.forms)

    def complete(self, tensors: Sequence[Tensor], size: int) -> tuple[Any, ...]:
        """All outputs for a batch of that size, of which the tensors are given."""
        given = iter(tensors)
        return tuple(next(given) if isinstance(each, Form) else _value(each, size) for each in self.outputs)


def _output(one: Any, other: Any, sizes: tuple[int, int]) -> Any:
    if isinstance(one, Tensor):
        if one.shape[:1] != sizes[:1]:
            raise NotStored("an output has no row per image")
        return Form.of(one)
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        inner = tuple(_output(*both, sizes) for both in zip(one, other, strict=True))
        if not any(isinstance(each, Form) for each in inner):
            return inner
    if one == other and isinstance(one, bool | int | float | str | None):
        return one
    if (one, other) == sizes:
        return _BATCH_SIZE
    raise NotStored(f"an output is a {type(one).__name__}, which can't be stored")


def _value(kept: Any, size: int) -> Any:
    if isinstance(kept, tuple):
        return tuple(_value(each, size) for each in kept)
    return size if kept == _BATCH_SIZE else kept
