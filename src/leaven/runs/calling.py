"""A run that is started from Python, and ends before the call does."""

import warnings

from leaven.formats import run_folder
from leaven.formats.store_limit import chosen_limit
from leaven.language.diagnostics import Diagnostic, Severity
from leaven.language.report import render_concise
from leaven.language.source import Source
from leaven.plan.compiling import compile_source
from leaven.runs.beginning import beginning
from leaven.runs.run import Run, run_in
from leaven.runs.starting import flags_of, new_run
from leaven.runs.sweeping import new_sweep, run_sweep
from leaven.statements.in_python import in_python
from leaven.statements.options import Options


def start(
    source: Source, options: Options, *, is_quick: bool, name: str | None, from_phase: str | None, of: str | None
) -> Run | tuple[Diagnostic, ...]:
    """The run, when it has ended; the errors of a recipe that has some."""
    from leaven.runs.running import raised_as_failure, run_program

    chosen_limit()
    compiled = compile_source(source, options, requires_args=True)
    if compiled.recipe is None or compiled.plan is None:
        return compiled.diagnostics
    for report in compiled.diagnostics:
        if report.severity is Severity.WARNING:
            warnings.warn(render_concise(in_python(report)), stacklevel=3)
    if name is not None and (wrong := run_folder.wrong_name(name)):
        raise ValueError(wrong)
    begin = beginning(compiled.plan, from_phase, of)
    called = _call(source, options, quick=is_quick or None, name=name, from_phase=from_phase, of=of)
    if compiled.plan.sweep is not None:
        folder = new_sweep(source, compiled.recipe, compiled.plan, begin, is_quick=is_quick, name=name)
        with raised_as_failure():
            run_sweep(folder, called)
    else:
        folder = new_run(source, compiled.recipe, compiled.plan, is_quick=is_quick, name=name)
        run_program(folder, flags_of(begin, is_quick=is_quick), called=called)
    return run_in(folder, trust_code=True)  # its code has been run already


def _call(source: Source, options: Options, **named: object) -> str:
    """The call, with all options as the command line has them."""
    given = [repr(source.name)]
    if options != Options():
        given.append(f"leaven.{_options(options)}")
    given += [f"{key}={value!r}" for key, value in named.items() if value is not None]
    return f"leaven.run({', '.join(given)})"


def _options(options: Options) -> str:
    named = {key: value for key, value in vars(options).items() if value}
    return f"Options({', '.join(f'{key}={value!r}' for key, value in named.items())})"
