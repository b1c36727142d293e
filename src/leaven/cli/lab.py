"""The command `leaven lab`."""

from pathlib import Path

import click

from leaven.cli.printing import echo, fail
from leaven.terminal.byte_sizes import parse_bytes
from leaven.terminal.problem import Problem


class _Memory(click.ParamType[int]):
    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        count = value if isinstance(value, int) else parse_bytes(str(value))
        if count is None or count < 2**28:
            self.fail(f"`{value}` must be a size of memory of at least 256 MB, such as 4GB", param, ctx)
        return count


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN|BUNDLE|MODEL|FOLDER]...")
@click.option("--api-only", is_flag=True, help="Serve the API alone, which is all there is yet.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=8400, show_default=True, type=click.IntRange(0, 65535), help="0: any that is free.")
@click.option("--name", "names", multiple=True, help="Another host name that leads here.")
@click.option("--token-file", type=click.Path(path_type=Path), help="Keep the token here. [the user's cache]")
@click.option("--run-code", is_flag=True, help="Allow the Python code of recipes, runs and bundles to be run.")
@click.option("--models", default=3, show_default=True, type=click.IntRange(1, 100), help="How many are kept loaded.")
@click.option("--memory", default="4GB", show_default=True, type=_Memory(), help="Memory that a model may have.")
@click.option("--timeout", default=120.0, show_default=True, type=click.FloatRange(0.1), help="Seconds for an answer.")
@click.option("--journal", type=click.Path(path_type=Path), default="journal.jsonl", show_default=True, metavar="FILE")
def lab(
    words: tuple[str, ...],
    api_only: bool,
    host: str,
    port: int,
    names: tuple[str, ...],
    token_file: Path | None,
    run_code: bool,
    models: int,
    memory: int,
    timeout: float,
    journal: Path,
) -> None:
    """Serve the lab over HTTP: questions to models, runs and recipes.

    It reaches the runs, bundles and folders that are named, by default the current folder, and published models. The
    printed link has the token; whoever has it can use the lab.

    \b
    For example:
        leaven lab runs
        leaven lab dogs.bundle efficientnet_lite0 --port 0
    """
    from leaven.api.server import Setup, serve

    setup = Setup(words, host, port, names, token_file, run_code, models, memory, timeout, journal)
    if not api_only:
        echo("there is no page yet: this serves the API, whose routes the link lists", err=True)
    try:
        serve(setup, echo)
    except Problem as problem:
        fail(problem.headline, problem.help)
