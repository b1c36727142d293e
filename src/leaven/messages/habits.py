"""Fixes for what people write from habit of other tools.

The names are in `catalog/other_tools/`; each function here knows one way in which they are used.
"""

import posixpath
import re
from collections.abc import Sequence

from leaven.catalog import habits
from leaven.catalog.card import Card, Parameter
from leaven.catalog.value_text import quoted
from leaven.language import syntax
from leaven.language.fixes import Edit, Fix, shortened, write
from leaven.language.record import Record
from leaven.language.source import Span
from leaven.messages import suggestions
from leaven.messages.published_weights import by_tag

_LOOKAHEAD = 120  # characters
_LAST_OF_TIMM = 10  # `_LEVEL_DENOM`: there, the strongest operations are those of `m10`
_LAST_MAGNITUDE = 30  # of torchvision's `rand_augment`, with its 31 bins
_SCALES = "; timm's scale ends at 10, torchvision's at 30; timm also skips half of the operations"
# timm's name of a policy: `rand-m9-mstd0.5-inc1`.
_RAND_AUGMENT = r"rand(-(m|n|p|mstd|mmax|inc)[\d.]+|-t\w+)+"
# The splits of a dataset, where they are named as arguments: `folder(train="photos/train", val="photos/val")`.
_SPLITS = ("train", "val", "valid", "validation", "test")


class Form(Record):
    """How a recipe writes something: the value of an argument of a statement, or of a statement itself."""

    statement: str
    argument: str
    value: str

    @property
    def as_argument(self) -> str:
        return f"{self.argument}={self.value}"

    @property
    def as_part(self) -> str:
        """The statement with what else it has left out."""
        if not self.argument:
            return self.as_statement
        if self.statement in suggestions.EXAMPLES:
            return f"{self.statement} …({self.as_argument})"
        return f"{self.statement} …, {self.as_argument}"

    @property
    def as_statement(self) -> str:
        if not self.argument:
            return f"{self.statement} {self.value}".rstrip()
        argument = f"{self.argument}={shortened(self.value)}"
        call = suggestions.EXAMPLES.get(self.statement)
        return f"{self.statement} {call}({argument})" if call else f"{self.statement} {argument}"

    def belongs_to(self, card: Card) -> bool:
        """Whether it is an argument of this card: of the statement, or of what it calls."""
        is_owner = self.statement in (card.bare_name, card.kind)
        return is_owner and bool(self.argument) and card.parameter(self.argument) is not None


def other_form(name: str, value: str) -> Form | None:
    """The counterpart of another tool's name with that value, where the value reads differently."""
    forms = habits.settings()["recipe"]
    form = forms.get(f"{name}={value.lower()}")
    if form is None:
        form = forms.get(name)
        is_off = value.lower() == "false" and form is not None and "{" not in form
        form = None if is_off else form
    if form is None:
        return None
    path, _, text = _filled_in(form, value).partition("=")
    statement, _, argument = path.partition(".")
    return Form(statement, argument, text)


def form_in_data(name: str, value: str) -> str | None:
    """The counterpart of another tool's name with that value in the block of `data`."""
    form = habits.settings()["data"].get(name)
    return _filled_in(form, value) if form else None


def is_known(name: str) -> bool:
    """Whether it is a setting of another tool that is written in another form here, or not at all."""
    return name in habits.known_settings()


def remark_on(name: str, kind: str = "") -> str | None:
    """Why a name of another tool has no counterpart: it is not needed, or something else comes nearest."""
    not_needed, no_counterpart = habits.settings()["not_needed"], habits.settings()["no_counterpart"]
    needless = not_needed.get(f"{kind}.{name}") or not_needed.get(name)
    return f"remove it: {needless}" if needless else no_counterpart.get(name) or no_counterpart.get(name.lower())


def _filled_in(form: str, value: str) -> str:
    plain = value.strip('"')
    return form.format(
        value,
        percent=_percentage(value),
        name=habits.word_for(plain) or plain,
        text=quoted(plain),
        globs=" + ".join(quoted(name if "*" in name else f"*{name}") for name in re.findall(r"[\w.*-]+", value)),
        next=int(value) + 1 if value.isdigit() else "…",
    )


def form_of(name: str, value: str) -> Form | None:
    """The form of a name with that value, including arguments that are often named without their statement."""
    if form := other_form(name, value):
        return form
    word = habits.word_for(name) or name
    owner = suggestions.owner_of(word)
    return Form(owner, word, value) if owner else None


