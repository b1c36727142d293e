"""`leaven explain`: the page of a report, or the article of a card."""

from pathlib import Path

import leaven
from leaven.catalog import lookup, own, selectors
from leaven.catalog.card import KINDS
from leaven.catalog.habits import SYNONYMS
from leaven.cli.catalog import print_card, print_page
from leaven.cli.printing import echo
from leaven.messages.scores import SPLITS
from leaven.messages.suggestions import EXAMPLES, owner_of

_PACKAGE = Path(leaven.__file__).parent
# A wheel has the pages inside the package; a checkout has them in docs/.
_FOLDERS = (_PACKAGE / "errors", _PACKAGE.parent.parent / "docs" / "errors")
_GUIDE = "custom-components"  # which reports mention
_GUIDES = (_PACKAGE / "custom_components.md", _PACKAGE.parent.parent / "docs" / "custom_components.md")


def names() -> list[str]:
    """Every report id that has a page."""
    return sorted({page.stem for folder in _FOLDERS if folder.is_dir() for page in folder.glob("*.md")} - {"README"})


def page(id: str) -> str | None:
    """The page of a report id, or the guide to what users write themselves."""
    if id == _GUIDE:
        return next((file.read_text(encoding="utf-8") for file in _GUIDES if file.is_file()), None)
    for folder in _FOLDERS:
        file = folder / f"{id}.md"
        if id in names() and file.is_file():
            return file.read_text(encoding="utf-8")
    return None


def print_explanation(id: str | None) -> int:
    """Print the page or article; returns the exit code."""
    if id is None:
        echo("Report ids:\n")
        for name in names():
            echo(f"  {name}")
        echo(f"\nFor example: leaven explain unknown-layer. Your own models and more: leaven explain {_GUIDE}")
        return 0
    wanted = id.removesuffix("]").rpartition("[")[2]  # as a report shows it: warning[unused-name]
    text = page(wanted)
    if text is not None:
        print_page(text)
        return 0
    for kind in KINDS:
        card = own.read(kind, wanted) or (own.read(kind, f"data.{wanted}") if kind == "statement" else None)
        if card is not None:
            print_page(card.article)
            return 0
    if any(lookup.find(kind, wanted) for kind in KINDS):
        return print_card(wanted, None)
    known = _word(wanted) or _other_word(wanted)
    if known:
        echo(known)
        return 0
    near = lookup.nearest(wanted, [_GUIDE, *names(), *own.names("technique"), *own.names("statement")])
    hint = " or ".join(f"`{name}`" for name in near)
    hint = f"Did you mean {hint}?" if near else f"`leaven catalog search {wanted}` searches all articles."
    echo(f"there is no report or catalog entry `{id}`. {hint}", err=True)
    return 2


def _word(word: str) -> str:
    """What a word of recipes means that has no article: a selector, a score or an argument; empty where it is none."""
    if word in selectors.WORDS:
        return f"`{word}` is a selector, which `freeze`, `unfreeze` and `reinit` take: see `leaven explain freeze`."
    split, _, metric = word.partition(".")
    if split in SPLITS and metric:
        name = metric.partition("_top")[0]
        about = f": see `leaven explain {name}`" if lookup.find("metric", name) else ""
        return f"`{word}` is a score, {metric} on the {split} split{about}."
    return _argument(word)


def _other_word(word: str) -> str:
    """What a word of other tools is here; empty where it is not known."""
    here = SYNONYMS.get(word.lower())
    if here is None:
        return ""
    is_card = any(lookup.find(kind, here) for kind in KINDS)
    return f"`{word}` is `{here}` here: see `leaven explain {here}`." if is_card else _word(here)


def _argument(word: str) -> str:
    """What an argument means that is often named alone, by the card that takes it; empty where none does."""
    owner = owner_of(word)
    cards = lookup.find(owner, EXAMPLES[owner]) if owner in EXAMPLES else lookup.find("statement", owner)
    parameter = cards[0].parameter(word) if cards else None
    if parameter is None:
        return f"`{word}` is an argument of `{owner}`: see `leaven explain {owner}`." if owner else ""
    about = f": {parameter.summary.rstrip('.')}" if parameter.summary else ""
    return f"`{word}` is an argument of `{cards[0].bare_name}`{about}. See `leaven explain {cards[0].bare_name}`."
