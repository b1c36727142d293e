"""Reports for those who call Leaven from Python: keyword arguments where a shell has options.

`--set optimizer.lr=1e-3` becomes `set={"optimizer.lr": 1e-3}`, wherever a report quotes it.
"""

import re
import shlex
from dataclasses import replace

from leaven.language.diagnostics import Diagnostic, Spot
from leaven.language.fixes import Fix
from leaven.language.source import Source, SourceKind, Span, arg_of

_CONSTANTS = {"true": "True", "false": "False", "none": "None"}
_NUMBER = r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?"


def in_python(report: Diagnostic) -> Diagnostic:
    """A report with keyword arguments in place of options."""
    return replace(
        report,
        headline=_text(report.headline),
        spots=tuple(Spot(_span(spot.span), _text(spot.label)) for spot in report.spots),
        notes=tuple(map(_text, report.notes)),
        fix=Fix(_text(report.fix.message), report.fix.edits) if report.fix is not None else None,
    )


def _span(span: Span) -> Span:
    """A span of an option, with the name of its keyword."""
    source = span.source
    if source.kind is not SourceKind.OPTION:
        return span
    return Span(Source(_keyword(source.name), source.text, source.folder, source.kind), span.start, span.end)


def _text(text: str) -> str:
    return re.sub(r"`(--[^`]+)`", lambda quoted: f"`{_call(quoted[1])}`", text)


def _call(options: str) -> str:
    """Options as the keyword arguments of a call."""
    try:
        words = shlex.split(options)
    except ValueError:
        return options
    settings: list[str] = []
    others: list[str] = []
    while words:
        flag, words = words[0], words[1:]
        value = words.pop(0) if words and not words[0].startswith("--") else None
        if flag == "--set" and value is not None:
            name, equals, text = value.partition("=")
            settings.append(f'"{name}": {_value(text) if equals else "…"}')
        else:
            others.append(_keyword(flag) + ("" if value is None else _value(value)))
    return ", ".join([*([f"set={{{', '.join(settings)}}}"] if settings else []), *others])


def _keyword(flag: str) -> str:
    name = arg_of(flag)
    return f"{'with_' if name == 'with' else name}="


def _value(text: str) -> str:
    """A value as Python writes it."""
    if text == "…" or re.fullmatch(_NUMBER, text):
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    return f'"{text}"' if '"' not in text else repr(text)
