"""Statements with the same key: which of them counts, and what `change` and `drop` make of them.

Decides by names and labels alone; what a statement means is left to `binding`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from leaven.catalog import own
from leaven.catalog.statement_keys import (
    BLOCK_OWNERS,
    BodyStatement,
    Key,
    body,
    is_edit,
    key_of,
    labels_of,
    phases_with,
    statement_card,
)
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic
from leaven.messages import edits as messages
from leaven.messages.suggestions import MAX_SUGGESTIONS, is_misspelling
from leaven.statements.changed_arguments import changed_statement

_MAX_CANDIDATES = 1_000  # statements among which the one that was meant is looked for


def merge(
    base: Sequence[BodyStatement], later: Sequence[BodyStatement], diagnostics: list[Diagnostic], owner: str = ""
) -> list[BodyStatement]:
    """The base's statements with the later ones in their places, then `change` and `drop` applied.

    `owner` is the statement in whose block they are; at the top of a recipe there is none.
    """
    return apply_edits(_replace_earlier(base, later), later, diagnostics, owner)


def apply_edits(
    statements: Sequence[BodyStatement], later: Sequence[BodyStatement], diagnostics: list[Diagnostic], owner: str
) -> list[BodyStatement]:
    """The statements after the edits among the later ones. None of those beside the edits is dropped."""
    edits = [statement for statement in later if is_edit(statement) and isinstance(statement, syntax.Statement)]
    return _Editing(statements, later, diagnostics, owner).apply(edits) if edits else list(statements)


def _replace_earlier(base: Sequence[BodyStatement], later: Sequence[BodyStatement]) -> list[BodyStatement]:
    """The base's statements, those of them whose key is among the later ones, edits aside, replaced by these."""
    own = [statement for statement in later if not is_edit(statement)]
    if not own:
        return list(base)
    replacements: dict[Key, list[BodyStatement]] = {}
    for statement in own:
        replacements.setdefault(key_of(statement), []).append(statement)
    merged: list[BodyStatement] = []
    placed: set[Key] = set()
    for statement in base:
        key = key_of(statement)
        if key not in replacements:
            merged.append(statement)
        elif key not in placed:
            placed.add(key)
            merged += replacements[key]
    return merged + [statement for statement in own if key_of(statement) not in placed]


