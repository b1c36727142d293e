"""`leaven catalog`: search for names, and print the card of one."""

import re
import sys
from collections.abc import Iterator, Sequence

from leaven.catalog import habits, layers, lookup, model_sizes, model_survey
from leaven.catalog.card import KINDS, Card, Parameter
from leaven.catalog.traits import DataTraits, LossTraits, MetricTraits, ModelTraits, ScheduleTraits, TechniqueTraits
from leaven.catalog.value_text import value_text
from leaven.cli.printing import echo, echo_painted
from leaven.language.highlight import highlight
from leaven.messages import describe
from leaven.recipe.model_facts import are_weights_installed
from leaven.terminal.colors import painter, wants_color
from leaven.terminal.markdown import render
from leaven.terminal.visible import visible_lines
from leaven.terminal.width import width_of

_SHOWN = 20
_IN_ARTICLE = 5  # the rank of a card whose article alone has the words


def print_matches(words: Sequence[str], kind: str | None, limit: int | None) -> int:
    """Print the cards that contain all the words, best match first; those whose article alone has them only if there
    are no others."""
    wanted = " ".join(words).lower().split()
    found = sorted(_ranked(wanted, [kind] if kind else KINDS), key=lambda match: match[0])
    found = [match for match in found if match[0][0] < _IN_ARTICLE] or found
    limit = limit or (len(found) if kind else _SHOWN)
    shown = [(name, card) for _, name, card in found[:limit]]
    has_models = any(card.kind == "model" for _, card in shown)
    for name, card in shown:
        facts = f"{_model_facts(card):<20}  " if has_models else ""
        echo(f"{name:<32} {card.kind:<10} {facts}{card.summary[:100]}".rstrip())
    if len(found) > limit:
        echo(f"… and {len(found) - limit:,} more; --limit or --kind shows them")
    if not found:
        hint = _hint(" ".join(wanted), [kind] if kind else KINDS)
        echo(f"no catalog entry matches {' '.join(words)!r}.{hint}", err=True)
    return 0 if found else 1


def _model_facts(card: Card) -> str:
    """`11.7 M  pretrained`: how many parameters a model has, as far as that is known, and whether there are weights."""
    if card.kind != "model" or not card.model.is_of_library:
        return ""
    count = _parameters(card)
    size = "–" if count is None else f"{count / 1e6:,.1f} M" if count >= 50_000 else f"{count / 1e3:,.1f} k"
    is_here = card.model.weights_package is not None and are_weights_installed(card)
    return f"{size:>8}  {'installed' if is_here else 'pretrained' if card.model.has_weights else 'no weights'}"


def _parameters(card: Card) -> int | None:
    """How many parameters a model has: as published, or as counted when its layers were asked for."""
    known = card.model.parameters or model_sizes.of_timm().get(card.model.timm_name)
    if known is not None:
        return known
    with model_survey.only_cached():
        found = layers.ask({"target": card.target, "timm_name": card.model.timm_name or None, "arguments": {}})
    return sum(each.count for each in found.parameters) if found is not None and found.parameters else None


def _ranked(wanted: Sequence[str], kinds: Sequence[str]) -> Iterator[tuple[tuple[int, int, str], str, Card]]:
    for kind in kinds:
        for name in dict.fromkeys(lookup.names(kind)):
            card = lookup.find(kind, name)[0]
            rank = _rank(wanted, name.lower(), card)
            if rank is not None:
                bare = name.partition(".")[2] if kind == "statement" and "." in name else name
                yield (rank, len(bare), name.lower()), name, card


def _rank(wanted: Sequence[str], name: str, card: Card) -> int | None:
    """How well a card matches the words, 0 the best; None where it does not."""
    if all(word in name for word in wanted):
        is_meant = wanted == [name] or [habits.SYNONYMS.get(word) for word in wanted] == [name]
        return 0 if is_meant else 1 if name.startswith(tuple(wanted[:1])) else 2
    described = f"{name} {card.name} {card.summary}"
    arguments = " ".join(parameter.name for parameter in card.parameters)
    for rank, text in enumerate((described, f"{described} {arguments}", f"{described} {arguments} {card.article}"), 3):
        if all(word in name or _is_in(word, text) for word in wanted):
            return rank
    return None


def _is_in(word: str, text: str) -> bool:
    """Whether a text has a word, or one that begins with it; short ones must match whole."""
    end = r"\b" if len(word) < 4 else ""
    return re.search(rf"\b{re.escape(_spaced(word))}{end}", _spaced(text.lower())) is not None


def _spaced(text: str) -> str:
    return text.replace("_", " ")


