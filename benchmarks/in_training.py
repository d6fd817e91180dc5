"""In-training defenses on ML-1M: RAID's Tables 2 and 3 (and 5), attackers and utility, as rows and as tables.

    RECVEIL_DATA=... python benchmarks/in_training.py --models dmf,ncf,lightgcn --targets gender,age3 --log rows.jsonl
    python benchmarks/in_training.py --show rows.jsonl > docs/results/in_training.md

One row for each model, seed, target and method; the seed is that of model, defense and folds. Methods after training
(PoT) act on the undefended model, with the settings that `benchmarks/post_training.py` chose; defenses in training
(InT) train the same model anew. Attacked are the users whom `post_training.py` never chose by. Models have 32
dimensions and no sense of time, as in the paper; an undefended model keeps its best pass on the validation items, a
defended one its last. `raid, eta 0` is a RAID training without the pull, carried by the same final map.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import time

import numpy as np
import rows as rows_of
from post_training import QUICK, settings_of

from recveil.attacks.attribute.battery import available
from recveil.catalog import ATTACKS, DEFENSES, MODELS, make, place_of
from recveil.core import Recommender, Split
from recveil.data.sources import load
from recveil.data.split import leave_one_out
from recveil.metrics.ranking import ndcg
from recveil.models.settings import SETTINGS
from recveil.protect import displacement, fitted, protect
from recveil.random import generator

ETAS = (0.0, 0.01, 0.03, 0.1, 0.3)
POST = {"noise": "DP-PoT", "u2u": "AU-PoT", "d2d": "AU-PoT", "sliced": "", "raid-pot": "", "adversarial-pot": "Adv-PoT"}
METHODS: dict[str, tuple[str, dict]] = {
    "none": ("", {}),
    **{name: (name, {}) for name in POST},
    **{name: (name, {}) for name in ("adversarial", "rap", "u2u-int", "d2d-int", "raid-paper")},
    **{f"raid, eta {eta:g}": ("raid", {"eta": eta}) for eta in ETAS},
}


def attackers(device: str | None) -> dict:
    """Half of the full panel, the stronger half: every row is another training, and time is short."""
    return {name: ATTACKS[name](device) for name in available((*QUICK, "svm-rbf"))}


def model_of(data: str, name: str, device: str | None) -> Recommender:
    """The model with the settings of the data set, 32 dimensions, no sense of time."""
    tuned = {k: v for k, v in SETTINGS.get(data, {}).get(name, {}).items() if k not in ("recency", "embedding_size")}
    return MODELS[name](**tuned, embedding_size=32, device=device)


class World:
    """One model, seed and data set: the undefended model, and the same one trained with a defense."""

    def __init__(self, given: argparse.Namespace, model: str, seed: int) -> None:
        self.given, self.name, self.seed = given, model, seed
        self.split: Split = leave_one_out(load(given.data))
        self.plain = model_of(given.data, model, given.device)
        start = time.perf_counter()
        self.plain.fit(self.split, rng=generator(seed, "train"))
        self.seconds = time.perf_counter() - start
        self.settings = settings_of(given.settings)

    def released(self, method: str, target: str) -> tuple[Recommender, np.ndarray, float]:
        """The model, its released user vectors, and the seconds: of the defense, or of the training with it."""
        name, options = METHODS[method]
        if not name:
            return self.plain, self.plain.user_vectors_, self.seconds
        place = place_of(name)
        secrets = [self.split.train.attributes[target]]
        chosen = self.settings.get(name, {}) if place == "embeddings" else {}
        defense = make("defense", name, DEFENSES[place], device=self.given.device, **chosen, **options)
        start = time.perf_counter()
        if place == "embeddings":
            rng = generator(self.seed, "cloak")
            x = protect(self.plain, self.split, defense, secrets, k=10, rng=rng).user_vectors
            return self.plain, x, time.perf_counter() - start
        model = model_of(self.given.data, self.name, self.given.device)
        fitted(model, self.split, secrets, training=defense, seed=self.seed)
        return model, model.user_vectors_, time.perf_counter() - start

    def row(self, method: str, target: str) -> dict:
        """All that is measured of one method."""
        model, x, seconds = self.released(method, target)
        secret = self.split.train.attributes[target]

        def score(users: np.ndarray) -> np.ndarray:
            return model.score(users, x[users])

        users = rows_of.others(len(x)) if self.given.data == "ml-1m" else np.arange(len(x))
        return {
            "data": self.given.data,
            "model": self.name,
            "seed": self.seed,
            "target": target,
            "method": method,
            "machine": self.given.machine,
            **rows_of.attacked(x, secret, users, attackers(self.given.device), self.seed),
            "seconds": seconds,
            "displacement": displacement(self.plain.user_vectors_, x) if model is self.plain else None,
            "valid": float(ndcg(rows_of.ranked(score, self.split, "valid"), 10).mean()),
            "ranks": rows_of.packed(rows_of.ranked(score, self.split)),
        }


def measure(given: argparse.Namespace) -> None:
    """Every combination, one line each, until the time is up."""
    start = time.time()
    for seed in map(int, given.seeds.split(",")):
        for model in given.models.split(","):
            world = World(given, model, seed)
            for target in given.targets.split(","):
                for method in given.methods.split(";"):
                    if time.time() - start > given.limit:
                        return
                    line = world.row(method, target)
                    rows_of.write(given.log, line)
                    level = f"{np.mean(line['folds']):.3f}, NDCG@10 on the validation items {line['valid']:.4f}"
                    print(model, seed, target, f"{method}: {level}, {time.time() - start:.0f} s", flush=True)


INTRODUCTION = """# In-training defenses

