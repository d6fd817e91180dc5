"""Damage to files: to their bytes, whatever they hold, and to what they hold."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from campaign.document_mutations import damage_json, damage_plan
from campaign.hostile_values import CHUNKS
from campaign.table_mutations import damage_arrays, damage_csv, damage_npy, damage_parquet

BY_CONTENT: dict[str, Callable[[Path, np.random.Generator], None]] = {
    ".csv": damage_csv,
    ".txt": damage_csv,
    ".parquet": damage_parquet,
    ".npy": damage_npy,
    ".safetensors": damage_arrays,
    ".json": damage_json,
    ".toml": damage_plan,
}
SHARE_OF_BYTE_DAMAGE = 0.3


def damage_file(path: Path, rng: np.random.Generator) -> None:
    """Damage a file in one way, or in up to three."""
    if path.suffix == ".zip":
        damage_archive(path, rng)
    elif path.suffix not in BY_CONTENT or rng.random() < SHARE_OF_BYTE_DAMAGE:
        for _ in range(rng.integers(1, 4)):
            damage_bytes(path, rng)
    else:
        BY_CONTENT[path.suffix](path, rng)


def damage_bytes(path: Path, rng: np.random.Generator) -> None:
    """Damage the bytes of a file: change, cut, repeat, insert or replace some."""
    content = bytearray(path.read_bytes())
    start, end = sorted(rng.integers(len(content) + 1, size=2))
    end = min(end, start + 64)
    kind = rng.integers(8)
    if kind == 0:
        for place in rng.integers(max(len(content), 1), size=rng.integers(1, 9)):
            content[place : place + 1] = bytes([rng.integers(256)])
    elif kind == 1:
        del content[start:end]
    elif kind == 2:
        del content[start:]
    elif kind == 3:
        content[start:start] = content[start:end] * int(rng.integers(1, 50))
    elif kind == 4:
        content[start:start] = CHUNKS[rng.integers(len(CHUNKS))]
    elif kind == 5:
        content[start:end] = rng.bytes(int(end - start))
    elif kind == 6:
        content = bytearray(content.replace(b"\n", (b"\r", b"\r\n", b"\n\n", b"\0", b"\n\r")[rng.integers(5)]))
    else:
        content = bytearray(CHUNKS[rng.integers(len(CHUNKS))] + bytes(content) * int(rng.integers(2)))
    path.write_bytes(content)


def damage_archive(path: Path, rng: np.random.Generator) -> None:
    """Damage an archive: its bytes, or the names, kinds, count and content of its members."""
    kind = rng.integers(5)
    if kind <= 1:
        damage_bytes(path, rng)
        return
    with zipfile.ZipFile(path) as packed:
        members = {name: packed.read(name) for name in packed.namelist()}
    names = list(members)
    strange = (
        "../out.dat",
        "/tmp/x",
        "ml-1m/../../x",
        "a\\..\\b",
        "ml-1m/\x1b[31m.dat",
        "ml-1m/" + "x" * 300,
        "con",
        "",
    )
    if kind == 2:
        members[strange[rng.integers(len(strange))]] = b"x"
    elif kind == 3:
        del members[names[rng.integers(len(names))]]
        members |= {f"ml-1m/{i}": b"" for i in range(rng.integers(200))}
    else:
        name = names[rng.integers(len(names))]
        members[name] = CHUNKS[rng.integers(len(CHUNKS))] + members[name][: rng.integers(200)]
    if rng.random() < 0.5:
        _write_zip(path, members)
    else:
        _write_tar(path, members, rng)


def _write_zip(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as packed:
        for name, content in members.items():
            packed.writestr(name or "x", content)


def _write_tar(path: Path, members: dict[str, bytes], rng: np.random.Generator) -> None:
    """Write a tar file under the name of the archive; one of its members may be a link or a device."""
    with tarfile.open(path, "w") as packed:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
        entry = tarfile.TarInfo("ml-1m/odd")
        entry.type = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE)[rng.integers(4)]
        entry.linkname = "../../x"
        packed.addfile(entry)
