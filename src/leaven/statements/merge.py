"""Statements that meet others of the same key: which of them stand, and what `change` and `drop` make of them.

Decides by names and labels alone; what a statement means is left to the checker.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from leaven.catalog import lookup
from leaven.catalog.card import KINDS, Parameter
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic
from leaven.language.source import Span
from leaven.messages.spelling import MAX_SUGGESTIONS
from leaven.statements import argument_paths
from leaven.statements.defaults import default_statement
from leaven.statements.statement_keys import BLOCK_OWNERS, Key, Plain, is_edit, key_of, plain, statement_card

_LOOKED_AT = 1_000  # statements among which the one that was meant is looked for


def merge(base: Sequence[Plain], later: Sequence[Plain], diagnostics: list[Diagnostic], owner: str = "") -> list[Plain]:
    """The base's statements with the later ones in their places, then `change` and `drop` carried out.

    `owner` is the statement in whose block they stand; at the top of a recipe there is none.
    """
    merged = replace_earlier(base, [statement for statement in later if not is_edit(statement)])
    edits = [statement for statement in later if is_edit(statement) and isinstance(statement, syntax.Statement)]
    return _Editing(merged, diagnostics, owner).carry_out(edits) if edits else merged


def replace_earlier(base: Sequence[Plain], later: Sequence[Plain]) -> list[Plain]:
    """The base's statements, those of them whose key is among the later ones replaced by these."""
    if not later:
        return list(base)
    replacements: dict[Key, list[Plain]] = {}
    for statement in later:
        replacements.setdefault(key_of(statement), []).append(statement)
    merged: list[Plain] = []
    placed: set[Key] = set()
    for statement in base:
        key = key_of(statement)
        if key not in replacements:
            merged.append(statement)
        elif key not in placed:
            placed.add(key)
            merged += replacements[key]
    return merged + [statement for statement in later if key_of(statement) not in placed]


