"""`leaven explain` answers to whatever a person copies out of a report or a recipe."""

import pytest
from click.testing import CliRunner

from leaven.cli.main import leaven


@pytest.mark.parametrize("word", ["unused-name", "warning[unused-name]", "error[unused-name]"])
def test_an_id_is_found_as_a_report_shows_it(word: str) -> None:
    assert CliRunner().invoke(leaven, ["explain", word]).output.startswith("# unused-name")


def test_the_guide_that_reports_mention_is_there() -> None:
    result = CliRunner().invoke(leaven, ["explain", "custom-components"])
    assert result.output.startswith("# Custom components")
    assert "## Technique" in result.output


def test_what_a_library_offers_is_explained_by_its_card() -> None:
    result = CliRunner().invoke(leaven, ["explain", "adamw"])
    assert result.exit_code == 0
    assert "weight_decay" in result.output


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("head", "`head` is a selector, which `freeze`, `unfreeze` and `reinit` take: see `leaven explain freeze`.\n"),
        (
            "class_weights",
            "`class_weights` is an argument of `cross_entropy`: one weight per class, in the order of the classes; "
            "balanced: rarer classes count more. See `leaven explain cross_entropy`.\n",
        ),
        (
            "seed",
            "`seed` is an argument of `train`: the seed of all random numbers. See `leaven explain train`.\n",
        ),
        ("val.accuracy", "`val.accuracy` is a score, accuracy on the val split: see `leaven explain accuracy`.\n"),
        ("val.loss", "`val.loss` is a score, loss on the val split.\n"),
    ],
)
def test_a_word_of_recipes_without_an_article_is_explained(word: str, answer: str) -> None:
    assert CliRunner().invoke(leaven, ["explain", word]).output == answer


def test_what_is_unknown_can_be_searched_for() -> None:
    result = CliRunner().invoke(leaven, ["explain", "xyzzy"])
    assert result.exit_code == 2
    assert "`leaven catalog search xyzzy`" in result.output


@pytest.mark.parametrize("word", ["size", "split", "eval"])
def test_a_statement_of_the_data_has_its_article(word: str) -> None:
    result = CliRunner().invoke(leaven, ["explain", word])
    assert result.exit_code == 0
    assert result.output.startswith(f"# {word}")


@pytest.mark.parametrize(
    ("word", "told"),
    [("batch_size", "`batch` is an argument of `train`"), ("lr_scheduler", "`lr_scheduler` is `schedule` here")],
)
def test_words_of_other_tools_are_explained(word: str, told: str) -> None:
    result = CliRunner().invoke(leaven, ["explain", word])
    assert result.exit_code == 0
    assert told in result.output
