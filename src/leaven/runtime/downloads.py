"""Downloads: by one process for all, and with a clear failure where there is no network."""

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from torch import distributed

from leaven.runtime.failures import Failure
from leaven.terminal import status_line

_OFFLINE = "HF_HUB_OFFLINE"
_LOADING = threading.RLock()
_NETWORK_LIBRARIES = ("urllib", "urllib3", "requests", "httpx", "httpcore", "huggingface_hub", "http", "ssl", "socket")


@contextmanager
def rank_zero_first() -> Iterator[None]:
    """On several devices, let the first process go ahead: what it downloads, the others find."""
    if not (distributed.is_available() and distributed.is_initialized()) or distributed.get_world_size() == 1:
        yield
        return
    group: Any = distributed.new_group(backend="gloo", timeout=timedelta(days=1))  # a download may take long
    is_first = distributed.get_rank() == 0
    if not is_first:
        distributed.barrier(group)
    try:
        yield
    finally:
        if is_first:
            distributed.barrier(group)
        distributed.destroy_process_group(group)


@contextmanager
def from_hub(name: str) -> Iterator[None]:
    """While a library downloads published weights: without network, a failure that says how to use a file instead."""
    try:
        # the library shows the progress of a download itself, and finds what it downloaded earlier
        with status_line.doing(""), offline() if _is_hub_out_of_reach() else nullcontext():
            yield
    except Exception as problem:
        if isinstance(problem, Failure) or not _is_about_network(problem):
            raise
        raise Failure(
            f"the weights of {name} could not be downloaded",
            f'without a network connection, use a file: `{name}(weights="{name}.pth")`',
        ) from None


@contextmanager
def offline() -> Iterator[None]:
    """While what a stranger wrote is loaded, the hub's library finds what is on this machine, and asks nobody else.

    The library's switch is of the whole process, so one thread loads at a time.
    """
    with _LOADING:
        before = os.environ.get(_OFFLINE)
        constants = getattr(sys.modules.get("huggingface_hub"), "constants", None)
        was_offline = constants.HF_HUB_OFFLINE if constants is not None else before in ("1", "ON", "YES", "TRUE")
        os.environ[_OFFLINE] = "1"  # it may be imported only now
        if constants is not None:
            constants.HF_HUB_OFFLINE = True
        try:
            yield
        finally:
            if before is None:
                del os.environ[_OFFLINE]
            else:
                os.environ[_OFFLINE] = before
            constants = getattr(sys.modules.get("huggingface_hub"), "constants", None)
            if constants is not None:
                constants.HF_HUB_OFFLINE = was_offline


def _is_hub_out_of_reach() -> bool:
    """Whether Hugging Face's library would ask its hub in vain, and retry for a minute. With a proxy, only a request
    tells."""
    constants = getattr(sys.modules.get("huggingface_hub"), "constants", None)
    if constants is None or constants.HF_HUB_OFFLINE or getproxies():
        return False
    try:
        socket.getaddrinfo(urlsplit(constants.ENDPOINT).hostname, None)
    except OSError:
        return True
    return False


def _is_about_network(problem: BaseException | None) -> bool:
    """Whether an exception, or one that led to it, is about the network and not about the disk or the program."""
    while problem is not None:
        library = type(problem).__module__.partition(".")[0]
        if isinstance(problem, ConnectionError | TimeoutError) or library in _NETWORK_LIBRARIES:
            return True
        problem = problem.__cause__ or problem.__context__
    return False
