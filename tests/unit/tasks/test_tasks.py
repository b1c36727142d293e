"""Every task offers what bundles and programs ask of it."""

import subprocess
import sys

import pytest

from leaven import tasks
from leaven.tasks.protocol import Task


def test_a_task_is_found_by_the_name_of_its_folder() -> None:
    assert {"classification", "regression"} <= set(tasks.names())
    assert tasks.find("classification") is not None
    assert tasks.find("../classification") is None
    assert tasks.find("protocol") is None


@pytest.mark.parametrize("name", tasks.names())
def test_it_has_the_members_of_a_task(name: str) -> None:
    module = tasks.find(name)
    wanted = [member for member in vars(Task) if not member.startswith("_")]
    assert [member for member in wanted if not callable(getattr(module, member, None))] == []
    for member in module.__all__:  # type: ignore[union-attr]
        assert getattr(module, member) is not None
    with pytest.raises(AttributeError):
        module.something_else  # type: ignore[union-attr]  # noqa: B018


def test_the_targets_of_all_tasks_are_read_without_torch() -> None:
    names = ", ".join(f"leaven.tasks.{name}.target" for name in tasks.names())
    program = f"import {names}, sys; print({{'torch', 'numpy'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout) == ("", "set()\n")
