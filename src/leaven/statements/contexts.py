"""Where statements may stand: at the top, in a phase, in the block of `data` or `optimizer`.

Decides which card a statement's name means in its place, and how a phase's statements join those of the whole recipe.
What the arguments mean is left to the checker.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from leaven.catalog import lookup, own
from leaven.catalog.card import Card
from leaven.catalog.user_code import technique_card
from leaven.catalog.values import Unknown
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic, Edit, Fix, Spot
from leaven.language.source import Span
from leaven.messages import describe
from leaven.messages.spelling import is_misspelling
from leaven.messages.suggestions import argument_of, owner_of
from leaven.statements.merge import merge
from leaven.statements.statement_keys import BLOCK_OWNERS, EDITS, Plain, has_label, is_edit, key_of, statement_card


class Scope(Protocol):
    """What is asked of a recipe's names: the cards of user code, and where reports go."""

    def report(self, id: str, headline: str, *spots: Spot | Span, **more: Any) -> Unknown: ...

    def user_card(self, path: str) -> Card | Unknown | None: ...

    def report_undefined(self, name: syntax.Name) -> Unknown | None: ...


@dataclass(frozen=True, slots=True)
class Recognised:
    """A statement that may stand where it does, and its card."""

    card: Card
    statement: syntax.Statement


def by_name(placed: Iterable[Recognised]) -> dict[str, list[Recognised]]:
    """The statements by the name of their card."""
    found: dict[str, list[Recognised]] = {}
    for one in placed:
        found.setdefault(one.card.bare_name, []).append(one)
    return found


def is_technique(card: Card) -> bool:
    return card.kind in ("technique", "user") or bool(card.facts.get("technique"))


def is_allowed_in_phase(card: Card) -> bool:
    return card.kind in ("technique", "user") or bool(card.facts.get("phase"))


def changes_model(statement: Plain) -> bool:
    """Whether a statement changes the model for good, so that one at the top is done once, before the first phase."""
    card = statement_card(statement.name.path) if statement.name is not None else None
    return card is not None and card.facts.get("changes") == "model"


def phase_statements(
    base: Iterable[Plain], inner: Iterable[syntax.AnyStatement], diagnostics: list[Diagnostic]
) -> list[Plain]:
    """What holds in a phase: what stands once is replaced by the phase's own, everything else is added to."""
    own_statements = [s for s in inner if isinstance(s, syntax.Statement | syntax.Broken)]
    replaced = {
        key_of(s)
        for s in own_statements
        if s.name is not None and (card := statement_card(s.name.path)) is not None and card.facts.get("once")
    }
    kept = [s for s in base if key_of(s) not in replaced] if replaced else base
    edits: list[Plain] = []
    plain: list[Plain] = []
    for statement in own_statements:
        (edits if is_edit(statement) else plain).append(statement)
    return merge([*kept, *plain], edits, diagnostics, "phase")


def recognise(
    statements: Iterable[syntax.AnyStatement], context: str, scope: Scope, known: Mapping[int, Recognised] | None = None
) -> list[Recognised]:
    """The statements that may stand here, each with its card; the others are reported.

    A misspelt one has the card that it must mean, so that what else is wrong with it is found too. `known` holds, by
    identity, those that were recognised already.
    """
    placed: list[Recognised] = []
    guessed: set[int] = set()
    first: dict[tuple[str, ...], Span] = {}
    for statement in statements:
        if isinstance(statement, syntax.Broken):
            if statement.block is not None and statement.name is not None:
                _read_broken_block(statement, scope)
            continue
        if not isinstance(statement, syntax.Statement):
            continue  # a name can't be introduced in a block, which names.py reports
        one = known.get(id(statement)) if known else None
        card = one.card if one is not None else _card_here(statement, context, scope)
        if card is None and not isinstance(scope.user_card(statement.name.path), Unknown):
            card = _unknown_statement(statement, context, scope)
            guessed.add(id(statement))
        if card is None:
            continue
        if card.facts.get("once") or has_label(card.name):
            key = key_of(statement)
            is_told_apart = len(key) > 1 or not has_label(card.name)
            if is_told_apart and key in first and statement.span.source is first[key].source:
                _repeated(statement, first[key], scope)
            first.setdefault(key, statement.name.span)
        placed.append(one or Recognised(card, statement))
    return _without_doubtful(placed, guessed) if guessed else placed


