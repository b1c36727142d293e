"""The options of a command line as an edit changes them: a flag with another text, or other flags in its place."""

import shlex
from collections.abc import Sequence

from leaven.language.fixes import Edit
from leaven.language.source import arg_of, flag_of
from leaven.statements.options import Options

_SINGLE = ("model", "data", "checkpoint", "output")

Given = tuple[str, str]  # a flag and its text


def edited_options(options: Options, edit: Edit, text: str) -> Options:
    """The options with a text in the place of the one that the edit's source was made of, or with those in the text."""
    source = edit.span.source
    changed = _pairs(text) if edit.is_option else [(source.name, text)]
    all_given = _as_given(options)
    at = all_given.index((source.name, source.text))
    return _as_options([*all_given[:at], *changed, *all_given[at + 1 :]])


def options_of(words: str) -> Options:
    """The options in a text, each with a value: `--set a.b=1 --set c.d=1`."""
    return _as_options(_pairs(words))


def _pairs(words: str) -> list[Given]:
    split = shlex.split(words)
    return list(zip(split[::2], split[1::2], strict=True))


def _as_given(options: Options) -> list[Given]:
    args = [(flag_of(arg), text) for arg, text in options.args.items()]
    single = [(flag_of(name), text) for name in _SINGLE if (text := getattr(options, name)) is not None]
    return [*args, *(("--set", t) for t in options.settings), *(("--with", t) for t in options.additions), *single]


def _as_options(all_given: Sequence[Given]) -> Options:
    args = {arg_of(flag): text for flag, text in all_given if flag not in ("--set", "--with")}
    single = {name: args.pop(name) for name in _SINGLE if name in args}
    settings, additions = (tuple(t for flag, t in all_given if flag == many) for many in ("--set", "--with"))
    return Options(args, settings, additions, **single)
