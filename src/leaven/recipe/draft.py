"""A recipe whose parts are read and resolved, and whose rules are still to be checked."""

from leaven.catalog.values import Invocation
from leaven.language.record import Record
from leaven.recipe.data import DataFacts
from leaven.recipe.model_facts import ModelFacts
from leaven.recipe.recipe import Data, Model, Phase, Train


class Draft(Record):
    """The parts that the rules check. Those with errors are left out, so that the others are still checked."""

    model: Model
    model_facts: ModelFacts
    data: Data
    data_facts: DataFacts
    phases: tuple[Phase, ...]
    metrics: tuple[Invocation, ...]
    train: Train | None
