"""The words that may stand at a place in a recipe that is being typed: at its end, or at `|`."""

import pytest

from leaven.language.source import Source
from leaven.messages.completions import card_at, completions


def labels(text: str) -> list[str]:
    before, _, after = text.partition("|")
    found = completions(Source("a.leaven", before + after), len(before))
    return [one.label for one in found.items]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mod", ["model"]),
        ("model conv(8) -> li", ["linear"]),
        ('data folder("x") {\n    tr', ["train"]),
        ('data folder("x") { train horizontal_f', ["horizontal_flip", "random_horizontal_flip"]),
        ('data folder("x") {\n    split 80%\n    train pad(3) -> vertical_fl', ["vertical_flip"]),
        ("train prec", ["precision"]),
        ("train precision=b", ["bf16"]),
        ("train epochs=3, ep", []),  # it is given
        ("optimizer adamw(weight_d", ["weight_decay"]),
        ('phase "a" {\n    freeze backb', ["backbone"]),
        ("let width = 8\nmodel conv(wid", ["width"]),
        ("train epochs=3; mod", ["model"]),
        ("mod| conv(8)", ["model"]),
        ("# mod", []),
        ('data folder("mod', []),
    ],
)  # fmt: skip
def test_what_may_stand_at_a_place(text: str, expected: list[str]) -> None:
    assert labels(text)[: max(1, len(expected))] == expected


def test_words_that_begin_as_typed_come_first() -> None:
    assert labels("freeze")[:2] == ["freeze", "unfreeze"]


def test_an_argument_is_written_with_its_equals_sign() -> None:
    (found,) = completions(Source("a", "train epo"), 9).items
    assert (found.text, found.kind) == ("epochs=", "argument")
    assert "epoch" in found.detail


@pytest.mark.parametrize(
    "text", ["", "}", "{{", "model (((", "data { } } train ", "let = ", 'phase "', "= = ,", "a.b.c("]
)
def test_nonsense_is_completed_without_an_error(text: str) -> None:
    labels(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("mo|del conv(8)", "model"),
        ("model co|nv(8)", "conv"),
        ("optimizer ada|mw(lr=1)", "torch.AdamW"),
        ("data digits() { sp|lit 80% }", "data.split"),
        ("# mo|del", None),
        ("let mo|del = 3", None),
    ],
)
def test_the_card_of_a_name(text: str, name: str | None) -> None:
    before, _, after = text.partition("|")
    card = card_at(Source("a", before + after), len(before))
    assert (card.name if card is not None else None) == name