class _Editing:
    """A list of statements on which edits are carried out; each is found by its key, however many there are."""

    def __init__(self, statements: Sequence[Plain], diagnostics: list[Diagnostic], owner: str) -> None:
        self.statements: list[Plain | None] = []  # None where one was dropped
        self.places: dict[Key, list[int]] = {}  # of all statements of a name, and of those with a label
        self.changes: dict[int, list[syntax.Statement]] = {}
        self.own_in_phases: dict[str, list[str]] = {}  # the phases that have a statement of that name of their own
        self.diagnostics = diagnostics
        self.owner = owner
        for statement in statements:
            self._append(statement)

    def carry_out(self, edits: Iterable[syntax.Statement]) -> list[Plain]:
        """What is left of the statements."""
        for edit in edits:
            target, label = _target(edit)
            if target is None:
                self.diagnostics.append(argument_paths.says_nothing(edit))
                continue
            key = (target.path,) if label is None else (target.path, label)
            if edit.name.path == "drop":
                self._drop(edit, target, key)
            else:
                self._change(edit, target, key)
        if ("phase",) in self.places:
            for edit in [edit for edits in self.changes.values() for edit in edits]:
                self._report_unreached(edit)
        return [
            _changed(statement, self.changes[at], self.diagnostics, self.owner) if at in self.changes else statement
            for at, statement in enumerate(self.statements)
            if statement is not None
        ]

    def _append(self, statement: Plain) -> None:
        key = key_of(statement)
        for known_by in {key, key[:1]}:
            self.places.setdefault(known_by, []).append(len(self.statements))
        self.statements.append(statement)

    def _left(self) -> list[Plain]:
        return [statement for statement in self.statements if statement is not None]

    def _drop(self, edit: syntax.Statement, target: syntax.Name, key: Key) -> None:
        if self._last(key) is None:
            self._missing(edit, target, key)
        for at in self.places.pop(key, ()):
            self.statements[at] = None

    def _change(self, edit: syntax.Statement, target: syntax.Name, key: Key) -> None:
        at = self._last(key)
        if at is None:
            at = self._from_default(edit, target, key)
        elif self._is_one_of_several(key):
            labels = argument_paths.labels_of(target.path, self._left())
            self.diagnostics.append(argument_paths.one_of_several(edit, target, labels))
            return
        if at is None:
            self._missing(edit, target, key)
        else:
            self.changes.setdefault(at, []).append(edit)

    def _last(self, key: Key) -> int | None:
        """Where the last statement of that key stands."""
        places = self.places.get(key, [])
        while places and self.statements[places[-1]] is None:
            places.pop()
        return places[-1] if places else None

    def _is_one_of_several(self, key: Key) -> bool:
        """Whether statements with different labels have that key, so that it does not tell which is meant."""
        keys = (key_of(s) for at in reversed(self.places[key]) if (s := self.statements[at]) is not None)
        first = next(keys)
        return len(key) == 1 and len(first) > 1 and any(other != first for other in keys)

    def _report_unreached(self, edit: syntax.Statement) -> None:
        """Name the phases that have a statement of their own in the place of the one that is changed."""
        target, _ = _target(edit)
        card = statement_card(target.path, self.owner) if target is not None else None
        if target is None or self.owner or card is None or not card.facts.get("once"):
            return
        if target.path not in self.own_in_phases:
            self.own_in_phases[target.path] = argument_paths.phases_with(target.path, self._left())
        phases = self.own_in_phases[target.path]
        missed = [phase for phase in phases if not self._is_changed_in(phase, target.path, edit)]
        if missed:
            is_total = len(missed) == len(self.places[("phase",)])
            self.diagnostics.append(argument_paths.out_of_reach(edit, target, missed, is_total))

    def _is_changed_in(self, phase: str, name: str, edit: syntax.Statement) -> bool:
        """Whether another edit sets the same arguments of the phase's own statement."""
        at = self._last(("phase", phase))
        changes = self.changes.get(at, []) if at is not None else []
        inner = [one for change in changes if change.block for one in change.block.statements]
        return any(
            isinstance(one, syntax.Statement) and is_edit(one) and _sets(one, name) >= _sets(edit, name)
            for one in inner
        )

    def _from_default(self, edit: syntax.Statement, target: syntax.Name, key: Key) -> int | None:
        """Where the statement stands now that holds where none is written: that can be changed too."""
        card = statement_card(target.path, self.owner)
        if len(key) > 1 or card is None or not (self.owner in BLOCK_OWNERS or card.facts.get("missing")):
            return None
        written = default_statement(f"{self.owner}.{target.path}" if self.owner in BLOCK_OWNERS else target.path)
        self._append(_relocated(written, edit.span))
        return len(self.statements) - 1

    def _missing(self, edit: syntax.Statement, target: syntax.Name, key: Key) -> None:
        card = statement_card(target.path)
        is_required = not self.owner and len(key) == 1 and card is not None and bool(card.facts.get("required"))
        if is_required or ("",) in self.places:
            return  # that it is missing is reported, or one of the statements that could not be read may be it
        label = key[1] if len(key) > 1 else None
        candidates = self._left()[:_LOOKED_AT] if len(self.diagnostics) < MAX_SUGGESTIONS else []
        if label is None and argument_paths.is_misspelt(target.path, candidates, self.owner):
            return
        self.diagnostics.append(argument_paths.not_there(edit, target, label, candidates, self.owner))


def _target(edit: syntax.Statement) -> tuple[syntax.Name | None, str | None]:
    """The statement that `change` or `drop` names, and the label that tells it from others of its name."""
    positional = [argument.value for argument in edit.arguments if argument.keyword is None]
    target: syntax.Name | None = None
    label: str | None = None
    match positional:
        case [syntax.Name() as target, syntax.String(value=label), *_] | [
            syntax.Name() as target,
            syntax.Name(path=label),
            *_,
        ]:
            pass
        case [syntax.Name() as target, *_] | [syntax.Call(name=target), *_]:
            pass
    return target, label


def _sets(edit: syntax.Statement, name: str) -> set[str]:
    """The arguments that an edit sets, if it is one of that statement."""
    target, _ = _target(edit)
    is_its = target is not None and target.path == name
    return {argument.keyword.path for argument in edit.arguments if argument.keyword} if is_its else set()


