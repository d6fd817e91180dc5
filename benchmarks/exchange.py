"""Tables that a defense must hold on: what strong attackers find before and after, and what it costs.

python benchmarks/exchange.py --tables lastfm-360k-15k:als:gender book-crossing-caserec:puresvd:age3

RECVEIL_DATA names the folder with the data sets. Each line is one table and one method: balanced accuracy of each
attacker, the advantage of the strongest with its interval, the paired change of NDCG@10, displacement and seconds.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from recveil.attacks.attribute.panels import make_attack
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.random import make_generator
from recveil.core.types import Dataset
from recveil.data.cleaning import k_core
from recveil.data.sources.catalog import load_dataset
from recveil.data.splits import leave_one_out
from recveil.defenses import DEFENSES
from recveil.metrics.ranking import collect_seen_items, ndcg, rank
from recveil.models.construction import make_model
from recveil.workflows.defended_release import measure_displacement

ATTACKERS = ("logistic", "qda", "knn", "trees", "mlp", "kernel-ridge")


def load_table(name: str) -> Dataset:
    """Load a data set; `name@5` is its 5-core."""
    base, _, core = name.partition("@")
    dataset = load_dataset(base)
    return k_core(dataset, user_core=int(core), item_core=int(core)) if core else dataset


def measure_table(spec: str, methods: list[str], attackers: list[str], seed: int) -> None:
    """Print one line for each method."""
    name, model_name, target = spec.split(":")
    dataset = load_table(name)
    split, secret = leave_one_out(dataset), dataset.attributes[target]
    model = make_model(model_name, dataset.name, {}, "cpu").fit(split, rng=make_generator(seed, "train"))
    x, attacks = model.user_vectors_, {attacker: make_attack(attacker, "cpu") for attacker in attackers}
    seen = collect_seen_items(split.train, split.valid)
    start = None
    for method in methods:
        clock = time.perf_counter()
        table = (
            x
            if method == "none"
            else DEFENSES.make(method, device="cpu")(x, secret.codes[:, None], rng=make_generator(seed, "cloak"))
        )
        seconds = time.perf_counter() - clock

        def score(users: np.ndarray, vectors: np.ndarray = table) -> np.ndarray:
            return np.asarray(vectors[users] @ model.item_vectors_.T)

        gain = ndcg(rank(score, split.test, seen), 10)
        start = gain if start is None else start
        change = 100 * (np.mean(gain) / np.mean(start) - 1)
        error = 100 * np.std(gain - start) / np.sqrt(len(gain)) / np.mean(start)
        audit = audit_attribute(table, secret, attacks, rules=CrossValidation(5, 1, max_repeats=1), seed=seed)
        found = " | ".join(f"{audit.attacks[a].balanced_accuracy.value:.3f}" for a in attackers)
        a = audit.headline.advantage
        print(
            f"| {spec} ({len(x)} x {x.shape[1]}) | {method} | {found} | {a.value:.3f} [{a.low:.3f}, {a.high:.3f}] | "
            f"{change:+.1f} +- {1.96 * error:.1f} | {measure_displacement(x, table):.2f} | {seconds:.1f} |",
            flush=True,
        )


def main() -> None:
    """Print the lines of the tables that were named."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tables", nargs="+", required=True, help="data[@core]:model:attribute")
    parser.add_argument("--methods", nargs="+", default=["none", "sliced", "exchange"])
    parser.add_argument("--attackers", nargs="+", default=list(ATTACKERS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    head = " | ".join(options.attackers)
    print(f"| table | method | {head} | advantage | NDCG@10, % | displacement | s |")
    print("| --- " * (len(options.attackers) + 6) + "|", flush=True)
    for spec in options.tables:
        try:
            measure_table(spec, options.methods, options.attackers, options.seed)
        except (RuntimeError, ValueError, KeyError) as error:  # one table must not end the others
            print(f"| {spec} | failed: {error!r} |", flush=True)


if __name__ == "__main__":
    main()
