"""Defenses of the data: does training on changed data hide attributes? AttrCloak's Table I, BlurMe and LDP.

    RECVEIL_DATA=... python benchmarks/data_defenses.py --data ml-1m --log rows.jsonl
    ... --data lastfm-360k-15k --targets gender,location --log rows.jsonl
    python benchmarks/data_defenses.py --show rows.jsonl > research/results/data_defenses.md

One row for each data set, seed, target and method: the training part is changed, a model of 32 dimensions is trained on
it (settings of the data set, no sense of time), its user vectors are attacked. The seed is that of defense, model
and folds. Validation and test items are never changed. Nothing is chosen here: a method's settings are in its name.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import time
from dataclasses import replace

import numpy as np
import rows as rows_of
from sklearn.linear_model import LogisticRegression

from recveil.attacks.attribute.panels import make_attack, make_panel
from recveil.core.random import make_generator
from recveil.core.types import Attribute, Dataset, Split
from recveil.data.sources.catalog import load_dataset
from recveil.data.splits import leave_one_out
from recveil.defenses.data.blurme import BlurMe
from recveil.defenses.data.ldp import LDP
from recveil.defenses.data.retrain import Retrain
from recveil.metrics.leakage import balanced_accuracy, compute_confusion
from recveil.metrics.ranking import Ranks, collect_seen_items, count_known_as_misses, make_dot_scorer, ndcg
from recveil.models import MODELS
from recveil.models.construction import find_tuned_options
from recveil.studies.rank_codec import pack_ranks

METHODS = {
    "none": None,
    "retrain, 10 % at random": Retrain(0.1),
    "retrain, 10 % most telling": Retrain(0.1, which="telling"),
    **{
        f"blurme, {100 * share:g} % {mode}": BlurMe(share, mode)
        for mode in ("greedy", "sampled", "random")
        for share in (0.01, 0.05, 0.1)
    },
    **{f"ldp, epsilon {e:g}": LDP(e) for e in (6.0, 4.0, 3.0, 2.0)},
    **{f"ldp, epsilon {e:g}, keep 0.5": LDP(e, keep=0.5) for e in (6.0, 4.0)},
}
LOCATIONS = 6
"""As many as AttrCloak has: the largest countries, and the rest."""


def prepared(data: str) -> Split:
    """Split the data; add `location` where users have a country. Without times, held-out items are drawn."""
    split = leave_one_out(load_dataset(data), rng=make_generator(0, "split"))
    if "country" not in split.train.attributes:
        return split
    attributes = {**split.train.attributes, "location": located(split.train.attributes["country"])}
    return replace(split, train=replace(split.train, attributes=attributes))


def located(country: Attribute) -> Attribute:
    """Make classes of the largest countries, and one of the rest."""
    largest = np.argsort(-country.counts, kind="stable")[: LOCATIONS - 1]
    code = np.full(len(country.labels), len(largest))
    code[largest] = np.arange(len(largest))
    labels = (*(country.labels[k] for k in largest), "elsewhere")
    return Attribute("location", np.where(country.codes >= 0, code[country.codes], -1), labels)


def trained(split: Split, given: argparse.Namespace, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Train a model on the split; return user and item vectors."""
    tuned = dict(find_tuned_options(given.model, given.data)) | {"embedding_size": 32, "recency": 0.0}
    tuned |= {"epochs": given.passes} if given.passes else {}
    model = MODELS.make(given.model, **tuned, device=given.device).fit(split, rng=make_generator(seed, "train"))
    return model.user_vectors_, model.item_vectors_


def served(score: object, split: Split, known: Split) -> Ranks:
    """Rank the test items among the items that are not in the `known` history.

    One that the platform was told the user has already (`split.train`) is never recommended: a miss.
    """
    return count_known_as_misses(rows_of.ranked(score, known), split.test, collect_seen_items(split.train))


def profiles(learned: Dataset, judged: Dataset, secret: Attribute, users: np.ndarray, seed: int) -> float:
    """Return the balanced accuracy of logistic regression on the profiles, on users it did not learn from."""
    users = users[secret.codes[users] >= 0]
    codes, part = secret.codes[users], make_generator(seed, "profiles").permutation(len(users)) % 5
    x, z = (collect_seen_items(data).astype(np.float64)[users] for data in (learned, judged))
    guess = np.empty_like(codes)
    for k in range(5):
        model = LogisticRegression(C=0.03, class_weight="balanced", max_iter=1_000)
        guess[part == k] = model.fit(x[part != k], codes[part != k]).predict(z[part == k])
    return balanced_accuracy(compute_confusion(codes, guess, len(secret.labels)))


def attackers(panel: str, device: str | None) -> dict:
    """Make the attackers of the panel, and a forest."""
    return {**make_panel(panel, device), "forest": make_attack("forest", device)}


