"""`leaven explain`: the page of a report, or the article of a card."""

from leaven.cli.catalog import print_cards, print_page
from leaven.cli.printing import echo
from leaven.messages import explanations


def print_explanation(id: str | None) -> int:
    """Print the page or article; returns the exit code."""
    if id is None:
        ids = "".join(f"  {name}\n" for name in explanations.report_ids())
        echo(f"Report ids:\n\n{ids}")
        echo(
            f"For example: leaven explain unknown-layer. Your own models and more: leaven explain {explanations.GUIDE}"
        )
        return 0
    found = explanations.explanation(id)
    if isinstance(found, str):
        print_page(found)
    elif found is not None:
        print_cards(found)
    else:
        near = explanations.nearest(id)
        hint = f"Did you mean {' or '.join(f'`{name}`' for name in near)}?"
        hint = hint if near else f"`leaven catalog search {id}` searches all articles."
        echo(f"there is no report or catalog entry `{id}`. {hint}", err=True)
        return 2
    return 0