def _relocated(statement: syntax.Statement, span: Span) -> syntax.Statement:
    """A default statement with the place of the edit that touches it, so that reports point at something written."""
    return replace(
        statement,
        name=replace(statement.name, span=span),
        span=span,
        arguments=tuple(replace(argument, span=span) for argument in statement.arguments),
    )


def _changed(statement: Plain, edits: Sequence[syntax.Statement], diagnostics: list[Diagnostic], owner: str) -> Plain:
    """A statement with the arguments and blocks of its `change`s merged in."""
    if isinstance(statement, syntax.Broken):
        return statement
    name = statement.name.path
    card = statement_card(name, owner)
    parameters = card.parameters if card else ()
    changes = [argument for edit in edits for argument in edit.arguments if argument.keyword is not None]
    call_at, kind = _first_call(statement.arguments, parameters)
    its_own = {parameter.name for parameter in parameters}
    inner = [c for c in changes if call_at is not None and c.keyword is not None and c.keyword.path not in its_own]
    outer = [c for c in changes if call_at is None or (c.keyword is not None and c.keyword.path in its_own)]
    arguments = list(statement.arguments)
    if call_at is not None and inner:
        changed = with_changes(arguments[call_at].value, inner, kind)
        arguments[call_at] = replace(arguments[call_at], value=changed)
    block = statement.block
    for edit in edits:
        if edit.block is not None:
            block = _changed_block(name, block, edit.block, diagnostics)
    return replace(statement, arguments=_with_arguments(arguments, outer, parameters), block=block)


def _changed_block(
    name: str, block: syntax.Block | None, change: syntax.Block, diagnostics: list[Diagnostic]
) -> syntax.Block:
    before, later = plain(block.statements) if block else [], plain(change.statements)
    if name in BLOCK_OWNERS:
        inside = merge(before, later, diagnostics, name)
    else:  # what a phase edits may stand at the top of the recipe, so this is done when the two are put together
        edits = [statement for statement in later if is_edit(statement)]
        inside = replace_earlier(before, [statement for statement in later if not is_edit(statement)]) + edits
    return syntax.Block(tuple(inside), (block or change).span)


def _first_call(arguments: Sequence[syntax.Argument], parameters: Sequence[Parameter]) -> tuple[int | None, str]:
    """Where the first call among the arguments stands, and the kind of card that it names."""
    for at, argument in enumerate(arguments):
        if argument.keyword is not None:
            takes = [parameter for parameter in parameters if parameter.name == argument.keyword.path]
        else:
            takes = list(parameters[at : at + 1])
        kind = takes[0].types[0].replace("transforms", "transform") if takes else ""
        is_name = isinstance(argument.value, syntax.Name) and (kind in KINDS or not takes)
        if isinstance(argument.value, syntax.Call) or is_name:
            return at, kind
    return None, ""


def with_changes(value: syntax.Value, changes: Sequence[syntax.Argument], kind: str = "") -> syntax.Value:
    """A call with some of its arguments replaced, or a name made one; any other value stays as it is."""
    if isinstance(value, syntax.Name):
        value = syntax.Call(value, (), value.span)
    if not isinstance(value, syntax.Call):
        return value
    cards = lookup.find(kind, value.name.path) if kind in KINDS else ()
    return replace(value, arguments=_with_arguments(value.arguments, changes, cards[0].parameters if cards else ()))


def _with_arguments(
    arguments: Sequence[syntax.Argument], changes: Sequence[syntax.Argument], parameters: Sequence[Parameter]
) -> tuple[syntax.Argument, ...]:
    """The arguments with some of them replaced, or added where they were not there."""
    positional = [parameter.name for parameter in parameters if parameter.positional]
    merged: list[syntax.Argument] = list(arguments)
    places: dict[str, int] = {}
    for at, argument in enumerate(arguments):
        if argument.keyword is not None:
            places.setdefault(argument.keyword.path, at)
        elif at < len(positional):
            places.setdefault(positional[at], at)
    for change in changes:
        assert change.keyword is not None
        at = places.setdefault(change.keyword.path, len(merged))
        if at == len(merged):
            merged.append(change)
        else:
            merged[at] = replace(change, keyword=None) if merged[at].keyword is None else change
    return tuple(merged)
