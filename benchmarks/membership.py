"""Membership inference: shadow x target grids, ablation, generators, defense, checks; and the time of DL-MIA.

    RECVEIL_DATA=... python benchmarks/membership.py --part heat --data ml-1m --kind general --log rows.jsonl
    RECVEIL_DATA=... python benchmarks/membership.py --part ablation --seeds 0 1 2 3 4 --log rows.jsonl
    python benchmarks/membership.py --show rows.jsonl > research/results/membership.md
    RECVEIL_DATA=... python benchmarks/membership.py --part null --data ml-100k --runs 100 --log rows.jsonl
    RECVEIL_DATA=... python benchmarks/membership.py --part power --data ml-100k --seeds 0 1 2 --log rows.jsonl
    RECVEIL_DATA=... python benchmarks/membership.py --part features --pairs lfm:ncf --out research/results
    python benchmarks/membership.py --part speed [--device cuda] [--threads 1]

One row for each data set, kind, seed, policy, shadow, target and game. Users are split in three by the seed; each model
is trained once for each side and serves by every policy. Rows that are in the log already are not made again, and with
`--cache DIR` neither are lists. `--limit` ends the run before the first row that would begin after so many seconds.
`--epochs bert4rec=10` overrides the options tuned for the data set, which `recveil membership` uses as well.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import rows as rows_of
import torch
from membership_checks import log_attacks, null, power

from recveil.attacks.membership.biased import Biased
from recveil.attacks.membership.dlmia import DLMIA, ENCODERS
from recveil.attacks.membership.item_texts import encode_item_texts
from recveil.audits.membership.audit import run_membership_attacks
from recveil.audits.membership.game import build_game
from recveil.audits.membership.platforms import (
    NONMEMBER_SERVING,
    ServedPlatform,
    ServingPolicy,
    compare_nonmember_hits,
    defend_lists,
    factor_items,
    measure_hit_rates,
    train_and_serve,
)
from recveil.core.random import make_generator
from recveil.core.types import Shadow, Watched
from recveil.data.io.membership_files import read_texts
from recveil.data.member_split import MemberSplit, split_three_ways
from recveil.data.sources.catalog import load_dataset_or_demo
from recveil.defenses.lists.popularity import Popularity
from recveil.models import MODELS
from recveil.models.construction import find_tuned_options
from recveil.models.lfm import LFM

KINDS = {"general": ("itemknn", "lfm", "ncf"), "sequential": ("gru4rec", "caser", "bert4rec")}
MINIMUMS = {"general": (20, 1), "sequential": (5, 5)}
POOL = {"general": 1000, "sequential": 800}
ITEMS, HISTORY, LISTED = 3_000, 100, 100


class Once:
    """A model that is trained at its first fit and then stays as it is."""

    def __init__(self, model: object) -> None:
        self.model, self.trained = model, False

    def fit(self, split: object, *, rng: np.random.Generator) -> "Once":
        """Train the model the first time; the data are the same every time."""
        if not self.trained:
            self.model.fit(split, rng=rng)
            self.trained = True
        return self

    def __getattr__(self, name: str) -> object:
        return getattr(self.model, name)


class Blank:
    """A stand-in for a model whose lists are known."""

    def fit(self, split: object, *, rng: np.random.Generator) -> "Blank":
        """Learn nothing but the size of the catalog."""
        self.items = split.train.n_items
        return self

    def score(self, users: np.ndarray) -> np.ndarray:
        """Score all items alike."""
        return np.zeros((len(users), self.items))


@dataclass
class Stage:
    """The users of a data set split by one seed, and the lists served to them."""

    data: str
    kind: str
    seed: int
    given: argparse.Namespace
    parts: MemberSplit = field(init=False)
    vectors: np.ndarray = field(init=False)
    models: dict = field(default_factory=dict)
    lists: dict = field(default_factory=dict)

    def __post_init__(self) -> None:
        users, items = MINIMUMS[self.kind]
        users = self.given.user_minimum or users
        rng = make_generator(self.seed, "parts")
        data = load_dataset_or_demo(self.data, seed=self.seed)
        self.parts = split_three_ways(data, user_minimum=users, item_minimum=items, rng=rng)
        start = time.perf_counter()
        model = LFM(device=self.given.device)
        self.vectors = factor_items(self.parts.item_part, model, rng=make_generator(self.seed, "items"))
        said = f"{self.data} {self.kind} seed {self.seed}: {self.parts.filtered}"
        print(f"{said}; item vectors {time.perf_counter() - start:.0f} s", flush=True)

    def served(self, model: str, side: str, policy: str) -> ServedPlatform:
        """Return the lists of this model on this side: from memory, from the cache, or trained now."""
        key = (model, side, policy)
        if key not in self.lists:
            self.lists[key] = self._serve(*key)
        return self.lists[key]

    def _serve(self, model: str, side: str, policy: str) -> ServedPlatform:
        world, rule = getattr(self.parts, side), ServingPolicy(policy, k=self.given.k)
        name = f"{self.data}-{self.kind}-{self.seed}-{model}-{side}-{policy}-{self.given.k}.npy"
        kept = self.given.cache and Path(self.given.cache) / name
        if kept and kept.exists():
            stand_in = train_and_serve(
                world, Blank(), replace(rule, nonmembers="popular"), self.vectors, rng=make_generator(0, "none")
            )
            return replace(stand_in, watched=replace(stand_in.watched, lists=np.load(kept)), policy=rule)
        start, cpu = time.perf_counter(), time.process_time()
        trained = self.models.setdefault((model, side), Once(self._made(model)))
        found = train_and_serve(world, trained, rule, self.vectors, rng=make_generator(self.seed, side, model))
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        print(f"{name}: wall {wall:.0f} s, CPU {cpu:.0f} s; load {os.getloadavg()[0]:.1f}", flush=True)
        if kept:
            np.save(kept, found.watched.lists)
        return found

    def _made(self, model: str) -> object:
        options = {**find_tuned_options(model, self.data), "device": self.given.device}
        chosen = dict(pair.split("=") for pair in self.given.epochs)
        return MODELS.make(model, **options | ({"epochs": int(chosen[model])} if model in chosen else {}))


def played(stage: Stage, shadow: ServedPlatform, target: ServedPlatform, attacks: dict) -> dict:
    """Play one game; return the results of the attacks and the hit rates of the lists."""
    start = time.perf_counter()
    audit = run_membership_attacks(build_game(shadow, target), attacks, seed=stage.seed, jointly=False)
    hits = measure_hit_rates(target)
    worth = {"members": hits.members.to_dict(), "others": hits.non_members.to_dict()}
    seconds = round(time.perf_counter() - start, 1)
    rows = log_attacks(audit)
    return {"n": len(audit.users), "attacks": rows, "utility": worth, "notes": audit.notes, "seconds": seconds}


def heat(stage: Stage) -> Iterator[tuple[dict, object]]:
    """Yield every shadow against every target, by both policies."""
    models = stage.given.models or KINDS[stage.kind]
    attacks = {"biased": Biased(device=stage.given.device), "dlmia": DLMIA(device=stage.given.device)}
    for policy, target, shadow in itertools.product(stage.given.policies, models, models):
        yield (
            {"policy": policy, "shadow": shadow, "target": target},
            lambda s=shadow, t=target, p=policy: played(stage, *pair(stage, s, t, p), attacks),
        )


def ablation(stage: Stage) -> Iterator[tuple[dict, object]]:
    """Yield DL-MIA, whole and without each part."""
    full = DLMIA(device=stage.given.device)
    attacks = {"biased": Biased(device=stage.given.device), "dlmia": full, "no-reweight": replace(full, reweight=False)}
    attacks |= {name: replace(full, encoder=name) for name in ENCODERS if name != "dual"}
    for policy, (shadow, target) in itertools.product(stage.given.policies, pairs(stage)):
        yield (
            {"policy": policy, "shadow": shadow, "target": target},
            lambda s=shadow, t=target, p=policy: played(stage, *pair(stage, s, t, p), attacks),
        )


def generators(stage: Stage) -> Iterator[tuple[dict, object]]:
    """Yield games with item vectors from matrix factorization, and from hashed titles."""
    where = stage.given.texts or Path(os.environ["RECVEIL_DATA"]) / stage.data / "items.parquet"
    titles = encode_item_texts(read_texts(Path(where), stage.parts.item_part.item_ids))
    attacks = {"biased": Biased(device=stage.given.device), "dlmia": DLMIA(device=stage.given.device)}

    def look(shadow: str, target: str, policy: str, vectors: np.ndarray) -> dict:
        seen = [
            replace(s, watched=replace(s.watched, item_vectors=vectors)) for s in pair(stage, shadow, target, policy)
        ]
        return played(stage, seen[0], seen[1], attacks)

    kinds = {"factors": stage.vectors, "hashed titles": titles}
    for policy, (shadow, target), name in itertools.product(stage.given.policies, pairs(stage), kinds):
        yield (
            {"policy": policy, "shadow": shadow, "target": target, "vectors": name},
            lambda s=shadow, t=target, p=policy, v=kinds[name]: look(s, t, p, v),
        )


def defense(stage: Stage) -> Iterator[tuple[dict, object]]:
    """Yield games without the defense, against a static attacker, and against an adaptive one."""
    attacks = {"biased": Biased(device=stage.given.device), "dlmia": DLMIA(device=stage.given.device)}
    method = Popularity(stage.given.pool or POOL[stage.kind])

    def play(shadow: str, target: str, policy: str, game: str) -> dict:
        known, seen = pair(stage, shadow, target, policy)
        hidden = (
            seen
            if game == "undefended"
            else defend_lists(seen, method, rng=make_generator(stage.seed, "defense", "target"))
        )
        if game == "adaptive":
            known = defend_lists(known, method, rng=make_generator(stage.seed, "defense", "shadow"))
        return {**played(stage, known, hidden, attacks), "others_lost": compare_nonmember_hits(seen, hidden).to_dict()}

    games = ("undefended", "static", "adaptive")
    for policy, (shadow, target), game in itertools.product(stage.given.policies, pairs(stage), games):
        yield (
            {"policy": policy, "shadow": shadow, "target": target, "game": game},
            lambda s=shadow, t=target, p=policy, g=game: play(s, t, p, g),
        )


def pairs(stage: Stage) -> list[list[str]]:
    """List shadow and target of each requested setting."""
    return [text.split(":") for text in stage.given.pairs or ["{1}:{2}".format(*KINDS[stage.kind])]]


def pair(stage: Stage, shadow: str, target: str, policy: str) -> tuple[ServedPlatform, ServedPlatform]:
    """Return both platforms of a setting."""
    return stage.served(shadow, "shadow", policy), stage.served(target, "target", policy)


def on_stages(part: Callable[[Stage], Iterator[tuple[dict, object]]]) -> Callable[..., Iterator[tuple[dict, object]]]:
    """Make a part that is played on one stage for each seed."""

    def play(given: argparse.Namespace) -> Iterator[tuple[dict, object]]:
        for seed in given.seeds:
            for key, one in part(Stage(given.data, given.kind, seed, given)):
                yield {"seed": seed, **key}, one

    return play


PARTS = {one.__name__: on_stages(one) for one in (heat, ablation, generators, defense)} | {"null": null, "power": power}


def features(given: argparse.Namespace) -> None:
    """Draw one setting into a folder, and log how far apart its clouds are."""
    import membership_features as pictures

    stage = Stage(given.data, given.kind, given.seeds[0], given)
    (shadow, target), policy = pairs(stage)[0], given.policies[0]
    known, seen = pair(stage, shadow, target, policy)
    own = np.full((len(seen.popularity), stage.models[target, "target"].item_vectors_.shape[1]), np.nan)
    own[seen.popularity > 0] = stage.models[target, "target"].item_vectors_
    clouds = pictures.panels(known, seen, own, stage.seed, given.device)
    for name, both in clouds.items():
        svg = pictures.picture(both, name.replace("-", " "), stage.seed)
        Path(given.out, f"membership-{name}.svg").write_text(svg, encoding="utf-8")
    key = {"part": "features", "data": given.data, "kind": given.kind, "seed": stage.seed, "policy": policy}
    told = {name: pictures.apart(both) for name, both in clouds.items()}
    rows_of.write(given.log, {**key, "shadow": shadow, "target": target, "n": len(seen.member), "apart": told})
    print(told)


def measure(given: argparse.Namespace) -> None:
    """Measure all rows of one part that the log does not hold yet."""
    start = time.perf_counter()
    world = {"part": given.part, "data": given.data, "kind": given.kind}
    done = [] if not Path(given.log).exists() else rows_of.read([given.log])
    for key, play in PARTS[given.part](given):
        if any(all(row.get(name) == value for name, value in {**world, **key}.items()) for row in done):
            continue
        if time.perf_counter() - start > given.limit:
            print("out of time: run again to go on", flush=True)
            return
        row = {**world, **key, **play()}
        rows_of.write(given.log, row)
        best = {name: round(one["auc"]["value"], 3) for name, one in row["attacks"].items()}
        print(key, best, f"{row['seconds']} s", flush=True)


def speed(given: argparse.Namespace) -> None:
    """Time one DL-MIA setting with each encoder: wall seconds, and CPU seconds of the process.

    A short training goes first, so that no row pays for starting up the device.
    """
    rng = make_generator(0, "worlds")
    vectors = rng.standard_normal((ITEMS, given.dims)).astype(np.float32)
    known, target = made_up(given.users, vectors, rng), made_up(given.users, vectors, rng).watched
    attacks = {name: DLMIA(encoder=name, device=given.device) for name in given.encoders}
    seconds(replace(next(iter(attacks.values())), pretrain=2, alternate=2), known, target)
    where = f"{given.device}, {given.threads} thread(s); load of the machine {os.getloadavg()[0]:.1f}"
    print(f"{given.users:,} + {given.users:,} users, d = {given.dims}, {where} on {os.cpu_count()} cores\n")
    print("| encoder | wall s | CPU s |\n| --- | --- | --- |")
    for name, one in attacks.items():
        wall, cpu = seconds(one, known, target)
        print(f"| {name} | {wall:.1f} | {cpu:.1f} |", flush=True)


def made_up(users: int, vectors: np.ndarray, rng: np.random.Generator) -> Shadow:
    """Make users with random histories and lists; half of them are members."""
    histories = rng.integers(ITEMS, size=(users, HISTORY))
    lists = rng.integers(ITEMS, size=(users, LISTED))
    return Shadow(Watched(list(histories), lists, vectors), np.arange(users) % 2 == 0)


def seconds(one: DLMIA, known: Shadow, target: Watched) -> tuple[float, float]:
    """Return wall and CPU seconds of fitting and scoring; the scores are on the CPU, so the device is done."""
    wall, cpu = time.perf_counter(), time.process_time()
    one.fit([known], reference=target, rng=make_generator(0, "attack")).score(target)
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    """Measure a part, time DL-MIA, or show what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=[*PARTS, "features", "speed"], default="speed")
    parser.add_argument("--show", nargs="+", metavar="LOG")
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--kind", choices=KINDS, default="general")
    parser.add_argument("--models", nargs="+", choices=list(MODELS))
    parser.add_argument("--pairs", nargs="+", metavar="SHADOW:TARGET")
    parser.add_argument("--policies", nargs="+", choices=NONMEMBER_SERVING, default=list(NONMEMBER_SERVING))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--epochs", nargs="+", default=[], metavar="MODEL=N")
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--pool", type=int)
    parser.add_argument("--user-minimum", type=int)
    parser.add_argument("--texts", help="item_id, title; items.parquet of the data set if not given")
    parser.add_argument("--log", default="membership.jsonl")
    parser.add_argument("--out", default="research/results", help="folder for pictures")
    parser.add_argument("--cache", help="folder for lists")
    parser.add_argument("--limit", type=float, default=float("inf"))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=100, help="of the null")
    parser.add_argument("--users", type=int, default=2_000)
    parser.add_argument("--dims", type=int, default=100)
    parser.add_argument("--encoders", nargs="+", default=list(ENCODERS), choices=ENCODERS)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if given.show:
        import membership_tables

        print(membership_tables.page(rows_of.read(given.show)))
        return
    if given.cache:
        Path(given.cache).mkdir(exist_ok=True)
    {"speed": speed, "features": features}.get(given.part, measure)(given)


if __name__ == "__main__":
    main()
