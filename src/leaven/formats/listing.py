"""Lists in a sentence: ``a`, `b` or `c``, and only the first of many."""

from collections.abc import Iterable, Sequence


def in_code(names: Iterable[object]) -> list[str]:
    """Each name as code: `` `a` ``."""
    return [f"`{name}`" for name in names]


def some(words: Sequence[str], most: int = 8) -> str:
    """`a, b, …`: the first of the words."""
    return ", ".join(words[:most]) + ", …" * (len(words) > most)


def some_names(names: Iterable[object], most: int = 8) -> str:
    """The first of the names, each as code."""
    return some(in_code(names), most)


def some_of_many(words: Sequence[str], most: int = 3) -> str:
    """`a, b and 7 more`."""
    return ", ".join(words[:most]) + (f" and {len(words) - most:,} more" if len(words) > most else "")


def either(words: Iterable[str]) -> str:
    """`a`, `a or b`, `a, b or c`, each word once."""
    return _joined(list(dict.fromkeys(words)), "or")


def both(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return _joined(words, "and")


def _joined(words: Sequence[str], last: str) -> str:
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
