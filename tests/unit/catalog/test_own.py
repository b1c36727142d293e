"""Every card of Leaven's own reads, teaches with an example that parses, and agrees with itself."""

import inspect
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from leaven.catalog import own
from leaven.catalog.card import KINDS, Card, Parameter
from leaven.catalog.selectors import WORDS
from leaven.catalog.traits import ComponentTraits, DataTraits, StatementRules, TechniqueTraits
from leaven.language import syntax
from leaven.language.parser import parse, parse_value
from leaven.language.source import Source

PLAIN = {"int", "float", "bool", "text", "path", "list", "none", "any"}
LANGUAGE = {"choice", "quantity", "selector", "modules", "score", "function", "transforms", "name", "statement"}
FENCE = re.compile(r"^```leaven\n(.*?)^```$", re.MULTILINE | re.DOTALL)

LIBRARY_KINDS = {"loss", "metric", "transform", "data"}


def read(kind: str, name: str) -> Card:
    card = own.read(kind, name)
    assert card is not None
    return card


CARDS = [read(kind, name) for kind in KINDS for name in own.names(kind)]
PARAMETERS = [(card, parameter) for card in CARDS for parameter in card.parameters]
every_card = pytest.mark.parametrize("card", CARDS, ids=lambda card: f"{card.kind}-{card.name}")
every_parameter = pytest.mark.parametrize(
    ("card", "parameter"), PARAMETERS, ids=[f"{card.kind}-{card.name}-{each.name}" for card, each in PARAMETERS]
)


def examples(card: Card) -> list[str]:
    return FENCE.findall(card.article)


def calls_a_library(card: Card) -> bool:
    return card.kind in LIBRARY_KINDS and bool(card.target) and not card.target.startswith("leaven.")


def of_kind(kind: str) -> list[Card]:
    return [card for card in CARDS if card.kind == kind]


# -- what a reader sees


@every_card
def test_the_summary_of_a_card_is_one_sentence(card: Card) -> None:
    assert card.summary.endswith(".")
    assert card.summary[0].isupper() or card.summary[0].isdigit()
    assert all(parameter.summary and not parameter.summary.endswith(".") for parameter in card.parameters)


@every_card
def test_the_article_has_a_title_and_an_example_that_parses(card: Card) -> None:
    assert card.article.startswith("# ")
    assert examples(card)
    for example in examples(card):
        assert not parse(Source(card.name, example)).diagnostics


@every_card
def test_the_example_uses_the_card(card: Card) -> None:
    assert any(re.search(rf"(?i)\b{re.escape(card.bare_name)}\b", example) for example in examples(card))


@every_card
def test_examples_use_only_statements_and_arguments_that_cards_name(card: Card) -> None:
    for example in examples(card):
        for statement, owner in statements(parse(Source(card.name, example)).tree.statements):
            meant = statement_card(statement.name.path, owner)
            assert meant, f"no statement {statement.name.path} in {owner or 'a recipe'}"
            assert not unknown_keywords([meant], statement.arguments)
            for call in calls(statement.arguments):
                candidates = [each for each in CARDS if call.name.path in (each.name, each.bare_name)]
                assert not candidates or not unknown_keywords(candidates, call.arguments)


def statements(body: tuple[Any, ...], owner: str = "") -> Iterator[tuple[syntax.Statement, str]]:
    """Every ordinary statement, with the block it stands in."""
    for statement in body:
        if isinstance(statement, syntax.Statement):
            yield statement, owner
            if statement.block:
                changed = statement.name.path == "change"
                inside = statement.arguments[0].value.path if changed else statement.name.path  # type: ignore[union-attr]
                yield from statements(statement.block.statements, inside)


def statement_card(name: str, owner: str) -> Card | None:
    """The card of a statement that stands in such a block."""
    top_level = own.read("statement", name)
    match owner:
        case "":
            return top_level or own.read("technique", name)
        case "phase":
            return top_level if top_level and top_level.statement.in_phase else own.read("technique", name)
        case _:
            return own.read("statement", f"{owner}.{name}")


def unknown_keywords(cards: list[Card], arguments: tuple[syntax.Argument, ...]) -> list[str]:
    """The keywords that none of the cards has. Those of a model call are Leaven's."""
    if any(card.open_ended for card in cards):
        return []
    known = {parameter.name for card in cards for parameter in card.parameters}
    if any(card.kind == "model" for card in cards):
        known |= {"pretrained", "weights", "head"}
    return [each.keyword.path for each in arguments if each.keyword and each.keyword.path not in known]


def calls(value: Any) -> Iterator[syntax.Call]:
    """Every call within a value."""
    match value:
        case tuple():
            for item in value:
                yield from calls(item)
        case syntax.Argument():
            yield from calls(value.value)
        case syntax.Call():
            yield value
            yield from calls(value.arguments)
        case syntax.List():
            yield from calls(value.items)
        case syntax.Pipeline():
            yield from calls(value.stages)
        case syntax.Binary():
            yield from calls((value.left, value.right))
        case syntax.Negative():
            yield from calls(value.value)


