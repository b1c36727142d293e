"""Where the cache directory is."""

import sys
from pathlib import Path

import pytest

from leaven.cache import location


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="these have their own places")
def test_without_a_choice_the_cache_is_where_the_platform_keeps_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEAVEN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert location.user_folder() == Path("/caches/leaven")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/paths/are/to/be/ignored")
    monkeypatch.setenv("HOME", "/somewhere/me")
    assert location.user_folder() == Path("/somewhere/me/.cache/leaven")
