"""Facts about the data before it is read: task, outputs, channels, sizes, official splits."""

import os.path
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from leaven.binding.files import report_missing
from leaven.binding.scope import Scope
from leaven.catalog.lookup import nearest
from leaven.catalog.value_text import quoted
from leaven.catalog.values import FilePath, Invocation, Pending, Setting, Written
from leaven.formats.finding import Finding
from leaven.formats.listing import either
from leaven.language.diagnostics import error, warning
from leaven.language.fixes import Fix
from leaven.language.record import Record
from leaven.messages import inputs as messages
from leaven.messages.places import written_in
from leaven.messages.suggestions import similar
from leaven.messages.techniques import missing_library
from leaven.recipe.task import Task, default_task, task_by_parameter, task_named, task_of_library

if TYPE_CHECKING:
    from leaven.sources.source import OnDisk


class DataFacts(Record):
    """The facts of a dataset, as far as its files and its card tell."""

    task: Task = field(default_factory=default_task)
    outputs: int | None = None  # how many the model needs
    channels: int | None = None
    size: tuple[int, int] | None = None
    splits: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)  # of the samples of each split, where known; or of ''
    is_natural: bool | None = True  # photographs; None where nobody tells
    names: tuple[str, ...] = ()  # of the outputs, in order, where they are known
    class_counts: tuple[int, ...] = ()  # the samples of each class, where they are known
    target: tuple[Setting, ...] = ()  # the arguments by which the recipe asks for the task
    by_argument: Mapping[str, str] = field(default_factory=dict)  # the tasks that other arguments would ask for
    is_known: bool = True  # not where there is no data, or it has errors


def describe_data(data: Invocation, asked: Setting | None, scope: Scope, *, skips_bad: bool = False) -> DataFacts:
    """The facts of a data set. `asked` is the task that the data statement names. Missing files are reported.

    With `skips_bad`, samples that can't be used are no errors.
    """
    known = data.card.data
    switches = {parameter.name for parameter in data.card.parameters if "bool" in parameter.types}
    described = DataFacts(
        task=_task(data, asked, scope),
        outputs=known.classes,
        channels=known.channels,
        size=known.size,
        splits=known.splits,
        counts=known.samples,
        is_natural=None if data.card.kind == "user" else known.is_safe_to_augment,
        names=known.class_names,
        target=_target_settings(data),
        by_argument={name: task for name, task in known.task_by_argument.items() if name in switches},
    )
    readable = "" if described.task.is_known else task_named(described.task.name).traits.sources
    if readable:
        scope.add(messages.read_otherwise(data, described.task.name, readable))
        return replace(described, is_known=False)
    for parameter in data.card.parameters:
        path = data.value(parameter.name) if parameter.must_exist else None
        if isinstance(path, FilePath) and not os.path.exists(path.place):
            is_first = parameter is data.card.parameters[0]
            has_folders = bool(known.on_disk) and known.has_labels and (is_first or not os.path.splitext(path.text)[1])
            is_folder = parameter.name == "root" or has_folders
            report_missing(scope, path, "the folder" if is_folder else "the file")
            return described
    if (requires := data.card.requires) is not None and find_spec(requires.library) is None:
        scope.add(missing_library(data, requires))
        return described
    on_disk = _on_disk(data, described, skips_bad) if known.on_disk else None
    facts = on_disk.look() if on_disk is not None else None
    if facts is None:
        return described
    for finding in facts.findings:
        _report(finding, data, scope)
    return replace(
        described,
        splits=facts.splits,
        names=facts.names,
        outputs=len(facts.names) or None,
        counts=facts.counts,
        class_counts=facts.class_counts,
    )


def sizes_on_disk(data: Invocation, described: DataFacts) -> Mapping[tuple[int, int], str]:
    """The heights and widths of images on disk, each with one that has it; empty where nobody knows."""
    on_disk = _on_disk(data, described, skips_bad=False) if data.card.data.on_disk and described.is_known else None
    sizes = getattr(on_disk, "sizes", None)
    return sizes() if sizes is not None else {}


def _task(data: Invocation, asked: Setting | None, scope: Scope) -> Task:
    """The task that arguments ask for, else the usual one of such data."""
    known = data.card.data
    usual = known.task
    for argument, task_name in known.task_by_argument.items():
        usual = task_name if data.value(argument) not in (None, False) else usual
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
    """The arguments that say what is to be predicted, where the recipe has any. All are those of one task."""
    settings = [data.setting(name) for name in task_by_parameter()]
    written = [s for s in settings if s is not None and s.value is not None and isinstance(s.origin, Written)]
    return tuple(s for s in written if task_by_parameter()[s.name] == task_by_parameter()[written[0].name])


def _on_disk(data: Invocation, described: DataFacts, skips_bad: bool) -> "OnDisk | None":
    """The object that reads the data on disk; None where an argument is known only when the recipe runs."""
    known, first = data.card.data, data.settings[0].value
    arguments = _arguments(data, [s for s in data.settings[1:] if s.name not in task_by_parameter()])
    asked = _arguments(data, described.target)
    if not isinstance(first, FilePath) or arguments is None or asked is None:
        return None
    reader = described.task.reader(asked) if asked or not known.has_labels else None
    module, _, name = known.on_disk.rpartition(".")
    if known.has_columns:
        arguments["target"] = reader
    if known.endings:
        arguments["endings"] = known.endings
    if known.skips_bad and skips_bad:
        arguments["on_bad_file"] = "skip"
    on_disk: OnDisk = getattr(import_module(module), name)(first.place, first.text, **arguments)
    return on_disk


def _arguments(data: Invocation, settings: Sequence[Setting]) -> dict[str, Any] | None:
    """Arguments by the names that Python code gives them; None where one is known only when the recipe runs."""
    if any(isinstance(setting.value, Pending) for setting in settings):
        return None
    targets = {parameter.name: parameter.target or parameter.name for parameter in data.card.parameters}
    return {targets[setting.name]: getattr(setting.value, "place", setting.value) for setting in settings}


def _report(finding: Finding, data: Invocation, scope: Scope) -> None:
    """Report what is wrong with the data at the argument that it is about."""
    setting = data.setting(finding.argument) or data.settings[0]
    if not isinstance(setting.origin, Written):
        if finding.id == "unknown-column" and finding.argument in task_by_parameter():
            # A table without the usual column of labels, where the recipe names no other.
            fact = f"no column with labels is named, and {finding.fact}"
            help = f"add {either([f'`{name}=`' for name in data.card.at_most_one_of])}"
            finding = finding._replace(fact=fact, help=help, wrong="", choices=())
        setting = data.settings[0]
    place = (setting.value.span if isinstance(setting.value, FilePath) else None) or setting.span or data.span
    fix: Fix | str | None = finding.help or None
    if finding.choices:
        near = nearest(finding.wrong, finding.choices, limit=1)
        column = place and written_in(finding.wrong, place)
        fix = similar(column, [quoted(near[0])]) if near and column else None
    say = error if finding.is_error else warning
    label = finding.label or "read from here"
    scope.add(say(finding.id, finding.fact, (place, label), notes=finding.notes, fix=fix))
