"""Names of classes that are combinations of labels, and names that only share words."""

import pytest

from leaven.formats.doubtful_labels import doubt_column, separator_in

PLANET = ["clear primary", "agriculture clear primary", "clear primary water", "clear road water", "agriculture road"]


@pytest.mark.parametrize(
    ("names", "separator"),
    [
        (PLANET, " "),
        ([name.replace(" ", ", ") for name in PLANET], ","),
        ([name.replace(" ", "/") for name in PLANET], "/"),
        (["beach dog", "dog people", "beach people"], " "),
        (["dog", "cat", "dog cat"], " "),
        (["red fox", "grey fox", "red wolf", "grey wolf"], None),
        (["very positive", "positive", "very negative", "negative", "neutral"], None),
        (["golden retriever", "labrador retriever", "golden eagle", "wolf spider", "white wolf"], None),
        (["Portland, Oregon", "Portland, Maine", "Augusta, Maine", "Augusta, Georgia"], None),
        (["World", "Sports", "Business", "Sci/Tech"], None),
    ],
)
def test_what_separates_labels(names: list[str], separator: str | None) -> None:
    assert separator_in(names) == separator


def test_the_help_is_the_edit() -> None:
    doubt = doubt_column(dict.fromkeys(PLANET, 20), "tags")
    assert doubt is not None
    assert doubt.help == 'if an image can have several labels, write `labels="tags", label_separator=" "`'
