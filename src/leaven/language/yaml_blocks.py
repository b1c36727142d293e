"""Blocks that are indented as in YAML, with the statements that say the same.

Only what people write of it by hand is read: mappings, lists and plain values, by indentation. What it means is left to
the checker, which tries the statements before it suggests them.
"""

import re

from leaven.language.source import Span

_LINE = re.compile(r"(?P<indent> *)(?P<dash>- +)?((?P<key>[\w.-]+) *:(?= |$))? *(?P<value>.*?) *(#.*)?")
_NAMES = ("name", "type", "_target_", "class", "class_path", "class_name")  # keys under which a call is named
_ONLY_ARGUMENTS = ("train", "training", "trainer", "checkpoint", "split", "early_stop", "size")
_PHASES = ("phases", "stages", "phase")
_OF_PHASE = ("epochs", "precision")
_CONSTANTS = {"yes": "true", "no": "false", "null": "none", "~": "none"}
_MAX_LINES = 200

Node = str | dict[str, "Node"] | list["Node"]


def block_after(word: Span) -> Span | None:
    """The lines that are indented under a word with a colon; None without any."""
    source, line = word.source, word.line
    last = line
    for number in range(line + 1, min(line + _MAX_LINES, len(source.line_starts)) + 1):
        text = source.line(number)
        indent = len(text) - len(text.lstrip(" "))
        is_item = text.lstrip(" ").startswith("- ") and indent >= word.column - 1
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        if indent <= word.column - 1 and not is_item:
            break
        last = number
    if last == line:
        return None
    return source.span(source.line_starts[line], source.line_starts[last - 1] + len(source.line(last)))


def as_statements(name: str, block: Span) -> str | None:
    """The block under a name as statements of a recipe, on one line; None where it can't be read."""
    rows = [match for text in block.text.split("\n") if text.strip() and (match := _LINE.fullmatch(text.rstrip("\r")))]
    rows = [row for row in rows if row["key"] or row["dash"] or row["value"]]
    try:
        node, rest = _read(rows)
        return None if rest else _statements(name, node)
    except ValueError:
        return None


def _read(rows: list[re.Match[str]], above: int = -1) -> tuple[Node, list[re.Match[str]]]:
    """The node that starts at the first row, indented further than the row above it, and the rows after it."""
    if not rows or len(rows[0]["indent"]) < above + (not rows[0]["dash"]):  # a list may stand below its key
        raise ValueError("nothing is indented")
    if rows[0]["dash"]:
        return _read_list(rows)
    own = len(rows[0]["indent"])
    mapping: dict[str, Node] = {}
    while rows and len(rows[0]["indent"]) == own and not rows[0]["dash"]:
        row, rows = rows[0], rows[1:]
        if not row["key"] or row["key"] in mapping:
            raise ValueError("not a mapping")
        if row["value"]:
            mapping[row["key"]] = row["value"]
        else:
            mapping[row["key"]], rows = _read(rows, own)
    if rows and len(rows[0]["indent"]) > own:
        raise ValueError("indented too far")
    return mapping, rows


def _read_list(rows: list[re.Match[str]]) -> tuple[Node, list[re.Match[str]]]:
    own, items = len(rows[0]["indent"]), list[Node]()
    while rows and len(rows[0]["indent"]) == own and rows[0]["dash"]:
        row, rows = rows[0], rows[1:]
        if not row["key"]:
            items.append(row["value"])
            continue
        inner = own + len(row["dash"])
        first = _LINE.fullmatch(" " * inner + row.string[row.start() + inner :])
        assert first is not None
        taken = [first]
        while rows and len(rows[0]["indent"]) >= inner:
            taken.append(rows[0])
            rows = rows[1:]
        item, rest = _read(taken)
        if rest:
            raise ValueError("indented differently")
        items.append(item)
    return items, rows


def _statements(name: str, node: Node) -> str:
    """The statements for a name and its block, read as a whole or not at all: a suggestion leaves nothing out."""
    match node:
        case list() if name in _PHASES:
            return "; ".join(_phase(f"phase {at}", item) for at, item in enumerate(node, 1))
        case dict() if name in _PHASES:
            return "; ".join(_phase(key, item) for key, item in node.items())
        case list():
            return f"{name} {', '.join(map(_value, node))}"
        case dict():
            return _statement(name, node)
    return f"{name} {_value(node)}"


def _phase(name: str, node: Node) -> str:
    if not isinstance(node, dict):
        raise ValueError("not a mapping")
    arguments = [f"{key}={_value(node[key])}" for key in _OF_PHASE if key in node]
    inside = [_statements(key, value) for key, value in node.items() if key not in ("name", *_OF_PHASE)]
    block = f" {{ {'; '.join(inside)} }}" if inside else ""
    return f"phase {', '.join([_quoted(str(node.get('name', name))), *arguments])}{block}"


def _statement(name: str, node: dict[str, Node]) -> str:
    called = next((key for key in _NAMES if isinstance(node.get(key), str)), None)
    arguments = ", ".join(f"{key}={_value(value)}" for key, value in node.items() if key != called)
    if called is None or name in _ONLY_ARGUMENTS:
        return f"{name} {arguments}"
    return f"{name} {str(node[called]).strip(_QUOTES).rpartition('.')[2]}({arguments})"


_QUOTES = "\"'"


def _value(node: Node) -> str:
    """A plain value as a recipe writes it."""
    if isinstance(node, list):
        return f"[{', '.join(map(_value, node))}]"
    if isinstance(node, dict):
        raise ValueError("not a plain value")
    if node[:1] in _QUOTES:
        return _quoted(node.strip(_QUOTES))
    if node.lower() in ("true", "false", "none"):
        return node.lower()
    is_plain = re.fullmatch(r"[-+\w.%() ,=\[\]*]+", node) is not None and not node.endswith((".csv", ".pt", ".pth"))
    return _CONSTANTS.get(node, node) if is_plain else _quoted(node)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "/").replace('"', "") + '"'
