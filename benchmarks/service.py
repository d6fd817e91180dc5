"""Latency of `recveil serve` on loopback: one client in turn, then a fixed rate of requests, for each kind of map.

    python benchmarks/service.py [--seconds 5] [--rate 200] [--dimensions 64] [--users 4000] [--wrk]

Starts the service by its command, sends vectors to POST /apply, and prints one row for each map: the median and 99th
percentile of the answers to one client, the same at a fixed rate (the time counts from the moment at which a request
was due), and the processor time of the service for each request, which other programs on the machine change less.
The first row, `no work`, is a bare socket server that answers at once: what the machine and the client themselves take.
With --wrk the program wrk sends the requests; it waits between them, so that its rate falls where answers are late.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

METHODS = ("gaussian", "leace", "labelfree", "sliced")
N_CONNECTIONS = 8
WRK_SCRIPT = """
wrk.method, wrk.body = "POST", '{body}'
wrk.headers["Content-Type"] = "application/json"
function delay() return math.random(0, {milliseconds}) end
function done(summary, latency)
  local errors = summary.errors
  print(errors.connect + errors.read + errors.write + errors.status + errors.timeout, summary.requests,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3)
end
"""


def save_map(path: Path, method: str, n_users: int, d: int) -> None:
    """Fit a map on two classes, and save it as `recveil cloak --save-map` does."""
    from recveil.core.result_parts import InputSummary
    from recveil.core.types import Attribute
    from recveil.workflows.audit_protocol import AuditProtocol
    from recveil.workflows.cloak_table import ClearTable, cloak_table
    from recveil.workflows.defended_release import ChosenDefense
    from recveil.workflows.map_saving import save_fitted_map

    rng = np.random.default_rng(0)
    codes = rng.integers(2, size=n_users)
    x = (rng.standard_normal((n_users, d)) + 0.5 * codes[:, None]).astype(np.float32)
    table = ClearTable(InputSummary(name="E", n_users=n_users, d=d), x, [Attribute("gender", codes, ("F", "M"))])
    protocol = AuditProtocol(device="cpu")
    result = cloak_table(table, ChosenDefense(method), protocol, audit=False)[1]
    save_fitted_map(path, table, result, protocol)


def start_service(map_path: Path) -> tuple[subprocess.Popen[str], int]:
    """Start the service on a free port; return the process and the port once it listens."""
    command = [sys.executable, "-m", "recveil", "serve", "--port", "0", "--map", str(map_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    port = int(process.stdout.readline().split("127.0.0.1:")[1].split("/")[0])
    for _ in range(600):
        with socket.socket() as probe:
            probe.settimeout(1)
            probe.connect(("127.0.0.1", port))
            probe.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            if probe.recv(12).startswith(b"HTTP/1.1 200"):
                return process, port
        time.sleep(0.1)
    raise RuntimeError("the service does not answer")


def build_body(d: int) -> str:
    """Return the JSON of one vector."""
    vector = np.random.default_rng(1).standard_normal((1, d)).astype(np.float32).round(4).tolist()
    return json.dumps({"vectors": vector, "labels": {"gender": ["F"]}})


def build_request(port: int, d: int) -> bytes:
    """Return one request with one vector."""
    body = build_body(d).encode()
    head = (
        f"POST /apply HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def send_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
    """Send a request, and read the whole answer."""
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    if not head.startswith("HTTP/1.1 200"):
        raise RuntimeError(head)
    length = next(line for line in head.splitlines() if line.lower().startswith("content-length:"))
    await reader.readexactly(int(length.split(":")[1]))


async def measure_in_turn(port: int, request: bytes, seconds: float) -> list[float]:
    """Return the milliseconds of the answers to one client that sends one request after the other."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    times, end = [], time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        await send_request(reader, writer, request)
        times.append(1e3 * (time.perf_counter() - start))
    writer.close()
    return times


