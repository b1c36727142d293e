"""A program that does not need Leaven: what it uses of Leaven is written into it.

Works on the text of a program and on the source of the modules that it names, taking the definitions that are needed
and nothing else. They stand in the order in which Python would load their modules, so each is there when it is used.
In place of a bundle, which only Leaven can read, such a program saves the weights.
"""

import ast
import builtins
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, groupby
from textwrap import wrap

from leaven.program.code import WIDTH
from leaven.program.imports import Imports
from leaven.program.scopes import Names, Positions, Reference, bindings
from leaven.program.sources import Change, Definition, External, Module, Own, Package, Symbol, changed, read_module

READS_BUNDLE = "bundle.load_model("  # what only Leaven can
_SAVING = 'run.write("model.pth", model.state_dict())'
_ALONE = "It runs without Leaven: the functions that it needs of it stand above the program itself."
_USAGE = "\n\n    python "
_PACKAGES = {  # what pip calls them
    "torch": "torch",
    "torchvision": "torchvision",
    "timm": "timm",
    "lightning": "lightning",
    "torchmetrics": "torchmetrics",
    "tqdm": "tqdm",
    "numpy": "numpy",
    "PIL": "pillow",
    "safetensors": "safetensors",
    "sklearn": "scikit-learn",
    "torch.utils.tensorboard": "tensorboard",
    "mlflow": "mlflow",
    "peft": "peft",
    "torch_pruning": "torch-pruning",
}


def standalone(program: str) -> str:
    """The same program with what it uses of Leaven written into it; it ends with the same weights."""
    header, imports, body = _divided(_without_bundle(program))
    package = Package()
    module = replace(read_module("", imports + body), definitions={})
    main = _main(module, len(imports.encode()))
    order = package.in_order(module)
    links = _Links(package, main)
    names = _chosen_names(links, [each.name for each in order], set(bindings(ast.parse(body).body)))
    sections = []
    for title, modules in groupby(order, _title):
        needed = [definition for each in modules for definition in links.needed_of(each)]
        if needed:
            sections.append(f"# -- {title}\n{_laid_out([(links.text(each, names), each.is_block) for each in needed])}")
    sections.append(f"# -- the program\n{_laid_out([(links.text(main, names), main.is_block)])}")
    code = "\n".join([*_import_lines(links, names), "", "\n\n\n".join(sections), ""])
    return f"{_told(header, [*_packages(code), *_starters(program)])}\n\n{code}"


def _title(module: Module) -> str:
    room, _, name = module.name.rpartition(".")
    return "components" if room.endswith(".components") else name.replace("_", " ")


def _laid_out(texts: Sequence[tuple[str, bool]]) -> str:
    """Definitions below each other: blocks with room around them, constants close together."""
    laid, was_block = "", False
    for text, is_block in texts:
        room = "\n\n" if is_block or was_block else "\n" if not laid else ""
        laid, was_block = f"{laid}{room}{text}", is_block
    return laid.rstrip("\n")


# -- the program itself


def _without_bundle(program: str) -> str:
    """The program, saving its weights where it would make a bundle; the final scores, told already, go into none."""
    text = program.encode()
    positions = Positions(text)
    changes: list[Change] = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="bundle"), attr="save_run")):
                changes.append((positions.start(node), positions.end(node), _SAVING))
    return changed(text, changes)


def _divided(program: str) -> tuple[str, str, str]:
    """The docstring, the imports, and all the rest."""
    lines = program.splitlines(keepends=True)
    first, *others = ast.parse(program).body
    header = lines[: first.end_lineno]
    imports: list[str] = []
    rest = dict(enumerate(lines[len(header) :], len(header) + 1))
    for node in others:
        if isinstance(node, ast.Import | ast.ImportFrom):
            assert node.end_lineno is not None
            imports += [rest.pop(number) for number in range(node.lineno, node.end_lineno + 1)]
    return "".join(header).rstrip("\n"), "".join(imports), "".join(rest.values()).strip("\n") + "\n"


def _main(module: Module, start: int) -> Definition:
    """What the program does, as one piece of text."""
    statements = [node for node in ast.parse(module.text).body if not isinstance(node, ast.Import | ast.ImportFrom)]
    names = Names(Positions(module.text))
    for node in statements:
        names.visit(node)
    is_block = isinstance(statements[0], ast.FunctionDef)
    return Definition(module, start, len(module.text), tuple(names.taken), frozenset(names.bound), is_block)


