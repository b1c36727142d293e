"""How a program constructs and steps the optimizers of the libraries."""

import pytest

import leaven
from leaven.language.source import Source

RECIPE = "model conv(8) -> global_pool() -> linear(classes)\ndata digits()\noptimizer "


@pytest.mark.parametrize(
    ("optimizer", "line"),
    [
        ("timm.sgd(lr=0.1, momentum=0.9)", "nesterov=True"),  # which torch's SGD does not have by default
        ("lbfgs(lr=0.5)", "loss = optimizer.step(closure)"),
        ("timm.adahessian(lr=0.1)", "phase.backward(loss, create_graph=True)"),
    ],
)
def test_an_optimizer_gets_what_its_card_says(optimizer: str, line: str) -> None:
    program = leaven.generate(Source("recipe.leaven", RECIPE + optimizer))
    assert line in program
