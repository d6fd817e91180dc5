"""Damage to JSON documents and TOML plans: other values, missing and strange keys, depth, endless numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from campaign.hostile_values import ANYTHING, DIGITS

PLAN_VALUES = (
    "2020-01-01", "12:00:00", "nan", "inf", "-inf", "1e400", "true", "-1", "0", "0.5", "[]", "{}", '""', '"x"', "[[]]",
    '["\\u001b[31m"]', '[{ name = "als", epochs = -1 }]', '[{ name = "bprmf", epochs = 1.5 }]', "[0, 0]", "[-1]",
    "[true]", "[1e300]", DIGITS, f"[{DIGITS}]", "[" * 2_000 + "]" * 2_000, '["none", "none"]', '"../x"', '["/"]',
    '["exchange"]', '[{ name = "sliced", rounds = "many" }]', "[2000000000]", '["gender+gender"]', '["age"]',
)  # fmt: skip


def damage_json(path: Path, rng: np.random.Generator) -> None:
    """Change one place of a JSON document, or up to three."""
    try:
        document = json.loads(path.read_text())
    except ValueError:
        return
    for _ in range(rng.integers(1, 4)):
        document = _change_somewhere(document, rng)
    text = json.dumps(document)
    if rng.random() < 0.1:
        numbers = list(re.finditer(r"\d+", text))
        if numbers:
            place = numbers[rng.integers(len(numbers))]
            text = text[: place.start()] + DIGITS + text[place.end() :]
    path.write_text(text)


def damage_plan(path: Path, rng: np.random.Generator) -> None:
    """Change the values or lines of a plan, or up to three."""
    lines = path.read_text().splitlines()
    for _ in range(rng.integers(1, 4)):
        place = int(rng.integers(len(lines)))
        kind = rng.integers(5)
        name = lines[place].partition("=")[0]
        if kind <= 2 and "=" in lines[place]:
            lines[place] = f"{name}= {PLAN_VALUES[rng.integers(len(PLAN_VALUES))]}"
        elif kind == 3:
            lines.insert(place, lines[int(rng.integers(len(lines)))])
        else:
            lines.pop(place)
        if not lines:
            break
    path.write_text("\n".join(lines))


def _change_somewhere(node: Any, rng: np.random.Generator) -> Any:
    """Return the document with one value replaced, removed or added, at a random depth."""
    anything = ANYTHING[rng.integers(len(ANYTHING))]
    inside = isinstance(node, dict | list) and len(node) > 0
    if not inside or rng.random() < 0.1:
        return anything
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
    key = keys[rng.integers(len(keys))]
    kind = rng.integers(12)
    if kind == 0:
        del node[key]
    elif kind == 1 and isinstance(node, dict):
        node[("__class__", "score", "x", "", "\x1b[1m", "__dict__", "fit")[rng.integers(7)]] = anything
    elif kind == 2:
        deep: Any = anything
        for _ in range(200):
            deep = [deep]
        node[key] = deep
    else:
        node[key] = _change_somewhere(node[key], rng)
    return node
