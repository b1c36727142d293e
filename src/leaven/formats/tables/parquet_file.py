"""Parquet, with the library pyarrow. Images are paths, or bytes inside of the table."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from leaven.files.regular import open_regular
from leaven.formats.tables import Embedded, NotUtf8, TableFile

BATCH = 1024  # rows


class Table(TableFile):
    """A Parquet file. A struct of `bytes` and `path`, as Hugging Face's datasets have it, is an image."""

    ENDINGS: ClassVar[tuple[str, ...]] = (".parquet", ".pq")
    SOURCE: ClassVar[str] = "parquet"

    def columns(self) -> Sequence[str]:
        with _opened(self.file) as opened:
            return list(opened.schema_arrow.names)

    def size(self, columns: Sequence[str]) -> int:
        with _opened(self.file) as opened:
            metadata = opened.metadata
            groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
            chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
            return sum(c.total_uncompressed_size for c in chunks if c.path_in_schema.split(".")[0] in columns)

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        number = 0
        with _opened(self.file) as opened:
            for batch in opened.iter_batches(BATCH, columns=list(columns)):
                cells = [self._cells(batch.column(column), number) for column in columns]
                for row in zip(*cells, strict=True):
                    number += 1
                    yield f"row {number}", tuple(map(_cell, row))

    def _cells(self, column: Any, before: int) -> list[Any]:
        """The values of a column; `before` is the number of rows before it."""
        try:
            found: list[Any] = column.to_pylist()
        except UnicodeDecodeError:
            return [self._broken(cell, before + at) for at, cell in enumerate(column, 1)]
        return found

    def _broken(self, cell: Any, number: int) -> Any:
        """A value that may not be UTF-8."""
        try:
            return cell.as_py()
        except UnicodeDecodeError:
            if self.errors == "strict":
                raise NotUtf8(f"row {number}") from None
            return cell.as_buffer().to_pybytes().decode(errors=self.errors)


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    """A file opened by pyarrow, whose errors become ValueErrors."""
    with open_regular(file) as stream:
        try:
            from pyarrow import parquet  # a large library that few recipes need
        except ImportError:
            raise ValueError("it needs the library pyarrow: pip install pyarrow") from None
        try:
            opened = parquet.ParquetFile(stream)
        except Exception as problem:
            raise ValueError(_reason(problem)) from None
        try:
            yield opened
        except Exception as problem:
            if type(problem).__module__.startswith("pyarrow"):
                raise ValueError(_reason(problem)) from None
            raise


def _reason(problem: Exception) -> str:
    return str(problem).splitlines()[0] if str(problem) else type(problem).__name__


def _cell(value: Any) -> Any:
    match value:
        case bytes():
            return Embedded(value)
        case {"bytes": bytes(content), **rest}:
            return Embedded(content, str(rest.get("path") or ""))
        case {"bytes": None, "path": str(path)}:
            return path
    return value
