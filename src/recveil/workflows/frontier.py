"""The privacy-utility frontier: every method at several strengths, attacked by one panel, priced by one measure."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from recveil.audits.catalog import EMBEDDING_DEFENSES, make
from recveil.audits.verdicts import TargetAudit
from recveil.core.progress import track
from recveil.core.random import generator
from recveil.core.types import Attribute, FloatArray
from recveil.metrics import ranking
from recveil.metrics.pareto import find_knee
from recveil.workflows.defended_release import measure_displacement, stack_codes
from recveil.workflows.serving import Serving

__all__ = ["frontier"]

STRENGTHS = (0.25, 0.5, 0.75, 1.0)
BENT = ("attrcloak",)
"""Methods whose strength is not a straight walk to the full defense; the others are run once, and walked."""

LARGE = 20_000
SQUARE = ("d2d",)
"""Methods that cost the square of the users; left out above `LARGE` users."""

MADE_FOR_TRAINING = ("adversarial-pot", "raid-pot")
NEEDS_LOSS = ("attrcloak-dd",)


def frontier(
    x: FloatArray,
    targets: list[Attribute],
    attack: Callable[[FloatArray], list[TargetAudit]],
    *,
    serving: Serving | None,
    seed: int,
    device: str | None,
) -> dict[str, Any]:
    """One point for each method and strength, and the undefended table; `knee` is the best bargain among them."""
    base = serving.ranks(x) if serving else None
    points = [_point("none", 0.0, x, x, attack, serving, base)]
    names = [n for n in EMBEDDING_DEFENSES if not _impossible(n, x, serving)]
    for name in track(names, "drawing the frontier", len(names)):
        start = time.perf_counter()
        full = _cloaked(name, 1.0, x, targets, serving, seed, device)
        seconds = time.perf_counter() - start
        for strength in STRENGTHS:
            bent = name in BENT and strength < 1
            part = _cloaked(name, strength, x, targets, serving, seed, device) if bent else x + strength * (full - x)
            point = _point(name, strength, x, np.asarray(part, np.float32), attack, serving, base)
            points.append({**point, "seconds": seconds})
    best = find_knee([(p["advantage"], p["cost"]) for p in points])
    left = {name: _impossible(name, x, serving) for name in EMBEDDING_DEFENSES if name not in names}
    measure = "loss of NDCG@10" if serving else "displacement"
    return {"cost": measure, "points": points, "knee": best, "left_out": left}


def _impossible(name: str, x: FloatArray, serving: Serving | None) -> str:
    if name in MADE_FOR_TRAINING:
        return "it is made for training, and here to compare with that"
    if name in NEEDS_LOSS and (serving is None or serving.items is None):
        return "it needs item vectors and interactions"
    if name in SQUARE and len(x) > LARGE:
        return f"it costs the square of the users, and there are more than {LARGE:,}"
    return ""


def _cloaked(
    name: str,
    strength: float,
    x: FloatArray,
    targets: list[Attribute],
    serving: Serving | None,
    seed: int,
    device: str | None,
) -> FloatArray:
    method = make("defense", name, EMBEDDING_DEFENSES, strength=strength, device=device)
    loss = serving.loss(device=device, rng=generator(seed, "loss")) if serving and name in NEEDS_LOSS else None
    return method(x, stack_codes(targets), rng=generator(seed, "cloak"), utility=loss)


def _point(
    name: str,
    strength: float,
    before: FloatArray,
    after: FloatArray,
    attack: Callable[[FloatArray], list[TargetAudit]],
    serving: Serving | None,
    base: ranking.Ranks | None,
) -> Mapping[str, Any]:
    found = attack(after)
    worst = max(found, key=lambda f: f.headline.advantage.value)
    moved = measure_displacement(before, after)
    point: dict[str, Any] = {"method": name, "strength": strength, "displacement": moved, "cost": moved}
    point |= {"advantage": worst.headline.advantage.value, "seconds": 0.0}
    point["targets"] = {f.target: {"verdict": f.verdict, "advantage": f.headline.advantage.to_dict()} for f in found}
    if serving is not None and base is not None:
        was, now = ranking.ndcg(base, 10), ranking.ndcg(serving.ranks(after), 10)
        change, level = ranking.difference(now, was), max(float(was.mean()), 1e-12)
        point |= {"ndcg@10": change.to_dict(), "cost": -change.value / level}
    return point
