"""Reports about what people write from habit of Python, YAML or the shell, with the way a recipe writes it.

Each function gets the statement so far and the token that the grammar rejects; it returns a report, or None if
something else is wrong.
"""

import re

from leaven.language import yaml_blocks
from leaven.language.diagnostics import Diagnostic, error
from leaven.language.fixes import Edit, Fix, remove, write
from leaven.language.source import Span
from leaven.language.tokens import Token, line_from, rest_of_line, text_after, through

_VALUE_IS_CALL = ("model", "data", "optimizer", "schedule", "loss", "metrics")
_OF_LAYERS = ("freeze", "unfreeze", "reinit")
_NUMBERS = {"one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6"}
_ONLY_KEYWORD_ARGUMENTS = ("train", "checkpoint", "split")
_OPERATORS = {"except": "-", "but": "-", "without": "-", "minus": "-", "and": "+", "plus": "+"}
PYTHON = ("if", "elif", "else", "for", "while", "def", "class", "return", "print", "with", "try", "except", "raise")
_LONGEST_PATH = 200
_UP_TO_CLOSING = r"[^()\r\n]*\)"
_ARGUMENT_LINE = "arguments go on the line of their statement"


def assignment(statement: list[Token], token: Token) -> Diagnostic | None:
    """`model = resnet18`, `model: resnet18`, and what should be an argument: `epochs: 10`."""
    if len(statement) != 1 or token.type not in ("EQUALS", "COLON"):
        return None
    word, value = statement[0], rest_of_line(token)
    sign, whole = Span(token.span.source, word.span.end, token.span.end), word.span.to(line_from(token))

    is_equals = token.type == "EQUALS"
    is_number = re.fullmatch(r"[-.\d][-.\w]*|true|false|none|True|False|None", value) is not None
    label, notes = f"a statement has no `{token}` after its name", []
    if not value:
        return _indented_block(word, token, sign)
    space = " " * (not token.span.source.text[sign.end : sign.end + 1].isspace())
    otherwise: Fix | str = ""
    before = word.span.source.text[: word.span.start]
    is_in_block = before.rfind("{") > before.rfind("}")  # a guess: braces in strings and comments count
    if is_equals and is_number and not is_in_block:
        label = "neither a statement nor a `let`"
        notes = [f"{_ARGUMENT_LINE}, as in `train epochs=10`"]
        otherwise = write(word.span.at_start, "let ", "to name a value, write ", shown=whole)
    elif is_equals and not is_number:
        notes = [f"to name a value, write `let {word} = {value}`"]
    elif is_number or word.span.column > 1:
        otherwise = f"write it on the line of its statement: `… {word}={value}`"
    else:
        otherwise = f"remove the `{token}`"
    fix = write(sign, space, shown=whole, otherwise=otherwise)  # `epochs 3` is then reported, with a fix of its own
    return error("assignment", f"unexpected `{token}` after `{word}`", (token, label), notes=notes, fix=fix)


def _indented_block(word: Token, token: Token, sign: Span) -> Diagnostic:
    """`model:` with what belongs to it on the lines below, as YAML has it."""
    block = yaml_blocks.block_after(word.span) if token.type == "COLON" else None
    text = yaml_blocks.as_statements(str(word), block) if block is not None else None
    fix = remove(sign, f"remove the `{token}`", "; arguments go on this line, a block in braces")
    label = f"a statement has no `{token}` after its name"
    if block is not None:
        label = "arguments go on this line, a block in braces"
        fix = Fix('for example, `model resnet18(pretrained=true)`, `phase "head", epochs=3 { freeze all - head }`')
    if block is not None and text is not None:
        fix = write(word.span.to(block), text, otherwise=fix)
    return error("assignment", f"unexpected `{token}` after `{word}`", (token, label), fix=fix)


def end_of_indented(statement: list[Token], token: Token) -> int:
    """Where a block ends that is indented as in YAML and reported as a whole; else the start of the token."""
    block = None
    if len(statement) == 1 and token.type == "COLON" and not rest_of_line(token):
        block = yaml_blocks.block_after(statement[0].span)
    return block.end if block is not None else token.span.start