async def measure_at_rate(port: int, request: bytes, seconds: float, rate: float) -> list[float]:
    """Return the milliseconds from the moment a request was due to its answer, at this rate over several clients."""
    times: list[float] = []
    begin = time.perf_counter() + 0.1

    async def run_client(first: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in range(first, int(seconds * rate), N_CONNECTIONS):
            due = begin + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await send_request(reader, writer, request)
            times.append(1e3 * (time.perf_counter() - due))
        writer.close()

    await asyncio.gather(*(run_client(first) for first in range(N_CONNECTIONS)))
    return times


@dataclass(frozen=True)
class Load:
    """What clients saw: milliseconds of the median and the 99th percentile, and the number of answers."""

    median: float
    p99: float
    n_answers: int


def summarize_times(times: list[float]) -> Load:
    """Return the percentiles of these milliseconds."""
    return Load(*np.percentile(times, (50, 99)), len(times))


def run_wrk(port: int, options: argparse.Namespace, folder: Path, rate: float | None = None) -> Load:
    """Send requests by wrk: one client in turn, or several that wait, at no more than this rate in all."""
    connections = 1 if rate is None else N_CONNECTIONS
    pause = 0 if rate is None else int(2e3 * connections / rate) - 2  # at most; clients that wait alike send at once
    (folder / "wrk.lua").write_text(
        WRK_SCRIPT.replace("{body}", build_body(options.dimensions)).replace("{milliseconds}", str(pause))
    )
    command = ["wrk", "-t1", f"-c{connections}", f"-d{options.seconds:.0f}s", "-s", str(folder / "wrk.lua")]
    done = subprocess.run([*command, f"http://127.0.0.1:{port}/apply"], capture_output=True, text=True, check=True)
    failed, n_answers, median, p99 = done.stdout.splitlines()[-1].split()
    if int(failed):
        raise RuntimeError(done.stdout)
    return Load(float(median), float(p99), int(n_answers))


def read_cpu_seconds(pid: int) -> float:
    """Return the processor time of a process so far (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start_bare_server() -> tuple[subprocess.Popen[str], int]:
    """Start a server that reads requests and answers each with two bytes."""
    command = [sys.executable, str(Path(__file__).with_name("bare_server.py"))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def measure_map(method: str, options: argparse.Namespace, folder: Path) -> str:
    """Measure one map; return its row of the table."""
    path = folder / f"{method}.map"
    save_map(path, method, options.users, options.dimensions)
    return measure_server(method, *start_service(path), options, folder)


def measure_server(
    name: str, process: subprocess.Popen[str], port: int, options: argparse.Namespace, folder: Path
) -> str:
    """Measure a server and end it; return its row of the table."""
    try:
        request = build_request(port, options.dimensions)
        asyncio.run(measure_in_turn(port, request, 0.5))  # warm
        before = read_cpu_seconds(process.pid)
        if options.wrk:
            one, cpu_after = run_wrk(port, options, folder), read_cpu_seconds(process.pid)
            many = run_wrk(port, options, folder, options.rate)
        else:
            one = summarize_times(asyncio.run(measure_in_turn(port, request, options.seconds)))
            cpu_after = read_cpu_seconds(process.pid)
            many = summarize_times(asyncio.run(measure_at_rate(port, request, options.seconds, options.rate)))
    finally:
        process.terminate()
        process.wait()
    cpu = 1e3 * (cpu_after - before) / one.n_answers
    numbers = [one.median, one.p99, many.median, many.p99, many.n_answers / options.seconds, cpu]
    return f"| {name} | " + " | ".join(f"{number:.2f}" for number in numbers) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--dimensions", type=int, default=64)
    parser.add_argument("--users", type=int, default=4_000)
    parser.add_argument("--wrk", action="store_true")
    parser.add_argument("--methods", default=",".join(METHODS))
    options = parser.parse_args()
    rate = f"{options.rate:g}/s"
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {options.dimensions} dimensions")
    print(f"| map | median, ms | p99, ms | median at {rate} | p99 at {rate} | rate reached | CPU ms each |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        print(measure_server("no work", *start_bare_server(), options, Path(name)), flush=True)
        for method in options.methods.split(","):
            print(measure_map(method, options, Path(name)), flush=True)


if __name__ == "__main__":
    main()
