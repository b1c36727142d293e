"""The error of a server that can't be started."""


class CantServe(Exception):
    """A server can't be started; `help` says what to do."""

    def __init__(self, headline: str, help: str = "") -> None:
        super().__init__(headline)
        self.headline = headline
        self.help = help
