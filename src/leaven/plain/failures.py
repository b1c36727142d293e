"""What a program says: no name of a file or class in it commands the terminal."""


def visible(text: object) -> str:
    """A text of printable characters and newlines; others are written as escapes."""
    return "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in str(text))


class Failure(SystemExit):
    """Ends the program with a message, and with what to do about it."""

    def __init__(self, headline: str, help: str = "", about: str = "") -> None:
        super().__init__(visible(f"error: {headline}" + (f"\nhelp: {help}" if help else "")))
