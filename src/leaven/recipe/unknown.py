"""Names that mean nothing where they stand: what to say, and what was likely meant."""

from leaven.catalog import lookup
from leaven.catalog.card import Parameter
from leaven.language import syntax
from leaven.language.diagnostics import Edit, Fix, Spot
from leaven.recipe import nouns
from leaven.recipe.recipe import Written
from leaven.recipe.scope import Scope, Unknown


def wrong_own_name(scope: Scope, value: syntax.Name, parameter: Parameter) -> Unknown:
    name = value.path
    scope.used.add(name)
    if name in scope.lets:
        found, place = nouns.of(scope.lets[name].value), scope.lets[name].value.span
    else:
        found = nouns.ARG_TYPES.get(scope.args[name].type, "something else")
        origin = scope.args[name].origin
        place = origin.span if isinstance(origin, Written) else value.span
    wanted = nouns.wanted(parameter)
    return scope.report(
        "wrong-type",
        f"`{parameter.name}` takes {wanted}, and `{name}` is {found}",
        Spot(value.span, f"expected {wanted}"),
        Spot(place, f"`{name}` is {found}"),
    )


def unknown_name(scope: Scope, value: syntax.Name, parameter: Parameter) -> Unknown:
    wanted = nouns.wanted(parameter)
    near = lookup.nearest(value.path, [*scope.own_names(), "true", "false", "none", *parameter.choices])
    fix: Fix | str | None = None
    if near:
        fix = Fix(nouns.did_you_mean(near), Edit(value.span, near[0]))
    elif set(parameter.types) & {"text", "path"}:
        fix = Fix(f'a text stands in quotes: `"{value.path}"`', Edit(value.span, f'"{value.path}"'))
    alias, dot, name = value.path.partition(".")
    if dot and alias in scope.modules:
        return unknown_definition(scope, value, alias, name)
    return scope.report(
        "unknown-name",
        f"nothing is called `{value.path}`",
        Spot(value.span, f"expected {wanted}"),
        fix=fix,
    )


def unknown_definition(scope: Scope, value: syntax.Name, alias: str, name: str) -> Unknown:
    module = scope.modules[alias]
    cards = module.definitions.cards if module.definitions else {}
    near = lookup.nearest(name, cards)
    return scope.report(
        "unknown-name",
        f"`{module.module.target}` defines no `{name}`",
        Spot(value.span, "not in that file"),
        Spot(module.span, "imported here"),
        fix=Fix(f"did you mean `{alias}.{near[0]}`?", Edit(value.span, f"{alias}.{near[0]}")) if near else None,
    )


def unknown_card(scope: Scope, name: syntax.Name, kind: str) -> Unknown:
    noun = nouns.KIND_NOUNS[kind]
    prefix, dot, rest = name.path.rpartition(".")
    candidates = lookup.names(kind)
    if kind == "component":
        candidates = [
            *candidates,
            *(n for n, let in scope.lets.items() if not isinstance(let.value, syntax.Number)),
        ]
    near = lookup.nearest(rest if prefix in lookup.LIBRARIES else name.path, candidates)
    if prefix in lookup.LIBRARIES:
        near = [f"{prefix}.{word}" for word in near if lookup.find(kind, f"{prefix}.{word}")]
    notes = []
    if dot and prefix not in lookup.LIBRARIES:
        notes = [f"nothing was imported as `{name.path.partition('.')[0]}`"]
    elsewhere = [
        k
        for k in ("model", "data", "optimizer", "schedule", "transform", "loss", "metric", "technique")
        if k != kind and k not in ("component",) and lookup.find(k, name.path)
    ]
    if elsewhere and not near:
        notes.append(f"`{name.path}` is {nouns.KIND_NOUNS[elsewhere[0]]}")
    fix: Fix | str
    if near:
        fix = Fix(nouns.did_you_mean(near), Edit(name.span, near[0]))
    else:
        fix = f"`leaven catalog search {rest}` looks for names like it"
    return scope.report(
        "unknown-name",
        f"no {noun.partition(' ')[2]} is called `{name.path}`",
        Spot(name.span, f"expected {noun}"),
        notes=notes,
        fix=fix,
    )
