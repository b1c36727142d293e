"""Reads docstrings: the first sentence, and the description of each argument.

Knows the formats that torch, torchvision, timm and torchmetrics use, and skips the rest.
"""

import re


def first_sentence(documentation: str | None) -> str:
    """The first sentence of a docstring, on one line and without markup."""
    paragraphs = re.split(r"\n\s*\n", (documentation or "").strip())
    for paragraph in paragraphs:
        text = _without_markup(" ".join(paragraph.split()))
        if text and not re.match(r"(\.\. |\*\*?Note|[=~-]+$|\w+\(.*\) ->)", text):
            return _up_to_full_stop(text)
    return ""


def _up_to_full_stop(text: str) -> str:
    end = re.search(r"(?<!e\.g)(?<!i\.e)(?<!et al)(?<!\bvs)\.(?=\s|$)", text)
    return text[: end.end()] if end else text


def _without_markup(text: str) -> str:
    text = re.sub(r"\.\. \w+:: *", "", text)
    text = re.sub(r":\w+(:\w+)?:`~?(?:[\w.]+\.)?([^`<]*?)(?: *<[^`>]*>)?`", r"\2", text)
    text = re.sub(r"`([^`<]+?) *(?:<[^`>]*>)?`_+", r"\1", text)
    return re.sub(r"\[(?:BETA|DEPRECATED)\] *|``?", "", text).strip()


def described_arguments(documentation: str | None) -> dict[str, tuple[str, str]]:
    """Each documented argument's type and first sentence, from a docstring in Google's or PyTorch's format."""
    found: dict[str, tuple[str, str]] = {}
    section = re.search(r"^\s*(?:Args|Arguments|Parameters):\s*\n(.*)", documentation or "", re.M | re.S)
    if section is None:
        return found
    for match in re.finditer(_ARGUMENT, section[1]):
        names, type_, text = match["names"], match["type"] or "", " ".join(match["text"].split())
        for name in re.split(r"\s*,\s*", names):
            sentence = _up_to_full_stop(_without_markup(text))
            short = sentence if len(sentence) <= 160 else sentence[:157].rsplit(" ", 1)[0] + " …"
            found.setdefault(name.strip("*"), (type_, short))
    return found


_ARGUMENT = re.compile(
    r"^(?P<indent>[ \t]+)(?P<names>\*{0,2}\w+(?:\s*,\s*\w+)*)[ \t]*(?:\((?P<type>[^\n]*?)\))?[ \t]*:[ \t]*"
    r"(?P<text>[^\n]*(?:\n(?P=indent)[ \t]+[^\n]*)*)",
    re.M,
)
