"""Why a job waits in Slurm's queue: Slurm's one word, in plain ones, with the word itself."""

import re
from functools import cache
from pathlib import Path
from typing import TypedDict

from leaven.catalog import tables
from leaven.catalog.tables import Words

_LIMIT = re.compile(
    r"(?P<whose>QOS|Assoc|Association|Account|User|Partition)?(?P<group>Grp)?(?:Max|Min)?"
    r"(?P<what>Cpu|Mem(?:ory)?|Node|GRES|Job|Submit|BB|Billing|License|WallDuration|Wall|Energy|Resource)"
    r"(?:Jobs?)?(?:Run)?(?P<time>Minutes)?(?P<each>Per(?:User|Job|Account|Node))?s?Limit"
)


class Reasons(TypedDict):
    """Slurm's words for reasons, and for the limits that one may be about, with plain ones."""

    reasons: Words
    limits: Words
    owners: Words


@cache
def _plain() -> Reasons:
    return tables.read(Path(__file__).with_suffix(".toml"), Reasons)


def why_it_waits(reason: str) -> str:
    """Slurm's reason in plain words, with its own."""
    word = reason.strip()
    if word in ("", "None"):
        return "waits in Slurm's queue, which has not looked at it yet"
    reasons = _plain()["reasons"]
    plain = reasons.get(word) or reasons.get(word.partition(",")[0]) or _limit(word)
    return f"{plain} (Slurm: {word})" if plain else f"Slurm says: {word}"


def _limit(word: str) -> str:
    """`QOSMaxCpuPerUserLimit`: a limit, of which there are more than a hundred."""
    match = _LIMIT.fullmatch(word)
    if match is None:
        return ""
    what = f"{'minutes of ' * bool(match['time'])}{_plain()['limits'].get(match['what'], match['what'])}"
    each = f" per {match['each'][3:].lower()}" if match["each"] else ""
    whose = f" of {_plain()['owners'].get(match['whose'], 'its ' + match['whose'].lower())}" if match["whose"] else ""
    return f"the limit of {what}{each}{whose} is reached"