def row(key: dict, tables: tuple, changed: Split, split: Split, given: argparse.Namespace) -> dict:
    """Measure one method on one target."""
    x, items = tables
    secret, seed = split.train.attributes[key["target"]], key["seed"]
    users = rows_of.others(len(x)) if given.data == "ml-1m" else np.arange(len(x))
    return {
        **key,
        **rows_of.attacked(x, secret, users, attackers(given.panel, given.device), seed),
        "ranks": pack_ranks(served(make_dot_scorer(x, items), changed, changed)),
        "true_history": float(ndcg(served(make_dot_scorer(x, items), changed, split), 10).mean()),
        "size": len(changed.train) / len(split.train),
        "profiles": [profiles(d, changed.train, secret, users, seed) for d in (split.train, changed.train)],
    }


def measure(given: argparse.Namespace) -> None:
    """Measure every combination, one line each, until the time is up."""
    start, split = time.time(), prepared(given.data)
    for seed in map(int, given.seeds.split(",")):
        for method in given.methods.split(";"):
            kept: dict[str, tuple] = {}
            for target in given.targets.split(","):
                if time.time() - start > given.limit:
                    return
                key = {"data": given.data, "model": given.model, "seed": seed, "target": target, "method": method}
                defense = METHODS[method]
                aimed = isinstance(defense, BlurMe) or getattr(defense, "which", "") == "telling"
                if (name := target if aimed else "") not in kept:
                    clock, train = time.perf_counter(), split.train
                    if defense is not None:
                        train = defense(train, [target], rng=make_generator(seed, "defense"))
                    seconds, changed = time.perf_counter() - clock, replace(split, train=train)
                    kept[name] = trained(changed, given, seed), changed, seconds
                tables, changed, seconds = kept[name]
                key |= {"machine": given.machine, "seconds": seconds}
                line = row(key, tables, changed, split, given)
                rows_of.write(given.log, line)
                reached = f"{np.mean(line['folds']):.3f} after {time.time() - start:.0f} s"
                print(given.data, seed, target, f"{method}:", reached, flush=True)


INTRODUCTION = """# Defenses of the data

Written by `python benchmarks/data_defenses.py --show ...` from rows that the same script measured ({machines}).

The training part is changed and the model trained again; the table of its user vectors is attacked by attackers who
learn on that same table. Columns as in [post_training.md](post_training.md); seconds are those of the defense, not of
the training. Lists leave out what the platform knows of a user, and no more: who forgot an interaction may recommend
the item again, and a test item that BlurMe or LDP happened to add to its user's profile is never recommended: a miss.
The interval of the change is over users; how much a training varies from seed to seed is not in it, so a change seen
with few seeds is to be doubted (on ML-100K the undefended model lay between 0.060 and 0.069 over six seeds).

The last four columns: NDCG@10 where lists leave out the true history instead; what logistic regression guesses from the
profiles themselves (users by items), learned from them as they were and then shown changed ones, which is BlurMe's
own setting, and learned from changed ones; and how many interactions there are, in multiples of the original.

AttrCloak's Table I is the lines `none` and `retrain` (gender on both data sets, age7 on ML-1M, location in six classes
on Last.fm). The poster gives gender 0.751 -> 0.728, age 0.604 -> 0.632, location 0.588 -> 0.609. Its NDCG@10 of 0.632
with an HR@10 of 0.610 cannot come from one held-out item, where NDCG is at most HR, so only the direction compares.
"""
EXTRA = ("NDCG@10, true history", "profiles, learned before", "profiles, learned after", "size")


def show(paths: str) -> None:
    """Print the rows as Markdown."""
    found = rows_of.read(paths.split(","))
    print(INTRODUCTION.format(machines=", ".join(sorted({r["machine"] for r in found}))))
    for group in dict.fromkeys((r["data"], r["model"], r["target"]) for r in found):
        mine = [r for r in found if (r["data"], r["model"], r["target"]) == group]
        names = [name for name in METHODS if any(r["method"] == name for r in mine)]
        head, rule, *lines = rows_of.table(mine, names).splitlines()
        print(f"\n## {', '.join(group)}\n\n{head} {' | '.join(EXTRA)} |\n{rule}{' --- |' * len(EXTRA)}")
        for name, text in zip(names, lines, strict=True):
            own = [(r["true_history"], *r["profiles"], r["size"]) for r in mine if r["method"] == name]
            quality, before, after, size = np.mean(own, axis=0)
            print(f"{text} {quality:.4f} | {before:.3f} | {after:.3f} | {size:.2f} |")


def main() -> None:
    """Measure, or show what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--model", default="bprmf")
    parser.add_argument("--targets", default="gender,age7")
    parser.add_argument("--methods", default=";".join(METHODS), help="between semicolons")
    parser.add_argument("--panel", default="fast", help="a forest is added where the panel has none")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--passes", type=int, help="over the data in training, for a quick try")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds after which no new row is begun")
    parser.add_argument("--device")
    parser.add_argument("--machine", default="two cores", help="in words, for the table")
    parser.add_argument("--log", default="data_defenses.jsonl")
    parser.add_argument("--show", help="files of rows, between commas")
    given = parser.parse_args()
    if given.show:
        show(given.show)
    else:
        measure(given)


if __name__ == "__main__":
    main()
