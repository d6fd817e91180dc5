"""One job writes an output at a time, its state is private, and an end by a signal leaves only what is named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.streaming.block_table import open_table
from recveil.streaming.cloaked_table import cloak_table
from recveil.streaming.labels import AttributeSource
from recveil.streaming.parquet_parts import JOB_KEY
from recveil.streaming.work_folder import explain_full_disk, hold_work_folder

GENDER = AttributeSource(None, ("gender",))
COMMAND = """
import sys, time
from recveil.streaming import passes
pause = float(sys.argv.pop(1))
def make_slow(holder, name):
    real = getattr(holder, name)
    def slow(*arguments, **options):
        time.sleep(pause)
        return real(*arguments, **options)
    setattr(holder, name, slow)
for step in sys.argv.pop(1).split(","):
    if step:
        make_slow(passes, step)
from recveil.workflows import cloak_large
cloak_large._examine_sample = lambda result, *_: result  # the self-check has its own tests
from recveil.cli.app import main
main()
"""


def start(world: Any, out: Path | None, *more: str, pause: float = 0.0, slow: str = "", home: Path) -> Any:
    """Start the command in a process of its own, with some functions of the passes made slow."""
    command = ["audit"] if out is None else ["cloak", "--out", str(out), "--method", "gaussian"]
    command += ["--embeddings", str(world.path), "--target", "gender", *more]
    (home / "tmp").mkdir(exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(home / "tmp"), "OMP_NUM_THREADS": "1"}
    arguments = [sys.executable, "-c", COMMAND, str(pause), slow, *command]
    return subprocess.Popen(arguments, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def wait_for(is_there: Callable[[], Any], process: Any) -> None:
    for _ in range(3000):
        if is_there():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    raise AssertionError("it never came")


def jobs_in(out: Path) -> set[bytes]:
    return {pq.read_metadata(path).metadata[JOB_KEY] for path in out.glob("[!.]*.parquet")}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_folder_is_private_and_goes_with_what_was_made_for_it(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "out" / ".recveil"
    with hold_work_folder(folder, folder.parent) as work:
        assert work.stat().st_mode & 0o777 == 0o700
        with pytest.raises(UsageError, match="Another recveil job"), hold_work_folder(folder, folder.parent):
            pass
    assert list(folder.parent.iterdir()) == []
    folder.parent.rmdir()
    folder.parent.parent.rmdir()
    with suppress(ZeroDivisionError), hold_work_folder(folder, folder.parent):
        (folder / "values.parquet").write_bytes(bytes(1 // 0))
    assert list(tmp_path.iterdir()) == []
    with suppress(ZeroDivisionError), hold_work_folder(folder, folder.parent):
        (folder / "map.safetensors").touch()
        (folder / "values.parquet").write_bytes(bytes(1 // 0))
    assert (folder / "map.safetensors").exists()  # the job can be continued


def open_to_others(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o755)


def of_another_user(folder: Path) -> None:
    if os.geteuid():
        pytest.skip("only the superuser can give a folder away")
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)


def a_link(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(folder.parent / "elsewhere")


@pytest.mark.parametrize("prepare", [open_to_others, of_another_user, a_link, Path.touch])
def test_a_folder_that_somebody_else_prepared_is_refused(tmp_path: Path, prepare: Callable[[Path], None]) -> None:
    folder = tmp_path / ".out.recveil"
    prepare(folder)
    with pytest.raises(UsageError, match="only you can read"), hold_work_folder(folder, tmp_path / "out"):
        pass


@pytest.mark.thorough
def test_of_two_jobs_with_one_output_the_second_is_refused_and_the_first_is_whole(
    make: Callable[..., Any], tmp_path: Path
) -> None:
    world, out = make(parts=4), tmp_path / "out"
    first = start(world, out, pause=0.4, slow="apply_cell_map", home=tmp_path)
    wait_for(lambda: list(out.glob("[!.]*.parquet")), first)
    for method, sentence in ((Gaussian(), "Another recveil job"), (Gaussian(strength=0.5), "did not write")):
        with pytest.raises(UsageError, match=sentence):
            cloak_table(open_table(world.path), GENDER, method, out)
    first.communicate(timeout=120)
    assert first.returncode == 0
    assert len(jobs_in(out)) == 1
    assert sorted(path.name for path in out.iterdir()) == [f"part-{i}.parquet" for i in range(4)]


@pytest.mark.slow
def test_jobs_that_start_at_once_never_mix_their_parts(make: Callable[..., Any], tmp_path: Path) -> None:
    world = make(parts=6)
    for attempt in range(4):
        out, strengths = tmp_path / f"out{attempt}", ("1", "0.7", "0.4")
        options = {"pause": 0.05, "slow": "apply_cell_map", "home": tmp_path}
        running = [start(world, out, "--strength", strength, **options) for strength in strengths]
        for process in running:
            process.communicate(timeout=120)
        assert sorted(process.returncode for process in running) == [0, 2, 2]
        assert len(jobs_in(out)) == 1
        assert sorted(path.name for path in out.iterdir()) == [f"part-{i}.parquet" for i in range(6)]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_a_signal_while_parts_are_written_leaves_whole_parts_and_says_so(
    make: Callable[..., Any], tmp_path: Path, number: int, code: int
) -> None:
    world, out = make(parts=8), tmp_path / "out"
    process = start(world, out, pause=0.3, slow="apply_cell_map", home=tmp_path)
    wait_for(lambda: list(out.glob("[!.]*.parquet")), process)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert (process.returncode, len(told.splitlines())) == (code, 1), told
    whole = list(out.glob("[!.]*.parquet"))
    assert f"{len(whole)} of 8 parts and the map in {out / '.recveil'}" in told
    assert sorted(path.name for path in out.iterdir() if path.name[0] == ".") == [".recveil"]  # nothing half-written
    assert sorted(path.name for path in (out / ".recveil").iterdir()) == ["lock", "map.safetensors", "values.parquet"]
    assert {path.stat().st_mode & 0o077 for path in (out / ".recveil").iterdir()} == {0}
    done = cloak_table(open_table(world.path), GENDER, Gaussian(), out)
    assert (done.parts_found, "learn" in done.seconds) == (len(whole), False)
    cloak_table(open_table(world.path), GENDER, Gaussian(), tmp_path / "fresh")
    assert contents(out) == contents(tmp_path / "fresh")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_map_is_there_leaves_nothing(make: Callable[..., Any], tmp_path: Path, number: int) -> None:
    world, out = make(parts=8), tmp_path / "new" / "out"
    process = start(world, out, pause=0.5, slow="hash_ids", home=tmp_path)
    wait_for((out / ".recveil").exists, process)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert "remain" not in told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "tmp"]
    process = start(world, None, pause=0.5, slow="hash_ids", home=tmp_path)
    wait_for(lambda: list((tmp_path / "tmp").iterdir()), process)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_errors_of_a_full_disk_name_the_file(tmp_path: Path) -> None:
    from safetensors import SafetensorError

    full = [
        OSError(28, "No space left on device"),
        OSError("[Errno 28] Error writing bytes to file. Detail: [errno 28] No space left on device"),
        OSError("1000 requested and 96 written"),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ]
    for error in full:
        with pytest.raises(DataError, match="no room left for x"), explain_full_disk(Path("x")):
            raise error
    with pytest.raises(PermissionError), explain_full_disk(Path("x")):
        raise PermissionError(13, "Permission denied")
