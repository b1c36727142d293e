"""The LALR(1) tables of grammar.lark, which Lark computes.

Importing Lark and analysing the grammar takes longer than checking a recipe, so the tables are saved beside the grammar
in `grammar.json`, with the grammar's checksum. If the checksum differs, Lark computes them again; `make bless` saves
them.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from leaven.language.lalr_parser import ParseTables, Rule

if TYPE_CHECKING:
    from lark import Lark

GRAMMAR = Path(__file__).with_name("grammar.lark")
SAVED = GRAMMAR.with_suffix(".json")
STARTS = ("start", "only_value", "only_setting")
# Only layout.py uses these; Lark would drop them because no rule does.
LAYOUT_TERMINALS = ("COMMENT", "NEWLINE", "SEMICOLON", "PERCENT", "OPEN_STRING", "BAD")


def load() -> ParseTables:
    """The tables of the grammar as it is in its file."""
    checksum = crc32(GRAMMAR.read_bytes())
    try:
        data = json.loads(SAVED.read_bytes())
    except (OSError, ValueError):
        data = {}
    if data.get("checksum") != checksum:
        data = to_data(build_lark())
    rules = [Rule(*rule) for rule in data["rules"]]
    return ParseTables(data["lexer"], data["ignored"], rules, data["states"], data["starts"])


def to_json() -> str:
    """The content of `grammar.json`: one rule or state per line, so that a diff is readable."""
    fields = {"checksum": crc32(GRAMMAR.read_bytes()), **to_data(build_lark())}
    lines = []
    for name, value in fields.items():
        rows = ",\n".join(json.dumps(row) for row in value) if name in ("rules", "states") else ""
        lines.append(f"{json.dumps(name)}: " + (f"[\n{rows}\n]" if rows else json.dumps(value)))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def build_lark(strict: bool = False) -> "Lark":
    """Lark's own parser of the grammar; if `strict`, any conflict in it is an error."""
    from lark import Lark
    from lark.lark import PostLex

    class KeepTerminals(PostLex):
        always_accept = LAYOUT_TERMINALS

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


def to_data(lark: "Lark") -> dict[str, Any]:
    """Lark's tables as plain data, without the checksum."""
    lexer = lark.parser.lexer.lexer
    table = lark.parser.parser._parse_table
    rules = {rule: number for number, rule in enumerate(sorted(lark.rules, key=str))}
    states = _numbered(table)
    return {
        "lexer": "|".join(f"(?P<{terminal.name}>{terminal.pattern.to_regexp()})" for terminal in lexer.terminals),
        "ignored": sorted(lexer.ignore_types),
        "starts": {name: [states[table.start_states[name]], states[table.end_states[name]]] for name in STARTS},
        "rules": [_rule(rule) for rule in rules],
        "states": [
            {str(symbol): ~rules[to] if to in rules else states[to] for symbol, (_, to) in sorted(actions.items())}
            for actions in map(table.states.get, states)
        ],
    }


def _numbered(table: Any) -> dict[int, int]:
    """A number for each state of Lark, in breadth-first order: its own numbers vary between runs."""
    order = dict.fromkeys(table.start_states[name] for name in STARTS)
    queue = list(order)
    for state in queue:
        for _, (_, target) in sorted(table.states[state].items()):
            if isinstance(target, int) and target not in order:
                order[target] = None
                queue.append(target)
    return {state: number for number, state in enumerate(order)}


def _rule(rule: Any) -> list[Any]:
    """The fields of a `Rule`. Nonterminals that Lark makes for repetitions start with `_` and are lists."""
    name, size = str(rule.origin.name), len(rule.expansion)
    is_list = name.startswith("_")
    method = None if is_list or (rule.options.expand1 and not rule.alias and size == 1) else rule.alias or name
    indices = iter(range(size))
    is_absent = rule.options.empty_indices or [False] * size
    children = [None if absent else next(indices) for absent in is_absent]
    spliced = [
        ~index if index is not None and rule.expansion[index].name.startswith("_") else index for index in children
    ]
    return [name, size, spliced, method and str(method), is_list]
