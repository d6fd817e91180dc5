"""Seconds of attacks with reference models, from the target to the scores of LiRA and RMIA; a JSON line for each model.

The target is trained on a random half of all users and every reference on another half. `train` is the time of the
reference models and of their signals, `attack` that of the attacks.

    RECVEIL_DATA=... python benchmarks/membership_references.py --models als,puresvd --references 16
    RECVEIL_DATA=... python benchmarks/membership_references.py --references 64 --device cuda
"""

import argparse
import json
import time

from recveil.attacks.membership.lira import LiRA
from recveil.attacks.membership.rmia import RMIA
from recveil.audits.membership.platforms import ServingPolicy, train_platform
from recveil.audits.membership.references import ReferenceModels
from recveil.core.protocols import Recommender
from recveil.core.random import make_generator
from recveil.data.member_split import MemberPart
from recveil.data.sources.catalog import load_dataset_or_demo
from recveil.metrics.roc import estimate_auc
from recveil.models import MODELS

OPTIONS = {"als": {"embedding_size": 64}, "puresvd": {"embedding_size": 128}}
ATTACKS = {
    "lira": LiRA(),
    "lira offline": LiRA(kind="offline"),
    "lira pair": LiRA(level="pair"),
    "rmia": RMIA(),
    "rmia pair": RMIA(level="pair"),
}


def main() -> None:
    """Read the command line and print one line for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--models", default="als,puresvd")
    parser.add_argument("--references", type=int, default=16)
    parser.add_argument("--signal", default="auto")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    data = load_dataset_or_demo(given.data, seed=0)
    for name in given.models.split(","):

        def make(name: str = name) -> Recommender:
            return MODELS.make(name, device=given.device, **OPTIONS.get(name, {}))  # type: ignore[no-any-return]

        rng = make_generator(0, "halves")
        part = MemberPart(data, rng.random(data.n_users) < 0.5)
        begin, begin_cpu = time.perf_counter(), time.process_time()
        target = train_platform(part, make(), ServingPolicy(), rng=rng.spawn(1)[0])
        plan = ReferenceModels(given.references, given.signal, given.device)
        signals = plan.collect_signals(part, target, make, rng=rng.spawn(1)[0])
        trained = time.perf_counter()
        watched = target.serve_lists(None, signals).watched
        aucs = {attack: estimate_auc(part.member, ATTACKS[attack].score(watched)) for attack in ATTACKS}
        line = {
            "data": given.data,
            "model": name,
            "options": OPTIONS.get(name, {}),
            "references": given.references,
            "signal": plan.choose_signal(target.model),
            "device": given.device,
            "train_s": round(trained - begin, 1),
            "attack_s": round(time.perf_counter() - trained, 1),
            "cpu_s": round(time.process_time() - begin_cpu, 1),
            "auc": {attack: [round(x, 4) for x in (auc.value, auc.low, auc.high)] for attack, auc in aucs.items()},
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
