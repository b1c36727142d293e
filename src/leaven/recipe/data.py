"""What is known about the data before it is read: task, classes, channels, sizes, official splits."""

import os.path
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leaven.binding.files import report_missing
from leaven.binding.scope import Scope
from leaven.catalog.lookup import nearest
from leaven.catalog.values import FilePath, Invocation, Written
from leaven.formats.image_folder import read_image_folder
from leaven.formats.tables import separator_of, split_tables
from leaven.language.diagnostics import Edit, Fix, Spot
from leaven.language.source import Span
from leaven.recipe import files
from leaven.tasks.classification.target import in_order

TASKS = {"classification": "image-classification"}  # as the libraries' own cards call it


@dataclass(frozen=True, slots=True)
class DataFacts:
    """What a data set is like, as far as looking at it tells."""

    task: str
    classes: int | None = None
    channels: int | None = None
    size: tuple[int, int] | None = None
    splits: tuple[str, ...] = ()
    is_natural: bool | None = True  # photographs; None where nobody tells
    names: tuple[str, ...] = ()  # of the classes, in order, where they are known


def describe_data(data: Invocation, scope: Scope) -> DataFacts:
    """The facts of a data set; files that are not there are reported."""
    known = data.card.data
    task = known.task
    for argument, told in known.task_by_argument.items():
        task = told if data.value(argument) is not None else task
    described = DataFacts(
        task=TASKS.get(task, task),
        classes=known.classes,
        channels=known.channels,
        size=known.size,
        splits=known.splits,
        is_natural=None if data.card.kind == "user" else known.is_safe_to_augment,
        names=known.class_names,
    )
    for parameter in data.card.parameters:
        path = data.value(parameter.name) if parameter.must_exist else None
        if isinstance(path, FilePath) and not os.path.exists(path.place):
            report_missing(scope, path, "the folder" if data.card.bare_name == "folder" else "the file")
            return described
    if data.card.name == "folder":
        return _folder(data, described, scope)
    if data.card.name == "csv":
        return _csv(data, described, scope)
    return described


def _pair(size: Any) -> tuple[int, int] | None:
    return (int(size[0]), int(size[1])) if size else None


def _folder(data: Invocation, described: DataFacts, scope: Scope) -> DataFacts:
    path = data.value("path")
    if not isinstance(path, FilePath):  # an `arg` without a default
        return described
    span = path.span or (data.origin.span if isinstance(data.origin, Written) else None)
    spots = [] if span is None else [Spot(span, "the images are looked for here")]
    if not os.path.isdir(path.place):
        scope.report("missing-file", f"`{path.text}` is a file, not a folder", *spots, fix=_not_a_folder(path))
        return described
    read = read_image_folder(path.place, path.text)
    for finding in read.findings:
        say = scope.report if finding.is_error else scope.warn
        say(finding.id, finding.fact, *spots, notes=finding.notes, fix=finding.help)
    if not read.classes:
        return described
    return replace(described, classes=len(read.classes), splits=read.splits, names=tuple(read.classes))


def _not_a_folder(path: FilePath) -> str:
    if path.place.suffix in (".csv", ".tsv"):
        return f'write `csv("{path.text}", image="…", label="…")` for a table'
    if path.place.suffix in (".zip", ".tar", ".gz", ".tgz", ".7z"):
        return "unpack it, and give the folder"
    return "give the folder that holds one sub-folder per class"


def _csv(data: Invocation, described: DataFacts, scope: Scope) -> DataFacts:
    path = data.value("file")
    if not isinstance(path, FilePath):
        return described
    place = [path.span] if path.span else []
    if os.path.isdir(path.place):
        parts = split_tables(path.place)
        chosen = _train_table(path, parts, scope)
        if chosen is None:
            return described
        path, described = chosen, replace(described, splits=tuple(parts))
    label, separator = str(data.value("label")), separator_of(path.place, data.value("separator"))
    try:
        table = files.read_table(path.place, label, separator)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        scope.report("missing-file", f"`{path.text}` can't be read: {reason}", *place)
        return described
    for name in ("image", "text", "label"):
        setting = data.setting(name)
        if setting is None or setting.value is None or setting.value in table.columns:
            continue
        span = setting.origin.span if isinstance(setting.origin, Written) else path.span
        near = nearest(setting.value, table.columns, limit=1)
        shown = ", ".join(f"`{column}`" for column in table.columns[:8])
        edit = Edit(span, f'"{near[0]}"') if near and span and isinstance(setting.origin, Written) else None
        scope.report(
            "unknown-column",
            f"`{path.text}` has no column `{setting.value}`",
            *([Spot(span, f"the columns are {shown}")] if span else []),
            fix=Fix(f"did you mean `{near[0]}`?", edit) if near else None,
        )
    if table.labels is None:
        return described
    _check_labels(table, path, label, place, scope)
    names = () if described.splits else tuple(in_order(set(table.labels)))  # other parts may have more
    return replace(described, classes=len(table.labels), names=names)


def _check_labels(table: files.Table, path: FilePath, column: str, place: Sequence[Span], scope: Scope) -> None:
    """There are at least two labels, and every line has one."""
    if table.unlabelled is not None:
        scope.report(
            "no-classes",
            f"line {table.unlabelled} of `{path.text}` has no label",
            *(Spot(span, f"the column `{column}` is empty there") for span in place),
            fix="fill it in, or remove the line",
        )
    elif len(table.labels or ()) < 2:
        has = f"only the label `{min(table.labels)}`" if table.labels else "no labels"
        scope.report(
            "no-classes",
            f"`{path.text}` has {has} in its column `{column}`",
            *(Spot(span, "a classifier needs two at least") for span in place),
            fix='name the column that holds the classes: `label="…"`',
        )


def _train_table(folder: FilePath, parts: Mapping[str, Sequence[Path]], scope: Scope) -> FilePath | None:
    """The table to train on in a folder of tables, one for each part."""
    if "train" not in parts:
        missing = replace(folder, text=f"{folder.text}/train.csv", place=folder.place / "train.csv")
        report_missing(scope, missing, "the table")
        return None
    doubled = next((there for there in parts.values() if len(there) > 1), None)
    if doubled is not None:
        both = " and ".join(f"`{file.name}`" for file in doubled)
        scope.report(
            "repeated-split",
            f"`{folder.text}` has both {both}, which are the same split",
            *([Spot(folder.span, "the tables are looked for here")] if folder.span else []),
            fix="keep one of them",
        )
        return None
    table = parts["train"][0]
    return replace(folder, text=f"{folder.text}/{table.name}", place=table)
