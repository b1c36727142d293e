"""A request that can't be met: one line that says why, and another that says what to do about it."""


class Problem(Exception):
    """Something can't be done; `help` says what to do."""

    def __init__(self, headline: str, help: str = "") -> None:
        super().__init__(headline)
        self.headline = headline
        self.help = help
