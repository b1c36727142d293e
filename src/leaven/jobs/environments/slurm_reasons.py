"""Why a job waits in Slurm's queue: Slurm's one word, in plain ones, with the word itself."""

import re

_PLAIN = {
    "Resources": "waits for nodes to be free",
    "Priority": "jobs of higher priority are first",
    "Dependency": "waits for a job that it depends on",
    "DependencyNeverSatisfied": "the job that it depends on has failed",
    "BeginTime": "its time to begin has not come: Slurm waits before it starts a job again",
    "Licenses": "waits for a license",
    "JobHeldAdmin": "an administrator holds it",
    "JobHeldUser": "it is held: `scontrol release` lets it go on",
    "JobArrayTaskLimit": "as many tasks of its array are running as may at once",
    "MaxRequeue": "it was requeued too often, and is held",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition is inactive",
    "PartitionNodeLimit": "its partition does not give so many nodes to a job",
    "PartitionTimeLimit": "its time limit is longer than that of its partition",
    "NodeDown": "a node that it needs is down",
    "ReqNodeNotAvail": "nodes that it needs are not available",
    "BadConstraints": "no node has what it asks for",
    "Reservation": "its reservation has not begun",
    "ReservationDeleted": "its reservation is gone",
    "InvalidAccount": "its account is not valid",
    "InvalidQOS": "its quality of service is not valid",
    "AccountNotAllowed": "its account may not use the partition",
    "QOSNotAllowed": "its quality of service may not be used",
    "Cleaning": "what it left before is being removed",
    "Prolog": "its node is being prepared",
    "FrontEndDown": "the cluster's front end is down",
    "launch failed requeued held": "it could not be started, and is held: `scontrol release` lets it try again",
}
_LIMIT = re.compile(
    r"(?P<whose>QOS|Assoc|Association|Account|User|Partition)?(?P<group>Grp)?(?:Max|Min)?"
    r"(?P<what>Cpu|Mem(?:ory)?|Node|GRES|Job|Submit|BB|Billing|License|WallDuration|Wall|Energy|Resource)"
    r"(?:Jobs?)?(?:Run)?(?P<time>Minutes)?(?P<each>Per(?:User|Job|Account|Node))?s?Limit"
)
_WHAT = {
    "Cpu": "cores",
    "Mem": "memory",
    "Memory": "memory",
    "Node": "nodes",
    "GRES": "GPUs",
    "Job": "jobs",
    "Submit": "submitted jobs",
    "Wall": "time",
    "WallDuration": "time",
    "License": "licenses",
}
_WHOSE = {"QOS": "its quality of service", "Assoc": "its account", "Association": "its account", "User": "its user"}


def why_it_waits(reason: str) -> str:
    """Slurm's reason in plain words, with its own."""
    word = reason.strip()
    if word in ("", "None"):
        return "waits in Slurm's queue, which has not looked at it yet"
    plain = _PLAIN.get(word) or _PLAIN.get(word.partition(",")[0]) or _limit(word)
    return f"{plain} (Slurm: {word})" if plain else f"Slurm says: {word}"


def _limit(word: str) -> str:
    """`QOSMaxCpuPerUserLimit`: a limit, of which there are more than a hundred."""
    match = _LIMIT.fullmatch(word)
    if match is None:
        return ""
    what = f"{'minutes of ' * bool(match['time'])}{_WHAT.get(match['what'], match['what'])}"
    each = f" per {match['each'][3:].lower()}" if match["each"] else ""
    whose = f" of {_WHOSE.get(match['whose'], 'its ' + match['whose'].lower())}" if match["whose"] else ""
    return f"the limit of {what}{each}{whose} is reached"
