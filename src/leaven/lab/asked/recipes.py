"""Questions to the compiler over a pipe: checking, completion, plans and programs, runs that are to start, the catalog.

Never imports torch. Places in texts are counted in code units of UTF-16. A text may name only files below some folders,
and Python files only where their code may be run.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaven.catalog.card import KINDS, Card
from leaven.catalog.card_facts import facts_of
from leaven.catalog.search import meanings, nearest, search
from leaven.catalog.value_text import value_text
from leaven.formats.listing import either, in_code
from leaven.formats.run_folder import started_in
from leaven.lab.advisor import advice
from leaven.lab.asked import pipe
from leaven.lab.recorded_training import new_rows, training
from leaven.language.diagnostics import Diagnostic, Severity
from leaven.language.formatter import format_tree
from leaven.language.parser import load_grammar, parse
from leaven.language.report import render_full, summary, to_json
from leaven.language.source import Source
from leaven.language.utf16 import offset_of_utf16, utf16_length
from leaven.messages import describe, explanations
from leaven.messages.completions import card_at, completions
from leaven.planning.compiling import Compiled, compile_source
from leaven.planning.explain import explain
from leaven.program.emit import emit
from leaven.program.standalone import obstacles, standalone
from leaven.recipe import show
from leaven.recipe.plain_data import to_json as recipe_to_json
from leaven.rules.checker import check
from leaven.runs.processes import command
from leaven.runs.starting import StartError, new_run, output_folder
from leaven.statements.assemble import assemble
from leaven.statements.options import Options
from leaven.terminal.problem import Problem

_CODE = "start the lab with `--run-code` if you trust it"


@dataclass(frozen=True)
class Text:
    """A recipe as it is asked about: its text, the file that it is or will be, and what it may use."""

    text: str
    file: str
    roots: Sequence[str]
    run_code: bool = False
    args: Mapping[str, str] | None = None
    settings: Sequence[str] = ()

    @property
    def source(self) -> Source:
        """The source, if it names only what it may use."""
        path = Path(self.file)
        source = Source(path.name, self.text, path.parent)
        self._refuse_outside(source)
        if not self.run_code and (code := _imported(source)):
            raise pipe.Forbidden(f"the recipe uses Python code ({code}), which runs when it is compiled", _CODE)
        return source

    @property
    def options(self) -> Options:
        return Options(args=dict(self.args or {}), settings=tuple(self.settings))

    def _refuse_outside(self, source: Source) -> None:
        """Refuse the paths of files that are not below the folders."""
        roots = [Path(root) for root in self.roots]
        for token in load_grammar().tokens(source):
            if token.type != "STRING":
                continue
            word = os.path.expanduser(token.value[1:-1].replace('\\"', '"').replace("\\\\", "\\"))
            try:
                place = (source.folder / word).resolve()
                is_outside = place.exists() and not any(place.is_relative_to(root) for root in roots)
            except (OSError, ValueError):
                continue
            if is_outside:
                raise pipe.Forbidden(
                    f"{token.value} is not below the folders of the lab", "start the lab with that folder"
                )

    def compiled(self, *, requires_args: bool = False) -> Compiled:
        source = self.source
        return compile_source(source, self.options, requires_args=requires_args, run_code=self.run_code)


def _imported(source: Source) -> str:
    """The first Python module that a recipe, or one that it extends, imports."""
    return next((one.target.span.text for one in assemble(source).imports.values()), "")


# -- reports


def check_text(**given: Any) -> dict[str, Any]:
    """The reports on a recipe. No user code is run."""
    asked = Text(**given)
    path = Path(asked.file)
    source = Source(path.name, asked.text, path.parent)
    asked._refuse_outside(source)
    checked = check(source, asked.options, run_code=asked.run_code)
    return {"ok": checked.recipe is not None, **_reports(checked.diagnostics, source)}


def _reports(found: Sequence[Diagnostic], source: Source) -> dict[str, Any]:
    said = [one for one in found if one.severity is not Severity.NOTE]
    return {
        "summary": summary(said),
        "diagnostics": [
            {
                **to_json(one, is_utf16=True),
                "text": render_full(one),
                "is_here": not one.spots or one.spots[0].span.source is source,
            }
            for one in found
        ],
    }


def _answered(asked: Text, compiled: Compiled, **found: Any) -> dict[str, Any]:
    ok = compiled.plan is not None
    source = next((each.spots[0].span.source for each in compiled.diagnostics if each.spots), Source("", ""))
    return {"ok": ok, **_reports(compiled.diagnostics, source), **found}


def plan(**given: Any) -> dict[str, Any]:
    """What a recipe does, step by step, as text."""
    asked = Text(**given)
    compiled = asked.compiled()
    return _answered(asked, compiled, text=explain(compiled.plan) if compiled.plan is not None else "")


def program(is_standalone: bool = False, **given: Any) -> dict[str, Any]:
    """The program of a recipe."""
    asked = Text(**given)
    compiled = asked.compiled()
    if compiled.plan is not None and is_standalone and (found := obstacles(compiled.plan)):
        raise Problem(f"there can't be a standalone program of this recipe: {found[0]}", "the normal program can")
    write = standalone if is_standalone else emit
    return _answered(asked, compiled, text=write(compiled.plan, "program.py") if compiled.plan is not None else "")


def show_recipe(**given: Any) -> dict[str, Any]:
    """A recipe with every default filled in, as text and as data."""
    asked = Text(**given)
    checked = check(asked.source, asked.options, run_code=asked.run_code)
    recipe = checked.recipe
    text, data = (show.to_text(recipe), recipe_to_json(recipe)) if recipe is not None else ("", None)
    return {"ok": recipe is not None, **_reports(checked.diagnostics, asked.source), "text": text, "recipe": data}


def format_text(text: str) -> dict[str, Any]:
    """A recipe as the formatter writes it; unchanged where it has syntax errors."""
    parsed = parse(Source("recipe", text))
    return {"ok": not parsed.diagnostics, "text": text if parsed.diagnostics else format_tree(parsed.tree)}


def complete(text: str, offset: int) -> dict[str, Any]:
    """The words that may stand at a place, in code units of UTF-16."""
    source = Source("recipe", text)
    found = completions(source, offset_of_utf16(text, offset))
    items = [{"label": one.label, "kind": one.kind, "detail": one.detail, "text": one.text} for one in found.items]
    return {"start": utf16_length(text[: found.start]), "items": items}


def hover(text: str, offset: int) -> dict[str, Any] | None:
    """The card of the name at a place."""
    found = card_at(Source("recipe", text), offset_of_utf16(text, offset))
    return _card(found) if found is not None else None


# -- runs


def prepare_run(is_quick: bool = False, name: str | None = None, **given: Any) -> dict[str, Any]:
    """The folder of a new run and the command that trains; or the reports that say why there is none."""
    asked = Text(**given)
    start = next(root for root in map(Path, asked.roots) if Path(asked.file).resolve().is_relative_to(root))
    with chdir(start):
        compiled = asked.compiled(requires_args=True)
        if compiled.plan is None or compiled.recipe is None:
            return _answered(asked, compiled)
        if not any(output_folder(compiled.plan).resolve().is_relative_to(root) for root in map(Path, asked.roots)):
            raise pipe.Forbidden(
                f"its runs would be written to {output_folder(compiled.plan)}, outside of the lab's folders"
            )
        if compiled.plan.sweep is not None:
            raise Problem("a sweep is run by `leaven run`, or as jobs", "submit it, or leave out `sweep`")
        try:
            folder, flags = new_run(asked.source, compiled.recipe, compiled.plan, is_quick=is_quick, name=name or None)
        except StartError as problem:
            raise Problem(problem.headline, problem.help) from None
        except FileExistsError:
            raise Problem(f"there is a run `{name}` already", "choose another name") from None
        words = command(folder, flags)
    return _answered(asked, compiled, folder=str((start / folder).resolve()), words=words, start=str(start))


def resume_words(folder: str) -> dict[str, Any]:
    """The command that resumes a run, and where it is run."""
    return {"words": command(Path(folder), []), "start": str(started_in(Path(folder)))}


def recorded(folder: str) -> dict[str, Any]:
    """The training that a run has recorded."""
    return training(folder).to_json()


def recorded_since(folder: str, since: int) -> dict[str, Any]:
    """What a run has recorded since."""
    return new_rows(folder, since).to_json()


def advise(folder: str) -> list[dict[str, Any]]:
    """What stands out in a run's record, the likely causes, and changes of the recipe."""
    return [one.to_json() for one in advice(folder)]


