"""The server: one process that listens on one address until it is told to stop."""

from __future__ import annotations

import importlib
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from recveil.core.errors import DataError, MissingExtra
from recveil.core.files import make_temporary_folder
from recveil.service.settings import DEFAULT_UPLOAD_MEBIBYTES, ServiceSettings, is_loopback, read_token

__all__ = ["run_server"]

SECONDS_TO_STOP = 5
MAX_CONNECTIONS = 200


def run_server(
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    map_path: Path | None = None,
    folder: Path | None = None,
    token_file: Path | None = None,
    max_upload: int = DEFAULT_UPLOAD_MEBIBYTES,
    max_jobs: int = 8,
    allow_host: tuple[str, ...] = (),
    announce: Callable[[str], None] = lambda sentence: None,
) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        map_path: saved map for `POST /apply`.
        folder: private folder of the jobs; None for a temporary one.
        token_file: file with the token.
        max_upload: mebibytes of a request.
        max_jobs: jobs that wait or run.
        allow_host: further names by which clients may address the service.
        announce: told where the service listens, once it does.

    Raises:
        UsageError: an argument cannot be used, or the extra `service` is not installed.
        DataError: the map cannot be read, or the address is taken.
    """
    uvicorn = _import_uvicorn()
    with ExitStack() as stack:
        place = stack.enter_context(make_temporary_folder()) if folder is None else folder
        settings = ServiceSettings(
            folder=place,
            host=host,
            port=port,
            token=read_token(token_file),
            map_path=map_path,
            max_upload_bytes=max_upload << 20,
            max_jobs=max_jobs,
            allowed_hosts=tuple(name.lower() for name in allow_host),
        )
        listener = stack.enter_context(_listen(host, port))
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
        announce(_describe_address(settings))
        uvicorn.Server(config).run(sockets=[listener])


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