Written by `python benchmarks/in_training.py --show ...` from rows that the same script measured ({machines}).

Columns as in [post_training.md](post_training.md); the last two are the paired change of NDCG@10 against `sliced` after
training and against `raid, eta 0` (the same training and the same final map, without the pull), in per cent, with 95 %
intervals. RAID's tables: Original is `none`, DP-PoT `noise`, AU-PoT `u2u` and `d2d`, Adv-InT `adversarial`, RAID as its
paper has it `raid-paper`; `rap` is AttrCloak's baseline; `u2u-int`, `d2d-int`, `adversarial-pot` and `raid-pot` are the
other halves of Table 5. Seconds: of the defense (PoT), or of the whole training with it (InT). Nine attackers, not
eighteen: the stronger half of the full panel. Rows that are missing were not reached in the time there was. In these
rows `sliced` and the final map had 60 rounds; by default they now have 90 on tables of this size.
"""


def show(paths: str) -> None:
    """The rows as Markdown."""
    found = rows_of.read(paths.split(","))
    print(INTRODUCTION.format(machines=", ".join(sorted({r["machine"] for r in found}))))
    for group in dict.fromkeys((r["data"], r["model"], r["target"]) for r in found):
        mine = [r for r in found if (r["data"], r["model"], r["target"]) == group]
        names = [name for name in METHODS if any(r["method"] == name for r in mine)]
        head, rule, *lines = rows_of.table(mine, names).splitlines()
        print(f"\n## {', '.join(group)}\n\n{head} against sliced, % | against eta 0, % |\n{rule} --- | --- |")
        for name, text in zip(names, lines, strict=True):
            print(f"{text} {compared(mine, name, 'sliced')} | {compared(mine, name, 'raid, eta 0')} |")


def compared(rows: list[dict], method: str, other: str) -> str:
    """The paired change against another method, over the seeds that both have."""
    ours, theirs = ([r for r in rows if r["method"] == name] for name in (method, other))
    ours = [r for r in ours if any(r["seed"] == b["seed"] for b in theirs)]
    if method in (other, "none") or not ours:
        return ""
    c = rows_of.change(ours, theirs)
    return f"{c.value:+.1f} [{c.low:+.1f}, {c.high:+.1f}]"


def main() -> None:
    """Measure, or show what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--models", default="dmf,ncf,lightgcn")
    parser.add_argument("--targets", default="gender,age3")
    parser.add_argument("--methods", default=";".join(METHODS), help="between semicolons")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds after which no new row is begun")
    parser.add_argument("--device")
    parser.add_argument("--machine", default="two cores", help="in words, for the table")
    parser.add_argument("--settings", help="what the search of post_training.py found")
    parser.add_argument("--log", default="in_training.jsonl")
    parser.add_argument("--show", help="files of rows, between commas")
    given = parser.parse_args()
    if given.show:
        show(given.show)
    else:
        measure(given)


if __name__ == "__main__":
    main()
