"""Files at addresses: fsspec, the local file system, and a server that speaks S3."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.data.io.addresses import (
    check_output_address,
    fetch_address,
    is_address,
    redact_secrets,
    store_address,
)
from recveil.data.io.vectors import read_embeddings


def write_table(path: Path) -> Path:
    vectors = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2))
    pq.write_table(pa.table({"user_id": [7, 3], "embedding": vectors}), path)
    return path


@pytest.mark.parametrize("scheme", ["memory", "file"])
def test_files_and_folders_are_copied_both_ways(scheme: str, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    base = f"memory://{tmp_path.name}/a" if scheme == "memory" else f"file://{tmp_path}/there/a"
    store_address(write_table(tmp_path / "here" / "part-0.parquet"), f"{base}/part-0.parquet")
    store_address(tmp_path / "here", f"{base}/whole")
    (tmp_path / "back").mkdir()
    local = fetch_address(f"{base}/part-0.parquet", tmp_path / "back")
    assert read_embeddings(local).ids.to_pylist() == [7, 3]
    folder = fetch_address(f"{base}/whole", tmp_path / "back")
    assert [path.name for path in folder.iterdir()] == ["part-0.parquet"]
    with pytest.raises(DataError, match="nothing at"):
        fetch_address(f"{base}/none.parquet", tmp_path / "back")
    assert is_address(base)
    assert not is_address("memory.csv")
    assert not is_address("/s3/x")


def test_secrets_are_refused_and_never_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for address in (
        "s3://AKIAKEY:c2VjcmV0@bucket/x.parquet",
        "postgres://reader:hunter22@host/db?query=SELECT 1",
        "postgres:host=h password=hunter22?query=SELECT 1",
    ):
        with pytest.raises(UsageError, match="holds a password") as caught:
            fetch_address(address, tmp_path)
        assert "hunter22" not in str(caught.value)
        with pytest.raises(UsageError, match="holds a password"):
            check_output_address(address)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter22hunter22")
    assert redact_secrets("denied for hunter22hunter22.") == "denied for ***."


def test_a_store_that_cannot_be_reached_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{closed.getsockname()[1]}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "not-a-real-key")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setattr("recveil.data.io.addresses._S3_RETRIES", 1)
    with pytest.raises(DataError, match="s3://bucket/x.parquet cannot be read") as caught:
        fetch_address("s3://bucket/x.parquet", tmp_path)
    assert "not-a-real-key" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture
def s3_bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Start moto's server on loopback; yield the address of a bucket."""
    pytest.importorskip("moto.server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing-testing")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(120):
            try:
                request = urllib.request.Request(f"{endpoint}/bucket", method="PUT")
                urllib.request.urlopen(request, timeout=2).close()
                break
            except OSError:
                time.sleep(0.5)
        yield "s3://bucket"
    finally:
        server.terminate()
        server.wait()


@pytest.mark.slow
def test_a_command_reads_and_writes_a_store_that_speaks_s3(s3_bucket: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    codes, ids = rng.integers(0, 2, 300), rng.permutation(300)
    x = (rng.standard_normal((300, 4)) + 2 * codes[:, None]).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), 4)
    table = pa.table({"user_id": ids, "embedding": vectors, "gender": np.where(codes, "F", "M")})
    pq.write_table(table, tmp_path / "users.parquet")
    store_address(tmp_path / "users.parquet", f"{s3_bucket}/in/users.parquet")
    command = [sys.executable, "-m", "recveil", "cloak", f"{s3_bucket}/in/users.parquet", "--target", "gender"]
    outputs = ["--out", f"{s3_bucket}/out/safe.parquet", "--save-map", f"{s3_bucket}/out/gender.map"]
    command += [*outputs, "--method", "gaussian", "--allow-leak"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    safe = fetch_address(f"{s3_bucket}/out/safe.parquet", tmp_path)
    assert read_embeddings(safe).ids.to_pylist() == ids.tolist()
    assert fetch_address(f"{s3_bucket}/out/gender.map", tmp_path).stat().st_size > 0
    assert "testing-testing" not in done.stdout + done.stderr
    # A folder of parts is read and written in blocks.
    for part in range(2):
        pq.write_table(table.slice(150 * part, 150), tmp_path / "part.parquet")
        store_address(tmp_path / "part.parquet", f"{s3_bucket}/parts/part-{part}.parquet")
    folder = [sys.executable, "-m", "recveil", "cloak", f"{s3_bucket}/parts", "--target", "gender"]
    folder += ["--out", f"{s3_bucket}/safe-parts", "--method", "gaussian", "--allow-leak"]
    done = subprocess.run(folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    written = fetch_address(f"{s3_bucket}/safe-parts", tmp_path)
    assert sorted(path.name for path in written.iterdir()) == ["part-0.parquet", "part-1.parquet"]
