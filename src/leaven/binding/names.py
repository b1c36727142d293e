"""The names that a recipe defines: imports are read, `arg`s get their values, `let`s are kept until they are used."""

import os.path
from collections.abc import Iterable, Iterator

from leaven.binding.args import read_args
from leaven.binding.files import report_missing
from leaven.binding.lets import refuse_unexpandable
from leaven.binding.scope import BOUND_BY_DATA, Scope
from leaven.catalog.user_code import ImportedModule, Unreadable, find_module, read_definitions
from leaven.catalog.values import FilePath, UserModule
from leaven.formats import program_flags
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic
from leaven.language.source import Source
from leaven.messages import names as messages
from leaven.messages import statements as statement_messages
from leaven.statements.assemble import Assembled
from leaven.statements.options import Options


def open_scope(assembled: Assembled, options: Options, requires_args: bool) -> Scope:
    """A scope with every name that the recipe defines."""
    scope = Scope(lets=dict(assembled.lets), broken_names=set(assembled.broken_names), requires_args=requires_args)
    scope.diagnostics += assembled.diagnostics
    for alias, statement in assembled.imports.items():
        _read_import(alias, statement, scope)
    for definition in _definitions(assembled):
        _refuse_reserved(definition, scope)
    _refuse_in_blocks(assembled.statements, scope)
    refuse_unexpandable(scope)
    read_args(assembled, options, scope)
    return scope


def _read_import(alias: str, statement: syntax.Import, scope: Scope) -> None:
    """Add a module to the scope, whose file is never run; one that is not there is reported."""
    target, folder = statement.target, statement.target.span.source.folder
    if isinstance(target, syntax.String):
        name, place = target.value, folder / target.value
        if not os.path.isfile(place):
            scope.broken_names.add(alias)
            report_missing(scope, FilePath(name, place, target.span), "the Python file")
            return
    else:
        name, found = target.path, find_module(target.path, folder)
        if found is None:
            scope.broken_names.add(alias)
            scope.add(messages.no_such_module(target))
            return
        place = found
    definitions = read_definitions(place, alias)
    module = UserModule(alias, name, isinstance(target, syntax.String), place)
    if isinstance(definitions, Unreadable):
        scope.add(messages.unreadable_python(name, place, definitions.reason, definitions.line, target.span))
    known = None if isinstance(definitions, Unreadable) else definitions
    scope.modules[alias] = ImportedModule(module, known, target.span)


def _definitions(assembled: Assembled) -> list[syntax.Arg | syntax.Let]:
    return [*assembled.args.values(), *assembled.lets.values()]


def _refuse_reserved(definition: syntax.Arg | syntax.Let, scope: Scope) -> None:
    """Report a name that means something else already, or can't be one."""
    name = definition.name
    if name.path in BOUND_BY_DATA:
        scope.add(messages.defined_by_data(name))
        scope.lets.pop(name.path, None)
    elif isinstance(definition, syntax.Arg) and name.path in program_flags.RESERVED:
        scope.add(messages.flag_of_runs(name))
    elif "." in name.path:
        scope.add(messages.dotted_name(name))


def _refuse_in_blocks(statements: Iterable[syntax.AnyStatement], scope: Scope, is_inside: bool = False) -> None:
    """Names are defined at the top only; whatever uses one that is defined in a block is not mentioned again."""
    for statement in statements:
        if isinstance(statement, syntax.Statement | syntax.Broken):
            if statement.block is not None:
                _refuse_in_blocks(statement.block.statements, scope, is_inside=True)
        elif is_inside:
            if isinstance(statement, syntax.Arg | syntax.Let):
                scope.broken_names.add(statement.name.path)
            elif isinstance(statement, syntax.Import) and statement.alias is not None:
                scope.broken_names.add(statement.alias.path)
            scope.add(statement_messages.definition_in_block(statement))


def unused(scope: Scope, assembled: Assembled, main: Source) -> Iterator[Diagnostic]:
    """Warnings about names that nothing uses; those of an extended recipe may be meant for others."""
    for definition in _definitions(assembled):
        name = definition.name
        if name.span.source is main and name.path not in scope.used and name.path not in scope.broken_names:
            yield messages.never_used(name, isinstance(definition, syntax.Arg))
