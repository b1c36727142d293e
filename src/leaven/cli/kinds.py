"""The kinds of cards on the command line: each in the words that reports and people use for it."""

from typing import Any

import click
from click.shell_completion import CompletionItem

from leaven.catalog.card import KINDS
from leaven.catalog.lookup import nearest
from leaven.messages.describe import KIND_NOUNS

_OTHER_WORDS = {"scheduler": "schedule", "learning rate schedule": "schedule", "lr schedule": "schedule"}


class Kind(click.ParamType[str]):
    """A kind of card: `data`, and also `dataset` or `datasets`."""

    name = "kind"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        words = _words()
        word = str(value).lower().replace("-", " ").replace("_", " ").strip()
        if word not in words:
            near = nearest(word, words, limit=1)
            hint = f"did you mean `{words[near[0]]}`?" if near else f"kinds are {', '.join(KINDS)}"
            self.fail(f"`{value}` is not a kind; {hint}", param, ctx)
        return words[word]

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(kind) for kind in KINDS if kind.startswith(incomplete)]


def _words() -> dict[str, str]:
    """Every word for a kind, in singular and plural."""
    nouns = {noun.partition(" ")[2]: kind for kind, noun in KIND_NOUNS.items()}
    words = {kind: kind for kind in KINDS} | nouns | _OTHER_WORDS
    return {_plural(word): kind for word, kind in words.items()} | words


def _plural(word: str) -> str:
    return f"{word}es" if word.endswith("s") else f"{word}s"