def print_card(name: str, kind: str | None) -> int:
    """Print the cards of a name."""
    cards = _cards(name, [kind] if kind else KINDS)
    for at, card in enumerate(cards):
        if at:
            echo("\n" + "─" * 60 + "\n")
        for line in _card_lines(card):
            echo(line)
        if card.article.strip():
            echo()
            print_page(card.article)
    if cards:
        return 0
    elsewhere = [describe.KIND_NOUNS[card.kind] for card in _cards(name, KINDS)]
    if kind and elsewhere:
        echo(f"`{name}` is {' and '.join(elsewhere)}, not {describe.KIND_NOUNS[kind]}.", err=True)
    else:
        hint = _hint(name, [kind] if kind else KINDS)
        echo(f"the catalog has no entry `{name}`.{hint}", err=True)
    return 1


def print_page(text: str) -> None:
    """Print Markdown: as it is written, or rendered for a terminal."""
    width, color = width_of(sys.stdout), wants_color(sys.stdout)
    text = visible_lines(text)
    echo_painted(
        text.strip() if width is None else render(text, width, painter(color), highlight).rstrip(), color=color
    )


def _cards(name: str, kinds: Sequence[str]) -> list[Card]:
    """What a name means, once for each kind."""
    return [card for kind in kinds for card in lookup.find(kind, name)[:1]]


def _hint(word: str, kinds: Sequence[str]) -> str:
    near = lookup.nearest(word, [name for kind in kinds for name in lookup.names(kind)])
    return " Did you mean " + describe.either([f"`{name}`" for name in near]) + "?" if near else ""


def _card_lines(card: Card) -> Iterator[str]:
    origin = f" of {card.source}" if card.source != "leaven" else ""
    yield f"{card.name}: {describe.KIND_NOUNS[card.kind]}{origin}"
    if card.summary:
        yield f"  {card.summary}"
    others = [other.name for other in lookup.find(card.kind, card.bare_name)[1:]]
    if others:
        yield f"  the bare name could also mean {', '.join(others)}"
    if card.parameters:
        yield "\narguments:"
        width = max(len(parameter.name) for parameter in card.parameters)
        for parameter in card.parameters:
            yield f"  {parameter.name:<{width}}  {_parameter(parameter)}"
    if card.open_ended:
        yield "  … and further keyword arguments, passed on as given"
    facts = [fact for fact in _facts(card) if fact[1]]
    if facts:
        yield "\nfacts:"
        for label, fact in facts:
            yield f"  {label}: {fact}"


def _parameter(parameter: Parameter) -> str:
    default = "required" if parameter.required else f"default {value_text(parameter.default)}"
    summary = f"; {parameter.summary}" if parameter.summary else ""
    return f"{describe.expected(parameter)}, {default}{summary}"


def _facts(card: Card) -> Iterator[tuple[str, str]]:
    """What the traits say that helps to choose, each with a label; empty where nothing is known."""
    match card.traits:
        case TechniqueTraits() as technique:
            yield "changes", f"the {technique.changes}" if technique.changes else ""
            yield "cost", technique.cost
            yield "made for", ", ".join((*technique.inputs, *technique.targets))
            yield "not together with", ", ".join(technique.conflicts)
            yield "needs", card.requires.library if card.requires else ""
        case ModelTraits() as model:
            yield "task", model.task
            yield "input", _sizes(model.input_size) + (", no other size" if model.has_fixed_input_size else "")
            yield "normalisation", f"mean {_listed(model.mean)}, std {_listed(model.std)}" if model.mean else ""
            yield "classes", _number(model.classes)
            yield "parameters", _number(_parameters(card))
            yield "weights", ", ".join(model.weights) or ("" if model.has_weights else "none published")
            yield "license", model.license
        case DataTraits() as data:
            yield "task", " or ".join(data.task_by_argument.values()) or data.task
            yield "classes", _number(data.classes)
            yield "channels", _number(data.channels)
            yield "image size", _sizes(data.size)
            yield "official splits", ", ".join(data.splits)
            yield "license", data.license
        case LossTraits(takes_soft_labels=False):
            yield "soft labels", "not taken"
        case MetricTraits(higher_is_better=bool(better)):
            yield "better", "higher" if better else "lower"
        case ScheduleTraits(stepped_by=often):
            yield "stepped", "every epoch, by a score" if often == "score" else f"every {often}"
    yield "paper", card.reference.paper + (f" ({card.reference.year})" if card.reference.year else "")
    yield "url", card.reference.url


def _sizes(size: Sequence[int] | None) -> str:
    return " x ".join(map(str, size or ()))


def _number(number: int | None) -> str:
    return f"{number:,}" if number else ""


def _listed(numbers: Sequence[float]) -> str:
    return f"({', '.join(map(str, numbers))})"
