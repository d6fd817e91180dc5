"""Post-training defenses on MovieLens: attacks, utility, displacement and time of each method, as rows and as tables.

    RECVEIL_DATA=... python benchmarks/post_training.py --data ml-1m --models bprmf,lightgcn --seeds 1 --log rows.jsonl
    python benchmarks/post_training.py --show rows.jsonl > docs/results/post_training.md

One row for each data set, model, seed, target and method: every attacker of the panel (adaptive), the headline
advantage, the attacker who holds the table from before as well, the paired change of NDCG@10 on the test item.
Methods run with their defaults; nothing is chosen here. Models are those of `recveil train` (settings of the data set),
with 32 dimensions and, as in the paper, without a sense of time.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import json
import time
from pathlib import Path

import numpy as np

from recveil.attacks.attribute.views import two_releases
from recveil.audit import audit
from recveil.catalog import ATTACKS, EMBEDDING_DEFENSES, MODELS, panel
from recveil.data.sources import load
from recveil.data.split import leave_one_out
from recveil.games import Folds
from recveil.metrics.ranking import difference, dot, hit_rate, ndcg, rank, seen_items
from recveil.models.objective import bpr_of_users
from recveil.models.settings import SETTINGS
from recveil.protect import displacement
from recveil.random import generator

METHODS = ("none", "attrcloak-dd", "attrcloak-df", "u2u", "d2d", "noise", "leace", "gaussian", "attrcloak", "sliced")
INTRODUCTION = """# Post-training defenses

