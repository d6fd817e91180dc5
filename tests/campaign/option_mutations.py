"""Damage to the command line: options of the command with values of every kind, options twice, missing, unknown."""

from __future__ import annotations

from typing import Any

import numpy as np

from campaign.hostile_values import TEXTS
from campaign.worker import build_command

SPECIAL_VALUES = (
    "epochs=true", "epochs=1.5", "epochs=-1", "epochs=1e3", "epochs=null", "embedding_size=0", "batch_size=0",
    "batch_size=1.5", "learning_rate=nan", "learning_rate=-1", "strength=2", "strength=nan", "rounds=abc", "rounds=[1]",
    'rounds={"a": 1}', "x=1", "=", "=1", "a=", "gender.advantage.low > 0.05", "gender.advantage.low > nan", "a > b",
    "x.y.z < 1", "gender,gender", "gender,age", "age", "nobody", "user_id", "age=35,45", "age=45,35", "age=nan", "age=",
    "users.csv", "users.parquet", "attributes.csv", "tiny", "run", "nowhere/file.csv", ".", "..", "users.npy", "meta",
    "cuda:9", "mps", "cpu:1", "full", "fast", "paper", "svm", "tree,logistic", "ridge", "sliced", "leace", "exchange",
    "raid", "popularity", "noise", "ldp", "ncf", "als", "itemknn", "puresvd", "fold-in", "popular", "kept", "lira",
    "dlmia", "lists", "scores", "interactions", "list_means", "html", "csv", "latex", "smoke", "demo", "ml-1m", "local",
)  # fmt: skip
"""Words that mean something to some option, in right and wrong form."""
SLOW = {"--frontier", "--curve", "--engine", "--address", "--help"}
"""Options that start a cluster, or much work that has tests of its own."""
MAX_COUNT = 3
"""Counts of work (repeats, trials, epochs) above this are valid and slow, so they are left to other tests."""
WORK_COUNTS = {"--repeats", "--max-repeats", "--permutations", "--trials", "--references", "--folds", "--batch", "--k"}


def damage_options(command: list[str], rng: np.random.Generator) -> list[str]:
    """Add, change or drop options of a command, between one and three times."""
    for _ in range(rng.integers(1, 4)):
        kind = rng.integers(8)
        if kind == 0 and len(command) > 2:
            command.pop(int(rng.integers(1, len(command))))
        elif kind == 1 and len(command) > 2:
            place = int(rng.integers(1, len(command)))
            command[place] = _pick_value("", rng)
        elif kind == 2:
            command.insert(
                int(rng.integers(1, len(command) + 1)), ("--" if rng.random() < 0.5 else "") + _pick_value("", rng)
            )
        else:
            command += _make_option(command, rng)
    return [word for word in command if word not in SLOW] or ["list"]


def _make_option(command: list[str], rng: np.random.Generator) -> list[str]:
    """Make an option that the command has, with a value that it may not take."""
    options = [option for option in _list_options(command) if option.opts[0] not in SLOW]
    if not options:
        return [_pick_value("", rng)]
    option = options[rng.integers(len(options))]
    flag = option.opts[0]
    return [flag] if option.is_flag else [flag, _pick_value(flag, rng)]


def _pick_value(flag: str, rng: np.random.Generator) -> str:
    if flag in WORK_COUNTS and rng.random() < 0.5:
        return str(rng.integers(-1, MAX_COUNT + 1))
    choices = SPECIAL_VALUES if rng.random() < 0.6 else TEXTS
    value = choices[rng.integers(len(choices))]
    if flag in WORK_COUNTS and value.isdigit():
        return "-1"
    return value.replace("\x00", "\x01")  # the system itself refuses a NUL on a command line


def _list_options(command: list[str]) -> list[Any]:
    current = build_command()
    for word in command:
        inner = getattr(current, "commands", {}).get(word)
        if inner is None:
            break
        current = inner
    return [parameter for parameter in current.params if parameter.param_type_name == "option"]
