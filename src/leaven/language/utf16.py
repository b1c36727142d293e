"""Places in code units of UTF-16, in which browsers and editors count: an emoji has two."""


def utf16_length(text: str) -> int:
    """How many code units a text has."""
    return len(text) + sum(character > "\uffff" for character in text)


def offset_of_utf16(text: str, units: int) -> int:
    """The offset in characters of a place; the end of the text where it is shorter."""
    if text.isascii():
        return min(units, len(text))
    count = 0
    for offset, character in enumerate(text):
        if count >= units:
            return offset
        count += 1 + (character > "\uffff")
    return len(text)