class _Editing:
    """A list of statements to which edits are applied; each is found by its key, however many there are."""

    def __init__(
        self, before: Sequence[BodyStatement], later: Sequence[BodyStatement], diagnostics: list[Diagnostic], owner: str
    ) -> None:
        self.statements: list[BodyStatement | None] = []  # None where one was dropped
        self.places: dict[Key, list[int]] = {}  # of all statements of a name, and of those with a label
        self.changes: dict[int, list[syntax.Statement]] = {}
        self.own_in_phases: dict[str, list[str]] = {}  # the phases that have a statement of that name of their own
        self.later = set(map(id, later))
        self.diagnostics = diagnostics
        self.owner = owner
        for statement in before:
            self._append(statement)

    def apply(self, edits: Iterable[syntax.Statement]) -> list[BodyStatement]:
        """The statements after the edits."""
        for edit in edits:
            target, key = target_of(edit)
            if target is None:
                self.diagnostics.append(messages.without_target(edit))
            elif edit.name.path == "drop":
                self._drop(edit, target, key)
            else:
                self._change(edit, target, key)
        if ("phase",) in self.places:
            for edit in [edit for edits in self.changes.values() for edit in edits]:
                self._report_unreached(edit)
        return [
            self._changed(statement, self.changes[at]) if at in self.changes else statement
            for at, statement in enumerate(self.statements)
            if statement is not None
        ]

    def _append(self, statement: BodyStatement) -> None:
        key = key_of(statement)
        for known_by in {key, key[:1]}:
            self.places.setdefault(known_by, []).append(len(self.statements))
        self.statements.append(statement)

    def _left(self) -> list[BodyStatement]:
        return [statement for statement in self.statements if statement is not None]

    def _drop(self, edit: syntax.Statement, target: syntax.Name, key: Key) -> None:
        if self._last(key) is None:
            self._missing(edit, target, key)
        for at in self.places.get(key, ()):
            if id(self.statements[at]) not in self.later:
                self.statements[at] = None

    def _change(self, edit: syntax.Statement, target: syntax.Name, key: Key) -> None:
        at = self._last(key)
        if at is None:
            at = self._from_default(edit, target, key)
        elif self._is_one_of_several(key):
            self.diagnostics.append(messages.one_of_several(edit, target, labels_of(target.path, self._left())))
            return
        if at is None:
            self._missing(edit, target, key)
        else:
            self.changes.setdefault(at, []).append(edit)

    def _last(self, key: Key) -> int | None:
        """The position of the last statement of that key."""
        places = self.places.get(key, [])
        while places and self.statements[places[-1]] is None:
            places.pop()
        return places[-1] if places else None

    def _is_one_of_several(self, key: Key) -> bool:
        """Whether statements with different labels have that key, so that it does not tell which is meant."""
        keys = (key_of(s) for at in reversed(self.places[key]) if (s := self.statements[at]) is not None)
        first = next(keys)
        return len(key) == 1 and len(first) > 1 and any(other != first for other in keys)

    def _changed(self, statement: BodyStatement, edits: Sequence[syntax.Statement]) -> BodyStatement:
        if isinstance(statement, syntax.Broken):
            return statement
        changed = changed_statement(statement, edits, statement_card(statement.name.path, self.owner))
        for edit in edits:
            if edit.block is not None:
                changed = replace(changed, block=self._changed_block(changed, edit.block))
        return changed

    def _changed_block(self, statement: syntax.Statement, change: syntax.Block) -> syntax.Block:
        name, block = statement.name.path, statement.block
        before, later = body(block.statements) if block else [], body(change.statements)
        if name in BLOCK_OWNERS:
            inside = merge(before, later, self.diagnostics, name)
        else:  # what a phase edits may be at the top of the recipe, so this is done when the two are put together
            inside = _replace_earlier(before, later) + list(filter(is_edit, later))
        return syntax.Block(tuple(inside), (block or change).span)

    def _report_unreached(self, edit: syntax.Statement) -> None:
        """Report the phases that have a statement of their own in the place of the one that is changed."""
        target, _ = target_of(edit)
        card = statement_card(target.path, self.owner) if target is not None else None
        if target is None or self.owner or card is None or not card.statement.once:
            return
        if target.path not in self.own_in_phases:
            self.own_in_phases[target.path] = phases_with(target.path, self._left())
        phases = self.own_in_phases[target.path]
        missed = [phase for phase in phases if not self._is_changed_in(phase, target.path, edit)]
        if missed and len(missed) == len(self.places[("phase",)]):
            self.diagnostics.append(messages.changes_nothing(edit, target, missed))
        elif missed:
            self.diagnostics.append(messages.changes_in_part(edit, target, missed))

    def _is_changed_in(self, phase: str, name: str, edit: syntax.Statement) -> bool:
        """Whether another edit sets the same arguments of the phase's own statement."""
        at = self._last(("phase", phase))
        changes = self.changes.get(at, []) if at is not None else []
        inner = [s for change in changes for s in change.inner if isinstance(s, syntax.Statement)]
        return any(is_edit(statement) and _sets(statement, name) >= _sets(edit, name) for statement in inner)

    def _from_default(self, edit: syntax.Statement, target: syntax.Name, key: Key) -> int | None:
        """The position of the default statement, now added: it can be changed although nobody wrote it."""
        card = statement_card(target.path, self.owner)
        if len(key) > 1 or card is None or not (self.owner in BLOCK_OWNERS or card.statement.default):
            return None
        written = own.default_statement(f"{self.owner}.{target.path}" if self.owner in BLOCK_OWNERS else target.path)
        # With the place of the edit, so that reports point at something written.
        arguments = tuple(replace(argument, span=edit.span) for argument in written.arguments)
        name = replace(written.name, span=edit.span)
        self._append(replace(written, name=name, arguments=arguments, span=edit.span))
        return len(self.statements) - 1

    def _missing(self, edit: syntax.Statement, target: syntax.Name, key: Key) -> None:
        card = statement_card(target.path)
        is_required = not self.owner and len(key) == 1 and card is not None and card.statement.required
        if is_required or ("",) in self.places:
            return  # that it is missing is reported, or one of the statements that could not be read may be it
        label = key[1] if len(key) > 1 else None
        candidates = self._left()[:_MAX_CANDIDATES] if len(self.diagnostics) < MAX_SUGGESTIONS else []
        # A statement whose own name means nothing may be the one of that name, misspelt.
        names = {s.name.path for s in candidates if s.name is not None and "." not in s.name.path}
        unknown = (other for other in names if not statement_card(other, self.owner))
        if label is None and any(is_misspelling(other, target.path) for other in unknown):
            return
        self.diagnostics.append(messages.no_such_statement(edit, target, label, candidates, self.owner))


def target_of(edit: syntax.Statement) -> tuple[syntax.Name | None, Key]:
    """The statement that `change` or `drop` names, and its key, which has the label where one is given."""
    match [argument.value for argument in edit.arguments if argument.keyword is None]:
        case [syntax.Name() as target, syntax.String(value=label) | syntax.Name(path=label), *_]:
            return target, (target.path, label)
        case [syntax.Name() as target, *_] | [syntax.Call(name=target), *_]:
            return target, (target.path,)
    return None, ()


def _sets(edit: syntax.Statement, name: str) -> set[str]:
    """The arguments that an edit sets, if it is one of that statement."""
    target, _ = target_of(edit)
    is_its = target is not None and target.path == name
    return {argument.keyword.path for argument in edit.arguments if argument.keyword} if is_its else set()
