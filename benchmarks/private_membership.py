"""Recommenders with a guarantee: what they rank and what attacks reach on them. One JSON line for each model and seed.

`quality` ranks the test items of a leave-one-out split. `attack` trains the target on a random half of all users (fair
coins) and attacks it by reference models on other halves; the empirical epsilon stands beside the guarantee. Reference
models of a private target release the items that the target releases: the attacker knows the mechanism. The rules and
the attacks on lists (`--lists`) learn from one more model on another half, whose members the attacker knows.

    RECVEIL_DATA=... python benchmarks/private_membership.py quality --data ml-1m,lastfm-360k-15k
    RECVEIL_DATA=... python benchmarks/private_membership.py attack --data ml-1m --models dp-cov:2,puresvd \
        --references 32 --signals self-score --lists biased,dlmia,shadowfree,rrmia
"""

import argparse
import itertools
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from recveil.attacks.membership import MEMBERSHIP_ATTACKS
from recveil.attacks.membership.lira import LiRA
from recveil.attacks.membership.rmia import RMIA
from recveil.audits.membership.audit import run_membership_attacks
from recveil.audits.membership.game import build_game
from recveil.audits.membership.platforms import ServingPolicy, TrainedPlatform, factor_items, train_platform
from recveil.audits.membership.references import ReferenceModels
from recveil.core.errors import DataError
from recveil.core.protocols import MembershipAttack, PrivateRecommender, Recommender
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
LIST_LENGTH = 10
ATTACKS: dict[str, MembershipAttack] = {
    "lira": LiRA(),
    "lira offline": LiRA(kind="offline"),
    "lira pair": LiRA(level="pair"),
    "rmia": RMIA(),
    "rmia pair": RMIA(level="pair"),
}

OPTIONS: dict[str, dict[str, Any]] = {"puresvd": {"embedding_size": 128}, "als": {"embedding_size": 64, "epochs": 10}}
MODELS = ("dp-cov:1", "dp-cov:2", "dp-cov:5", "dp-cov:10", "dp-als:2", "dp-als:10", "puresvd")

Line = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """One line to measure; `model` is a name, and after a colon the epsilon of a private model."""

    what: str
    data: str
    model: str
    options: str
    references: int
    signals: str
    lists: str
    device: str | None

    def make(self) -> Recommender:
        """Make the untrained model."""
        name, _, epsilon = self.model.partition(":")
        private = {"epsilon": float(epsilon), "noise_seed": 0} if epsilon else {}
        given = {**OPTIONS.get(name, {}), **private, **json.loads(self.options)}
        return make_model(name, self.data, given, self.device)


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
    target = train_platform(part, setting.make(), ServingPolicy(k=LIST_LENGTH), rng=rng.spawn(1)[0])
    line: Line = {"items": int(target.is_known.sum())}
    for signal in filter(None, setting.signals.split(",")):
        begin = time.process_time()
        plan = ReferenceModels(setting.references, signal, setting.device)
        signals = plan.collect_signals(part, target, setting.make, rng=make_generator(seed, "halves", "references"))
        watched = target.serve_lists(None, signals).watched
        scores = {name: attack.score(watched) for name, attack in ATTACKS.items()}
        line[signal] = {**describe_attacks(member, scores, seed), "cpu_s": round(time.process_time() - begin, 1)}
    if setting.lists:
        line["lists"] = describe_attacks(member, score_lists(part, target, setting, seed), seed)
    if target.guarantee is not None:
        line["bound"] = {
            "auc": round(target.guarantee.max_auc, 4),
            "tpr": round(target.guarantee.max_tpr_at_1_percent_fpr, 4),
            "epsilon": target.guarantee.epsilon,
        }
    return line


def score_lists(part: MemberPart, target: TrainedPlatform, setting: Setting, seed: int) -> dict[str, FloatArray]:
    """Score the users by rules and by attacks on lists, which learn from a shadow model on another half."""
    rng = make_generator(seed, "halves", "shadow")
    half = MemberPart(part.data, rng.random(part.data.n_users) < 0.5)
    shadow = train_platform(half, setting.make(), target.policy, rng=rng, known_items=target.is_known)
    vectors = factor_items(target.history, make_model("puresvd", setting.data, {"embedding_size": 100}, "cpu"), rng=rng)
    attacks = {name: MEMBERSHIP_ATTACKS.make(name, device=setting.device) for name in setting.lists.split(",")}
    game = build_game(shadow.serve_lists(vectors), target.serve_lists(vectors))
    return run_membership_attacks(game, attacks, seed=seed).scores


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
    """Measure one seed; a model that cannot be trained says why."""
    begin = time.process_time()
    facts = {"what": setting.what, "data": setting.data, "model": setting.model, "options": json.loads(setting.options)}
    try:
        line = MEASURES[setting.what](load_dataset_or_demo(setting.data, seed=0), setting, seed)
    except DataError as error:
        line = {"reason": str(error)}
    return {**facts, "seed": seed, **line, "cpu_s": round(time.process_time() - begin, 1)}


def list_cases(given: argparse.Namespace) -> Iterator[tuple[Setting, int]]:
    """List all lines to measure."""
    shared = (given.options, given.references, given.signals, given.lists, given.device)
    for data, model, seed in itertools.product(given.data.split(","), given.models.split(","), given.seeds):
        yield Setting(given.what, data, model, *shared), seed


def main() -> None:
    """Read the command line and print one line for each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=sorted(MEASURES))
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--models", default=",".join(MODELS), help="names, with a colon and epsilon for private models")
    parser.add_argument("--options", default="{}", help="further options of all models as JSON")
    parser.add_argument("--references", type=int, default=32)
    parser.add_argument("--signals", default="self-score", help="signals of reference models; empty for none")
    parser.add_argument("--lists", default="", help="attacks on lists, such as biased,dlmia,shadowfree,rrmia")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, nargs="+", default=range(5))
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    settings, seeds = zip(*list_cases(given), strict=True)
    # Processes start afresh: a forked process cannot use the accelerator.
    with ProcessPoolExecutor(given.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        measure = pool.map if given.jobs > 1 else map
        for line in measure(measure_seed, settings, seeds):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
