"""Explanations: the page of a report, the article of a card, what a word of recipes or of other tools means."""

from pathlib import Path

from leaven.catalog import lookup, own, selectors
from leaven.catalog.card import KINDS, Card
from leaven.catalog.habits import word_for
from leaven.catalog.search import meanings
from leaven.messages.suggestions import EXAMPLES, owner_of
from leaven.messages.values import SPLITS

_PACKAGE = Path(__file__).parents[1]
# A wheel has the pages inside the package; a checkout has them in docs/.
_FOLDERS = (_PACKAGE / "errors", _PACKAGE.parent.parent / "docs" / "errors")
GUIDE = "custom-components"  # which reports mention
_GUIDES = (_PACKAGE / "custom_components.md", _PACKAGE.parent.parent / "docs" / "custom_components.md")


def report_ids() -> list[str]:
    """Every report id that has a page."""
    return sorted({page.stem for folder in _FOLDERS if folder.is_dir() for page in folder.glob("*.md")} - {"README"})


def _page(id: str) -> str | None:
    """The page of a report id, or the guide to custom components."""
    files = _GUIDES if id == GUIDE else [folder / f"{id}.md" for folder in _FOLDERS if id in report_ids()]
    return next((file.read_text(encoding="utf-8") for file in files if file.is_file()), None)


def explanation(word: str) -> str | list[Card] | None:
    """A page in Markdown, or the cards of a word that has no article; None where it is not known."""
    word = _bare(word)
    if (page := _page(word)) is not None:
        return page
    for kind in KINDS:
        card = own.read(kind, word) or (own.read(kind, f"data.{word}") if kind == "statement" else None)
        if card is not None:
            return card.article
    return meanings(word, KINDS) or _word(word) or _other_word(word) or None


def nearest(word: str) -> list[str]:
    """The words with an explanation that a word most likely stands for."""
    return lookup.nearest(_bare(word), [GUIDE, *report_ids(), *own.names("technique"), *own.names("statement")])


def _bare(word: str) -> str:
    """A word without what a report shows around it: `warning[unused-name]`."""
    return word.removesuffix("]").rpartition("[")[2]


def _word(word: str) -> str:
    """The meaning of a selector, a score or an argument, which have no article; empty for other words."""
    if word in selectors.WORDS:
        return f"`{word}` is a selector, which `freeze`, `unfreeze` and `reinit` take: see `leaven explain freeze`."
    split, _, metric = word.partition(".")
    if split in SPLITS and metric:
        name = metric.partition("_top")[0]
        about = f": see `leaven explain {name}`" if lookup.find("metric", name) else ""
        return f"`{word}` is a score, {metric} on the {split} split{about}."
    return _argument(word)


def _other_word(word: str) -> str:
    """Leaven's word for one of another tool; empty where there is none."""
    here = word_for(word)
    if here is None:
        return ""
    is_card = any(lookup.find(kind, here) for kind in KINDS)
    return f"`{word}` is `{here}` here: see `leaven explain {here}`." if is_card else _word(here)


def _argument(word: str) -> str:
    """The meaning of an argument that is often named alone, and its card; empty for other words."""
    owner = owner_of(word)
    cards = lookup.find(owner, EXAMPLES[owner]) if owner in EXAMPLES else lookup.find("statement", owner)
    parameter = cards[0].parameter(word) if cards else None
    if parameter is None:
        return f"`{word}` is an argument of `{owner}`: see `leaven explain {owner}`." if owner else ""
    about = f": {parameter.summary.rstrip('.')}" if parameter.summary else ""
    return f"`{word}` is an argument of `{cards[0].bare_name}`{about}. See `leaven explain {cards[0].bare_name}`."
