"""A service in this process: workers run inline, and a saved map is there."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import uvicorn
from fastapi.testclient import TestClient

from recveil.service.application import create_app
from recveil.service.settings import ServiceSettings
from service.tools import ADDRESS, InlineWorker, save_map


@pytest.fixture(scope="session")
def maps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("maps")
    return {method: save_map(folder / f"{method}.map", method) for method in ("gaussian", "labelfree")}


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., TestClient]]:
    """A function that starts a service: (launch, client options, **settings) -> its client."""
    with ExitStack() as stack:

        def start(*, launch: Any = InlineWorker, address: str = ADDRESS, **settings: Any) -> TestClient:
            settings.setdefault("folder", tmp_path / "service")
            app = create_app(ServiceSettings(**settings), launch=launch)
            return stack.enter_context(TestClient(app, base_url=address))

        yield start


@pytest.fixture
def live_service(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """A function that serves on a free port of loopback: (launch, **settings) -> address."""
    servers: list[tuple[uvicorn.Server, Thread]] = []

    def start(*, launch: Any = InlineWorker, **settings: Any) -> str:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        app = create_app(ServiceSettings(folder=tmp_path / "service", port=port, **settings), launch=launch)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{port}"

    yield start
    for server, thread in servers:
        server.should_exit = True
        thread.join(20)


@pytest.fixture
def client(serve: Callable[..., TestClient]) -> TestClient:
    return serve()