def counted_layers(statement: list[Token], token: Token) -> Diagnostic | None:
    """`unfreeze last 2 layers`, `freeze the first 3 stages`, `freeze last 30%`."""
    if str(statement[0]) not in _OF_LAYERS or len(statement) < 2:
        return None
    text = line_from(statement[1]).text
    counted = re.match(r"(?:the )?(first|last|top|bottom|final) (\d+|\w+) ?(%|layers?|stages?|blocks?)?", text)
    count = _NUMBERS.get(counted[2], counted[2]) if counted else ""
    if counted is None or not count.isdigit() or token.span.start >= statement[1].span.start + counted.end():
        return None
    span = token.span.source.span(statement[1].span.start, statement[1].span.start + counted.end())
    selector = "first" if counted[1] in ("first", "bottom") else "last"
    fix: Fix = write(span, f"{selector}({count}{'%' * (counted[3] == '%')})", shown=statement[0].span.to(span))
    if (counted[3] or "").startswith(("stage", "block")):
        stages = ", ".join(str(number + 1) for number in range(min(int(count), 9)))
        fix = write(span, f"stages({stages})", shown=statement[0].span.to(span))
        fix = fix if selector == "first" else Fix("stages are counted from the first: `stages(3, 4)`")
    headline = f"`{span.text}` is not a selector"
    return error("unexpected-token", headline, (span, "the number goes in parentheses"), fix=fix)


def colon_for_equals(statement: list[Token], token: Token) -> Diagnostic | None:
    """`train epochs: 10`."""
    if token.type != "COLON" or len(statement) < 2 or statement[-1].type != "NAME":
        return None
    name, value = statement[-1], through(token, r"[ \t]*[^\s,)\]}]*")
    start = value.end - len(value.text[1:].lstrip())
    shown = statement[0].span if len(statement) == 2 else name.span
    fix = write(Span(value.source, name.span.end, start), "=", shown=shown.to(value))
    return error("missing-equals", f"missing `=` after `{name}`", (token, "expected `=`, found `:`"), fix=fix)


def number_without_equals(statement: list[Token], token: Token) -> Diagnostic | None:
    """`train epochs 3`."""
    name, first = statement[-1], statement[0]
    is_later = len(statement) > 2 and statement[-2].type == "COMMA"
    is_keyword = is_later or (name is not first and str(first) in _ONLY_KEYWORD_ARGUMENTS)
    if token.type != "NUMBER" or name.type != "NAME" or not is_keyword:
        return None
    shown = (name if is_later else first).span.to(through(token, r"[^\s,;)\]}]*"))
    fix = write(Span(shown.source, name.span.end, token.span.start), "=", shown=shown)
    return error("missing-equals", f"missing `=` after `{name}`", (token, f"expected `=`, found `{token}`"), fix=fix)


def missing_parentheses(statement: list[Token], token: Token) -> Diagnostic | None:
    """`optimizer adamw lr=1e-3`."""
    if len(statement) != 2 or str(statement[0]) not in _VALUE_IS_CALL or token.type != "NAME":
        return None
    name, arguments = statement[1], token.value + text_after(token)
    written = re.match(r"\w+ *=[^#;{}\r\n]*", arguments)
    if name.type != "NAME" or not written or len(written[0]) > 60:
        return None
    call = f"{name}({written[0].strip()})"
    whole = Span(token.span.source, name.span.start, token.span.start + len(written[0].rstrip()))
    headline = f"missing parentheses around the arguments of `{name}`"
    fix = write(whole, call, shown=statement[0].span.to(whole))
    return error("missing-parentheses", headline, (token, "expected `(`"), fix=fix)


def unquoted_pattern(start: Span, token: Token) -> Diagnostic | None:
    """`layer1.*`, `*query`: a pattern that starts with a span and goes on at a token."""
    span = start.to(through(token, r"[\w.*?\[\]-]*"))
    if not re.search(r"[*?\[]", span.text):
        return None
    headline = f"missing quotes around the pattern `{span.text}`"
    return error("missing-quotes", headline, (span, "a pattern is a string"), fix=write(span, f'"{span.text}"'))


def unquoted_path(statement: list[Token], token: Token) -> Diagnostic | None:
    """`folder(./photos)`, `output ../runs`, `folder(C:\\photos)`."""
    if not statement:
        return None
    is_drive = token.type == "COLON" and statement[-1].type == "NAME" and len(statement[-1].value) == 1
    start = statement[-1].span if is_drive else token.span
    text = start.source.text[start.start : start.start + _LONGEST_PATH]
    path = re.match(r"([A-Za-z]:|\.{1,2}|~)?[/\\][\w./\\-]*", text)
    if path is None:
        return None
    span = Span(start.source, start.start, start.start + path.end())
    headline = f"missing quotes around the path `{span.text}`"
    fix = write(span, '"' + span.text.replace("\\", "/") + '"')
    return error("missing-quotes", headline, (span, "a path is a string"), fix=fix)


