"""The task of a recipe's data: what its model is to learn."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from leaven.catalog import own
from leaven.catalog.traits import TaskTraits
from leaven.language.record import Record

if TYPE_CHECKING:
    from leaven.catalog.card import Card
    from leaven.formats.target import TargetReader

_ONE = {"classes": "class", "categories": "category"}
_UNKNOWN = TaskTraits(outputs="outputs")  # of a task that Leaven does not have


class Task(Record):
    """A task by its name, what it is about, and what its card says, which is nothing where Leaven does not have it."""

    name: str
    input: str = "image"
    traits: TaskTraits = _UNKNOWN

    @property
    def is_known(self) -> bool:
        """Whether Leaven has it."""
        return self.traits != _UNKNOWN

    @property
    def title(self) -> str:
        """In words: `image classification`."""
        return self.traits.title.format(input=self.input) or self.name

    @property
    def has_classes(self) -> bool:
        return self.traits.predicts == "classes"

    @property
    def has_one_class(self) -> bool:
        """Whether each sample has one of several classes, and nothing else."""
        return self.is_known and self.traits.target_kind == "class"

    def counted(self, outputs: int) -> str:
        """So many outputs in words: `10 classes`."""
        noun = self.traits.outputs
        return f"{outputs} {_ONE.get(noun, noun.removesuffix('s')) if outputs == 1 else noun}"

    @property
    def is_for_images(self) -> bool:
        return self.is_known and self.input == "image"

    @property
    def is_for_texts(self) -> bool:
        return self.input == "text"

    def takes_model_for(self, task: str) -> bool:
        """Whether a model that was pre-trained for `task` can be used for this one with a new head."""
        return task == (f"{self.input}-{self.traits.models}" if self.is_known else self.name)

    def takes_backbone(self, card: "Card") -> bool:
        """Whether the features of a model are used under a head of the task's own."""
        if not self.traits.backbones or card.kind != "model":
            return False
        return bool(card.model.timm_name) and card.model.task == f"{self.input}-{self.traits.backbones}"

    def path_of(self, name: str) -> str:
        """The import path of a function or class of this task that programs use."""
        return f"leaven.tasks.{self.name}.{name}"

    def reader(self, arguments: Mapping[str, Any]) -> "TargetReader":
        """The reader of the data's labels, for arguments by the names that it gives them."""
        module = import_module(f"leaven.tasks.{self.name}.target")
        reader: TargetReader = getattr(module, self.traits.reader)(**arguments)
        return reader


def task_named(name: str, input: str = "image") -> Task:
    card = own.read("task", name)
    return Task(name, input, card.task) if card is not None else Task(name, input)


def default_task() -> Task:
    """The task where neither the data nor the recipe names one."""
    return next(task for name in own.names("task") if (task := task_named(name)).traits.is_default)


def task_of_library(name: str) -> Task:
    """A task as cards of models and data sets name it: `image-classification`."""
    input, _, rest = name.partition("-")
    return task_named(rest, input) if rest in own.names("task") else Task(name, "")


@cache
def task_by_parameter() -> dict[str, str]:
    """The task that each argument of a data statement asks for."""
    return {parameter.name: card.name for card in own.cards("task") for parameter in card.parameters}