# -- parameters


@every_parameter
def test_types_are_known_words(card: Card, parameter: Parameter) -> None:
    assert set(parameter.types) <= PLAIN | LANGUAGE | set(KINDS)
    assert ("choice" in parameter.types) == bool(parameter.choices)
    assert not parameter.units or {"quantity", "list"} & set(parameter.types)
    assert "quantity" not in parameter.types or parameter.units


@every_parameter
def test_a_parameter_is_required_or_has_a_default_or_may_be_none(card: Card, parameter: Parameter) -> None:
    if parameter.required:
        assert parameter.default is None
    elif parameter.default is None:
        # A selector that is not given leaves the choice to the technique; its summary says what that is.
        assert {"none", "selector"} & set(parameter.types)


@every_parameter
def test_a_default_fits_its_type_and_bounds(card: Card, parameter: Parameter) -> None:
    if parameter.default is not None:
        assert any(fits(parameter.default, word, parameter) for word in parameter.types)
        assert within_bounds(parameter)


def fits(value: Any, word: str, parameter: Parameter) -> bool:
    match word:
        case "int":
            return type(value) is int
        case "float":
            return type(value) is float
        case "bool":
            return type(value) is bool
        case "text" | "path":
            return type(value) is str
        case "list":
            return type(value) is tuple
        case "choice":
            return value in parameter.choices
        case "quantity":
            return quantity(value)[1] in parameter.units
        case "selector":
            return value in WORDS
        case "score":
            return re.fullmatch(r"(train|val|test)\.\w+", value) is not None
    return False


def quantity(text: str) -> tuple[float, str | None]:
    """The amount and unit of a default such as `5 epochs`, read by the language's own parser."""
    number, diagnostics = parse_value(Source("default", text))
    assert isinstance(number, syntax.Number)
    assert not diagnostics
    return number.value, number.unit


def within_bounds(parameter: Parameter) -> bool:
    value = quantity(parameter.default)[0] if "quantity" in parameter.types else parameter.default
    if not isinstance(value, (int, float)):
        return True
    return (
        (parameter.minimum is None or value >= parameter.minimum)
        and (parameter.maximum is None or value <= parameter.maximum)
        and (parameter.above is None or value > parameter.above)
    )


@every_card
def test_parameters_can_be_given_in_order(card: Card) -> None:
    """Names differ; positional ones come first, and among them the required ones; only the last may take many."""
    parameters = card.parameters
    assert len({parameter.name for parameter in parameters}) == len(parameters)
    order = [(not parameter.positional, not parameter.required) for parameter in parameters if parameter.positional]
    assert order == sorted(order)
    positions = [parameter.positional for parameter in parameters]
    assert positions == sorted(positions, reverse=True)
    assert not any(parameter.variadic for parameter in parameters[:-1])


# -- traits


@every_card
def test_traits_have_the_types_of_their_fields(card: Card) -> None:
    for record in (card.traits, card.reference, card.requires, *card.parameters):
        if record is not None:
            hints = {
                name: hint for name, hint in get_type_hints(type(record)).items() if get_origin(hint) is not ClassVar
            }
            wrong = {name: getattr(record, name) for name in hints if not conforms(getattr(record, name), hints[name])}
            assert not wrong


