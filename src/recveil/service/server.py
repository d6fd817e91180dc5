"""The server: one process that listens on one address until it is told to stop."""

from __future__ import annotations

import gc
import importlib
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from recveil.core.errors import DataError, MissingExtra
from recveil.core.files import make_temporary_folder
from recveil.service.settings import ServiceSettings, is_loopback, read_token

__all__ = ["ServerOptions", "run_server"]

SECONDS_TO_STOP = 5
MAX_CONNECTIONS = 200


class ServerOptions(Protocol):
    """Options of the server, as the command line holds them.

    Attributes:
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        map: saved map for `POST /apply`.
        folder: private folder of the jobs; None for a temporary one.
        token_file: file with the token.
        max_upload: mebibytes of a request.
        max_jobs: jobs that wait or run.
        allow_host: further names by which clients may address the service.
    """

    @property
    def host(self) -> str: ...  # noqa: D102
    @property
    def port(self) -> int: ...  # noqa: D102
    @property
    def map(self) -> Path | None: ...  # noqa: D102
    @property
    def folder(self) -> Path | None: ...  # noqa: D102
    @property
    def token_file(self) -> Path | None: ...  # noqa: D102
    @property
    def max_upload(self) -> int: ...  # noqa: D102
    @property
    def max_jobs(self) -> int: ...  # noqa: D102
    @property
    def allow_host(self) -> Sequence[str] | None: ...  # noqa: D102


def run_server(options: ServerOptions, *, announce: Callable[[str], None] = lambda sentence: None) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        options: the address, the map and the limits.
        announce: told where the service listens, once it does.

    Raises:
        UsageError: an option cannot be used, or the extra `service` is not installed.
        DataError: the map cannot be read, or the address is taken.
    """
    uvicorn = _import_uvicorn()
    with ExitStack() as stack:
        folder = options.folder or stack.enter_context(make_temporary_folder())
        settings = ServiceSettings(
            folder=folder,
            host=options.host,
            port=options.port,
            token=read_token(options.token_file),
            map_path=options.map,
            max_upload_bytes=options.max_upload << 20,
            max_jobs=options.max_jobs,
            allowed_hosts=tuple(name.lower() for name in options.allow_host or ()),
        )
        listener = stack.enter_context(_listen(settings.host, settings.port))
        settings = replace(settings, port=listener.getsockname()[1])
        app = importlib.import_module("recveil.service.application").create_app(settings)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=SECONDS_TO_STOP,
        )
        _exclude_loaded_objects_from_collection()
        announce(_describe_address(settings))
        uvicorn.Server(config).run(sockets=[listener])


def _exclude_loaded_objects_from_collection() -> None:
    """Keep what was loaded out of later garbage collections: a walk over it delays an answer by 20 ms and more."""
    gc.collect()
    gc.freeze()


def _import_uvicorn() -> Any:
    """Import the server; an error names the extra that has it."""
    try:
        for name in ("fastapi", "python_multipart"):
            importlib.import_module(name)
        return importlib.import_module("uvicorn")
    except ImportError as error:
        raise MissingExtra(
            f"The service needs the package {error.name}, which is not installed. "
            "Install it with: pip install 'recveil[service]'."
        ) from error


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket on the address, before anything heavy is loaded."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, since asyncio sends small answers at once only on sockets that say they speak TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise DataError(f"Cannot listen on {host}:{port} ({error.strerror or error}). Name another `port`.") from None
    return listener


def _describe_address(settings: ServiceSettings) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http://{host}:{settings.port}/"
    reach = "only this machine can reach it" if is_loopback(settings.host) else "clients need the token"
    return f"Serving on {address} ({reach}). Stop it with Ctrl-C."
