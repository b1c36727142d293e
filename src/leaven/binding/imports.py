"""Imports of user code: the file is found and read, never run."""

import os.path

from leaven.binding.files import report_missing
from leaven.binding.scope import Scope
from leaven.catalog.user_code import ImportedModule, Unreadable, find_module, read_definitions
from leaven.catalog.values import FilePath, UserModule
from leaven.language import syntax
from leaven.messages import names as messages


def read_import(alias: str, statement: syntax.Import, scope: Scope) -> None:
    """Add a module to the scope; one that is not there is reported."""
    target, folder = statement.target, statement.target.span.source.folder
    if isinstance(target, syntax.String):
        place = folder / target.value
        module = UserModule(alias, target.value, True, place)
        if not os.path.isfile(place):
            scope.broken_names.add(alias)
            report_missing(scope, FilePath(target.value, place, target.span), "the Python file")
            return
    else:
        file = find_module(target.path, folder)
        if file is None:
            scope.broken_names.add(alias)
            scope.add(messages.no_such_module(target))
            return
        place, module = file, UserModule(alias, target.path, False, file)
    definitions = read_definitions(place, alias)
    if isinstance(definitions, Unreadable):
        report = messages.unreadable_python(module.target, place, definitions.reason, definitions.line, target.span)
        scope.add(report)
        scope.modules[alias] = ImportedModule(module, None, target.span)
    else:
        scope.modules[alias] = ImportedModule(module, definitions, target.span)