Written by `python benchmarks/post_training.py --show rows.jsonl`, from rows that the same script measured. Balanced
accuracy of each attacker; the advantage is two-sided, of the headline attacker, with its 95 % interval; "both" is
that of an attacker who holds the table from before as well (logistic regression and trees). NDCG@10 changes are in per
cent of the undefended model, paired. Where several seeds of the model were run, numbers are means over them, ends of
intervals too."""
TARGETS = ("gender", "age3", "age7", "occupation")


def trained(data: str, name: str, seed: int, device: str | None) -> tuple:
    """A split and the user and item vectors of a model of it."""
    split = leave_one_out(load(data))
    tuned = {k: v for k, v in SETTINGS.get(data, {}).get(name, {}).items() if k not in ("recency", "embedding_size")}
    model = MODELS[name](**tuned, embedding_size=32, device=device).fit(split, rng=generator(seed, "train"))
    return split, model.user_vectors_, model.item_vectors_


def cloaked(
    method: str, x: np.ndarray, codes: np.ndarray, split: object, items: np.ndarray, device: str | None
) -> tuple:
    """The table and the seconds."""
    if method == "none":
        return x, 0.0
    loss = bpr_of_users(split.train, items, device=device, rng=generator(0, "loss"))
    start = time.perf_counter()
    out = EMBEDDING_DEFENSES[method](device=device)(x, codes[:, None], rng=generator(0, "cloak"), utility=loss)
    return out, time.perf_counter() - start


def row(key: dict, x: np.ndarray, world: tuple, attackers: dict, rules: Folds, device: str | None) -> dict:
    """All that is measured of one method."""
    split, items, secret = world
    out, seconds = cloaked(key["method"], x, secret.codes, split, items, device)
    seen = seen_items(split.train, split.valid)
    before, after = (rank(dot(t, items), split.test, seen) for t in (x, out))
    change, level = difference(ndcg(after, 10), ndcg(before, 10)), ndcg(before, 10).mean()
    found = audit(out, secret, attackers, rules=rules, seed=0)
    both = {n: ATTACKS[n](device) for n in ("logistic", "trees")}
    past = audit(two_releases(x, out), secret, both, rules=Folds(5, 1)) if key["method"] != "none" else found
    return {
        **key,
        "seconds": seconds,
        "displacement": displacement(x, out),
        "bacc": {n: a.balanced_accuracy.value for n, a in found.attacks.items()},
        "advantage": found.headline.advantage.to_dict(),
        "verdict": found.verdict,
        "both_tables": past.headline.advantage.value,
        "ndcg@10": float(ndcg(after, 10).mean()),
        "hr@10": float(hit_rate(after, 10).mean()),
        "ndcg_change": [100 * v / level for v in (change.value, change.low, change.high)],
    }


def measure(given: argparse.Namespace) -> None:
    """Every combination, one line each, until the time is up."""
    start, names = time.time(), given.methods.split(",")
    attackers = panel(given.panel, given.device)
    if given.panel == "fast":
        attackers["forest"] = ATTACKS["forest"](given.device)
    for seed in range(given.seeds):
        for model in given.models.split(","):
            split, x, items = trained(given.data, model, seed, given.device)
            for target in given.targets.split(","):
                for method in names:
                    if time.time() - start > given.limit:
                        return
                    key = {"data": given.data, "model": model, "seed": seed, "target": target, "method": method}
                    key |= {"panel": given.panel, "deals": given.deals, "machine": given.machine}
                    world = split, items, split.train.attributes[target]
                    line = json.dumps(row(key, x, world, attackers, Folds(5, given.deals), given.device))
                    with open(given.log, "a", encoding="utf-8") as file:
                        file.write(line + "\n")
                    print(line[:150], flush=True)


def show(path: str) -> None:
    """The rows as Markdown, seeds averaged."""
    rows = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    print(INTRODUCTION)
    kinds = ("data", "model", "target", "panel", "deals", "machine")
    for group in dict.fromkeys(tuple(r[k] for k in kinds) for r in rows):
        mine = [r for r in rows if tuple(r[k] for k in kinds) == group]
        data, model, target, panel_name, deals, machine = group
        seeds = len({r["seed"] for r in mine})
        names = list(mine[0]["bacc"])
        print(f"\n## {data}, {model}, {target}\n")
        print(f"`{panel_name}` panel, 5 folds x {deals}, {seeds} seed(s) of the model; {machine}\n")
        print(f"| method | {' | '.join(names)} | advantage | both | NDCG@10 | change, % | displacement | seconds |")
        print("| --- " * (len(names) + 7) + "|")
        for method in dict.fromkeys(r["method"] for r in mine):
            print(_line(method, [r for r in mine if r["method"] == method], names), flush=True)


def _line(method: str, rows: list[dict], names: list[str]) -> str:
    def mean(read: object) -> float:
        return float(np.mean([read(r) for r in rows]))

    seen = " | ".join(f"{mean(lambda r, n=n: r['bacc'][n]):.3f}" for n in names)
    value, low, high = (mean(lambda r, k=k: r["advantage"][k]) for k in ("value", "low", "high"))
    change = [mean(lambda r, k=k: r["ndcg_change"][k]) for k in range(3)]
    both = f"{mean(lambda r: r['both_tables']):.3f}" if method != "none" else ""
    return (
        f"| {method} | {seen} | {value:.3f} [{low:.3f}, {high:.3f}] | {both} | {mean(lambda r: r['ndcg@10']):.4f} | "
        f"{change[0]:+.1f} [{change[1]:+.1f}, {change[2]:+.1f}] | {mean(lambda r: r['displacement']):.3f} | "
        f"{mean(lambda r: r['seconds']):.2f} |"
    )


def main() -> None:
    """Measure, or show what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--models", default="bprmf,lightgcn")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--panel", default="fast")
    parser.add_argument("--seeds", type=int, default=1, help="of the model")
    parser.add_argument("--deals", type=int, default=1, help="of the users into folds")
    parser.add_argument("--limit", type=float, default=3600.0)
    parser.add_argument("--device")
    parser.add_argument("--machine", default="two cores", help="in words, for the table")
    parser.add_argument("--log", default="post_training.jsonl")
    parser.add_argument("--show")
    given = parser.parse_args()
    if given.show:
        show(given.show)
    else:
        measure(given)


if __name__ == "__main__":
    main()
