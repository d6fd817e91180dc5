"""Checks of the membership audit: no alarm without a leak, and an overfitted model is found.

`null`: recommenders are trained on all users, and members are drawn at random. Each run splits the users again, trains
again and runs every attack and every rule; the result is how often an interval misses one half. `power`: the same
recommender with tuned settings and overfitted on purpose. Parts of `membership.py`.
"""

import argparse
import time
from collections.abc import Iterator

import numpy as np

from recveil.attacks.membership.biased import Biased
from recveil.attacks.membership.dlmia import DLMIA
from recveil.attacks.membership.lira import LiRA
from recveil.attacks.membership.rmia import RMIA
from recveil.attacks.membership.shadowfree import ShadowFree
from recveil.audits.membership.audit import MembershipAudit, run_membership_attacks
from recveil.audits.membership.game import MembershipGame
from recveil.audits.membership.item_source import ItemSource
from recveil.audits.membership.platforms import ServingPolicy, factor_items, train_platform
from recveil.audits.membership.references import ReferenceModels
from recveil.audits.membership.scenarios import MethodConfig, TrainedScenario
from recveil.core.random import make_generator
from recveil.core.types import Shadow
from recveil.data.member_split import MemberPart, split_three_ways
from recveil.data.sources.catalog import load_dataset_or_demo
from recveil.models.als import ALS

REFERENCES = {"null": 4, "power": 16}
OVERFITTED = {"reg": 1e-4, "embedding_size": 128}
MODELS = {"as tuned": {}, "overfitted": OVERFITTED}


def attacks(device: str) -> dict:
    """Make all attacks."""
    learning = {"biased": Biased(device=device), "dlmia": DLMIA(device=device)}
    return {**learning, "shadowfree": ShadowFree(), "lira": LiRA(), "rmia": RMIA()}


def null(given: argparse.Namespace) -> Iterator[tuple[dict, object]]:
    """Yield runs without any difference between members and non-members, on a small and quick ALS."""
    data = load_dataset_or_demo(given.data, seed=0)

    def model() -> ALS:
        return ALS(embedding_size=16, epochs=5, device=given.device)

    def run(seed: int) -> dict:
        parts = split_three_ways(data, rng=make_generator(seed, "null", "parts"))
        vectors = factor_items(parts.item_part, model(), rng=make_generator(seed, "null", "items"))
        sides = {"shadow": parts.shadow, "target": parts.target}
        both = {
            name: train_platform(
                MemberPart(side.data, np.ones_like(side.member)),
                model(),
                ServingPolicy(),
                rng=make_generator(seed, "null", name),
            )
            for name, side in sides.items()
        }
        rng = make_generator(seed, "null", "references")
        signals = ReferenceModels(REFERENCES["null"]).collect_signals(parts.target, both["target"], model, rng=rng)
        shadow = Shadow(both["shadow"].serve_lists(vectors).watched, parts.shadow.member)
        target = both["target"].serve_lists(vectors, signals).watched
        return played(MembershipGame((shadow,), target, parts.target.member), attacks(given.device), seed)

    for seed in range(given.runs):
        yield {"seed": seed, "policy": "", "shadow": "als", "target": "als"}, lambda s=seed: run(s)


def power(given: argparse.Namespace) -> Iterator[tuple[dict, object]]:
    """Yield ALS with tuned settings and overfitted, all users served by the same rule."""

    def run(seed: int, options: dict) -> dict:
        model = MethodConfig("als", options)
        scenario = TrainedScenario(given.data, model, model, references=ReferenceModels(REFERENCES["power"]))
        prepared = scenario.build(ItemSource(), with_item_vectors=True, seed=seed, device=given.device)
        hits = prepared.utility.after
        worth = {"members": hits.members.to_dict(), "others": hits.non_members.to_dict()}
        return {**played(prepared.game, attacks(given.device), seed), "utility": worth, "options": options}

    for seed in given.seeds:
        for name, options in MODELS.items():
            key = {"seed": seed, "policy": "fold-in", "shadow": "als", "target": "als", "setting": name}
            yield key, lambda s=seed, o=options: run(s, o)


def played(game: MembershipGame, against: dict, seed: int) -> dict:
    """Summarize one game."""
    start = time.perf_counter()
    rows = log_attacks(run_membership_attacks(game, against, seed=seed))
    return {"n": len(game.target.lists), "attacks": rows, "seconds": round(time.perf_counter() - start, 1)}


def log_attacks(audit: MembershipAudit) -> dict:
    """Return the numbers of each attack under the keys that the logs have always had."""
    rows = {name: result.model_dump(mode="json") for name, result in audit.attacks.items()}
    keys = {"auc": "auc", "is_rule": "rule", "ahead_of_rules": "ahead_of_rules", "tpr_at_fpr": "tpr_at_fpr"}
    return {name: {old: row[new] for new, old in keys.items()} for name, row in rows.items()}
