"""Reports about names: those that mean nothing, and those that a recipe defines or imports."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from leaven.catalog import library, lookup
from leaven.catalog.card import Parameter
from leaven.catalog.user_code import ImportedModule
from leaven.catalog.value_text import quoted
from leaven.formats.listing import in_code
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic, error, note, warning
from leaven.language.fixes import Fix, write, write_option
from leaven.language.source import Source, Span, flag_of
from leaven.messages import describe, habits, other_names, places
from leaven.messages.published_weights import unknown_tag
from leaven.messages.suggestions import as_statement, search_for, similar

OWN_KINDS = (*library.KINDS, "component")  # that user code can define
OR_YOUR_OWN = "; to write your own, see `leaven explain custom-components`"


def not_defined(name: syntax.Name, parameter: Parameter, near: Sequence[str]) -> Diagnostic:
    types = set(parameter.types)
    fix = habits.instead_of_name(name, parameter) or similar(name.span, near)
    if fix is None and types & {"text", "path"}:
        fix = write(name.span, f'"{name.path}"', "write it in quotes: ")
    elif fix is None and "." not in name.path and types & {"int", "float", "quantity"}:
        fix = Fix(f"define it: `let {name.path} = …`, or `arg {name.path}: float = …` to set it when you run")
    headline = f"`{name.path}` is not defined"
    return error("unknown-name", headline, (name, f"expected {describe.expected(parameter)}"), fix=fix)


_EXAMPLES = {"int": "64", "float": "1e-3", "bool": "true"}


def word_in_option(name: syntax.Name, parameter: Parameter) -> Diagnostic:
    """A bare word on the command line that is nothing like a name: `--lr fast`."""
    option, expected = name.span.source, describe.expected(parameter)
    taker = option.name if name.span.text == option.text else parameter.name
    example = _EXAMPLES.get(parameter.types[0])
    headline = f"`{taker}` must be {expected}, not `{name.path}`"
    fix = f"for example, write `{option.name} {option.text[: name.span.start]}{example}`" if example else None
    return error("wrong-type", headline, (name, f"expected {expected}"), fix=fix)


def not_in_module(name: syntax.Name, module: ImportedModule, near: Sequence[str]) -> Diagnostic:
    """`mine.Net` where the imported file defines no `Net`."""
    alias, _, rest = name.path.partition(".")
    headline = f"`{module.module.target}` does not define `{rest}`"
    fix = similar(name.span, [f"{alias}.{word}" for word in near[:1]])
    return error("unknown-name", headline, (name, "not in that file"), (module, "imported here"), fix=fix)


def no_such_card(
    name: syntax.Name, kind: str, candidates: Sequence[str], near: Sequence[str], call: syntax.Call | None = None
) -> Diagnostic:
    """A name that is no optimizer, loss, transform, …; `near` are similar candidates, `call` is what it calls."""
    path, noun = name.path, describe.KIND_NOUNS[kind]
    prefix, dot, rest = path.rpartition(".")
    is_library = prefix in lookup.LIBRARIES
    if is_library:
        others, alike = [f"{other}.{rest}" for other in lookup.LIBRARIES], [f"{prefix}.{word}" for word in near]
        near = [n for n in others if lookup.find(kind, n)] or [n for n in alike if lookup.find(kind, n)]
    elif dot:
        near = [rest] if lookup.find(kind, rest) else []
    elsewhere = other_names.instead_of_call(call, kind) if call is not None else None
    is_own = dot and not is_library and elsewhere is None
    notes = [f"nothing is imported as `{path.partition('.')[0]}`"] if is_own else []
    if kind in lookup.LIBRARY_KINDS:
        notes += [f"{absent} could not be read: {reason}" for absent, reason in library.installed().absent().items()]
    fix: Fix | str | None = None
    if kind == "data" and path.isidentifier() and (name.span.source.folder / path).is_dir():
        fix = write(name.span, f"folder({quoted(path)})")
    if kind == "model" and (published := unknown_tag(path)):
        notes, fix = [], published
    is_same = kind == "model" and dot and bool(near)  # `models.resnet50(…)`: the arguments are kept
    fix = fix or (None if is_same else elsewhere) or similar(name.span, near) or as_statement(path, without=kind)
    if fix is None and dot and not is_library and "." not in prefix:
        fix = f'import the file first: `import "{prefix}.py" as {prefix}`'
    elif fix is None and len(set(candidates)) <= 8:
        fix = f"choose one of {', '.join(in_code(candidates))}"
    fix = fix or search_for(rest, OR_YOUR_OWN if kind in OWN_KINDS else "")
    headline = f"unknown {noun.partition(' ')[2]} `{path}`"
    return error("unknown-name", headline, (name, f"expected {noun}"), notes=notes, fix=fix)


def not_from_a_file(name: syntax.Name, kind: str, candidates: Sequence[str]) -> Diagnostic:
    """A definition of an imported file where only Leaven's own cards are understood."""
    headline = f"`{name.path}` can't be {describe.KIND_NOUNS[kind]}: an imported file can't define one"
    fix = f"choose one of {', '.join(in_code(candidates))}"
    return error("wrong-type", headline, (name, f"expected {describe.KIND_NOUNS[kind]} of Leaven"), fix=fix)


# -- names that a recipe defines


def defined_twice(name: syntax.Name, first: Span) -> Diagnostic:
    fix = "choose another name for one of them"
    return places.repeated("repeated-name", f"`{name.path}` is defined twice", name.span, first, fix)


def defined_by_data(name: syntax.Name) -> Diagnostic:
    headline = f"`{name.path}` is defined by the data"
    return error("repeated-name", headline, (name, "can't be redefined"), fix="choose another name")


