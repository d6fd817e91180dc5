"""All attacks and rules on models with and without a guarantee. One JSON line for each data set, model and seed.

Each line is one run of `recveil membership`: a third of the users is the target, half of these are members; `biased`,
`dlmia`, `shadowfree`, `rrmia`, `lira`, `rmia` and all rules run on the same lists. Intervals of a line hold together.

    RECVEIL_DATA=... python benchmarks/membership_beside.py --data ml-1m,lastfm-360k-15k --jobs 8 --device cuda
"""

import argparse
import itertools
import json
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

from recveil.core.errors import DataError
from recveil.workflows.membership import MembershipRequest, run_membership_on_data

ATTACKS = ("biased", "dlmia", "shadowfree", "rrmia", "lira", "rmia")
MODELS: dict[str, dict[str, Any]] = {
    "puresvd d=128": {"model": "puresvd", "options": {"embedding_size": 128}},
    "als d=64": {"model": "als", "options": {"embedding_size": 64, "epochs": 10}},
    "dp-cov epsilon=2": {"model": "dp-cov", "options": {"epsilon": 2.0, "noise_seed": 0}},
    "dp-cov epsilon=5": {"model": "dp-cov", "options": {"epsilon": 5.0, "noise_seed": 0}},
    "dp-cov epsilon=10": {"model": "dp-cov", "options": {"epsilon": 10.0, "noise_seed": 0}},
}


def run_line(case: tuple[str, str, int], *, attacks: tuple[str, ...], references: int, device: str) -> dict[str, Any]:
    """Run one audit and keep its numbers."""
    data, model, seed = case
    begin, facts = time.perf_counter(), {"data": data, "model": model, "seed": seed}
    request = MembershipRequest(
        data=data, attacks=attacks, references=references, k=10, seed=seed, device=device, **MODELS[model]
    )
    try:
        result = run_membership_on_data(request)
    except DataError as error:
        return {**facts, "reason": str(error)}
    hits = None if result.utility is None else result.utility.after
    proved = result.empirical_epsilon
    return {
        **facts,
        "users": result.n_users,
        "verdict": result.verdict.value,
        "auc": {
            name: [round(x, 4) for x in (attack.auc.value, attack.auc.low, attack.auc.high)]
            for name, attack in result.attacks.items()
        },
        "bound": None if result.privacy is None else round(result.privacy.max_auc, 4),
        "items": None if result.privacy is None else result.privacy.n_released_items,
        "epsilon proved": None if proved is None else round(proved.lower_bound, 3),
        "hit rate": None if hits is None else [round(hits.members.value, 4), round(hits.non_members.value, 4)],
        "seconds": round(time.perf_counter() - begin, 1),
    }


def main() -> None:
    """Read the command line and print one line for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="ml-1m,lastfm-360k-15k")
    parser.add_argument("--models", default=",".join(MODELS), help=f"some of: {', '.join(MODELS)}")
    parser.add_argument("--attacks", default=",".join(ATTACKS))
    parser.add_argument("--references", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    cases = list(itertools.product(given.data.split(","), given.models.split(","), range(given.seeds)))
    run = partial(run_line, attacks=tuple(given.attacks.split(",")), references=given.references, device=given.device)
    # Processes start afresh: a forked process cannot use the accelerator.
    with ProcessPoolExecutor(given.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for line in pool.map(run, cases) if given.jobs > 1 else map(run, cases):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
