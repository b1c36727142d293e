"""While a bundle is loaded nothing is fetched; afterwards everything is as it was."""

import os
import threading

import pytest

from leaven.runtime.downloads import offline


def test_loads_that_overlap_leave_the_process_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    inside, let_go = threading.Event(), threading.Event()

    def load() -> None:
        with offline():
            inside.set()
            let_go.wait()

    first, second = threading.Thread(target=load), threading.Thread(target=load)
    first.start()
    inside.wait()
    second.start()
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    let_go.set()
    first.join()
    second.join()
    assert "HF_HUB_OFFLINE" not in os.environ
