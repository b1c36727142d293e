"""What ends a program with a message."""


class Failure(SystemExit):
    """Ends the program with a message, and with what to do about it."""

    def __init__(self, headline: str, help: str = "", about: str = "") -> None:
        super().__init__(f"error: {headline}" + (f"\nhelp: {help}" if help else ""))
