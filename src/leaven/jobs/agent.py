"""Runs an attempt on a machine that the coordinator does not reach: in a pod, on a Ray worker, on a rented machine.

It is the supervisor of the attempt there. On a drive that both see, it reads and writes the attempt's folder. Where
there is none, it fetches the attempt from an object store, and sends back what the program writes: the log and the run
every few seconds, and at last how it ended, after everything else. A request to stop comes the same way. What can't be
sent for an hour is given up, so that nobody pays for a machine that only waits.

Of several nodes the first one has the attempt's folder, and each other one a folder in it.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import threading
from pathlib import Path

from leaven.jobs import supervisor
from leaven.jobs.environments.launching import with_addresses
from leaven.jobs.object_store import Folder, folder_at
from leaven.terminal.visible import visible

NODE = "LEAVEN_NODE"  # the environment variable with the number of the node
FIRST = "LEAVEN_FIRST_NODE"  # that with the address of the first one
ADDRESS = "LEAVEN_NODE_ADDRESS"  # that with the address of this one
RUN = "run"  # the folder of the run in that of an attempt, where that is in an object store
_SECONDS = 1.0  # between two looks at the request to stop
_SENDING_LOG = 5.0  # between two times that the log is sent, if it has grown
_SENDING_RUN = 20.0  # between two times that the run is sent
_STALE = (supervisor.BEGUN, supervisor.TOLD, supervisor.STOP, supervisor.OUTCOME)


def main() -> None:
    """The process of an agent."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, help="the folder of the attempt on this machine")
    parser.add_argument("--store", help="the address of the attempt's folder in an object store")
    parser.add_argument("--run", type=Path, help="the folder of the run on this machine")
    args = parser.parse_args()
    node = int(os.environ.get(NODE) or 0)
    agent = Agent(args.folder, node) if args.store is None else Carrier(args.folder, node, args.store, args.run)
    raise SystemExit(agent.main())


class Agent:
    """An attempt whose folder is on a drive that the coordinator sees."""

    def __init__(self, folder: Path, node: int) -> None:
        self.shared = folder
        self.folder = folder if node == 0 else folder / supervisor.NODE_FOLDER.format(node)
        self.node = node
        self._is_over = threading.Event()

    def main(self) -> int:
        """Run the attempt on this node; 0 if it succeeded."""
        os.umask(0o077)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.fetch()
        task = json.loads((self.folder / supervisor.TASK).read_text(encoding="utf-8"))
        first, this = os.environ.get(FIRST, "127.0.0.1"), os.environ.get(ADDRESS, "127.0.0.1")
        task["command"] = with_addresses(task["command"], first, this)
        if self.node:  # it ends the processes that carry its name, and another node may be on the same machine
            task["attempt"] += f"-node-{self.node}"
        locks = supervisor.take_attempt(str(self.folder), task["attempt"])
        if locks is None:
            return 1  # another one runs it, or did and left: how that ended is not known here
        following = threading.Thread(target=self._follow, daemon=True)
        following.start()
        outcome = supervisor.Supervisor(str(self.folder), task).run()
        self._is_over.set()
        following.join()
        try:
            self.send()
            supervisor.write_until_done(str(self.folder / supervisor.OUTCOME), outcome)
            self.tell()
        except OSError as problem:  # a rented machine must not wait for ever, for access that has expired
            print(f"gave up sending what the attempt has made: {visible(str(problem))}", file=sys.stderr)
            return 1
        return int(outcome["outcome"] != "succeeded")

    def _follow(self) -> None:
        """A parent that is gone, as Ray's when its node is lost, means that it is to stop."""
        parent = os.getppid()
        while not self._is_over.wait(_SECONDS):
            if os.getppid() != parent:
                parent = os.getppid()
                os.kill(os.getpid(), signal.SIGTERM)
            with contextlib.suppress(OSError):  # it is tried again
                self.follow()

    def fetch(self) -> None:
        """Get what the attempt needs."""
        if self.node:
            shutil.copyfile(self.shared / supervisor.TASK, self.folder / supervisor.TASK)

    def follow(self) -> None:
        """Get the request to stop, if there is one; send what is new."""
        asked = self.shared / supervisor.STOP
        if self.node and asked.exists():
            shutil.copyfile(asked, self.folder / supervisor.STOP)

    def send(self) -> None:
        """Send everything."""

    def tell(self) -> None:
        """Send how the attempt ended."""


class Carrier(Agent):
    """An attempt whose folder is in an object store. Only the first node sends more than what its program said."""

    def __init__(self, folder: Path, node: int, store: str, run: Path) -> None:
        super().__init__(folder, node)
        self._store: Folder = folder_at(store)
        self._run = run
        self._told_as = supervisor.OUTCOME if node == 0 else f"{self.folder.name}/{supervisor.TOLD}"
        self._sent: dict[str, tuple[int, int]] = {}
        self._sent_of_log = 0  # bytes
        self._waited_with_log = _SENDING_LOG  # the first line is sent at once
        self._waited_with_run = 0.0

    def fetch(self) -> None:
        for name in _STALE:  # a machine that was lost and came back begins again
            for file in self.folder.glob(f"{name}*"):  # that of each rank
                file.unlink(missing_ok=True)
        self._store.remove(self._told_as)
        self._store.get(supervisor.TASK, self.folder / supervisor.TASK)
        self._store.get_folder(RUN, self._run)
        self._sent = _files(self._run)
        with contextlib.suppress(FileNotFoundError):
            self._store.get(supervisor.STOP, self.folder / supervisor.STOP)

    def follow(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._store.get(supervisor.STOP, self.folder / supervisor.STOP)
        self._waited_with_log += _SECONDS
        if self._waited_with_log >= _SENDING_LOG and self._send_log():
            self._waited_with_log = 0.0
        self._waited_with_run += _SECONDS
        if self._waited_with_run >= _SENDING_RUN:
            self._waited_with_run = 0.0
            self._send_run()

    def send(self) -> None:
        supervisor.until_done(self._send_run)
        supervisor.until_done(self._send_log)

    def tell(self) -> None:
        file = self.folder / Path(self._told_as).name
        if self.node == 0 or file.exists():
            supervisor.until_done(lambda: self._store.put(file, self._told_as))

    def _send_log(self) -> bool:
        """Send the log, if it has changed; whether it has. Its size tells: it only grows, or was begun again."""
        log = self.folder / supervisor.LOG
        size = log.stat().st_size if self.node == 0 and log.exists() else 0
        if size in (0, self._sent_of_log):
            return False
        self._store.put(log, supervisor.LOG)
        self._sent_of_log = size
        return True

    def _send_run(self) -> None:
        """Send files of the run that have changed, the oldest first."""
        if self.node:
            return
        files = _files(self._run)
        for name, facts in files.items():
            if self._sent.get(name) != facts:
                with contextlib.suppress(FileNotFoundError):  # checkpoints are replaced by newer ones
                    self._store.put(self._run / name, f"{RUN}/{name}")
                    self._sent[name] = facts
        for name in self._sent.keys() - files.keys():
            self._store.remove(f"{RUN}/{name}")
            del self._sent[name]


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    """The files of a folder with their sizes and times, the oldest first."""
    files: dict[str, tuple[int, int]] = {}
    for file in folder.rglob("*"):
        with contextlib.suppress(OSError):
            if file.is_file() and not file.name.startswith("."):
                facts = file.stat()
                files[file.relative_to(folder).as_posix()] = (facts.st_size, facts.st_mtime_ns)
    return dict(sorted(files.items(), key=lambda item: item[1][1]))


if __name__ == "__main__":
    main()
