"""Configurations in YAML, and the statements that say the same."""

import pytest

from leaven.language.source import Source
from leaven.language.yaml_blocks import as_statements, block_after


def statements(text: str) -> str | None:
    """What is suggested for a text that begins with a name and a colon."""
    source, name = Source("recipe.leaven", text), text.partition(":")[0]
    block = block_after(source.span(0, len(name)))
    assert block is not None
    return as_statements(name, block)


def test_phases_are_suggested_as_a_whole() -> None:
    text = "phases:\n  - name: head\n    epochs: 3\n    freeze: all - head\n  - epochs: 5\n"
    assert statements(text) == 'phase "head", epochs=3 { freeze all - head }; phase "phase 2", epochs=5'


@pytest.mark.parametrize(
    "text",
    [
        "phases:\n  - name: head\n    optimizer:\n      type: sgd\n      groups:\n        head: 1\n",
        "phases:\n  head:\n    optimizer:\n      groups:\n        head: 1\n",
        "phases:\n  - name:\n    epochs: 3\n",
    ],
    ids=["in a list", "by name", "without a value"],
)
def test_a_block_that_can_not_be_converted_gets_no_suggestion(text: str) -> None:
    assert statements(text) is None
