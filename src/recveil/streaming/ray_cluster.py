"""Connection to a Ray cluster: the one at a given address, or one of our own that only this machine can reach.

Anybody who reaches a Ray cluster can run code on it. So no cluster is joined that nobody named, and a cluster that is
started here listens on the loopback interface alone (Ray listens on all interfaces by default).
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from recveil.core.errors import MissingExtra, UsageError

__all__ = ["connect_ray", "import_ray"]

CONNECT_SECONDS = 10.0
"""Seconds that a cluster has to answer in."""

LOOPBACK = "127.0.0.1"
QUIET = {"log_to_driver": False, "logging_level": "error"}

_OUTSIDE_VARIABLE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray turns a loopback address into one that others can reach, on any system, unless this variable is 0."""


def import_ray() -> Any:
    """Import Ray; an error names the extra that has it."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise MissingExtra(
            "The Ray engine needs the package ray, which is not installed. "
            "Install it with: pip install 'recveil[ray]', or use the local engine."
        ) from error


def connect_ray(address: str | None, **options: Any) -> Any:
    """Join the cluster at an address, or start one that only this machine can reach; return the module.

    A connection that this process has already made is used as it is.

    Args:
        address: address of the cluster; None to start one.
        options: further arguments of `ray.init`.

    Raises:
        MissingExtra: Ray is not installed.
        UsageError: no cluster answers at the address, or a new one could not be kept to this machine.
    """
    ray = import_ray()
    if ray.is_initialized():
        return ray
    _check_answers(address)
    try:
        with _keep_signal_handler():
            if address is None:
                _start_cluster(ray, options)
            else:
                ray.init(address=address, **QUIET, **options)
    except (ConnectionError, ValueError, ray.exceptions.AuthenticationError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"No Ray cluster answers at {address} ({reason}). Check `address`.") from error
    return ray


def _start_cluster(ray: Any, options: dict[str, Any]) -> None:
    """Start a cluster that listens on the loopback interface alone."""
    with _keep_inside():
        ray.init(address="local", include_dashboard=False, _node_ip_address=LOOPBACK, **QUIET, **options)
    if ray.util.get_node_ip_address() != LOOPBACK:
        ray.shutdown()
        raise UsageError(
            "This version of Ray listens on all networks, so no cluster was started. Start one yourself and name it by "
            "`address`, or use the local engine."
        )


@contextmanager
def _keep_inside() -> Iterator[None]:
    """Let Ray use the loopback interface within this block; processes that it starts inherit the setting."""
    constants: Any = importlib.import_module("ray._private.ray_constants")
    enabled, before = constants.ENABLE_RAY_CLUSTER, os.environ.get(_OUTSIDE_VARIABLE)
    constants.ENABLE_RAY_CLUSTER = False  # Ray reads the variable once, when it is imported
    os.environ[_OUTSIDE_VARIABLE] = "0"
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = enabled
        if before is None:
            del os.environ[_OUTSIDE_VARIABLE]
        else:
            os.environ[_OUTSIDE_VARIABLE] = before


@contextmanager
def _keep_signal_handler() -> Iterator[None]:
    """Put the handler of SIGTERM back that Ray replaces by one of its own."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _check_answers(address: str | None) -> None:
    """Raise at once where nobody listens: Ray itself would go on asking for minutes."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise UsageError(f"No Ray cluster answers at {address} ({error}). Check `address`.") from error
