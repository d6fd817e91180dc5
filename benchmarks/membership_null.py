"""False alarms of the membership audit where there is nothing to find. One JSON line for each run, then a summary.

Each run makes a synthetic data set, trains the target on all of its users and calls a random half of them members, so
that no attack can be better than chance. All attacks with reference models, the attacks on lists and the rules run on
it; their intervals hold together (Sidak). Two things are counted: runs in which any of these 95 % intervals misses one
half (5 of 100 are expected, and 11 is the end of what exact intervals do by chance), and false alarms, that is runs
with the verdict `leak` or `explained`, which ask for 99.9 % (0.1 of 100 expected).

    python benchmarks/membership_null.py --runs 100 --model puresvd --jobs 2
    python benchmarks/membership_null.py --runs 100 --first-seed 1000
    python benchmarks/membership_null.py --runs 100 --model dp-cov --options '{"epsilon": 10.0}'
"""

import argparse
import json
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from recveil.attacks.membership.lira import LiRA
from recveil.attacks.membership.rmia import RMIA
from recveil.attacks.membership.rrmia import RRMIA
from recveil.attacks.membership.shadowfree import ShadowFree
from recveil.audits.membership.audit import run_membership_attacks
from recveil.audits.membership.game import MembershipGame
from recveil.audits.membership.platforms import ServingPolicy, factor_items, train_platform
from recveil.audits.membership.references import ReferenceModels
from recveil.audits.membership.verdict import decide_verdict
from recveil.core.protocols import MembershipAttack, Recommender
from recveil.core.random import make_generator
from recveil.core.types import Shadow
from recveil.data.member_split import MemberPart, split_three_ways
from recveil.data.synthetic import make_demo_world
from recveil.models import MODELS
from recveil.models.puresvd import PureSVD

ATTACKS: dict[str, MembershipAttack] = {
    "lira": LiRA(),
    "lira offline": LiRA(kind="offline"),
    "lira pair": LiRA(level="pair"),
    "rmia": RMIA(),
    "rmia pair": RMIA(level="pair"),
    "rrmia": RRMIA(),
    "shadowfree": ShadowFree(),
}
OPTIONS = {"puresvd": {"embedding_size": 16}, "dp-cov": {"epsilon": 10.0}}


def run_null(model: str, options: dict[str, Any], n_users: int, references: int, seed: int) -> dict[str, Any]:
    """Play one game without a difference between members and non-members."""

    def make() -> Recommender:
        return MODELS.make(model, device="cpu", **options)  # type: ignore[no-any-return]

    def derive(*names: str) -> np.random.Generator:
        return make_generator(seed, "null", *names)

    begin = time.perf_counter()
    parts = split_three_ways(make_demo_world(seed, n_users=n_users).dataset, rng=derive("parts"))
    vectors = factor_items(parts.item_part, PureSVD(embedding_size=16, device="cpu"), rng=derive("items"))
    policy = ServingPolicy(k=20)
    everybody = {
        name: train_platform(MemberPart(part.data, np.ones_like(part.member)), make(), policy, rng=derive(name))
        for name, part in (("shadow", parts.shadow), ("target", parts.target))
    }
    plan = ReferenceModels(references)
    signals = plan.collect_signals(parts.target, everybody["target"], make, rng=derive("references"))
    shadow = Shadow(everybody["shadow"].serve_lists(vectors).watched, parts.shadow.member)
    game = MembershipGame((shadow,), everybody["target"].serve_lists(vectors, signals).watched, parts.target.member)
    audit = run_membership_attacks(game, ATTACKS, seed=seed)
    missing = [name for name, result in audit.attacks.items() if not result.auc.low <= 0.5 <= result.auc.high]
    return {
        "seed": seed,
        "users": len(parts.target.member),
        "intervals_missing_half": missing,
        "clear": [name for name, result in audit.attacks.items() if result.is_clear],
        "verdict": decide_verdict(audit.attacks.values()).value,
        "auc": {name: round(result.auc.value, 4) for name, result in audit.attacks.items()},
        "seconds": round(time.perf_counter() - begin, 1),
    }


def main() -> None:
    """Read the command line, run the games and count the alarms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--model", default="puresvd")
    parser.add_argument("--options", help="options of the model as JSON")
    parser.add_argument("--users", type=int, default=900)
    parser.add_argument("--references", type=int, default=4)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    options = OPTIONS.get(given.model, {}) if given.options is None else json.loads(given.options)
    play = partial(run_null, given.model, options, given.users, given.references)
    seeds = range(given.first_seed, given.first_seed + given.runs)
    lines = []
    with ProcessPoolExecutor(given.jobs) as pool:
        for line in pool.map(play, seeds) if given.jobs > 1 else map(play, seeds):
            lines.append(line)
            print(json.dumps(line), flush=True)
    summary = {
        "model": given.model,
        "options": options,
        "runs": given.runs,
        "first_seed": given.first_seed,
        "runs_with_an_interval_missing_half": sum(bool(line["intervals_missing_half"]) for line in lines),
        "verdicts": dict(Counter(line["verdict"] for line in lines)),
        "false_alarms": sum(line["verdict"] in ("leak", "explained") for line in lines),
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
