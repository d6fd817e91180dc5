"""A large table is cloaked as in memory, and an interrupted job ends like one that ran through."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recveil.core.errors import DataError, UsageError
from recveil.core.random import make_generator
from recveil.defenses.embeddings.attrcloak import AttrCloak
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.defenses.embeddings.leace import Leace
from recveil.defenses.embeddings.sliced import Sliced
from recveil.streaming import block_table as table_module
from recveil.streaming.block_table import open_table
from recveil.streaming.cloaked_table import cloak_table
from recveil.streaming.engines import ThreadEngine
from recveil.streaming.labels import AttributeSource
from recveil.streaming.passes import PartOutput, WriteTask

GENDER = AttributeSource(None, ("gender",))


def vectors(path: Path) -> np.ndarray:
    return np.stack(pq.read_table(path).column("embedding").to_pylist())


def codes(world: Any) -> np.ndarray:
    return np.array([{"F": 0, "M": 1, None: -1}[g] for g in world.gender])


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("method", [Gaussian, Leace])
@pytest.mark.parametrize("strength", [1.0, 0.3])
def test_streaming_gives_the_numbers_of_memory(
    make: Callable[..., Any], tmp_path: Path, method: type, strength: float
) -> None:
    world, out = make(), tmp_path / "out"
    done = cloak_table(open_table(world.path), GENDER, method(strength=strength), out)
    wanted = method(strength=strength, device="cpu")(world.x, codes(world), rng=make_generator(0, "cloak"))
    np.testing.assert_allclose(vectors(out), wanted, atol=1e-5 * world.x.std())
    assert np.abs(wanted - world.x).max() > 0.1
    assert done.counts == {"gender": {"F": int((codes(world) == 0).sum()), "M": int((codes(world) == 1).sum())}}
    assert sorted(p.name for p in out.iterdir()) == [f"part-{i}.parquet" for i in range(3)]  # no map is left


@settings(deadline=None, max_examples=8)
@given(parts=st.integers(1, 6), group=st.integers(30, 900), span=st.integers(1, 2000), workers=st.integers(1, 4))
def test_any_partition_of_the_rows_gives_the_same(
    tmp_path_factory: pytest.TempPathFactory, parts: int, group: int, span: int, workers: int
) -> None:
    tmp, rng = tmp_path_factory.mktemp("cut"), np.random.default_rng(0)
    gender, ids = np.array(["F", "M"], dtype=object)[rng.integers(0, 2, 1500)], rng.permutation(1500)
    x = (rng.standard_normal((1500, 3)) + (gender == "M")[:, None]).astype(np.float32)
    (tmp / "in").mkdir()
    for p, rows in enumerate(np.array_split(np.arange(len(x)), parts)):
        lists = pa.FixedSizeListArray.from_arrays(pa.array(x[rows].reshape(-1)), x.shape[1])
        part = pa.table({"user_id": ids[rows], "embedding": lists, "gender": gender[rows].tolist()})
        pq.write_table(part, tmp / "in" / f"p{p}.parquet", row_group_size=group)
    before, table_module.SPAN_ROWS = table_module.SPAN_ROWS, span
    try:
        cloak_table(open_table(tmp / "in"), GENDER, Gaussian(), tmp / "out", engine=ThreadEngine(workers))
    finally:
        table_module.SPAN_ROWS = before
    wanted = Gaussian(device="cpu")(x, (gender == "M").astype(np.int64), rng=make_generator(0, "cloak"))
    np.testing.assert_allclose(vectors(tmp / "out"), wanted, atol=1e-5 * x.std())


def test_the_same_seed_gives_the_same_bytes_with_sliced_too(make: Callable[..., Any], tmp_path: Path) -> None:
    world, outs = make(), [tmp_path / name for name in "ab"]
    for out, workers in zip(outs, (1, 3), strict=True):
        cloak_table(open_table(world.path), GENDER, Sliced(rounds=4), out, engine=ThreadEngine(workers))
    assert contents(outs[0]) == contents(outs[1])
    cloak_table(open_table(world.path), GENDER, Sliced(rounds=4), tmp_path / "c", seed=1)
    assert not np.array_equal(vectors(tmp_path / "c"), vectors(outs[0]))


def test_one_file_and_an_npy_file_with_attributes_elsewhere(make: Callable[..., Any], tmp_path: Path) -> None:
    world = make()
    wanted = Gaussian(device="cpu")(world.x, codes(world), rng=make_generator(0, "cloak"))
    pq.write_table(world.table, tmp_path / "one.parquet", row_group_size=300)
    cloak_table(open_table(tmp_path / "one.parquet"), GENDER, Gaussian(), tmp_path / "safe.parquet")
    np.testing.assert_allclose(vectors(tmp_path / "safe.parquet"), wanted, atol=1e-5 * world.x.std())
    np.save(tmp_path / "x.npy", world.x)
    pq.write_table(world.table.select(["user_id", "gender"]), tmp_path / "facts.parquet")
    facts = AttributeSource(tmp_path / "facts.parquet", ("gender",))
    cloak_table(open_table(tmp_path / "x.npy", pa.array(world.ids)), facts, Gaussian(), tmp_path / "safe.npy")
    np.testing.assert_allclose(np.load(tmp_path / "safe.npy"), wanted, atol=1e-5 * world.x.std())
    assert [p.name for p in tmp_path.iterdir() if p.name[0] == "."] == []


def test_a_class_that_is_in_some_parts_only_is_a_class_like_others(make: Callable[..., Any], tmp_path: Path) -> None:
    world = make(unknown=0)
    gender = np.where((np.arange(3000) >= 2000) & (np.arange(3000) % 3 == 0), "X", world.gender)
    last = world.path / "part-2.parquet"
    rows = pq.read_table(last)
    pq.write_table(rows.set_column(2, "gender", pa.array(gender[2000:].tolist())), last)
    done = cloak_table(open_table(world.path), GENDER, Gaussian(), tmp_path / "out")
    assert done.counts["gender"]["X"] == 333
    known = np.unique(gender.astype(str), return_inverse=True)[1]
    wanted = Gaussian(device="cpu")(world.x, known, rng=make_generator(0, "cloak"))
    np.testing.assert_allclose(vectors(tmp_path / "out"), wanted, atol=1e-5 * world.x.std())


class Killed(Exception):
    pass


@pytest.mark.thorough
@pytest.mark.parametrize("method", [Gaussian(), Sliced(rounds=3)])
def test_an_interrupted_job_resumes_with_the_missing_parts(
    make: Callable[..., Any], tmp_path: Path, method: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, out = make(parts=5), tmp_path / "out"
    cloak_table(open_table(world.path), GENDER, method, tmp_path / "whole")
    written: list[str] = []
    real = WriteTask.__call__

    def some(self: WriteTask, output: PartOutput) -> None:
        if len(written) == 2:
            raise Killed
        real(self, output)
        written.append(output.path.name)

    monkeypatch.setattr(WriteTask, "__call__", some)
    with pytest.raises(Killed):
        cloak_table(open_table(world.path), GENDER, method, out, engine=ThreadEngine(1))
    monkeypatch.setattr(WriteTask, "__call__", real)
    stamps = {name: (out / name).stat().st_mtime_ns for name in written}
    done = cloak_table(open_table(world.path), GENDER, method, out)
    assert (done.parts_found, done.parts_written) == (2, 3)
    assert "learn" not in done.seconds  # the map was kept
    assert {name: (out / name).stat().st_mtime_ns for name in written} == stamps
    assert contents(out) == contents(tmp_path / "whole")
    again = cloak_table(open_table(world.path), GENDER, method, out)
    assert (again.parts_found, again.parts_written) == (5, 0)


KILLED = """
import sys, time
from pathlib import Path
from recveil.streaming import block_table as table
from recveil.streaming.cloaked_table import cloak_table
from recveil.streaming.labels import AttributeSource
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.streaming.engines import ThreadEngine
from recveil.streaming import passes
real = passes.apply_cell_map
def slow(*arguments):
    time.sleep(float(sys.argv[3]))
    return real(*arguments)
