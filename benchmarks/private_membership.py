"""Recommenders with a guarantee: what they rank, and what reference attacks reach on them. One JSON line for each seed.

`quality` ranks the test items of a leave-one-out split. `attack` trains the target on a random half of all users (fair
coins) and attacks it by reference models on other halves; the empirical epsilon stands beside the guarantee. Reference
models of a private target release the items that the target releases: the attacker knows the mechanism.

    RECVEIL_DATA=... python benchmarks/private_membership.py quality --model dp-cov --options '{"epsilon": 2.0}'
    RECVEIL_DATA=... python benchmarks/private_membership.py attack --model dp-cov --options '{"epsilon": 2.0}' \
        --references 64 --signals self-score,rank-percentile --jobs 5 --device cuda
"""

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from recveil.attacks.membership.lira import LiRA
from recveil.attacks.membership.rmia import RMIA
from recveil.audits.membership.platforms import ServingPolicy, train_platform
from recveil.audits.membership.references import ReferenceModels
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

DELTA = 1e-5
ATTACKS = {
    "lira": LiRA(),
    "lira offline": LiRA(kind="offline"),
    "lira pair": LiRA(level="pair"),
    "rmia": RMIA(),
    "rmia pair": RMIA(level="pair"),
}

Line = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """One line to measure."""

    what: str
    data: str
    model: str
    options: str
    references: int
    signals: str
    device: str | None

    def make(self) -> Recommender:
        """Make the untrained model."""
        return make_model(self.model, self.data, json.loads(self.options), self.device)


def measure_quality(data: Dataset, setting: Setting, seed: int) -> Line:
    """Rank the validation and the test items."""
    split = leave_one_out(data)
    model = setting.make().fit(split, rng=np.random.default_rng(seed))
    ranks = rank(model.score, split.test, collect_seen_items(split.train, split.valid))
    valid = rank(model.score, split.valid, collect_seen_items(split.train))
    n_items = len(model.released_items_) if isinstance(model, PrivateRecommender) else data.n_items
    measures = {"ndcg10": ndcg(ranks, 10), "hr10": hit_rate(ranks, 10), "validation_ndcg10": ndcg(valid, 10)}
    numbers = {name: round(estimate_mean(values).value, 5) for name, values in measures.items()}
    return {**numbers, "items": n_items, "directions": model.item_vectors_.shape[1]}


def measure_attacks(data: Dataset, setting: Setting, seed: int) -> Line:
    """Attack a target that was trained on half of the users."""
    rng = make_generator(seed, "halves")
    member = rng.random(data.n_users) < 0.5
    part = MemberPart(data, member)
    target = train_platform(part, setting.make(), ServingPolicy(), rng=rng.spawn(1)[0])
    line: Line = {}
    for signal in setting.signals.split(","):
        begin = time.perf_counter()
        plan = ReferenceModels(setting.references, signal, setting.device)
        signals = plan.collect_signals(part, target, setting.make, rng=make_generator(seed, "halves", "references"))
        watched = target.serve_lists(None, signals).watched
        scores = {name: attack.score(watched) for name, attack in ATTACKS.items()}
        line[signal] = {**describe_attacks(member, scores, seed), "seconds": round(time.perf_counter() - begin, 1)}
    guarantee = target.model.guarantee_ if isinstance(target.model, PrivateRecommender) else None
    if guarantee is not None:
        line["bound"] = {
            "auc": round(guarantee.max_auc, 4),
            "tpr": round(guarantee.max_tpr_at_1_percent_fpr, 4),
            "epsilon": guarantee.epsilon,
            "items": guarantee.n_released_items,
        }
    return line


def describe_attacks(member: BoolArray, scores: dict[str, FloatArray], seed: int) -> Line:
    """Describe what each attack reaches, and the epsilon that the best one proves."""
    line: Line = {}
    for name, score in scores.items():
        auc, rates = estimate_auc(member, score), estimate_tpr_at_fpr(member, score, 0.01)
        line[name] = {"auc": [round(x, 4) for x in (auc.value, auc.low, auc.high)]}
        line[name]["tpr"] = None if rates is None else round(rates.tpr.value, 4)
    proved = estimate_epsilon(member, scores, delta=DELTA, rng=make_generator(seed, "halves", "empirical epsilon"))
    line["proved"] = {"epsilon": round(proved.epsilon, 3), "attack": proved.attack}
    return line


MEASURES: dict[str, Callable[[Dataset, Setting, int], Line]] = {"quality": measure_quality, "attack": measure_attacks}


def measure_seed(setting: Setting, seed: int) -> Line:
    """Measure one seed."""
    begin = time.perf_counter()
    line = MEASURES[setting.what](load_dataset_or_demo(setting.data, seed=0), setting, seed)
    facts = {"what": setting.what, "data": setting.data, "model": setting.model, "options": json.loads(setting.options)}
    return {**facts, "seed": seed, **line, "seconds": round(time.perf_counter() - begin, 1)}


def main() -> None:
    """Read the command line and print one line for each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=sorted(MEASURES))
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--model", default="dp-cov")
    parser.add_argument("--options", default="{}", help="options of the model as JSON")
    parser.add_argument("--references", type=int, default=16)
    parser.add_argument("--signals", default="self-score,rank-percentile")
    parser.add_argument("--device")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    given = vars(parser.parse_args())
    n_seeds, n_jobs = given.pop("seeds"), given.pop("jobs")
    measure = partial(measure_seed, Setting(**given))
    if n_jobs == 1:
        for line in map(measure, range(n_seeds)):
            print(json.dumps(line), flush=True)
        return
    # Processes start afresh: a forked process cannot use the accelerator.
    with ProcessPoolExecutor(n_jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for line in pool.map(measure, range(n_seeds)):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
