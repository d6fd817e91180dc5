"""Is a membership audit to be trusted? No alarm where nothing leaks, and an overfitted model is found.

`null`: recommenders are trained on everybody, and who is called a member is chance. Each run deals the users anew,
trains anew and lets every attack and every rule speak; what counts is how often an interval misses one half. `power`:
the same recommender with the settings that were found for the data and overfitted on purpose. Parts of `membership.py`.
"""

import argparse
import time
from collections.abc import Iterator

import numpy as np

from recveil.attacks.membership.biased import Biased
from recveil.attacks.membership.dlmia import DLMIA
from recveil.attacks.membership.reference_attacks import RMIA, LiRA
from recveil.attacks.membership.shadowfree import ShadowFree
from recveil.audits.membership.audit import MembershipGame, run_membership_attacks
from recveil.audits.membership.platforms import ServingPolicy, factor_items, train_platform
from recveil.audits.membership.references import ReferenceModels
from recveil.audits.membership.scenarios import ItemSource, ModelConfig, TrainedScenario
from recveil.core.random import generator
from recveil.core.types import Shadow
from recveil.data.member_split import Side, three_way
from recveil.data.sources.catalog import load_data
from recveil.models.als import ALS
from recveil.workflows.membership import MembershipConfig

REFERENCES = {"null": 4, "power": 16}
OVERFITTED = {"reg": 1e-4, "embedding_size": 128}
MODELS = {"as tuned": {}, "overfitted": OVERFITTED}


def attacks(device: str) -> dict:
    """All that there are."""
    learning = {"biased": Biased(device=device), "dlmia": DLMIA(device=device)}
    return {**learning, "shadowfree": ShadowFree(), "lira": LiRA(), "rmia": RMIA()}


def null(given: argparse.Namespace) -> Iterator[tuple[dict, object]]:
    """Runs without any difference, one after the other; a small ALS is quick, and nothing depends on its being good."""
    data = load_data(given.data, seed=0)

    def model() -> ALS:
        return ALS(embedding_size=16, epochs=5, device=given.device)

    def run(seed: int) -> dict:
        parts = three_way(data, rng=generator(seed, "null", "parts"))
        vectors = factor_items(parts.item_part, model(), rng=generator(seed, "null", "items"))
        sides = {"shadow": parts.shadow, "target": parts.target}
        both = {
            name: train_platform(
                Side(side.data, np.ones_like(side.member)), model(), ServingPolicy(), rng=generator(seed, "null", name)
            )
            for name, side in sides.items()
        }
        seen = {name: platform.serve_lists(vectors).watched for name, platform in both.items()}
        rng = generator(seed, "null", "references")
        known = ReferenceModels(REFERENCES["null"]).evidence(parts.target, both["target"], model, rng=rng)
        shadow = Shadow(seen["shadow"], parts.shadow.member)
        game = MembershipGame((shadow,), seen["target"], parts.target.member, evidence=known)
        return played(game, attacks(given.device), seed)

    for seed in range(given.runs):
        yield {"seed": seed, "policy": "", "shadow": "als", "target": "als"}, lambda s=seed: run(s)


def power(given: argparse.Namespace) -> Iterator[tuple[dict, object]]:
    """ALS as it should be and overfitted, all users served by the same rule."""

    def run(seed: int, options: dict) -> dict:
        model = ModelConfig("als", options)
        world = TrainedScenario(
            given.data, model, model, ServingPolicy(), references=ReferenceModels(REFERENCES["power"])
        )
        stage = world.build(ItemSource(), vectors=True, seed=seed, device=given.device)
        names = tuple(attacks(given.device))
        found = played(stage.game, MembershipConfig(names, device=given.device).made(), seed)
        return {**found, "utility": stage.facts["utility"], "options": options}

    for seed in given.seeds:
        for name, options in MODELS.items():
            key = {"seed": seed, "policy": "fold-in", "shadow": "als", "target": "als", "setting": name}
            yield key, lambda s=seed, o=options: run(s, o)


def played(game: MembershipGame, against: dict, seed: int) -> dict:
    """What one game came to, in short."""
    start = time.perf_counter()
    found = run_membership_attacks(game, against, seed=seed).to_dict()["attacks"]
    kept = ("auc", "rule", "ahead_of_rules", "tpr_at_fpr")
    told = {name: {key: one[key] for key in kept} for name, one in found.items()}
    return {"n": len(game.target.lists), "attacks": told, "seconds": round(time.perf_counter() - start, 1)}
