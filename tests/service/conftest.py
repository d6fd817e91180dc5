"""A service in this process: workers run inline, and a saved map is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
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
def client(serve: Callable[..., TestClient]) -> TestClient:
    return serve()
