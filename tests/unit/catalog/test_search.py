"""A search of the catalog gives cards, best match first."""

from leaven.catalog.card import KINDS
from leaven.catalog.card_facts import facts_of
from leaven.catalog.search import meanings, nearest, search


def test_a_name_comes_before_cards_that_only_mention_it() -> None:
    first, *others = search(["mixup"], KINDS)
    assert (first.name, first.card.kind) == ("mixup", "technique")
    assert all("mixup" not in match.name for match in others)


def test_names_mean_cards_and_misspelt_ones_are_near_to_others() -> None:
    assert meanings("adamw", ["optimizer"])[0].bare_name == "AdamW"
    assert "adamw" in nearest("adam_w", ["optimizer"])


def test_facts_are_only_those_that_are_known() -> None:
    facts = dict(facts_of(meanings("resnet18", ["model"])[0]))
    assert facts["parameters"] == "11,689,512"
    assert all(facts.values())