def _without_doubtful(placed: list[Recognised], guessed: set[int]) -> list[Recognised]:
    """Without guesses at what may stand once and is there already: so something else was meant."""
    certain = {one.card.name for one in placed if id(one.statement) not in guessed and one.card.facts.get("once")}
    return [one for one in placed if id(one.statement) not in guessed or one.card.name not in certain]


def _read_broken_block(statement: syntax.Broken, scope: Scope) -> None:
    """The block of a statement that could not be read may hold mistakes of its own."""
    assert statement.name is not None
    assert statement.block is not None
    card = own.read("statement", statement.name.path)
    if card is not None and card.facts.get("block") in _CONTEXTS:  # a broken `change` does not say whose block it is
        recognise(statement.block.statements, str(card.facts["block"]), scope)


def _repeated(statement: syntax.Statement, first: Span, scope: Scope) -> None:
    name = statement.name.path
    label = f' "{key_of(statement)[1]}"' if len(key_of(statement)) > 1 else ""
    scope.report(
        "repeated-statement",
        f"`{name}{label}` stands here twice",
        Spot(statement.name.span, "again here"),
        Spot(first, "first here"),
        fix="remove one of them" if not label else "give one of them another name",
    )


def _card_here(statement: syntax.Statement, context: str, scope: Scope) -> Card | None:
    """The card of a statement's name in its place; None where it has none there."""
    path = statement.name.path
    if context in BLOCK_OWNERS:
        card = own.read("statement", f"{context}.{path}")
        return replace(card, name=path) if card is not None else None
    card = statement_card(path) if "." not in path else own.read("technique", path)
    if card is not None and (context == "recipe" or is_allowed_in_phase(card)):
        return card
    user = scope.user_card(path)
    return technique_card(user) if isinstance(user, Card) else None


def _unknown_statement(statement: syntax.Statement, context: str, scope: Scope) -> Card | None:
    """Report a statement that has no meaning in its place; the answer is the card that it must mean, if any."""
    name, path = statement.name, statement.name.path
    here = _names_in(context)
    respelt = [word for word in here if word != path and word.replace("_", "") == path.replace("_", "").lower()]
    label, elsewhere = ("", "") if respelt else _where_it_belongs(statement, context)
    if elsewhere:
        scope.report(
            "misplaced-statement",
            f"`{path}` can't stand {_CONTEXTS[context]}",
            Spot(name.span, label),
            fix=elsewhere,
        )
        return None
    if scope.report_undefined(name) is not None:
        return None
    alias, dot, _ = path.partition(".")
    near = respelt or [word for word in lookup.nearest(path, here) if word not in EDITS or is_misspelling(path, word)]
    fix: Fix | str = (
        Fix(describe.did_you_mean(near), Edit(name.span, near[0])) if near else _as_argument(statement, context)
    )
    scope.report(
        "unknown-statement",
        f"no statement is called `{path}`",
        Spot(name.span, f"not known {_CONTEXTS[context]}"),
        notes=[f"nothing was imported as `{alias}`"] if dot else [],
        fix=fix,
    )
    if len(near) != 1 or near[0] in EDITS or not (respelt or is_misspelling(path, near[0])):
        return None
    return _card_here(replace(statement, name=replace(name, path=near[0])), context, scope)


def _as_argument(statement: syntax.Statement, context: str) -> str:
    """Where to write what is an argument of another statement: `epochs 10`."""
    word = lookup.SYNONYMS.get(statement.name.path, statement.name.path)
    value = statement.arguments[0].span.text if len(statement.arguments) == 1 else "…"
    if context == "phase" and word == "epochs":
        return f"write it in the line of the phase: `phase …, epochs={value}`"
    if context == "optimizer":
        return f"write `group {statement.name.path}, lr=…` for layers with settings of their own"
    owner = owner_of(word)
    if owner:
        outside = " outside the block" if context == "data" else ""
        return f"`{word}` is an argument: write {argument_of(owner, word, value)}{outside}"
    if word in _PYTHON:
        return f"a recipe has no `{word}`: it says what is to be done, and `arg` what may change"
    if context == "data":
        return "the block takes " + ", ".join(f"`{name}`" for name in _names_in(context))
    return "`leaven catalog search` lists what there is"


