"""The doors of the tool: a command, and which of its inputs is damaged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from campaign.mutations import damage_file
from campaign.option_mutations import damage_options
from campaign.seeds import SMALL_MODEL
from campaign.worker import LOAD_MAP

QUICK = ("--panel", "logistic", "--folds", "2", "--repeats", "1", "--max-repeats", "1", "--device", "cpu", "--quiet")
MEMBERSHIP_FILES = tuple(
    f"{side}-{name}.csv" for side in ("target", "shadow") for name in ("histories", "lists", "members")
)
MEMBERSHIP = (
    "membership", *(word for name in MEMBERSHIP_FILES for word in (f"--{name.removesuffix('.csv')}", name)),
    "--item-texts", "texts.csv", "--attacks", "biased", "--device", "cpu", "--quiet",
)  # fmt: skip
TRAIN = ("train", "--data", "tiny", "--out", "trained", *SMALL_MODEL, "--k", "5", "--quiet")
TUNE = (
    "tune", "--data", "demo", "--defense", "gaussian", "--target", "gender", "--out", "tuned", "--trials", "1",
    "--batch", "1", "--workers", "1", "--panel", "logistic", *SMALL_MODEL, "--quiet",
)  # fmt: skip


APPLY = ("apply", "--map", "gender.safetensors", "--embeddings", "users.csv", "--out", "later.csv", "--allow-drift",
         "--device", "cpu", "--quiet")  # fmt: skip


@dataclass(frozen=True)
class Door:
    """A command and the inputs of it that are damaged; no inputs: its options are.

    `keeps_folder`: a refused command may leave results, as a study whose cells failed does. `refuses_seeds`: the
    undamaged inputs are too small for it. `needs`: inputs that the command reads without naming them.
    """

    name: str
    command: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    weight: int = 1
    keeps_folder: bool = False
    refuses_seeds: bool = False
    needs: tuple[str, ...] = ()


def _audit(table: str, *more: str, attributes: str = "attributes.csv") -> tuple[str, ...]:
    words = ("--embeddings", table, "--attributes", attributes, "--target", "gender")
    return ("audit", *words, *QUICK, "--out", "audit.json", *more)


def _cloak(table: str, *more: str, attributes: str = "attributes.csv", method: str = "gaussian") -> tuple[str, ...]:
    words = ("--embeddings", table, "--attributes", attributes, "--target", "gender", "--method", method)
    return ("cloak", *words, *QUICK, "--out", f"cloaked{Path(table).suffix}", *more)


RUN_INPUTS = ("run",)
DOORS = (
    Door("audit, CSV", _audit("users.csv"), ("users.csv",), 4),
    Door("audit, Parquet", _audit("users.parquet"), ("users.parquet",), 3),
    Door("audit, numbered columns", _audit("numbered.parquet"), ("numbered.parquet",), 2),
    Door("audit, npy and ids", _audit("users.npy", "--ids", "ids.npy"), ("users.npy", "ids.npy"), 3),
    Door("audit, npy and text ids", _audit("users.npy", "--ids", "ids.txt"), ("ids.txt",), 2),
    Door("audit, safetensors", _audit("users.safetensors"), ("users.safetensors",), 3),
    Door("audit, attributes in CSV", _audit("users.parquet"), ("attributes.csv",), 3),
    Door("audit, attributes in Parquet", _audit("users.parquet", attributes="attributes.parquet"),
         ("attributes.parquet",), 3),
    Door("audit, numeric attribute", ("audit", "--embeddings", "users.csv", "--attributes", "attributes.csv",
         "--target", "age", "--numeric", "age", *QUICK), ("attributes.csv",), 1),
    Door("audit, lists", _audit("users.parquet", "--surface", "lists", "--recommendations", "lists.csv"),
         ("lists.csv",), 2),
    Door("audit, lists in Parquet", _audit("users.parquet", "--surface", "lists", "--recommendations", "lists.parquet"),
         ("lists.parquet",), 1),
    Door("audit, interactions", _audit("users.parquet", "--surface", "interactions", "--interactions",
         "interactions.csv"), ("interactions.csv",), 1),
    Door("audit, earlier table", _audit("users.parquet", "--before", "users.csv"), ("users.csv",), 1),
    Door("audit, baseline", _audit("users.parquet", "--baseline", "baseline.json"), ("baseline.json",), 3),
    Door("audit, run folder", ("audit", "--run", "run", "--target", "gender", *QUICK), RUN_INPUTS, 3),
    Door("audit, streaming folder", _audit("parts"), ("parts",), 2),
    Door("audit, streaming", _audit("users.parquet", "--stream", attributes="attributes.parquet"),
         ("users.parquet", "attributes.parquet"), 3),
    Door("audit, options", _audit("users.parquet"), (), 5),
    Door("cloak, CSV", _cloak("users.csv", "--allow-leak"), ("users.csv",), 3),
    Door("cloak, Parquet", _cloak("users.parquet", "--json"), ("users.parquet", "attributes.csv"), 3),
    Door("cloak, npy", _cloak("users.npy", "--ids", "ids.npy"), ("users.npy", "ids.npy"), 2),
    Door("cloak, safetensors", _cloak("users.safetensors", method="sliced"), ("users.safetensors",), 2),
    Door("cloak, streaming", _cloak("users.parquet", "--stream", attributes="attributes.parquet"),
         ("users.parquet", "attributes.parquet"), 3),
    Door("cloak, streaming folder", _cloak("parts"), ("parts", "attributes.csv"), 3),
    Door("cloak, streaming npy", _cloak("users.npy", "--stream", "--ids", "ids.npy"), ("users.npy", "ids.npy"), 2),
    Door("cloak, items and interactions", _cloak("users.parquet", "--item-embeddings", "items.parquet",
         "--interactions", "interactions.csv"), ("items.parquet", "interactions.csv"), 2),
    Door("cloak, run folder", ("cloak", "--run", "run", "--target", "gender", "--method", "gaussian", *QUICK, "--out",
         "cloaked.parquet"), RUN_INPUTS, 3),
    Door("cloak, options", _cloak("users.parquet"), (), 4),
    Door("cloak, streaming options", _cloak("users.parquet", "--stream"), (), 2),
    Door("cloak and save the map", _cloak("users.parquet", "--save-map", "new.map", "--report", "page.html"),
         ("users.parquet", "attributes.csv"), 2),
    Door("apply, map", APPLY, ("gender.safetensors",), 4),
    Door("apply, later users", APPLY, ("users.csv",), 2),
    Door("apply, options", APPLY, (), 3),
    Door("map", (LOAD_MAP, "map.safetensors"), ("map.safetensors",), 5),
    Door("train, data", TRAIN, ("tiny/interactions.csv", "tiny/users.csv"), 4),
    Door("train, options", TRAIN, (), 5, keeps_folder=False),
    Door("membership, files", MEMBERSHIP, (*MEMBERSHIP_FILES, "texts.csv"), 5),
    Door("membership, options", MEMBERSHIP, (), 4),
    Door("study run, plan", ("study", "run", "plan.toml", "--out", "new", "--workers", "1", "--quiet"),
         ("plan.toml",), 5, keeps_folder=True, needs=("tiny",)),
    Door("study show, plan", ("study", "show", "plan.toml"), ("plan.toml",), 4),
    Door("study show", ("study", "show", "study"), ("study",), 3),
    Door("study report", ("study", "report", "study", "--out", "page.md", "--quiet"), ("study",), 4),
    Door("study diff", ("study", "diff", "study", "study"), ("study",), 2),
    Door("study run again", ("study", "run", "plan.toml", "--out", "study", "--workers", "1", "--quiet"), ("study",), 2,
         keeps_folder=True, needs=("tiny",)),
    Door("study, options", ("study", "run", "plan.toml", "--out", "new", "--workers", "1", "--quiet"), (), 2,
         keeps_folder=True),
    Door("tune, options", TUNE, (), 2, keeps_folder=True),
    Door("tune, data", ("tune", "--data", "tiny", *TUNE[3:]), ("tiny/interactions.csv", "tiny/users.csv"), 2,
         keeps_folder=True, refuses_seeds=True),
    Door("data get, archive", ("data", "get", "ml-1m", "--from", "ml-1m.zip", "--quiet"), ("ml-1m.zip",), 4),
    Door("data describe, folder", ("data", "describe", "tiny"), ("tiny/interactions.csv", "tiny/users.csv"), 3),
    Door("data describe, options", ("data", "describe", "tiny"), (), 1),
    Door("list, options", ("list",), (), 1),
    Door("doctor, options", ("doctor",), (), 1),
)  # fmt: skip


def prepare_case(door: Door, folder: Path, rng: np.random.Generator) -> list[str]:
    """Damage the inputs of a door in this folder, or its options, and return the command."""
    if not door.inputs:
        return damage_options(list(door.command), rng)
    name = door.inputs[rng.integers(len(door.inputs))]
    path = folder / name
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        path = files[rng.integers(len(files))]
        if rng.random() < 0.05:
            path.unlink()
            return list(door.command)
    damage_file(path, rng)
    return list(door.command)
