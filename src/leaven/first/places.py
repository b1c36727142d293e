"""Which data is meant by a path, for a first recipe: a table, annotated images, or a folder."""

from pathlib import Path

from leaven.first.folders import FolderLook, look_at_folder
from leaven.first.objects import AnnotatedFolder, annotated_place
from leaven.first.options import NotUnderstood, TableOptions
from leaven.first.table import TableLook, look_at_table, tables_at
from leaven.formats.image_folder import is_image, looks_split, read_image_folder, sub_folders
from leaven.formats.listing import some
from leaven.formats.tables import is_table
from leaven.sources.formats_of_boxes import source_in
from leaven.sources.mask_folder import looks_like_masks
from leaven.sources.text_folder import TextFolder
from leaven.terminal.commands import typed

_NOT_TABLES = {
    ".leaven": None,
    ".json": "is JSON; one object per line is a table: `jq -c '.[]' {0} > {1}.jsonl`, or rename a file that has it so",
    ".gz": "is compressed; unpack it first",
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "is a spreadsheet; save it as csv"),
    **dict.fromkeys((".zip", ".tar", ".tgz", ".7z"), "is an archive; unpack it first"),
}
_MAY_BE_TABLES = ("", ".txt", ".data")
_ABOUT = ("readme", "license", "licence", "copying", "changelog", "citation", "classes", "labels")  # files about data


Look = TableLook | AnnotatedFolder | FolderLook


def look_at(path: Path, options: TableOptions) -> Look:
    """A look at the data at a path; a `NotUnderstood` says why no recipe can be written for it."""
    table = _table_at(path)
    if table is not None:
        return look_at_table(table, options)
    if options != TableOptions():
        raise NotUnderstood("options about columns are for tables, and there is no table at this place")
    return look_at_folder(path)


def _table_at(path: Path) -> Path | None:
    """The table that is meant by a path: a file, a folder of tables, or the table in a folder of images."""
    if annotated_place(path) is not None:
        return None
    if path.is_file():
        if is_image(path.name) or (not is_table(path) and path.suffix.lower() in _NOT_TABLES):
            fact = _NOT_TABLES.get(path.suffix.lower())
            if fact:
                raise NotUnderstood(f"{path} {fact.format(path, path.with_suffix(''))}")
            return None
        return path
    if not path.is_dir() or _has_classes(path):
        return None
    if tables_at(path):
        return path
    files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    tables = [file for file in files if is_table(file) and "submission" not in file.stem.lower()]
    if not tables and not sub_folders(path) and not any(is_image(file.name) for file in files):
        others = [file for file in files if file.suffix in _MAY_BE_TABLES and file.stem.lower() not in _ABOUT]
        return others[0] if len(others) == 1 and others[0].stat().st_size else None
    if len(tables) > 1 and any(finding.is_error for finding in TextFolder(path, path.as_posix()).look().findings):
        names = some([file.name for file in tables])
        advice = f"name the one with the labels: leaven new {typed(tables[0])}"
        if looks_split([file.stem for file in tables]):
            advice = f"if these are splits, rename them to train{tables[0].suffix}, val{tables[0].suffix} and so on"
        raise NotUnderstood(f"{path} has several tables: {names}; {advice}")
    return tables[0] if len(tables) == 1 else None


def _has_classes(folder: Path) -> bool:
    """Whether a folder has images in folders for classes, or with masks or boxes."""
    if source_in(folder, folder.as_posix()) is not None or looks_like_masks(folder):
        return True
    read = read_image_folder(folder, folder.as_posix())
    return not any(finding.is_error for finding in read.findings)