_PYTHON = ("if", "else", "for", "while", "def", "class", "return", "print", "with", "try", "raise")
_TRANSFORMS = ("augment", "augmentation", "augmentations", "transform", "transforms")
_CONTEXTS = {
    "recipe": "at the top of a recipe",
    "phase": "in a phase",
    "data": "in the block of `data`",
    "optimizer": "in the block of `optimizer`",
}


def _names_in(context: str) -> list[str]:
    if context in BLOCK_OWNERS:
        return [name.partition(".")[2] for name in own.names("statement") if name.startswith(f"{context}.")]
    return [
        name
        for name in (*own.names("statement"), *own.names("technique"))
        if "." not in name and (context == "recipe" or _is_allowed_in_phase(name))
    ]


def _is_allowed_in_phase(name: str) -> bool:
    card = statement_card(name)
    return card is not None and is_allowed_in_phase(card)


def _where_it_belongs(statement: syntax.Statement, context: str) -> tuple[str, str]:
    """What a word that is known elsewhere is, and where it should stand; empty where it is not known at all."""
    path = statement.name.path
    if own.read("statement", path) or own.read("technique", path):
        if context == "phase":
            return "holds for the whole recipe", f"write `{path}` outside the phase"
        if context in BLOCK_OWNERS:
            return "belongs outside the block", f"write `{path}` outside the block"
    for owner in BLOCK_OWNERS:
        if own.read("statement", f"{owner}.{path}") and owner != context:
            return f"belongs to `{owner}`", f"write it in the block of `{owner}`: `{owner} … {{ {path} … }}`"
    call = _as_call(statement)
    if path in _TRANSFORMS and context != "data":
        inside = " -> ".join(argument.span.text for argument in statement.arguments) or "…"
        return "belongs to `data`", f"write the steps in the block of `data`: `data … {{ train {inside} }}`"
    if "." not in path and lookup.find("transform", path):
        written = f"`train {call}` or `eval {call}`" if context == "data" else f"`data … {{ train {call} }}`"
        return "a transform", f"write {written}"
    for kind in ("optimizer", "schedule", "loss", "model", "data"):
        if context in ("recipe", "phase") and lookup.find(kind, path):
            return describe.KIND_NOUNS[kind], f"write `{kind} {call}`"
    return "", ""


def arguments_in_block(placed: Recognised) -> list[syntax.Argument]:
    """What is written in a block as if it were a statement, and is an argument: `phase "head" { epochs 2 }`."""
    block, given = placed.statement.block, {a.keyword.path for a in placed.statement.arguments if a.keyword}
    return [
        syntax.Argument(one.name, one.arguments[0].value, one.span)
        for one in (block.statements if block is not None else ())
        if isinstance(one, syntax.Statement) and len(one.arguments) == 1 and one.arguments[0].keyword is None
        if placed.card.parameter(one.name.path) and one.name.path not in given
    ]


def steps_of(statement: syntax.Statement) -> str:
    """The statements of a block as the pipeline that they should have been."""
    inside = statement.block.statements if statement.block else ()
    calls = [_as_call(one) for one in inside[:4] if isinstance(one, syntax.Statement)]
    return f"`{statement.name.path} {' -> '.join(calls)}`" if calls else f"`{statement.name.path} resize(256)`"


def _as_call(statement: syntax.Statement) -> str:
    """A statement as the call that it should have been; long arguments are left out."""
    inside = ", ".join(argument.span.text for argument in statement.arguments[:5])
    is_short = len(inside) < 50 and "\n" not in inside and len(statement.arguments) <= 5
    return f"{statement.name.path}({inside if is_short else '…'})"