def no_classes(name: syntax.Name) -> Diagnostic:
    headline = "the data has no classes: its targets are numbers"
    fix = write(name.span, "outputs", after=": one for each number")
    return error("unknown-name", headline, (name, "the number of classes"), fix=fix)


def flag_of_runs(name: syntax.Name) -> Diagnostic:
    headline = f"`{flag_of(name.path)}` is an option of every run"
    return error("repeated-name", headline, (name, "conflicts with that option"), fix="choose another name")


def dotted_name(name: syntax.Name) -> Diagnostic:
    fix = write(name.span, name.path.replace(".", "_"))
    return error("invalid-name", f"`{name.path}` can't be defined as a name", (name, "a new name has no dots"), fix=fix)


def never_used(name: syntax.Name, is_arg: bool) -> Diagnostic:
    label = "changing it has no effect" if is_arg else "has no effect"
    return warning("unused-name", f"`{name.path}` is never used", (name, label), fix="use it, or remove the line")


# -- lets


def circular_let(cycle: Sequence[syntax.Name], definition: Span) -> Diagnostic:
    """`cycle` has the places where each `let` names the next, the last one the first."""
    closing, is_long = cycle[-1], len(cycle) > 1
    way = " -> ".join(f"`{name}`" for name in [closing.path, *(use.path for use in cycle)])
    headline = f"`{closing.path}` is defined in terms of itself"
    spots = (closing, "refers back to its definition"), (definition, "defined here")
    notes = [f"the cycle is {way}"] if is_long else []
    fix = "give one of them a value of its own" if is_long else "choose another name for the inner value"
    return error("circular-let", headline, *spots, notes=notes, fix=fix)


def deep_lets(name: syntax.Name, most: int) -> Diagnostic:
    headline = f"more than {most} `let`s refer to each other in a row"
    return error("too-deep", headline, (name, "the limit is reached here"), fix="write some of the values out")


def large_let(name: syntax.Name, most: int | None) -> Diagnostic:
    """A `let` with more than so many parts, or with too many in each other."""
    id, much = "too-deep", "values that are nested too deeply"
    if most is not None:
        id, much = "too-large", f"more than {most:,} parts"
    place = (name, "with every `let` in it written out")
    return error(id, f"`{name.path}` expands to {much}", place, fix="use fewer `let`s in it")


# -- args


def unknown_arg_type(type: syntax.Name, near: Sequence[str]) -> Diagnostic:
    headline = f"`{type.path}` is not a type of `arg`"
    fix = similar(type.span, near[:1])
    return error("unknown-type", headline, (type, "expected int, float, bool, text, path or choice"), fix=fix)


def missing_choices(type: syntax.Name) -> Diagnostic:
    headline = "`choice` needs a list of choices"
    return error("missing-type", headline, (type, "the list is missing"), fix='for example, `choice["small", "large"]`')


def missing_arg(name: syntax.Name) -> Diagnostic:
    fix = f"give it a value: `{flag_of(name.path)} …`"
    return error("missing-argument", f"the recipe needs a value for `{name.path}`", (name, "has no default"), fix=fix)


def unchecked_arg(name: syntax.Name) -> Diagnostic:
    headline = f"`{name.path}` has no default; `{flag_of(name.path)}` must be passed when the recipe runs"
    return note("not-checked", headline, (name, ""))


def own_default(use: syntax.Name) -> Diagnostic:
    fix = "write a value instead, or remove the default"
    return error("unknown-name", f"`{use.path}` can't be its own default", (use, "has no value yet"), fix=fix)


def later_arg(use: syntax.Name) -> Diagnostic:
    headline = f"`{use.path}` has no value yet"
    fix = f"move `arg {use.path}` above this line"
    return error("unknown-name", headline, (use, "this `arg` is declared further down"), fix=fix)


def unknown_option(name: str, source: Source, near: Sequence[str], option: Fix | str | None) -> Diagnostic:
    """`--lr` where there is no such `arg`; `option` is what to write for an argument of that name."""
    whole = source.span(0, len(source.text))
    plain, flags = name.replace(".", "_"), [f"{flag_of(word)} {shlex.quote(source.text)}" for word in near[:1]]
    similar_flag = write_option(whole, flags[0], "did you mean ", "?") if flags else None
    fix = similar_flag or option or f"declare it in the recipe: `arg {plain}: {_type_of(source.text)} = …`"
    return error("unknown-option", f"the recipe has no `arg {name}`", (whole, "given here"), fix=fix)


def _type_of(given: str) -> str:
    """The type of an `arg` that takes what was given."""
    if given in ("true", "false"):
        return "bool"
    return "float" if re.fullmatch(r"[-+.\d][-+.\de]*", given) else "text"


# -- imports


def no_such_module(target: syntax.Name) -> Diagnostic:
    fix: Fix | str = f'install it, or import a file: `import "{target.path.replace(".", "/")}.py"`'
    if target.path.endswith(".py"):
        fix = write(target.span, f'"{target.path}"', "file names are written in quotes: ")
    return error("missing-file", f"no module named `{target.path}` is installed", (target, "not found"), fix=fix)


def unreadable_python(name: str, file: Path, reason: str, line: int | None, place: Span) -> Diagnostic:
    headline = f"syntax error in `{name}`: {reason}" if line is not None else f"`{name}` can't be read: {reason}"
    fix = "fix the Python file, then check again"
    return error("unreadable-python", headline, *_python_line(name, file, line), (place, "imported here"), fix=fix)


def _python_line(name: str, file: Path, number: int | None) -> list[tuple[Span, str]]:
    """The line of a Python file where reading ended."""
    try:
        source = Source(name, file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    if number is None or not 0 < number <= len(source.line_starts):
        return []
    start, line = source.line_starts[number - 1], source.line(number)
    return [(source.span(start + len(line) - len(line.lstrip()), start + len(line)), "here")]