# -- what is needed


class _Links:
    """What the references in each needed piece of text stand for, and which pieces use a symbol."""

    def __init__(self, package: Package, main: Definition) -> None:
        self.main = main
        self.users: dict[Symbol, list[Definition]] = {}
        self._links: dict[Definition, list[tuple[Reference, Symbol, int]]] = {}
        waiting = [main]
        while waiting:
            definition = waiting.pop()
            if definition in self._links:
                continue
            self._links[definition] = []
            for reference in definition.taken:
                found = package.find(definition.module, reference.path)
                if found is None:  # Python's own, or the program's
                    continue
                symbol, used = found
                self._links[definition].append((reference, symbol, used))
                self.users.setdefault(symbol, []).append(definition)
                if isinstance(symbol, Own):
                    waiting.append(package.definition(symbol))

    def needed_of(self, module: Module) -> list[Definition]:
        return [definition for definition in module.definitions.values() if definition in self._links]

    def text(self, definition: Definition, names: dict[Symbol, str]) -> str:
        """A definition that calls everything by its name in the program."""
        changes = [
            (found.start, found.ends[used - 1], names[symbol]) for found, symbol, used in self._links[definition]
        ]
        return definition.text(changes)


# -- names


def _chosen_names(links: _Links, order: Sequence[str], taken: set[str]) -> dict[Symbol, str]:
    """One name for each symbol. Where several want the same, what the program itself uses keeps it, then what other
    libraries give, then what stands nearest to the program."""

    def claim(symbol: Symbol) -> tuple[bool, bool, int]:
        place = order.index(symbol.module) if isinstance(symbol, Own) else 0
        return links.main not in links.users[symbol], isinstance(symbol, Own), -place

    taken = {*taken, *dir(builtins)}
    names: dict[Symbol, str] = {}
    for symbol in sorted(links.users, key=claim):
        avoided = taken.union(*(user.bound for user in links.users[symbol]))
        names[symbol] = next(name for name in _candidates(symbol) if name not in avoided)
        taken.add(names[symbol])
    return names


def _candidates(symbol: Symbol) -> Iterator[str]:
    name = symbol.name if isinstance(symbol, Own) else symbol.known_as
    yield name
    bare = name.lstrip("_")
    dashes = name.removesuffix(bare)
    module = symbol.module.rpartition(".")[2]
    if bare.isupper():
        yield f"{dashes}{module.upper()}_{bare}"
    elif bare[0].isupper():
        yield f"{dashes}{module.title().replace('_', '')}{bare}"
    else:
        yield f"{dashes}{module}_{bare}"
    yield from (f"{name}_{number}" for number in count(2))


# -- what surrounds it


def _import_lines(links: _Links, names: dict[Symbol, str]) -> list[str]:
    imports = Imports()
    for symbol, users in links.users.items():
        if not isinstance(symbol, External):
            continue
        wholes = {whole for user in users for whole in user.module.whole if whole.startswith(f"{symbol.module}.")}
        if not wholes or symbol.name or any(symbol.module in user.module.whole for user in users):
            imports.add(symbol.line(names[symbol]))
        for whole in wholes if not symbol.name else ():
            imports.add(f"import {whole}")
    return imports.lines()


def _packages(code: str) -> list[str]:
    """What must be installed for a program, as pip calls it."""
    imported: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Import(names=names):
                imported |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module)):
                imported.add(module)
            case ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=str(module))]):
                imported.add(module)
    imported |= {module.partition(".")[0] for module in imported}
    return [package for module, package in _PACKAGES.items() if module in imported]


def _starters(program: str) -> list[str]:
    """The packages of weights that a program begins with."""
    found = []
    for node in ast.walk(ast.parse(program)):
        match node:
            case ast.Call(func=ast.Attribute(attr="starter"), args=[ast.Constant(value=str(package))]):
                found.append(package)
    return found


def _told(header: str, packages: Sequence[str]) -> str:
    """The docstring, with what there is to install."""
    lines = wrap(" ".join(packages), WIDTH - len("    pip install "), break_on_hyphens=False)
    install = "".join(f"\n    pip install {line}" for line in lines)
    return header.replace(_USAGE, f"\n{_ALONE}\n{install}{_USAGE.removeprefix(chr(10))}", 1)
