"""Options of the command line as sources of their own: checked like the file, reported in the option, and edited."""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from leaven.catalog import lookup, own
from leaven.catalog.statement_keys import has_label
from leaven.catalog.value_text import quoted, value_text
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic
from leaven.language.fixes import Edit
from leaven.language.parser import parse, parse_setting, parse_value
from leaven.language.record import Record
from leaven.language.source import Source, SourceKind, arg_of, flag_of
from leaven.messages import options as messages
from leaven.statements.assemble import Assembled, add, replace_value

FLAGS = ("model", "data", "output", "checkpoint")  # options of every recipe


class Options(Record):
    """`--lr 1e-4` is in `args`; `model`, `data`, `checkpoint` and `output` hold the text of their option."""

    args: Mapping[str, str] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    additions: tuple[str, ...] = ()
    model: str | None = None
    data: str | None = None
    checkpoint: str | None = None
    output: str | None = None


def with_values(
    options: Options,
    args: Mapping[str, object],
    settings: Mapping[str, object],
    additions: Sequence[str],
    **flags: object,
) -> Options:
    """Options with values of Python added. A string is the text of an option, as it would be typed."""
    texts = {name: _typed(value) for name, value in flags.items() if value is not None}
    return replace(  # type: ignore[type-var, unused-ignore]
        options,
        args={**options.args, **{name: _typed(value) for name, value in args.items()}},
        settings=(*options.settings, *(f"{name}={_written(value)}" for name, value in settings.items())),
        additions=(*options.additions, *additions),
        **texts,
    )


def _typed(value: object) -> str:
    return os.fspath(value) if isinstance(value, str | Path) else value_text(value)


def _written(value: object) -> str:
    """Values of `--set` are parts of a recipe, where paths are strings."""
    return quoted(os.fspath(value)) if isinstance(value, Path) else _typed(value)


def given(options: Options, declared: set[str]) -> dict[str, Source]:
    """The text given for each declared `arg`. One named like a built-in flag takes that flag."""
    texts = dict(options.args)
    for flag in FLAGS:
        text = getattr(options, flag)
        if flag in declared and text is not None:
            texts[flag] = text
    return {name: option_source(name, text) for name, text in texts.items()}


def option_source(name: str, text: str) -> Source:
    return Source(flag_of(name), text, Path(), SourceKind.OPTION)


def apply(options: Options, assembled: Assembled) -> None:
    """Apply the options to the file's statements: additions, then replacements, then changes."""
    for text in options.additions:
        parsed = parse(option_source("with", text))
        assembled.diagnostics += parsed.diagnostics
        add(assembled, parsed.tree.statements)
    weights = ("model.pretrained", "model.weights")
    sets_weights = options.checkpoint is not None or any(text.startswith(weights) for text in options.settings)
    for flag in FLAGS:
        text = getattr(options, flag)
        if text is not None and flag not in assembled.args:
            statement = _flag(flag, text, assembled)
            if statement is not None and flag == "model" and not sets_weights:
                assembled.diagnostics += _dropped_weights(statement, assembled)
            if statement is not None and flag in ("model", "data"):
                replace_value(assembled, statement)
            elif statement is not None:
                add(assembled, [statement])
    add(assembled, [change for text in options.settings if (change := _setting(text, assembled)) is not None])


def _dropped_weights(statement: syntax.Statement, assembled: Assembled) -> list[Diagnostic]:
    """A warning where `--model` names a model without its weights, and the recipe's model is pretrained."""
    value = statement.arguments[0].value
    name = value.name if isinstance(value, syntax.Call) else value
    if not isinstance(name, syntax.Name) or name.path in assembled.lets or _weights_in(value):
        return []
    cards = lookup.find("model", name.path)
    models = [one for one in assembled.statements if isinstance(one, syntax.Statement) and one.name.path == "model"]
    asked = next((_weights_in(argument.value) for model in models for argument in model.arguments[:1]), None)
    is_pretrained = asked is not None and isinstance(asked.value, syntax.Literal) and asked.value.value is True
    if asked is None or not is_pretrained or not cards or not cards[0].model.has_weights:
        return []
    return [messages.dropped_weights(value, asked.span)]


def _weights_in(value: syntax.Value) -> syntax.Argument | None:
    """The argument of a model that asks for weights, or says that there are none."""
    arguments = value.arguments if isinstance(value, syntax.Call) else ()
    return next((one for one in arguments if one.keyword and one.keyword.path in ("pretrained", "weights")), None)


