"""The outputs of a computation in the store: tensors with a row per sample of a split, in entries of some megabytes
each, and numbers that follow from their shape."""

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leaven.cache.entry_file import Entry
from leaven.runtime.stored.identity import NotStored

_ALIGNED = 64
_BATCH_SIZE = "batch size"
ENTRY_BYTES = 16 * 2**20  # about so large an entry becomes
RESIDENT = 64 * 2**20  # bytes of memory-mapped entries that may stay in memory


@dataclass(frozen=True)
class Form:
    """How the rows of a tensor are stored: their type, their shape in the store, and which dimension is where."""

    dtype: str
    shape: tuple[int, ...]
    order: tuple[int, ...]

    @classmethod
    def of(cls, tensor: Tensor) -> "Form":
        """That of a tensor with a row per sample. Channels that come last in memory come last in the store."""
        strides = tensor.stride()
        dims = sorted(range(1, tensor.ndim), key=lambda dim: (-strides[dim], dim))
        is_dense = tensor.permute(0, *dims).is_contiguous()
        order = tuple(dims if is_dense else range(1, tensor.ndim))
        shape = tuple(tensor.shape[dim] for dim in order)
        return cls(str(tensor.dtype).removeprefix("torch."), shape, order)

    @property
    def type(self) -> torch.dtype:
        found = getattr(torch, self.dtype)
        assert isinstance(found, torch.dtype)
        return found

    @property
    def row_bytes(self) -> int:
        return math.prod(self.shape) * self.type.itemsize

    def size_of(self, count: int) -> int:
        """How many bytes so many rows take."""
        return math.ceil(count * self.row_bytes / _ALIGNED) * _ALIGNED

    def bytes_of(self, batches: Iterable[Tensor]) -> list[memoryview]:
        """The rows of some batches as bytes."""
        rows = [batch.cpu().permute(0, *self.order).contiguous().reshape(-1).view(torch.uint8) for batch in batches]
        missing = -sum(map(len, rows)) % _ALIGNED
        return [row.numpy().data for row in (*rows, torch.zeros(missing, dtype=torch.uint8))]

    def as_computed(self, rows: Tensor) -> Tensor:
        """Rows from the store, with their dimensions in the order in which they were computed."""
        back = sorted(range(len(self.order)), key=self.order.__getitem__)
        return rows.permute(0, *(dim + 1 for dim in back))


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


class Rows:
    """The stored rows of a split, read from disk when they are asked for."""

    def __init__(self, forms: Sequence[Form], entries: Sequence[Entry], counts: Sequence[int]) -> None:
        self._forms = forms
        self._entries = entries
        self._starts = np.cumsum([0, *counts])
        self._tensors = [_tensors(entry, forms, count) for entry, count in zip(entries, counts, strict=True)]
        self._touched = 0

    def take(self, rows: np.ndarray) -> list[Tensor]:
        """Some rows of each tensor, as a batch."""
        taken = [torch.empty((len(rows), *form.shape), dtype=form.type) for form in self._forms]
        entry_of = np.searchsorted(self._starts, rows, side="right") - 1
        for number in np.unique(entry_of):
            chosen = np.flatnonzero(entry_of == number)
            place, inner = torch.from_numpy(chosen), torch.from_numpy(rows[chosen] - self._starts[number])
            for out, tensor in zip(taken, self._tensors[number], strict=True):
                out[place] = tensor[inner]
        self._touched += sum(out.nbytes for out in taken)
        if self._touched > RESIDENT:
            self._touched = 0
            for entry in self._entries:
                entry.forget_pages()
        return [form.as_computed(out) for form, out in zip(self._forms, taken, strict=True)]


def _tensors(entry: Entry, forms: Sequence[Form], count: int) -> list[Tensor]:
    found, start = [], 0
    for form in forms:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The given buffer is not writable")  # nobody writes to it
            values = torch.frombuffer(entry.data, dtype=form.type, count=count * math.prod(form.shape), offset=start)
        found.append(values.reshape(count, *form.shape))
        start += form.size_of(count)
    return found