def conforms(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says, as far as the traits use them."""
    if hint is Any:
        return True
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(conforms(value, one) for one in inner)
    if origin is Literal:
        return value in inner
    if origin is tuple and inner[1:] == (...,):
        return isinstance(value, tuple) and all(conforms(item, inner[0]) for item in value)
    if origin is tuple:
        return isinstance(value, tuple) and len(value) == len(inner) and all(map(conforms, value, inner))
    if origin is Mapping:
        pairs = value.items() if isinstance(value, Mapping) else [(None, None)]
        return all(conforms(key, inner[0]) and conforms(item, inner[1]) for key, item in pairs)
    return isinstance(value, float | int) if hint is float else type(value) is hint


@pytest.mark.parametrize(
    ("front", "said"),
    [
        ('summary = "A."\nwakse = true', "techniques/mine.md: unknown key `wakse`: not a field of TechniqueTraits"),
        ('summary = "A."\n[[parameter]]\nname = "a"\nsmallest = 1', "techniques/mine.md: unknown key `smallest`"),
        ('summary = "A."\nhooks_only_if.on_loss = { when = "a" }', "techniques/mine.md: unknown key `when`"),
    ],
)
def test_an_unknown_key_is_an_error_that_names_file_and_key(front: str, said: str) -> None:
    with pytest.raises(own.CardError, match=re.escape(said)):
        own.read_card(f"+++\n{front}\n+++\n# Mine\n", "technique", "mine")


def test_a_kind_without_traits_takes_no_further_keys() -> None:
    with pytest.raises(own.CardError, match=re.escape("loggers/mine.md: unknown key `package`")):
        own.read_card('+++\nsummary = "A."\npackage = "x"\n+++\n# Mine\n', "logger", "mine")


@every_card
def test_parameters_named_in_articles_exist(card: Card) -> None:
    names = {parameter.name for parameter in card.parameters}
    conditions = [parameter.only_if for parameter in card.parameters if parameter.only_if]
    spoken_of = {*card.exactly_one_of, *(each.less_than for each in card.parameters)}
    match card.traits:
        case StatementRules(key=key):
            spoken_of |= {key}
        case TechniqueTraits(hooks_only_if=only_if, loss_share=share):
            conditions += only_if.values()
            spoken_of |= {share}
        case DataTraits(task_by_argument=task_by):
            spoken_of |= set(task_by)
        case ComponentTraits(out_channels=channels, downsamples_by=stride):
            spoken_of |= {channels, stride}
    assert {*spoken_of, *(condition.parameter for condition in conditions)} - {""} <= names


@pytest.mark.parametrize("card", of_kind("statement"), ids=lambda card: card.name)
def test_a_statement_says_where_and_how_often_it_is_written(card: Card) -> None:
    owner = card.name.rpartition(".")[0]
    assert not owner or read("statement", owner).statement.block == owner
    if card.statement.default:
        parsed = parse(Source("default", card.statement.default))
        assert not parsed.diagnostics
        [statement] = parsed.tree.statements
        assert isinstance(statement, syntax.Statement)
        assert statement.name.path == card.bare_name


@pytest.mark.parametrize("card", of_kind("technique"), ids=lambda card: card.name)
def test_a_technique_cites_its_paper_and_what_it_changes(card: Card) -> None:
    assert card.reference.paper
    assert card.reference.year
    assert card.reference.url.startswith("https://")
    assert card.technique.changes
    for other in card.technique.conflicts:
        assert card.name not in read("technique", other).technique.conflicts, "one side is enough"


@pytest.mark.parametrize("card", of_kind("schedule"), ids=lambda card: card.name)
def test_a_schedule_can_warm_up(card: Card) -> None:
    warmup = card.parameter("warmup")
    assert warmup
    assert warmup.units == ("epochs", "steps", "%")


@pytest.mark.parametrize("card", of_kind("data"), ids=lambda card: card.name)
def test_a_dataset_has_channels_paths_and_a_license(card: Card) -> None:
    is_for_texts = card.data.task.startswith("text")
    assert card.data.channels is None if is_for_texts else card.data.channels in (1, 3)
    assert all("path" in parameter.type.split("|") for parameter in card.parameters if parameter.must_exist)
    is_one_of_many = card.name == "datasets.auto"  # with licenses of their own
    assert (card.data.license and card.reference.url) or card.data.on_disk or is_one_of_many


# -- what a recipe relies on


@pytest.mark.parametrize("card", [card for card in CARDS if calls_a_library(card)], ids=lambda card: card.name)
def test_a_library_has_what_the_card_promises_to_call(card: Card) -> None:
    module, _, name = card.target.rpartition(".")
    called = getattr(pytest.importorskip(module), name)
    # torchmetrics chooses some classes by the task, in __new__
    is_chosen = card.kind == "metric" and "task" in card.metric.supplied
    taken = inspect.signature(called.__new__ if is_chosen else called).parameters
    assert {each.target or each.name for each in card.parameters if not each.calls} <= set(taken)


@pytest.mark.parametrize(("card", "parameter"), [(card, each) for card, each in PARAMETERS if each.calls])
def test_the_function_called_for_a_parameter_takes_it(card: Card, parameter: Parameter) -> None:
    module, _, name = parameter.calls.rpartition(".")
    assert parameter.name in inspect.signature(getattr(import_module(module), name)).parameters
    assert not any(other.required for other in card.parameters)  # they are not passed to it


def test_the_starter_is_built_on_the_model_of_its_weights() -> None:
    card = read("model", "efficientnet_lite0")
    assert card.name == "starters.efficientnet_lite0"
    assert card.model.timm_name == "tf_efficientnet_lite0"
    assert (card.model.mean, card.model.std) == ((0.5,) * 3, (0.5,) * 3)


def test_digits_are_never_flipped_and_photographs_may_be() -> None:
    flipped = {card.name for card in of_kind("data") if card.data.is_safe_to_augment}
    named = {"cifar10", "cifar100", "imagenet", "oxford_pets", "stanford_dogs"}
    assert flipped == {"folder", "csv", "tsv", "jsonl", "parquet", "mask_folder", "coco", "voc", "yolo"} | named


def test_a_name_that_has_no_card_is_not_found() -> None:
    assert own.read("technique", "mixpu") is None
    assert own.read("technique", "../techniques/mixup") is None