# -- the catalog


def search_catalog(words: str, kind: str | None, offset: int, limit: int) -> dict[str, Any]:
    """The cards that contain all the words, best match first."""
    kinds = _kinds(kind)
    found = search(words.split(), kinds)
    items = [
        {"name": name, "kind": card.kind, "summary": card.summary, "source": card.source}
        for name, card in found[offset : offset + limit]
    ]
    near = nearest(words.lower(), kinds) if words and not found else []
    return {"items": items, "total": len(found), "nearest": near}


def read_cards(name: str, kind: str | None) -> list[dict[str, Any]]:
    """The cards that a name means, one for each kind."""
    cards = meanings(name, _kinds(kind))
    if not cards:
        near = nearest(name, _kinds(kind))
        raise pipe.Missing(
            f"the catalog has no entry `{name}`", f"did you mean {either(in_code(near))}?" if near else ""
        )
    return list(map(_card, cards))


def explain_word(word: str) -> dict[str, Any]:
    """The page of a report, or what a name means."""
    found = explanations.explanation(word)
    if found is None:
        near = explanations.nearest(word)
        help = f"did you mean {either(in_code(near))}?" if near else ""
        raise pipe.Missing(f"there is no report or catalog entry `{word}`", help)
    return {"text": found, "cards": []} if isinstance(found, str) else {"text": "", "cards": list(map(_card, found))}


def _kinds(kind: str | None) -> Sequence[str]:
    if kind is not None and kind not in KINDS:
        raise Problem(f"`{kind}` is not a kind", f"kinds are {', '.join(KINDS)}")
    return [kind] if kind else KINDS


def _card(card: Card) -> dict[str, Any]:
    return {
        "name": card.name,
        "kind": card.kind,
        "noun": describe.KIND_NOUNS.get(card.kind, card.kind),
        "source": card.source,
        "summary": card.summary,
        "article": card.article.strip(),
        "facts": [{"label": label, "fact": fact} for label, fact in facts_of(card)],
        "parameters": [
            {
                "name": one.name,
                "takes": describe.expected(one),
                "is_required": one.required,
                "default": None if one.required else value_text(one.default),
                "summary": one.summary,
            }
            for one in card.parameters
        ],
    }


CALLS: dict[str, Callable[..., Any]] = {
    "check": check_text,
    "plan": plan,
    "program": program,
    "show": show_recipe,
    "format": format_text,
    "complete": complete,
    "hover": hover,
    "prepare_run": prepare_run,
    "resume_words": resume_words,
    "training": recorded,
    "new_rows": recorded_since,
    "advice": advise,
    "search": search_catalog,
    "cards": read_cards,
    "explain": explain_word,
}

if __name__ == "__main__":
    pipe.serve(CALLS)
