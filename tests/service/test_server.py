"""The server as a process: its address, its end, what it refuses."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from recveil.cli.serve import ServeOptions
from recveil.core.errors import DataError, UsageError
from recveil.service.server import run_server

SERVE = [sys.executable, "-m", "recveil", "serve", "--port", "0"]


def test_a_taken_port_and_a_missing_token_are_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(DataError, match="Cannot listen"):
            run_server(ServeOptions(port=taken.getsockname()[1], folder=tmp_path / "jobs"))
    with pytest.raises(UsageError, match="token"):
        run_server(ServeOptions(host="0.0.0.0", port=0))


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_service_starts_without_arguments_answers_and_stops_cleanly(number: signal.Signals, tmp_path: Path) -> None:
    process = subprocess.Popen(SERVE, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    address = line.split()[2]
    assert address.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(f"{address}health", timeout=60) as answer:
        assert json.load(answer)["status"] == "ok"
    process.send_signal(number)
    out, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
    assert out.strip() == "Stopped."
    assert list(tmp_path.iterdir()) == []
