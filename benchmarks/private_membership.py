"""Recommenders with a guarantee: what they rank, and what reference attacks reach on them.

`quality` ranks the test items of a leave-one-out split. `attack` trains the target on a random half of all users (fair
coins) and attacks it by reference models on other halves; the empirical epsilon stands beside the guarantee.
`adaptive` is an attacker of `dp-cov` who knows the mechanism and the released items, simulates the noisy matrix of
other halves, and compares x'Mx for the row x of each user, where M is the matrix behind the scores.

    RECVEIL_DATA=... python benchmarks/private_membership.py quality --model dp-cov --options '{"epsilon": 2.0}'
    RECVEIL_DATA=... python benchmarks/private_membership.py attack --model dp-cov --options '{"epsilon": 2.0}'
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from recveil.attacks.membership.lira import LiRA, compute_likelihood_ratios, compute_standard_scores
from recveil.attacks.membership.reference_rows import EvidenceRows
from recveil.attacks.membership.rmia import RMIA
from recveil.audits.membership.platforms import ServingPolicy, train_platform
from recveil.audits.membership.references import ReferenceModels, draw_halves
from recveil.core.protocols import PrivateRecommender, Recommender
from recveil.core.random import make_generator
from recveil.core.types import BoolArray, Dataset, FloatArray
from recveil.data.member_split import MemberPart
from recveil.data.sources.catalog import load_dataset_or_demo
from recveil.data.splits import leave_one_out
from recveil.metrics.empirical_epsilon import estimate_epsilon
from recveil.metrics.ranking import collect_seen_items, estimate_mean, hit_rate, ndcg, rank
from recveil.metrics.roc import estimate_auc, estimate_tpr_at_fpr
from recveil.models.construction import make_model
from recveil.models.dp_cov import PrivateCovariance, compute_item_gram, estimate_directions
from recveil.models.private_release import add_symmetric_noise, clip_histories, scale_rows
from recveil.models.sampling import build_interaction_matrix

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
    return describe_attacks(member, scores, target.model, seed)


def describe_attacks(member: BoolArray, scores: dict[str, FloatArray], model: Recommender, seed: int) -> str:
    """Describe what each attack reaches, what the best proves, and the bound."""
    parts = []
    for name, score in scores.items():
        auc, rates = estimate_auc(member, score), estimate_tpr_at_fpr(member, score, 0.01)
        found = "" if rates is None else f" TPR at 1 % {rates.tpr.value:.3f}"
        parts.append(f"{name} {auc.value:.3f} [{auc.low:.3f}, {auc.high:.3f}]{found}")
    proved = estimate_epsilon(member, scores, delta=DELTA, rng=make_generator(seed, "halves", "empirical epsilon"))
    parts.append(f"epsilon proved {proved.epsilon:.2f} ({proved.attack}, {proved.n_right} of {proved.n_guesses})")
    guarantee = model.guarantee_ if isinstance(model, PrivateRecommender) else None
    if guarantee is not None:
        parts.append(f"AUC bound {guarantee.max_auc:.3f}, items {guarantee.n_released_items}")
    return "; ".join(parts)


def measure_adaptive(data: Dataset, make: MakeModel, seed: int, references: int) -> str:
    """Attack `dp-cov` by simulating it on the items that the target releases."""
    rng = make_generator(seed, "halves")
    member = rng.random(data.n_users) < 0.5
    target = train_platform(MemberPart(data, member), make(), ServingPolicy(k=1), rng=rng.spawn(1)[0])
    model = target.model
    assert isinstance(model, PrivateCovariance)
    assert model.guarantee_ is not None
    items = np.flatnonzero(target.is_known)
    seen = clip_histories(target.history.take(target.is_known[target.history.item]), model.max_history)
    seen = replace(seen, item=np.searchsorted(items, seen.item), item_ids=seen.item_ids[items])
    rows = scale_rows(build_interaction_matrix(seen, model.recency))
    noise = model.guarantee_.releases[1].noise
    inside, signals = draw_halves(data.n_users, references, rng), []
    for half in inside.T:
        gram = add_symmetric_noise(compute_item_gram(rows[np.flatnonzero(half)]), noise, rng)
        vectors = estimate_directions(gram, noise, max_directions=model.embedding_size, reg=model.reg)
        signals.append(np.square(rows @ vectors).sum(1))
    observed = np.square(rows @ model.item_vectors_[model.released_items_]).sum(1)
    evidence = EvidenceRows(np.stack(signals, axis=1), inside, observed)
    scores = {
        "online": compute_likelihood_ratios(evidence, spread="pooled"),
        "offline": compute_standard_scores(evidence, spread="pooled"),
    }
    return describe_attacks(member, scores, model, seed)


def main() -> None:
    """Read the command line and print one line for each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("quality", "attack", "adaptive"))
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--model", default="dp-cov")
    parser.add_argument("--options", default="{}", help="options of the model as JSON")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--references", type=int, default=8)
    given = parser.parse_args()
    data, options = load_dataset_or_demo(given.data, seed=0), json.loads(given.options)
    measures = {"quality": measure_quality, "attack": measure_attacks, "adaptive": measure_adaptive}
    measure = measures[given.what]
    for seed in range(given.seeds):
        begin = time.perf_counter()
        line = measure(data, lambda: make_model(given.model, given.data, options, "cpu"), seed, given.references)
        print(f"{given.model} {options} seed {seed}: {line}; {time.perf_counter() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
