"""Answers of `leaven.survey` about a model, built in a subprocess without weights. Decides which are cached."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from zlib import crc32

from leaven.cache import disk_cache, location
from leaven.catalog import versions
from leaven.terminal import status_line

_KEPT = 6  # sets of versions whose answers stay in the cache
_only_cached = ContextVar("only_cached", default=False)


@contextmanager
def only_cached() -> Iterator[None]:
    """Inside of it, no model is built: what is not in the cache is not known."""
    token = _only_cached.set(True)
    try:
        yield
    finally:
        _only_cached.reset(token)


def ask(program: str, request: Mapping[str, Any], seconds: float, doing: str) -> dict[str, Any] | None:
    """The answer of a program of `leaven.survey` to a request; None without torch.

    An answer with `is_unanswered` is not the model's fault: the subprocess took too long or failed itself.
    """
    text = json.dumps(request, sort_keys=True, separators=(",", ":"))
    if "torch" not in versions.installed():
        return None
    is_kept = "file" not in request  # which may change without notice
    name = f"{program}/{versions.key()}/{crc32(text.encode()):08x}.jsonl"
    kept = disk_cache.read_json(name) if is_kept else None
    if kept and kept.pop("request") == text:
        return dict(kept)
    if _only_cached.get():
        return None
    from leaven.catalog import process

    with status_line.doing(doing):
        finished = process.run(f"leaven.survey.{program}", text=text, seconds=seconds)
    answer: Any = disk_cache.parse_json(finished.output)
    if finished.reason or not isinstance(answer, dict):
        return {"error": finished.reason or "the subprocess gave no answer", "is_unanswered": True}
    if is_kept and not answer.get("is_unanswered"):
        disk_cache.write_json(name, {"request": text, **answer})
        disk_cache.keep_newest(location.user_folder() / program, _KEPT)
    return answer
