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


class Task(Record):
    """A task by its name, what it is about, and what its card says; None for one that Leaven does not have."""

    name: str
    input: str = "image"
    known: TaskTraits | None = None

    @property
    def title(self) -> str:
        """In words: `image classification`."""
        return self.known.title.format(input=self.input) if self.known is not None else self.name

    @property
    def has_classes(self) -> bool:
        return self.known is None or self.known.predicts == "classes"

    @property
    def has_one_class(self) -> bool:
        """Whether each sample has one of several classes, and nothing else."""
        return self.known is not None and self.known.target_kind == "class"

    def counted(self, outputs: int) -> str:
        """So many outputs in words: `10 classes`."""
        noun = self.known.outputs if self.known is not None else "outputs"
        return f"{outputs} {_ONE.get(noun, noun.removesuffix('s')) if outputs == 1 else noun}"

    @property
    def is_for_images(self) -> bool:
        return self.known is not None and self.input == "image"

    @property
    def is_for_texts(self) -> bool:
        return self.input == "text"

    @property
    def is_default(self) -> bool:
        """Whether data is read so without a word on its task."""
        return self.known is not None and self.known.is_default

    @property
    def extra_outputs(self) -> int:
        return self.known.extra_outputs if self.known is not None else 0

    @property
    def model_resizes(self) -> bool:
        return self.known is not None and self.known.model_resizes

    def takes_model_for(self, task: str) -> bool:
        """Whether a model that was pre-trained for `task` can be used for this one with a new head."""
        return task == (f"{self.input}-{self.known.models}" if self.known is not None else self.name)

    @property
    def moves_targets(self) -> bool:
        """Whether targets have a place in the image, and transforms move both."""
        return self.known is not None and self.known.moves_targets

    @property
    def fits_head(self) -> str:
        """The function that gives a model a head for this task, if it has one."""
        return f"leaven.tasks.{self.name}.{self.known.fits_head}" if self.known is not None else ""

    @property
    def fits_backbone(self) -> str:
        """The function that puts a head of the task's own on the features of a model, if it has one."""
        return f"leaven.tasks.{self.name}.{self.known.fits_backbone}" if self.known is not None else ""

    def takes_backbone(self, card: "Card") -> bool:
        """Whether the features of a model are used under a head of the task's own."""
        if self.known is None or not self.known.backbones or card.kind != "model":
            return False
        return bool(card.model.timm_name) and card.model.task == f"{self.input}-{self.known.backbones}"

    def reader(self, arguments: Mapping[str, Any]) -> "TargetReader":
        """The reader of the data's labels, for arguments by the names that it gives them."""
        assert self.known is not None
        module = import_module(f"leaven.tasks.{self.name}.target")
        reader: TargetReader = getattr(module, self.known.reader)(**arguments)
        return reader


def task_named(name: str, input: str = "image") -> Task:
    card = own.read("task", name)
    return Task(name, input, card.task if card is not None else None)


def default_task() -> Task:
    """The task where neither the data nor the recipe names one."""
    return next(task for name in own.names("task") if (task := task_named(name)).is_default)


def task_of_library(name: str) -> Task:
    """A task as cards of models and data sets name it: `image-classification`."""
    input, _, rest = name.partition("-")
    return task_named(rest, input) if rest in own.names("task") else Task(name, "")


@cache
def task_by_parameter() -> dict[str, str]:
    """The task that each argument of a data statement asks for."""
    return {parameter.name: card.name for card in own.cards("task") for parameter in card.parameters}
