"""What is known about the data before it is read: task, outputs, channels, sizes, official splits."""

import os.path
from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from leaven.binding.files import report_missing
from leaven.binding.scope import Scope
from leaven.catalog.lookup import nearest
from leaven.catalog.values import FilePath, Invocation, Pending, Setting, Written
from leaven.formats.finding import Finding
from leaven.formats.image_folder import read_image_folder
from leaven.language.diagnostics import Edit, Fix, Spot
from leaven.language.record import Record
from leaven.language.source import Span
from leaven.messages import data as messages
from leaven.recipe.task import Task, task_by_parameter, task_named, task_of_library

if TYPE_CHECKING:
    from leaven.formats.samples import Looked


class DataFacts(Record):
    """What a data set is like, as far as looking at it tells."""

    task: Task = field(default_factory=lambda: task_named("classification"))
    outputs: int | None = None  # how many the model needs
    channels: int | None = None
    size: tuple[int, int] | None = None
    splits: tuple[str, ...] = ()
    is_natural: bool | None = True  # photographs; None where nobody tells
    names: tuple[str, ...] = ()  # of the outputs, in order, where they are known
    target: tuple[Setting, ...] = ()  # the arguments by which the recipe asks for the task


def describe_data(data: Invocation, asked: Setting | None, scope: Scope) -> DataFacts:
    """The facts of a data set. `asked` is the task that the data statement names. Missing files are reported."""
    known = data.card.data
    described = DataFacts(
        task=_task(data, asked, scope),
        outputs=known.classes,
        channels=known.channels,
        size=known.size,
        splits=known.splits,
        is_natural=None if data.card.kind == "user" else known.is_safe_to_augment,
        names=known.class_names,
        target=_target_settings(data),
    )
    for parameter in data.card.parameters:
        path = data.value(parameter.name) if parameter.must_exist else None
        if isinstance(path, FilePath) and not os.path.exists(path.place):
            report_missing(scope, path, "the folder" if known.files == "folder" else "the file")
            return described
    match known.files:
        case "folder":
            return _folder(data, described, scope)
        case "table":
            return _table(data, described, scope)
    return described


def _task(data: Invocation, asked: Setting | None, scope: Scope) -> Task:
    """The task that arguments ask for, else the usual one of such data."""
    known = data.card.data
    usual = known.task
    for argument, told in known.task_by_argument.items():
        usual = told if data.value(argument) is not None else usual
    task = task_of_library(usual)
    by_parameter = task_by_parameter()
    if written := [setting.name for setting in _target_settings(data)]:
        task = task_named(by_parameter[written[0]], task.input)
    if asked is None or asked.value is None:
        return task
    wanted = task_named(asked.value.card.name, task.input or "image")
    if wanted.name != task.name and data.card.kind != "user":
        arguments = [name for name, owner in by_parameter.items() if owner == wanted.name]
        takes = next((name for name in arguments if data.card.parameter(name)), None)
        scope.add(messages.other_task(data, asked, task.title, wanted.title, takes))
        return task
    return wanted


def _target_settings(data: Invocation) -> tuple[Setting, ...]:
    """The arguments that say what is to be predicted, where the recipe has any."""
    found = [data.setting(name) for name in task_by_parameter()]
    return tuple(s for s in found if s is not None and s.value is not None and isinstance(s.origin, Written))


# -- folders


def _folder(data: Invocation, described: DataFacts, scope: Scope) -> DataFacts:
    path = data.value("path")
    if not isinstance(path, FilePath):  # an `arg` without a default
        return described
    span = path.span or (data.origin.span if isinstance(data.origin, Written) else None)
    spots = [] if span is None else [Spot(span, "the images are looked for here")]
    if not os.path.isdir(path.place):
        scope.report("missing-file", f"`{path.text}` is a file, not a folder", *spots, fix=_not_a_folder(path))
        return described
    if described.target:
        from leaven.formats.image_table import metadata_folder  # few recipes need it

        arguments = _arguments(described.target, data)
        if arguments is None:
            return described
        source = metadata_folder(path.place, path.text, described.task.reader(arguments))
        return _looked(source.look(), data, path, described, scope)
    read = read_image_folder(path.place, path.text)
    for finding in read.findings:
        say = scope.report if finding.is_error else scope.warn
        say(finding.id, finding.fact, *spots, notes=finding.notes, fix=finding.help)
    if not read.classes:
        return described
    return replace(described, outputs=len(read.classes), splits=read.splits, names=tuple(read.classes))


def _not_a_folder(path: FilePath) -> str:
    if path.place.suffix in (".csv", ".tsv"):
        return f'write `csv("{path.text}", image="…", label="…")` for a table'
    if path.place.suffix in (".zip", ".tar", ".gz", ".tgz", ".7z"):
        return "unpack it, and give the folder"
    return "give the folder that holds one sub-folder per class"


# -- tables


def _table(data: Invocation, described: DataFacts, scope: Scope) -> DataFacts:
    from leaven.formats.image_table import ImageTable  # few recipes need it

    path = data.value("file")
    column = data.value("image") or data.value("text")
    arguments = _arguments(described.target, data)
    if not isinstance(path, FilePath) or not isinstance(column, str) or arguments is None:
        return described
    reader = described.task.reader(arguments)
    separator = data.value("separator")
    table = ImageTable(path.place, path.text, column, reader, separator=separator)
    return _looked(table.look(), data, path, described, scope)


def _arguments(settings: Sequence[Setting], data: Invocation) -> dict[str, Any] | None:
    """The arguments of the task's reader; None where they are known only when the recipe runs."""
    found: dict[str, Any] = {}
    for setting in settings:
        parameter = data.card.parameter(setting.name)
        assert parameter is not None
        if isinstance(setting.value, Pending):
            return None
        found[parameter.target or setting.name] = setting.value
    return found


def _looked(looked: "Looked", data: Invocation, path: FilePath, described: DataFacts, scope: Scope) -> DataFacts:
    described = replace(described, splits=looked.splits)
    for finding in looked.findings:
        _report(finding, data, path, scope)
    if looked.target is None:
        return described
    return replace(described, outputs=len(looked.target.names), names=looked.target.names)


def _report(finding: Finding, data: Invocation, path: FilePath, scope: Scope) -> None:
    """Report what is wrong with a table at the argument that it is about."""
    name = "text" if finding.argument == "image" and data.value("image") is None else finding.argument
    setting = data.setting(name)
    is_written = setting is not None and isinstance(setting.origin, Written)
    span: Span | None = setting.origin.span if is_written else path.span  # type: ignore[union-attr]
    fix: Fix | str | None = finding.help or None
    if finding.choices:
        near = nearest(finding.wrong, finding.choices, limit=1)
        edit = Edit(span, f'"{near[0]}"') if near and span and is_written and setting.value == finding.wrong else None  # type: ignore[union-attr]
        fix = Fix(f"did you mean `{near[0]}`?", edit) if near else None
    spots = [Spot(span, finding.label or "looked for here")] if span else []
    scope.report(finding.id, finding.fact, *spots, notes=finding.notes, fix=fix)
