"""Python files of the user's own that travel with a model or a job: which files belong to one that is named."""

import ast
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = "code"


class UnreadableSource(Exception):
    """A file is missing, or is not Python."""


@dataclass
class Sources:
    """The source files that are taken in, by the names of their members. Files of one folder stay beside each other."""

    members: dict[str, bytes] = field(default_factory=dict)
    _folders: list[Path] = field(default_factory=list)

    def add(self, file: str | Path) -> str:
        """Take in a file and those beside it that it imports; the name of its member."""
        path = Path(file).resolve()
        if not path.is_file():
            raise UnreadableSource(f"{file} does not exist")
        if path.parent not in self._folders:
            self._folders.append(path.parent)
        self._take(path)
        return self._member(path)

    def add_beside(self, file: str | Path) -> None:
        """Take in a file that code of the same folder reads, if it is in that folder."""
        path = Path(file).resolve()
        if any(path.is_relative_to(folder) for folder in self._folders):
            self._take(path)

    def _take(self, path: Path) -> None:
        name = self._member(path)
        if name in self.members:
            return
        self.members[name] = path.read_bytes()
        for module in _imported(self.members[name], path):
            beside = self._folder_of(path) / module
            if beside.with_suffix(".py").is_file():
                self._take(beside.with_suffix(".py"))
            elif (beside / "__init__.py").is_file():
                for inner in sorted(beside.rglob("*.py")):
                    self._take(inner)

    def _folder_of(self, path: Path) -> Path:
        return max((folder for folder in self._folders if path.is_relative_to(folder)), key=lambda f: len(f.parts))

    def _member(self, path: Path) -> str:
        folder = self._folder_of(path)
        return f"{FOLDER}/{self._folders.index(folder)}/{path.relative_to(folder).as_posix()}"


def _imported(source: bytes, path: Path) -> list[str]:
    """The top names of the modules that a source imports, anywhere in it."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as problem:
        raise UnreadableSource(f"{path} can't be read as Python: {problem}") from None
    names: dict[str, None] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                names |= dict.fromkeys(alias.name.partition(".")[0] for alias in aliases)
            case ast.ImportFrom(module=str(module), level=0):
                names[module.partition(".")[0]] = None
    return list(names)
