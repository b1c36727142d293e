"""`leaven cache`: what is stored is listed by what it is, verified, and removed on request."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from leaven.cache.store import Store, key_of
from leaven.cli.main import leaven

FEATURES = "the frozen layers of ResNet up to layer4"
IMAGES = "images of photos"
DAY = 86400


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with three parts of one thing that was last used a while ago, and with another thing."""
    monkeypatch.setenv("LEAVEN_CACHE", str(tmp_path))
    monkeypatch.setenv("LEAVEN_STORE_LIMIT", "2GB")
    store = Store(tmp_path / "store", 2 * 10**9)
    for number, split in enumerate(["train", "train", "val"]):
        store.write(key_of(number=number), {"group": FEATURES, "split": split, "rows": 640}, [bytes(100_000)])
    for file in store.folder.iterdir():
        os.utime(file, (time.time() - 40 * DAY, time.time() - 40 * DAY))
    store.write(key_of(images=1), {"group": IMAGES, "rows": 12}, [bytes(5_000)])
    return store


def run(*words: str) -> Result:
    return CliRunner().invoke(leaven, ["cache", *words])


def listed() -> dict[str, str]:
    """The lines of the list, by what they are about, without the id."""
    lines = [line.split(maxsplit=1) for line in run("list").output.splitlines()[3:]]
    return {rest.split("  ")[-1].strip(): " ".join(rest.split()) for _, rest in lines}


def id_of(what: str) -> str:
    return next(line.split()[0] for line in run("list").output.splitlines() if what in line)


def test_parts_of_one_thing_are_one_line() -> None:
    first = run("list").output.splitlines()[0]
    assert first.endswith("store: 306 kB of at most 2.0 GB")
    assert list(listed().values()) == [
        f"5.1 kB just now {IMAGES} (12)",
        f"301 kB 5 weeks ago {FEATURES} (train 1,280, val 640)",
    ]


def test_json_has_every_entry(store: Store) -> None:
    said = json.loads(run("list", "--json").output)
    assert said["limit"] == 2 * 10**9
    assert said["bytes"] == sum(file.stat().st_size for file in store.folder.iterdir())
    assert [len(group["entries"]) for group in said["groups"]] == [1, 3]


def test_all_can_be_removed(store: Store) -> None:
    assert run("clear").output == "removed 4 entries, 306 kB\n"
    assert list(store.folder.iterdir()) == []
    assert run("clear").output == "removed 0 entries, 0 B\n"


def test_one_thing_can_be_removed() -> None:
    assert run("clear", id_of(IMAGES)).output == "removed 1 entry, 5.1 kB\n"
    assert [what.split(" (")[0] for what in listed()] == [FEATURES]


def test_what_was_not_used_for_long_can_be_removed() -> None:
    assert run("clear", "--older-than", "50 days").output == "removed 0 entries, 0 B\n"
    assert run("clear", id_of(IMAGES), "--older-than", "30d").output == "removed 0 entries, 0 B\n"
    assert run("clear", "--older-than", "30d").output.startswith("removed 3 entries")
    assert [what.split(" (")[0] for what in listed()] == [IMAGES]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["clear", "nothing"], "nothing stored has the id nothing; `leaven cache list` lists the ids"),
        (["clear", "--older-than", "soon"], "`soon` is not a length of time; for example: --older-than 30d"),
        (["clear", "--older-than", "-3d"], "`-3d` is not a length of time"),
        (["rm"], "Did you mean `leaven cache clear`?"),
    ],
)
def test_mistakes_remove_nothing(words: list[str], said: str) -> None:
    done = run(*words)
    assert done.exit_code == 2
    assert said in done.output
    assert len(listed()) == 2


def test_a_limit_that_is_not_a_size_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAVEN_STORE_LIMIT", "much")
    for word in ("list", "clear", "verify"):
        done = run(word)
        assert (done.exit_code, "LEAVEN_STORE_LIMIT is `much`" in done.output) == (2, True)


def test_a_damaged_entry_is_found_and_removed(store: Store) -> None:
    assert run("verify").output == "4 entries, 306 kB: none is damaged\n"
    key = key_of(images=1)
    file = store.folder / f"{key}.entry"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    (store.folder / f"{'ab' * 20}.entry").write_bytes(b"not an entry")
    assert "damaged; `leaven cache verify` removes it" in run("list").output
    done = run("verify")
    assert done.exit_code == 1
    assert done.output.splitlines() == [
        f"damaged: {IMAGES} ({key})",
        f"damaged: {'ab' * 20}",
        "removed 2 entries, kept 3. What is missing is computed again when it is needed.",
    ]
    assert run("verify").exit_code == 0


def test_a_store_that_is_not_there_is_empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LEAVEN_CACHE", str(tmp_path / "none"))
    assert [run(word).exit_code for word in ("list", "verify", "clear")] == [0, 0, 0]
    assert not (tmp_path / "none").exists()


def test_descriptions_cant_disturb_a_terminal(store: Store) -> None:
    store.write(key_of(strange=1), {"group": "a\x1b[2Jb\nc"}, [])
    store.write(key_of(strange=2), {"group": ["list"], "model": "x"}, [])
    store.write(key_of(strange=3), {}, [])
    output = run("list").output
    assert "\x1b" not in output
    assert len(output.splitlines()) == 3 + 5
    assert "group ['list'], model x" in output


def test_it_does_not_import_torch() -> None:
    program = "import sys\nfrom leaven.cli.main import main\ntry: main()\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program, "cache", "list"], capture_output=True, text=True, check=True)
    assert not {"torch", "numpy"} & set(done.stdout.split())


def test_ids_are_offered_with_what_they_are() -> None:
    found = ShellComplete(leaven, {}, "leaven", "_LEAVEN_COMPLETE").get_completions(["cache", "clear"], "")
    assert [(item.value, item.help) for item in found] == [
        (id_of(IMAGES), f"{IMAGES} (12)"),
        (id_of(FEATURES), f"{FEATURES} (train 1,280, val 640)"),
    ]
