"""Recommenders with a guarantee: what they rank, and what reference attacks reach on them.

`quality` ranks the test items of a leave-one-out split. `attack` trains the target on a random half of all users (fair
coins) and attacks it by reference models on other halves; the empirical epsilon stands beside the guarantee.

    RECVEIL_DATA=... python benchmarks/private_membership.py quality --model dp-cov --options '{"epsilon": 2.0}'
    RECVEIL_DATA=... python benchmarks/private_membership.py attack --model dp-cov --options '{"epsilon": 2.0}'
"""

import argparse
import json
import time
from collections.abc import Callable

import numpy as np

from recveil.attacks.membership.lira import LiRA
from recveil.attacks.membership.rmia import RMIA
from recveil.audits.membership.platforms import ServingPolicy, train_platform
from recveil.audits.membership.references import ReferenceModels
from recveil.core.protocols import PrivateRecommender, Recommender
from recveil.core.random import make_generator
from recveil.core.types import Dataset
from recveil.data.member_split import MemberPart
from recveil.data.sources.catalog import load_dataset_or_demo
from recveil.data.splits import leave_one_out
from recveil.metrics.empirical_epsilon import estimate_epsilon
from recveil.metrics.ranking import collect_seen_items, estimate_mean, hit_rate, ndcg, rank
from recveil.metrics.roc import estimate_auc, estimate_tpr_at_fpr
from recveil.models.construction import make_model

DELTA = 1e-5
ATTACKS = {"lira": LiRA(), "lira offline": LiRA(kind="offline"), "rmia": RMIA()}

MakeModel = Callable[[], Recommender]


def measure_quality(data: Dataset, make: MakeModel, seed: int, references: int) -> str:
    """Rank the validation and the test items."""
    split = leave_one_out(data)
    model = make().fit(split, rng=np.random.default_rng(seed))
    ranks = rank(model.score, split.test, collect_seen_items(split.train, split.valid))
    valid = rank(model.score, split.valid, collect_seen_items(split.train))
    n_items = len(model.released_items_) if isinstance(model, PrivateRecommender) else data.n_items
    measures = {"NDCG@10": ndcg(ranks, 10), "HR@10": hit_rate(ranks, 10), "validation NDCG@10": ndcg(valid, 10)}
    numbers = "  ".join(f"{name} {estimate_mean(values).value:.4f}" for name, values in measures.items())
    return f"{numbers}  items {n_items}  d {model.item_vectors_.shape[1]}"


def measure_attacks(data: Dataset, make: MakeModel, seed: int, references: int) -> str:
    """Attack a target that was trained on half of the users."""
    rng = make_generator(seed, "halves")
    member = rng.random(data.n_users) < 0.5
    part = MemberPart(data, member)
    target = train_platform(part, make(), ServingPolicy(), rng=rng.spawn(1)[0])
    signals = ReferenceModels(references, "bpr-margin").collect_signals(part, target, make, rng=rng.spawn(1)[0])
    watched = target.serve_lists(None, signals).watched
    scores = {name: attack.score(watched) for name, attack in ATTACKS.items()}
    parts = []
    for name, score in scores.items():
        auc, rates = estimate_auc(member, score), estimate_tpr_at_fpr(member, score, 0.01)
        found = "" if rates is None else f" TPR at 1 % {rates.tpr.value:.3f}"
        parts.append(f"{name} {auc.value:.3f} [{auc.low:.3f}, {auc.high:.3f}]{found}")
    proved = estimate_epsilon(member, scores, delta=DELTA, rng=make_generator(seed, "halves", "empirical epsilon"))
    parts.append(f"epsilon proved {proved.epsilon:.2f} ({proved.attack}, {proved.n_right} of {proved.n_guesses})")
    guarantee = target.model.guarantee_ if isinstance(target.model, PrivateRecommender) else None
    if guarantee is not None:
        parts.append(f"AUC bound {guarantee.max_auc:.3f}, items {guarantee.n_released_items}")
    return "; ".join(parts)


def main() -> None:
    """Read the command line and print one line for each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("quality", "attack"))
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--model", default="dp-cov")
    parser.add_argument("--options", default="{}", help="options of the model as JSON")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--references", type=int, default=8)
    given = parser.parse_args()
    data, options = load_dataset_or_demo(given.data, seed=0), json.loads(given.options)
    measure = measure_quality if given.what == "quality" else measure_attacks
    for seed in range(given.seeds):
        begin = time.perf_counter()
        line = measure(data, lambda: make_model(given.model, given.data, options, "cpu"), seed, given.references)
        print(f"{given.model} {options} seed {seed}: {line}; {time.perf_counter() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