def _percentage(value: str) -> str:
    try:
        return f"{float(value) * 100:g}%"
    except ValueError:
        return value


def moved(form: Form, name: Span, arguments: Sequence[syntax.Argument], index: int, otherwise: str) -> Fix:
    """An argument as the statement that it belongs to, on a line of its own above the one that has it now."""
    argument = arguments[index].span
    words = f"{otherwise.partition(':')[0]}: write "
    source = argument.source
    if name.source is not source:  # `change optimizer, head=1`, where another recipe or none names the optimizer
        return Fix(otherwise)
    if len(arguments) == 1 and name.end < argument.start and source.text[name.end] != "(":
        return write(name.to(argument), form.as_statement, words, otherwise=otherwise)
    line = source.line_starts[name.line - 1]
    indent = re.match(r"[ \t]*", source.line(name.line))
    above = Edit(source.span(line, line), f"{indent[0] if indent else ''}{form.as_statement}\n")
    return Fix(words, (above, Edit(without(arguments, index), "")), above.span, "", otherwise)


def without(arguments: Sequence[syntax.Argument], index: int) -> Span:
    """An argument with the comma that is removed with it."""
    span = arguments[index].span
    if index:
        return Span(span.source, arguments[index - 1].span.end, span.end)
    return Span(span.source, span.start, arguments[1].span.start if len(arguments) > 1 else span.end)


def splits_as_arguments(name: Span, arguments: Sequence[syntax.Argument]) -> Fix | str | None:
    """`folder(train="photos/train", val="photos/val")`: a folder is named once, its splits are found."""
    named = [one for one in arguments if one.keyword is not None and one.keyword.path in _SPLITS]
    paths = [one.value.value for one in named if isinstance(one.value, syntax.String)]
    folders = {posixpath.dirname(path.rstrip("/")) for path in paths}
    if not named or len(paths) < len(named):
        return None
    advice = "name the folder that contains the splits `train` and `val`"
    if len(folders) > 1 or not all(folders):
        return advice
    whole = named[0].span.to(named[-1].span)
    closing = whole.source.text[whole.end : whole.end + 1] == ")"
    shown = Span(whole.source, name.start, whole.end + closing)
    edits = (Edit(whole, quoted(folders.pop())),)
    return Fix("name the folder that contains the splits: ", edits, shown, otherwise=advice)


def instead_of_name(name: syntax.Name, parameter: Parameter) -> Fix | None:
    """`weights=ResNet18_Weights.DEFAULT`, `train rand-m9-mstd0.5`."""
    if "transforms" not in parameter.types:
        return by_tag(name.span, name.path)
    start, source = name.span.start, name.span.source
    policy = re.match(_RAND_AUGMENT, source.text[start : start + _LOOKAHEAD])
    return rand_augment(source.span(start, start + policy.end())) if policy else None


def rand_augment(value: Span, parameter: str = "transforms") -> Fix | None:
    """`rand-m9-mstd0.5`: timm's name of a policy, in quotes or not; as an argument, its magnitude."""
    policy = re.fullmatch(_RAND_AUGMENT, value.text.strip('"'))
    if policy is None or parameter not in ("num_ops", "policy", "transforms"):
        return None
    settings = dict(re.findall(r"-([mn])(\d+)", value.text))
    strength = round(min(int(settings.get("m", _LAST_OF_TIMM)), _LAST_OF_TIMM) * _LAST_MAGNITUDE / _LAST_OF_TIMM)
    arguments = f"num_ops={settings['n']}, magnitude={strength}" if "n" in settings else f"magnitude={strength}"
    if parameter == "policy":  # auto_augment("rand-m9"), as timm has it
        text = value.source.text[max(0, value.start - _LOOKAHEAD) : value.start]
        before = re.search(r"\w+\(\s*(policy\s*=\s*)?$", text)
        if before is None:
            return None
        call = Span(value.source, value.start - len(before[0]), value.end)
        closing = value.source.text[call.end : call.end + 1] == ")"
        shown = Span(call.source, call.start, call.end + closing)
        return write(call, f"rand_augment({arguments}", shown=shown, after=_SCALES)
    return write(value, arguments if parameter == "num_ops" else f"rand_augment({arguments})", after=_SCALES)
