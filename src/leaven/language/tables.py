"""The tables of grammar.lark, which Lark makes.

Loading Lark and letting it analyse the grammar takes longer than checking a recipe. So its result is kept beside the
grammar, in `grammar.json`, with the checksum of the grammar it was made of: where that is not the checksum of
grammar.lark, Lark is asked again. `make bless` writes the file.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from leaven.language.lalr import Rule, Tables

if TYPE_CHECKING:
    from lark import Lark

GRAMMAR = Path(__file__).with_name("grammar.lark")
KEPT = GRAMMAR.with_suffix(".json")
STARTS = ("start", "only_value", "only_setting")
# What only layout.py looks at, and Lark would leave out because no rule uses it.
FOR_LAYOUT = ("COMMENT", "NEWLINE", "SEMICOLON", "PERCENT", "OPEN_TEXT", "BAD")


def load() -> Tables:
    """The tables of the grammar as it stands in its file."""
    text = GRAMMAR.read_bytes()
    try:
        kept = json.loads(KEPT.read_bytes())
    except (OSError, ValueError):
        kept = {}
    if kept.get("checksum") != crc32(text):
        kept = describe(analyse())
    return Tables(
        lexer=kept["lexer"],
        ignored=frozenset(kept["ignored"]),
        rules=tuple(
            Rule(form, size, tuple(places), method, is_list) for form, size, places, method, is_list in kept["rules"]
        ),
        states=tuple(kept["states"]),
        starts={form: (first, last) for form, (first, last) in kept["starts"].items()},
    )


def to_keep() -> str:
    """The text of the file in which the tables are kept: a rule or state a line, so that a change can be read."""
    fields = {"checksum": crc32(GRAMMAR.read_bytes()), **describe(analyse())}
    lines = []
    for name, value in fields.items():
        rows = ",\n".join(json.dumps(row) for row in value) if name in ("rules", "states") else ""
        lines.append(f"{json.dumps(name)}: " + (f"[\n{rows}\n]" if rows else json.dumps(value)))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def analyse(strict: bool = False) -> "Lark":
    """The grammar as Lark understands it; strictly, any conflict in it is an error."""
    from lark import Lark
    from lark.lark import PostLex

    class KeepTerminals(PostLex):
        always_accept = FOR_LAYOUT

        def process(self, stream: Any) -> Any:
            return stream

    return Lark(
        GRAMMAR.read_text(encoding="utf-8"),
        start=list(STARTS),
        parser="lalr",
        lexer="basic",
        postlex=KeepTerminals(),
        maybe_placeholders=True,
        strict=strict,
    )


def describe(grammar: "Lark") -> dict[str, Any]:
    """The tables as plain data, without their checksum."""
    lexer = grammar.parser.lexer.lexer
    found = grammar.parser.parser._parse_table
    rules = {rule: number for number, rule in enumerate(sorted(grammar.rules, key=str))}
    states = _numbered(found)
    return {
        "lexer": "|".join(f"(?P<{terminal.name}>{terminal.pattern.to_regexp()})" for terminal in lexer.terminals),
        "ignored": sorted(lexer.ignore_types),
        "starts": {form: [states[found.start_states[form]], states[found.end_states[form]]] for form in STARTS},
        "rules": [_rule(rule) for rule in rules],
        "states": [
            {str(symbol): ~rules[to] if to in rules else states[to] for symbol, (_, to) in sorted(actions.items())}
            for actions in map(found.states.get, states)
        ],
    }


def _numbered(found: Any) -> dict[int, int]:
    """A number for each of Lark's states, by the order in which one meets them: Lark's own change from run to run."""
    order = dict.fromkeys(found.start_states[form] for form in STARTS)
    queue = list(order)
    for state in queue:
        for _, (_, target) in sorted(found.states[state].items()):
            if isinstance(target, int) and target not in order:
                order[target] = None
                queue.append(target)
    return {state: number for number, state in enumerate(order)}


def _rule(rule: Any) -> list[Any]:
    """A rule of Lark's as the fields of our own. A form that Lark made up for a repetition is a list."""
    form, size = str(rule.origin.name), len(rule.expansion)
    is_list = form.startswith("_")
    method = None if is_list or (rule.options.expand1 and not rule.alias and size == 1) else rule.alias or form
    children = iter(range(size))
    is_absent = rule.options.empty_indices or [False] * size
    places = [None if absent else next(children) for absent in is_absent]
    spliced = [
        ~place if place is not None and rule.expansion[place].name.startswith("_") else place for place in places
    ]
    return [form, size, spliced, method and str(method), is_list]