def _flag(flag: str, text: str, assembled: Assembled) -> syntax.Statement | None:
    source = option_source(flag, text)
    whole = source.span(0, len(text))
    path = syntax.Argument(None, syntax.String(text, whole), whole)
    if flag == "output":
        return syntax.Statement(syntax.Name("output", whole), (path,), None, whole)
    if flag == "checkpoint":  # instead of the published weights, where the recipe asks for those
        target = syntax.Argument(None, syntax.Name("model", whole), whole)
        weights = replace(path, keyword=syntax.Name("weights", whole))
        published = syntax.Argument(syntax.Name("pretrained", whole), syntax.Literal(False, whole), whole)
        return syntax.Statement(syntax.Name("change", whole), (target, weights, published), None, whole)
    if flag == "data" and _is_path(text):
        named = (card.name for card in own.cards("data") if card.data.endings and text.endswith(card.data.endings))
        value: syntax.Value | None = syntax.Call(syntax.Name(next(named, "folder"), whole), (path,), whole)
    else:
        value, errors = parse_value(source)
        assembled.diagnostics += errors
    if value is None:
        return None
    argument = syntax.Argument(None, value, value.span)
    return syntax.Statement(syntax.Name(flag, whole), (argument,), None, whole)


def _is_path(text: str) -> bool:
    """Whether the text of `--data` is a path: it exists, or it is no name or call of the language."""
    return (bool(text) and os.path.exists(text)) or (any(mark in text for mark in "/\\") and "(" not in text)


def _setting(text: str, assembled: Assembled) -> syntax.Statement | None:
    """`optimizer.lr=1e-4` as `change optimizer, lr=1e-4`; a longer path goes into phases and blocks."""
    source = option_source("set", text)
    setting, errors = parse_setting(source)
    assembled.diagnostics += errors
    if setting is None:
        return None
    *owners, last = setting.path
    assert isinstance(last, syntax.Name)
    is_arg = [owner.span.text for owner in owners] == ["arg"]
    if not owners or is_arg:
        place, statements, args = (owners or [last])[0].span, assembled.statements, assembled.args
        assembled.diagnostics.append(messages.without_statement(last, setting.value, place, statements, args, is_arg))
        return None
    argument = syntax.Argument(last, setting.value, last.span.to(setting.span))
    statement: syntax.Statement | None = None
    for target in reversed(_targets(owners)):
        inside = (argument,) if statement is None else ()
        block = None if statement is None else syntax.Block((statement,), setting.span)
        name = syntax.Name("change", target[0].span)
        statement = syntax.Statement(name, (*target, *inside), block, setting.span)
    return statement


def _targets(owners: Sequence[syntax.Name | syntax.String]) -> list[tuple[syntax.Argument, ...]]:
    """The statements of a path, each with its label: `phase.head.optimizer`."""
    targets: list[tuple[syntax.Argument, ...]] = []
    for owner in owners:
        argument = syntax.Argument(None, owner, owner.span)
        before = targets[-1] if targets else ()
        if isinstance(owner, syntax.String) or (len(before) == 1 and has_label(before[0].span.text)):
            targets[-1] = (*before, argument)
        else:
            targets.append((argument,))
    return targets


# -- options as an edit changes them: a flag with another text, or other flags in its place


def edited_options(options: Options, edit: Edit, text: str) -> Options:
    """The options with a text in the place of the one that the edit's source was made of, or with those in the text."""
    source = edit.span.source
    changed = _pairs(text) if edit.is_option else [(source.name, text)]
    args = [(flag_of(arg), text) for arg, text in options.args.items()]
    single = [(flag_of(name), text) for name in FLAGS if (text := getattr(options, name)) is not None]
    many = [*(("--set", text) for text in options.settings), *(("--with", text) for text in options.additions)]
    all_given = [*args, *many, *single]
    at = all_given.index((source.name, source.text))
    return _as_options([*all_given[:at], *changed, *all_given[at + 1 :]])


def options_of(words: str) -> Options:
    """The options in a text, each with a value: `--set a.b=1 --set c.d=1`."""
    return _as_options(_pairs(words))


def _pairs(words: str) -> list[tuple[str, str]]:
    split = shlex.split(words)
    return list(zip(split[::2], split[1::2], strict=True))


def _as_options(all_given: Sequence[tuple[str, str]]) -> Options:
    args = {arg_of(flag): text for flag, text in all_given if flag not in ("--set", "--with")}
    single = {name: args.pop(name) for name in FLAGS if name in args}
    settings, additions = (tuple(t for flag, t in all_given if flag == many) for many in ("--set", "--with"))
    return Options(args, settings, additions, **single)