passes.apply_cell_map = slow
facts, source, out = AttributeSource(None, ("gender",)), Path(sys.argv[1]), Path(sys.argv[2])
cloak_table(table.open_table(source), facts, Gaussian(), out, engine=ThreadEngine(2))
"""


def parts_in(out: Path) -> list[Path]:
    return sorted(out.glob("[!.]*.parquet"))


def killed_in_pass_two(source: Path, out: Path, pause: float) -> int:
    """Start the job, kill it with SIGKILL when its first part is there, and say how many parts it had written."""
    run = subprocess.Popen([sys.executable, "-c", KILLED, str(source), str(out), str(pause)])
    for _ in range(1200):
        if parts_in(out) or run.poll() is not None:
            break
        time.sleep(0.05)
    run.send_signal(signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    return len(parts_in(out))


@pytest.mark.thorough
def test_sigkill_in_the_second_pass_and_again(make: Callable[..., Any], tmp_path: Path) -> None:
    world, out = make(parts=6), tmp_path / "out"
    parts = killed_in_pass_two(world.path, out, 0.3)
    assert 0 < parts < 6
    done = cloak_table(open_table(world.path), GENDER, Gaussian(), out)
    assert (done.parts_found, done.parts_written) == (parts, 6 - parts)
    cloak_table(open_table(world.path), GENDER, Gaussian(), tmp_path / "whole")
    assert contents(out) == contents(tmp_path / "whole")  # and no half-written file beside them


@pytest.mark.slow
def test_sigkill_in_the_second_pass_of_a_larger_table(make: Callable[..., Any], tmp_path: Path) -> None:
    world, out = make(n=600_000, d=32, parts=12, group=20_000), tmp_path / "out"
    parts = killed_in_pass_two(world.path, out, 0.0)
    assert parts > 0
    cloak_table(open_table(world.path), GENDER, Gaussian(), out)
    cloak_table(open_table(world.path), GENDER, Gaussian(), tmp_path / "whole")
    assert contents(out) == contents(tmp_path / "whole")


def test_one_broken_file_among_many_is_named_and_nothing_is_written(make: Callable[..., Any], tmp_path: Path) -> None:
    world, out = make(parts=4), tmp_path / "out"
    path = world.path / "part-2.parquet"
    data = bytearray(path.read_bytes())
    at = pq.read_metadata(path).row_group(1).column(1).data_page_offset
    data[at : at + 600] = bytes(600)  # the footer is whole: only who reads the page can tell
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"part-2\.parquet cannot be read as Parquet"):
        cloak_table(open_table(world.path), GENDER, Gaussian(), out)
    assert list(out.glob("*.parquet")) == []


def test_a_full_disk_leaves_whole_parts_and_the_job_resumes(make: Callable[..., Any], tmp_path: Path) -> None:
    world, out = make(n=6000, d=16, parts=6), tmp_path / "small"
    out.mkdir()
    size = (world.path / "part-0.parquet").stat().st_size
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size * 3}", "tmpfs", str(out)]
    if os.geteuid() or shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        with pytest.raises(DataError, match="There is no room left"):
            cloak_table(open_table(world.path), GENDER, Gaussian(), out, engine=ThreadEngine(1))
        whole = parts_in(out)
        assert 0 < len(whole) < 6
        assert all(pq.read_metadata(path).num_rows == 1000 for path in whole)
        assert not [p for p in out.iterdir() if p.is_file() and p.name[0] == "."]
        subprocess.run(["mount", "-o", f"remount,size={size * 12}", str(out)], check=True, capture_output=True)
        done = cloak_table(open_table(world.path), GENDER, Gaussian(), out, engine=ThreadEngine(1))
        assert (done.parts_found, done.parts_written) == (len(whole), 6 - len(whole))
    finally:
        subprocess.run(["umount", str(out)], check=True)


def test_unsupported_requests_are_refused(
    make: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_table(make(n=100).path)
    with pytest.raises(UsageError, match="needs the whole table in memory"):
        cloak_table(table, GENDER, AttrCloak(), tmp_path / "out")
    with pytest.raises(UsageError, match="Columns: gender, age"):
        cloak_table(table, AttributeSource(None, ()), Gaussian(), tmp_path / "out")
    with pytest.raises(UsageError, match="Did you mean 'gender'"):
        cloak_table(table, AttributeSource(None, ("gendr",)), Gaussian(), tmp_path / "out")
    monkeypatch.setattr("recveil.streaming.cloaked_table.MOMENT_BYTES", 100)
    with pytest.raises(UsageError, match="Name fewer targets"):
        cloak_table(table, GENDER, Gaussian(), tmp_path / "out")
    strangers = tmp_path / "facts.csv"
    strangers.write_text("user_id,gender\na,F\nb,M\nc,F\nd,M\n")
    with pytest.raises(DataError, match="Only 0 users are in both tables"):
        cloak_table(table, AttributeSource(strangers, ("gender",)), Gaussian(), tmp_path / "out")
