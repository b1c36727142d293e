"""What a text is: one string, or a pair that a model reads together; and which of them no model can use."""

Text = str | tuple[str, ...]


def parts_of(text: Text) -> tuple[str, ...]:
    """The strings of a text."""
    return (text,) if isinstance(text, str) else text


def text_fault(text: Text | None) -> str:
    """What is wrong with a text, in words that follow its place; empty for one that can be used."""
    if text is None:
        return ""
    parts = parts_of(text)
    if not all(part.strip() for part in parts):
        return "has no text" if len(parts) == 1 or not any(part.strip() for part in parts) else "lacks one of its texts"
    return "" if all(map(_is_unicode, parts)) else "is not UTF-8 text"


def _is_unicode(part: str) -> bool:
    """Whether a string has no halves of characters: bytes that are not UTF-8 are read as such."""
    return part.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in part)
