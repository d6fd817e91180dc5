"""The documents of the main commands, held equal from change to change.

Each flow runs as a command on a small world; its JSON must equal the file beside this test, number for number. Training
by gradient descent does not end at the same numbers on every processor, so of documents of trained models only the
outline is held: which values there are, and of which kind. Record anew after a change of behavior, and say in the
commit why the numbers changed:

    RECVEIL_RECORD_GOLDEN=1 pytest tests/golden
"""

import contextlib
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from recveil.cli.app import app
from recveil.core.random import make_generator
from recveil.data.synthetic import World, make_world
from recveil.workflows import demo
from recveil.workflows.audit_protocol import AuditProtocol

HERE = Path(__file__).parent
PROTOCOL = ["--folds", "3", "--repeats", "1", "--max-repeats", "1", "--device", "cpu"]
TABLES = ["--embeddings", "users.parquet", "--attributes", "attributes.parquet"]
SERVING = ["--item-embeddings", "items.parquet", "--interactions", "interactions.parquet"]
HALF = ["--strength", "0.5", "--allow-leak"]
"""Half of the leak is left: where none is left, what attackers reach is chance, and differs from machine to machine."""

FLOWS = {
    "audit": ["audit", *TABLES, "--target", "gender,region", *PROTOCOL, "--panel", "logistic,knn,qda", "--curve",
              "--joint", "--interactions", "interactions.parquet"],
    "audit_numeric": ["audit", *TABLES, "--target", "age", "--numeric", "age", *PROTOCOL],
    "cloak": ["cloak", *TABLES, *SERVING, *HALF, "--method", "sliced", "--target", "gender", *PROTOCOL, "--out",
              "cloaked.parquet"],
    "cloak_stream": ["cloak", *TABLES, *HALF, "--stream", "--method", "gaussian", "--target", "gender", *PROTOCOL,
                     "--out", "streamed.parquet"],
    "train": ["train", "--data", "small", "--model", "bprmf", "--option", "epochs=3", "--option", "embedding_size=8",
              "--defense", "adversarial", "--target", "gender", "--out", "run", "--device", "cpu"],
    "membership": ["membership", "--data", "small", "--model", "als", "--option", "epochs=3", "--option",
                   "embedding_size=8", "--k", "20", "--attack-option", "dlmia.pretrain=4", "--attack-option",
                   "dlmia.alternate=4", "--device", "cpu"],
    "membership_defended": ["membership", "--data", "small", "--model", "als", "--option", "epochs=3", "--option",
                            "embedding_size=8", "--k", "20", "--serving", "popular", "--defense", "popularity",
                            "--pool", "100", "--attacks", "biased", "--device", "cpu"],
    "membership_references": ["membership", "--data", "small", "--model", "puresvd", "--option", "embedding_size=8",
                              "--attacks", "lira,rmia", "--references", "4", "--k", "20", "--device", "cpu"],
    "demo": ["demo", "--out", "demo", "--device", "cpu"],
}  # fmt: skip

PLAN = """
title = "Golden"
kind = "attribute"
grid.data = ["small"]
grid.model = [{ name = "bprmf", label = "bprmf", embedding_size = 8, epochs = 2 }]
grid.defense = ["none", "sliced", "noise"]
grid.target = ["gender"]
grid.panel = ["logistic,knn"]
grid.seed = [0]
grid.leak_ratio = [0.5]
settings.folds = 2
"""

TRAINED = {"train", "demo", "study", "study_report"}
"""Flows with a model that is trained by gradient descent."""

IGNORED = {"timings", "seconds", "recveil_version", "command_line", "folder"}
"""Keys whose values change from run to run or from version to version."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a leaky table, its attributes, item vectors and interactions."""
    folder = tmp_path_factory.mktemp("golden")
    rng = np.random.default_rng(7)
    n, n_items, d = 500, 120, 8
    gender, region = rng.integers(2, size=n), rng.integers(3, size=n)
    x = rng.standard_normal((n, d)).astype(np.float32)
    x[:, 0] += 1.2 * gender
    x[:, 1] += 0.8 * region
    items = rng.standard_normal((n_items, d)).astype(np.float32)
    scores = x @ items.T + 0.5 * rng.gumbel(size=(n, n_items))
    chosen = np.argsort(-scores, axis=1)[:, :12]
    labels = np.array(["F", "M"], dtype=object)[gender]
    labels[::25] = None
    age = 40 + 6 * x[:, 2] + rng.standard_normal(n)

    def write(name: str, **columns: object) -> None:
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")

    write("users", user_id=np.arange(n) + 100, embedding=list(x))
    write("items", item_id=np.arange(n_items), embedding=list(items))
    write("attributes", user_id=np.arange(n) + 100, gender=labels, region=region.astype(str), age=age)
    order = rng.permutation(chosen.size)
    write(
        "interactions",
        user_id=np.repeat(np.arange(n) + 100, 12)[order],
        item_id=chosen.ravel()[order],
        timestamp=rng.permutation(chosen.size),
    )
    (folder / "plan.toml").write_text(PLAN)
    write_data_set(folder / "small")
    return folder


