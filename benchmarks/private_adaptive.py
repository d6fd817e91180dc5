"""The strongest attacks on `dp-cov` that we know, by what the attacker sees. One JSON line for each seed.

The target is trained on a random half of all users. The attacker knows the mechanism and the released items, and
simulates the releases for other halves (`private_simulator.py`). Statistics of each user are compared with those of the
halves without the user (offline LiRA). A logistic regression, learned on the simulated halves, weighs the statistics
that an attacker has:

- `scores`: those of the user's own scores of all items, which are Mx for the user's row x.
- `score matrix`: the attacker folds in histories of single items, and so sees M; it is compared with what the user adds
  to the released matrix, and its popular direction with what the user adds to the counts.
- `item vectors`: the kept directions with their eigenvalues, and the direction of the counts.
- `noisy releases`: all of the noisy matrix off its diagonal, which `dp-cov` does not release. It shows how tight the
  bound is.

`by items` repeats the AUC of the item vectors for thirds of users by their number of released items.

    RECVEIL_DATA=... python benchmarks/private_adaptive.py --options '{"epsilon": 2.0}' --references 64 --jobs 5
"""

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from private_simulator import Simulator, Statistics
from sklearn.linear_model import LogisticRegression

from recveil.audits.membership.platforms import ServingPolicy, train_platform
from recveil.audits.membership.references import draw_halves
from recveil.core.random import make_generator
from recveil.core.types import BoolArray, FloatArray
from recveil.data.member_split import MemberPart
from recveil.data.sources.catalog import load_dataset_or_demo
from recveil.metrics.empirical_epsilon import estimate_epsilon
from recveil.metrics.roc import estimate_auc, estimate_tpr_at_fpr
from recveil.models.construction import make_model
from recveil.models.dp_cov import PrivateCovariance

DELTA = 1e-5
OWN_SCORES = ["self-score", "weighted self-score", "evenly weighted score"]
ATTACKERS = {
    "scores": OWN_SCORES,
    "score matrix": [*OWN_SCORES, "score matrix", "counts"],
    "item vectors": [*OWN_SCORES, "score matrix", "item side", "counts"],
    "noisy releases": ["noisy matrix", "counts"],
}


def score_users(
    observed: Statistics, drawn: list[Statistics], inside: BoolArray, names: list[str], norms: FloatArray
) -> FloatArray:
    """Score users by statistics that are weighed on simulated halves.

    Args:
        observed: statistics of all users by the target.
        drawn: the same by each simulated half.
        inside: which users are in which half.
        names: the statistics that the attacker has.
        norms: how much each user adds to the matrix.
    """
    n_without = (~inside).sum(1, keepdims=True)
    features, observed_features = [], []
    for name in names:
        values = np.stack([statistics[name] for statistics in drawn], axis=1)
        mean = np.where(inside, 0, values).sum(1, keepdims=True) / n_without
        # The mean holds each half without the user itself, which makes its distance smaller by 1 / n_without.
        distance = (values - mean) * np.where(inside, 1, n_without / (n_without - 1))
        spread = float(np.sqrt(np.square(distance[~inside]).mean())) or 1.0
        features.append(distance / spread)
        observed_features.append((observed[name] - mean[:, 0]) / spread)
    # Users who add much exceed by more when they are inside: the threshold between both depends on what they add.
    weigh = LogisticRegression(C=np.inf).fit(
        np.stack([*(f.ravel() for f in features), np.repeat(norms**2, inside.shape[1])], axis=1), inside.ravel()
    )
    return np.asarray(weigh.decision_function(np.stack([*observed_features, norms**2], axis=1)))


def attack_target(data_name: str, options: dict[str, Any], references: int, seed: int) -> dict[str, Any]:
    """Train and attack one target."""
    begin = time.process_time()
    data, rng = load_dataset_or_demo(data_name, seed=0), make_generator(seed, "halves")
    member = rng.random(data.n_users) < 0.5
    model = make_model("dp-cov", data_name, {"noise_seed": 0, **options}, "cpu")
    assert isinstance(model, PrivateCovariance)
    target = train_platform(MemberPart(data, member), model, ServingPolicy(k=1), rng=rng.spawn(1)[0])
    simulator, rng = Simulator.watch(target, model), make_generator(seed, "halves", "references")
    # Given its items and counts, the target's matrix is drawn once more: all attackers then see parts of the same one.
    observed = simulator.draw_statistics(member, rng, popular=simulator.added.popular)
    inside = draw_halves(data.n_users, references, rng)
    drawn = [simulator.draw_statistics(half, rng) for half in inside.T]
    norms = simulator.added.norms
    scores = {name: score_users(observed, drawn, inside, seen, norms) for name, seen in ATTACKERS.items()}
    line: dict[str, Any] = {"data": data_name, "options": options, "references": references, "seed": seed}
    line |= {name: describe_attack(member, score, seed, name) for name, score in scores.items()}
    single = {name: score_users(observed, drawn, inside, [name], norms) for name in observed}
    line["single statistics"] = {name: round(estimate_auc(member, score).value, 4) for name, score in single.items()}
    line["by items"] = measure_by_items(member, scores["item vectors"], np.diff(simulator.rows.indptr))
    guarantee = model.guarantee_
    assert guarantee is not None
    line["bound"] = {"auc": round(guarantee.max_auc, 4), "tpr": round(guarantee.max_tpr_at_1_percent_fpr, 4)}
    return {**line, "items": guarantee.n_released_items, "cpu_s": round(time.process_time() - begin, 1)}


def describe_attack(member: BoolArray, score: FloatArray, seed: int, name: str) -> dict[str, Any]:
    """Measure an attack."""
    auc, rates = estimate_auc(member, score), estimate_tpr_at_fpr(member, score, 0.01)
    proved = estimate_epsilon(member, {name: score}, delta=DELTA, rng=make_generator(seed, "halves", name))
    return {
        "auc": [round(x, 4) for x in (auc.value, auc.low, auc.high)],
        "tpr": None if rates is None else [round(x, 4) for x in (rates.tpr.value, rates.tpr.low, rates.tpr.high)],
        "epsilon proved": round(proved.epsilon, 3),
    }


def measure_by_items(member: BoolArray, score: FloatArray, n_items: FloatArray) -> dict[str, list[float]]:
    """Measure the attack on thirds of users by their number of released items."""
    low, high = np.quantile(n_items, [1 / 3, 2 / 3])
    parts = {f"under {low:.0f}": n_items < low, f"{high:.0f} or more": n_items >= high}
    parts["between"] = ~np.any(list(parts.values()), axis=0)
    aucs = {name: estimate_auc(member[part], score[part]) for name, part in parts.items()}
    return {name: [round(x, 4) for x in (auc.value, auc.low, auc.high)] for name, auc in aucs.items()}


def main() -> None:
    """Read the command line and print one line for each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--options", default="{}", help="options of the model as JSON")
    parser.add_argument("--references", type=int, default=64)
    parser.add_argument("--seeds", type=int, nargs="+", default=range(5))
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    attack = partial(attack_target, given.data, json.loads(given.options), given.references)
    with ProcessPoolExecutor(given.jobs) as pool:
        lines = pool.map(attack, given.seeds) if given.jobs > 1 else map(attack, given.seeds)
        for line in lines:
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
