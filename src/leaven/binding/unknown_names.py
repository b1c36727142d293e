"""Names that mean nothing where they stand: what to say, and what was likely meant."""

from itertools import chain

from leaven.binding.scope import Scope
from leaven.catalog import library, lookup
from leaven.catalog.card import Parameter
from leaven.catalog.values import Unknown, Written
from leaven.language import syntax
from leaven.language.diagnostics import Edit, Fix, Spot
from leaven.language.source import SourceKind
from leaven.messages import describe


def wrong_own_name(scope: Scope, value: syntax.Name, parameter: Parameter) -> Unknown:
    name = value.path
    scope.used.add(name)
    if name in scope.lets:
        found, place = describe.written_value(scope.lets[name].value), scope.lets[name].value.span
    else:
        found = describe.ARG_TYPES.get(scope.args[name].type, "something else")
        origin = scope.args[name].origin
        place = origin.span if isinstance(origin, Written) else value.span
    wanted = describe.expected(parameter)
    return scope.report(
        "wrong-type",
        f"`{parameter.name}` takes {wanted}, and `{name}` is {found}",
        Spot(value.span, f"expected {wanted}"),
        Spot(place, f"`{name}` is {found}"),
    )


_EXAMPLES = {"int": "64", "float": "1e-3", "bool": "true"}


def _literals(parameter: Parameter) -> list[str]:
    """The words for a value that the parameter takes."""
    types = set(parameter.types)
    return ["true", "false"] * bool(types & {"bool", "any"}) + ["none"] * bool(types & {"none", "any"})


def unknown_name(scope: Scope, value: syntax.Name, parameter: Parameter) -> Unknown:
    wanted = describe.expected(parameter)
    option = value.span.source
    near = scope.nearest(value.path, chain(scope.own_names(), _literals(parameter), parameter.choices))
    fix: Fix | str | None = None
    if option.kind is SourceKind.OPTION and not near and "." not in value.path:
        taker = option.name if value.span.text == option.text else parameter.name
        example = _EXAMPLES.get(parameter.types[0])
        written = f"{option.name} {option.text[: value.span.start]}{example}"
        return scope.report(
            "wrong-type",
            f"`{taker}` takes {wanted}, not `{value.path}`",
            Spot(value.span, f"expected {wanted}"),
            fix=f"write `{written}`, for example" if example else None,
        )
    if near:
        fix = Fix(describe.did_you_mean(near), Edit(value.span, near[0]))
    elif set(parameter.types) & {"text", "path"}:
        fix = Fix(f'write it in quotes: `"{value.path}"`', Edit(value.span, f'"{value.path}"'))
    elif "." not in value.path and set(parameter.types) & {"int", "float", "quantity"}:
        fix = f"introduce it: `let {value.path} = …`, or `arg {value.path}: float = …` to set it when you run"
    if (reported := scope.report_undefined(value)) is not None:
        return reported
    return scope.report(
        "unknown-name",
        f"nothing is called `{value.path}`",
        Spot(value.span, f"expected {wanted}"),
        fix=fix,
    )


# Where each kind of card is written.
_STATEMENTS = {
    "model": "model {}(…)",
    "data": "data {}(…)",
    "optimizer": "optimizer {}(…)",
    "schedule": "schedule {}(…)",
    "transform": "data … {{ train {}(…) }}",
    "loss": "loss {}(…)",
    "metric": "metrics {}(…)",
    "technique": "{}",
}


def _in_library(kind: str, prefix: str, name: str) -> list[str]:
    """Where a name that one library lacks is to be found."""
    return [f"{other}.{name}" for other in lookup.LIBRARIES if other != prefix and lookup.find(kind, f"{other}.{name}")]


def unknown_card(scope: Scope, name: syntax.Name, kind: str) -> Unknown:
    noun = describe.KIND_NOUNS[kind]
    prefix, dot, rest = name.path.rpartition(".")
    candidates = lookup.names(kind)
    if kind == "component":
        candidates = [
            *candidates,
            *(n for n, let in scope.lets.items() if not isinstance(let.value, syntax.Number)),
        ]
    near = scope.nearest(rest, candidates)
    if prefix in lookup.LIBRARIES:
        near = _in_library(kind, prefix, rest) or [
            f"{prefix}.{word}" for word in near if lookup.find(kind, f"{prefix}.{word}")
        ]
    elif dot:
        near = [rest] if lookup.find(kind, rest) else []
    notes = []
    if dot and prefix not in lookup.LIBRARIES:
        notes = [f"nothing was imported as `{name.path.partition('.')[0]}`"]
    if kind in lookup.LIBRARY_KINDS:
        notes += [f"{absent} could not be read: {reason}" for absent, reason in library.absent().items()]
    elsewhere = next((k for k in _STATEMENTS if k != kind and lookup.find(k, name.path)), None)
    fix: Fix | str
    if near:
        fix = Fix(describe.did_you_mean(near), Edit(name.span, near[0]))
    elif elsewhere:
        fix = f"`{name.path}` is {describe.KIND_NOUNS[elsewhere]}: write `{_STATEMENTS[elsewhere].format(name.path)}`"
    elif dot and prefix not in lookup.LIBRARIES and "." not in prefix:
        fix = f'import the file first: `import "{prefix}.py" as {prefix}`'
    elif len(set(candidates)) <= 8:
        fix = f"choose one of {', '.join(f'`{word}`' for word in candidates)}"
    else:
        fix = f"`leaven catalog search {rest}` looks for names like it"
    return scope.report(
        "unknown-name",
        f"no {noun.partition(' ')[2]} is called `{name.path}`",
        Spot(name.span, f"expected {noun}"),
        notes=notes,
        fix=fix,
    )