def make_small_world(seed: int, *, n_users: int) -> World:
    leaks = {"gender": 2.5, "age": 2.5, "handedness": 0.0}
    return make_world(n_users=500, n_items=150, n_interactions=15_000, leaks=leaks, rng=make_generator(seed, "world"))


def make_quick_protocol(**options: Any) -> AuditProtocol:
    return AuditProtocol(**{**options, "panel": "logistic,knn", "folds": 3, "max_repeats": 1})


def write_data_set(folder: Path) -> None:
    """Write the small world as a folder that `--data` takes."""
    data = make_small_world(0, n_users=0).dataset
    folder.mkdir()
    interactions = {"user_id": data.user, "item_id": data.item, "timestamp": data.time}
    pq.write_table(pa.table(interactions), folder / "interactions.parquet")
    labels = {name: [a.labels[code] for code in a.codes] for name, a in data.attributes.items()}
    pq.write_table(pa.table({"user_id": data.user_ids, **labels}), folder / "users.parquet")


@pytest.fixture(autouse=True)
def small_demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The flow of the demo on the small world; workflows/test_demo.py holds the verdict of the real one, slowly."""
    monkeypatch.setattr(demo, "make_demo_world", make_small_world)
    monkeypatch.setattr(demo, "MODEL_OPTIONS", {"embedding_size": 16, "epochs": 15})
    monkeypatch.setattr(demo, "AuditProtocol", make_quick_protocol)
    monkeypatch.setenv("RECVEIL_CACHE", str(tmp_path / "cache"))


def run(folder: Path, *arguments: str) -> str:
    with contextlib.chdir(folder):
        done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def stripped(value: object) -> object:
    """The document without what may differ between two runs; numbers to nine digits."""
    if isinstance(value, dict):
        return {key: stripped(inside) for key, inside in value.items() if key not in IGNORED}
    if isinstance(value, list):
        return [stripped(inside) for inside in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def outline(value: object, path: str = "") -> set[str]:
    """All paths of a document, with what kind of value is there; entries of a list are alike."""
    if isinstance(value, dict):
        inside = [] if path.endswith("fold_shares") else value.items()  # names of whatever attacks came first
        return {path}.union(*(outline(each, f"{path}.{key}") for key, each in inside))
    if isinstance(value, list):
        return {path}.union(*(outline(each, f"{path}[]") for each in value))
    kind = "number" if value is None or isinstance(value, int | float) else "text"  # None: no number could be given
    return {f"{path}: {kind}"}


def differences(expected: object, found: object, path: str = "") -> list[str]:
    if isinstance(expected, dict) and isinstance(found, dict):
        keys = [f"{path}.{key}: only in one of the documents" for key in expected.keys() ^ found.keys()]
        shared = [key for key in expected if key in found]
        return keys + [line for key in shared for line in differences(expected[key], found[key], f"{path}.{key}")]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return [line for i, (a, b) in pairs for line in differences(a, b, f"{path}[{i}]")]
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (expected, found))
    equal = math.isclose(expected, found, rel_tol=1e-4, abs_tol=1e-5) if numbers else expected == found
    return [] if equal else [f"{path}: {expected!r} became {found!r}"]


def list_changes(name: str, document: object) -> list[str]:
    """Compare a document with the recorded one; RECVEIL_RECORD_GOLDEN records it first."""
    path, found = HERE / f"{name}.json", stripped(document)
    if name in TRAINED:
        found = sorted(outline(found))
    if os.environ.get("RECVEIL_RECORD_GOLDEN"):
        path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    recorded = json.loads(path.read_text())
    if name in TRAINED:
        return sorted(set(recorded) ^ set(found))
    return differences(recorded, found)


pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("name", FLOWS)
def test_the_document_of_a_command_is_the_recorded_one(name: str, world: Path) -> None:
    assert list_changes(name, json.loads(run(world, *FLOWS[name], "--json", "--quiet"))) == []


def test_the_records_of_a_study_are_the_recorded_ones(world: Path) -> None:
    run(world, "study", "run", "plan.toml", "--out", "study", "--workers", "1", "--quiet")
    cells = [json.loads(path.read_text()) for path in sorted((world / "study" / "cells").glob("*.json"))]
    records = [record for cell in cells for record in cell["records"]]
    assert list_changes("study", sorted(records, key=lambda record: json.dumps(record, sort_keys=True))) == []
    report = json.loads(run(world, "study", "report", "study", "--json"))
    report["tables"] = [table for table in report["tables"] if table["id"] != "time"]
    assert list_changes("study_report", report) == []