def name_with_dash(statement: list[Token], token: Token) -> Diagnostic | None:
    """`resnet-18(pretrained=true)`."""
    parts = statement[-3:]
    if token.type not in ("LPAR", "CALL") or [part.type for part in parts] != ["NAME", "MINUS", "NUMBER"]:
        return None
    start = token.span.source.text.rfind(" ", 0, token.span.start) + 1
    span = token.span.source.span(max(start, statement[0].span.end), token.span.start)
    name = f"{parts[0]}{parts[-1]}"
    if " " in span.text or not name.isidentifier():
        return None
    fix, call = write(span, name), span.to(through(token, _UP_TO_CLOSING))
    if call.end > token.span.end:  # in quotes it is reported with the name that a recipe has for it
        fix = write(call, f'"{span.text}"', otherwise=fix)
    return error("invalid-name", f"`{span.text}` is not a name", (parts[1], "a name has no dash"), fix=fix)


def tuple_for_list(statement: list[Token], token: Token, accepted: set[str]) -> Diagnostic | None:
    """`betas=(0.9, 0.999)`."""
    if token.type != "COMMA" or "COMMA" in accepted or "RPAR" not in accepted:
        return None
    if statement[-1].type in ("LPAR", "CALL"):  # a comma alone is not a list
        return None
    depth = 0
    for opening in reversed(statement):
        depth += {"RPAR": 1, "LPAR": -1, "CALL": -1}.get(opening.type, 0)
        if depth < 0:
            break
    span, fix = through(token, _UP_TO_CLOSING), Fix("lists are written as `[0.9, 0.999]`")
    if span != token.span:
        span = opening.span.to(span)
        fix = write(span, f"[{span.text[1:-1]}]")
    label = "expected `[` and `]`"
    return error("unexpected-token", "a list is in square brackets, not parentheses", (span, label), fix=fix)


def python_statement(statement: list[Token], token: Token) -> Diagnostic | None:
    """`for epoch in range(3):`, `def forward(x):`."""
    if not statement or str(statement[0]) not in PYTHON:
        return None
    headline = f"a recipe has no `{statement[0]}`"
    fix = 'code goes into a Python file: `import "mine.py" as mine`'
    return error("unexpected-token", headline, (statement[0], "a statement of Python"), fix=fix)


def from_import(statement: list[Token], token: Token) -> Diagnostic | None:
    """`from torch import nn`."""
    if len(statement) != 2 or str(statement[0]) != "from" or str(token) != "import":
        return None
    module = str(statement[1])
    alias = f" as {module.rpartition('.')[2]}" if "." in module else ""
    headline = "`from … import` is not part of the language"
    fix = write(statement[0].span.to(line_from(token)), f"import {module}{alias}")
    return error(
        "unexpected-token", headline, (statement[0].span.to(token.span), "a recipe imports whole modules"), fix=fix
    )


def word_for_operator(statement: list[Token], token: Token) -> Diagnostic | None:
    """`freeze all except head`."""
    operator = _OPERATORS.get(token.value)
    right = through(token, r"[ \t]+([\w.]+|\"[^\"\r\n]*\")")
    if operator is None or right == token.span:
        return None
    verb = "excluded" if operator == "-" else "joined"
    headline = f"layers are {verb} with `{operator}`, not with `{token}`"
    fix = write(token.span, operator, shown=statement[-1].span.to(right))
    return error("unexpected-token", headline, (token, f"expected `{operator}`"), fix=fix)


def first_token_fix(token: Token) -> Fix | None:
    """The fix for a line that starts with another token than a name."""
    text = token.span.text + text_after(token)
    if text.startswith(("//", "/*", "--")):
        sign = Span(token.span.source, token.span.start, token.span.start + 2)
        return Fix("start a comment with `#`", (Edit(sign, "#"),))
    if token.type in ("MINUS", "STAR"):
        return remove(token.span, f"remove the `{token}`", "; a statement starts with its name")
    if token.type == "NUMBER":
        return Fix(f"{_ARGUMENT_LINE}, as in `train epochs=10`")
    return None
