"""Cards, which say as plain data what names mean, and their parameters.

A card comes from one of two places: a file of Leaven's own (`own.py` reads those) or the index of what the installed
libraries offer (`library.py`). Nothing here knows which; checker, `leaven catalog` and completion read only cards.
"""

from typing import Any, Generic, NamedTuple, TypeVar

from leaven.catalog import traits as kinds
from leaven.catalog.traits import Condition, Definition, StatementRules, TechniqueTraits, Traits
from leaven.formats.target_kind import TargetKind
from leaven.language.record import Record

T = TypeVar("T", bound=Traits)

KINDS = tuple(kind for kind in kinds.BY_KIND if kind != "user")


class Parameter(Record):
    """One parameter of a card.

    `type` holds one or more words joined by `|`. Plain values: `int`, `float`, `bool`, `text`, `path`, `list`, `none`,
    `any`. Values of the language: `choice` (one of `choices`), `quantity` (a number in one of `units`, the first is
    meant when none is written), `selector`, `modules` (layers, also those without
    parameters), `score` (`val.accuracy`), `function` (in user code), `transforms` (a pipeline), `name`, `statement`, or
    a kind of card (`model`, `optimizer`, …).
    """

    name: str
    type: str = "any"
    required: bool = False
    usual: bool = False  # not required, but left out only in special cases
    default: Any = None
    default_by: str = ""  # the parameter on whose value the default depends
    defaults: tuple[tuple[str, Any], ...] = ()  # for each of its values
    summary: str = ""
    choices: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None  # like minimum and maximum, but the bound itself is not allowed
    below: float | None = None
    less_than: str = ""  # the parameter whose value it must stay below
    items: str = "any"  # the type of what a list holds, and how much that is
    length: int | None = None
    positional: bool = True
    variadic: bool = False
    target: str | None = None  # the library's name of it, where Leaven's differs
    calls: str = ""  # what a program calls in place of the card's target where this is given
    whole_number: bool = False  # of its unit
    within_phase: bool = False  # a time that must come before the phase is over
    must_exist: bool = False  # a path
    only_if: Condition | None = None  # without effect otherwise
    targets: tuple[TargetKind, ...] = ()  # the only ones it is for; empty for all
    enum: str = ""  # the import path of the enum whose members the library takes; `torch` for its dtypes
    is_tensor: bool = False  # the library takes the list as a tensor
    passes_default: bool = False  # programs pass the default: the called class has another, or its name hides this
    of: str = ""  # the parameter with the model whose modules are meant; empty for the model that is trained
    remark: str = ""  # what programs say of it, once, where they pass it
    taker: str = ""  # the statement whose positional argument it is: reports name that instead

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(self.type.split("|"))


class Reference(NamedTuple):
    """Where an idea or a dataset was published."""

    paper: str = ""
    url: str = ""
    year: int | None = None


class Requirement(NamedTuple):
    """A library that is not always installed, and the package that brings it, as pip names it."""

    library: str
    package: str


class _TraitsOf(Generic[T]):
    """An attribute for the traits of one kind of card; of a definition in the user's code nothing is known."""

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind

    def __get__(self, card: "Card", _: type["Card"]) -> T:
        if isinstance(card.traits, self.kind):
            return card.traits
        assert card.kind == "user", f"{card.name} is a {card.kind}, which has no {self.kind.__name__}"
        return self.kind()


class Card(Record):
    """The meaning of one name. `name` is the qualified one; `target` is imported and called by programs."""

    kind: str
    name: str
    source: str  # leaven, timm, torchvision, torch, torchmetrics, transformers, user
    traits: Traits
    summary: str = ""
    target: str = ""
    friendly: str = ""  # the name as Leaven spells it: `random_resized_crop` of `torchvision.RandomResizedCrop`
    parameters: tuple[Parameter, ...] = ()
    open_ended: bool = False  # takes keyword arguments beyond `parameters` that can't be known without running it
    exactly_one_of: tuple[str, ...] = ()  # parameters
    at_most_one_of: tuple[str, ...] = ()  # parameters
    reference: Reference = Reference()
    requires: Requirement | None = None
    remark: str = ""  # what programs say of it where it is an argument of a technique
    article: str = ""

    def parameter(self, name: str) -> Parameter | None:
        return next((parameter for parameter in self.parameters if parameter.name == name), None)

    @property
    def outputs_parameter(self) -> Parameter | None:
        """The parameter of a model in user code that gets the number of outputs."""
        candidates = map(self.parameter, ("classes", "num_classes", "outputs", "num_outputs"))
        return next(filter(None, candidates), None)

    @property
    def bare_name(self) -> str:
        """The name without its library: `resnet50.a1_in1k` of `timm.resnet50.a1_in1k`."""
        return self.name.partition(".")[2] or self.name

    @property
    def statement(self) -> StatementRules:
        """How it is written as a statement, which a technique is, too."""
        match self.traits:
            case StatementRules() as rules:
                return rules
            case TechniqueTraits(once=once, changes=changed):
                return StatementRules(once=once, in_phase=True, is_technique=True, changes_model=changed == "model")
        assert self.kind == "user"
        return StatementRules(in_phase=True, is_technique=True)

    @property
    def technique(self) -> TechniqueTraits:
        return self.traits.technique if isinstance(self.traits, Definition) else self._technique

    _technique = _TraitsOf(TechniqueTraits)
    model = _TraitsOf(kinds.ModelTraits)
    component = _TraitsOf(kinds.ComponentTraits)
    data = _TraitsOf(kinds.DataTraits)
    transform = _TraitsOf(kinds.TransformTraits)
    loss = _TraitsOf(kinds.LossTraits)
    metric = _TraitsOf(kinds.MetricTraits)
    sampler = _TraitsOf(kinds.SamplerTraits)
    task = _TraitsOf(kinds.TaskTraits)
    optimizer = _TraitsOf(kinds.OptimizerTraits)
    schedule = _TraitsOf(kinds.ScheduleTraits)
    pruning = _TraitsOf(kinds.PruningTraits)
    definition = _TraitsOf(Definition)
