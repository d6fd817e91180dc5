"""Lists of a cloaked table: what attackers find before and after `decoys`, and what it costs.

    python benchmarks/lists.py --tables ml-1m:bprmf:gender ml-1m:puresvd:gender:embedding_size=48 --seeds 0 1 2 > lines

RECVEIL_DATA names the folder with the data sets. Each line is one JSON object: one table and one seed (of the model, of
the cloak, of the decoys and of the folds). Lists of ten come from the vectors undefended and cloaked, and from the
cloaked ones with decoys; each is attacked by what it lists, by what it omits, and together with its vectors. Changes of
NDCG@10 are in per cent: of the cloak against the undefended lists, and of the decoys against the cloaked lists.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from recveil.attacks.attribute.panels import parse_attackers
from recveil.attacks.attribute.surfaces import build_view
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.random import make_generator
from recveil.core.types import FloatArray, Split
from recveil.data.sources.catalog import load_dataset
from recveil.data.splits import leave_one_out
from recveil.metrics.ranking import ndcg
from recveil.models.construction import make_model
from recveil.workflows.comparison import view_with_heads
from recveil.workflows.defended_lists import ListMaker, ListRequest
from recveil.workflows.defended_release import ChosenDefense, defend_vectors
from recveil.workflows.utility import Recommendations

SURFACES = ("user_vectors", "vectors_and_heads", "lists", "omissions", "vectors_and_lists")

OF_VECTORS = ("user_vectors", "vectors_and_heads")


def train_vectors(spec: str, split: Split, seed: int, given: argparse.Namespace) -> tuple[FloatArray, FloatArray]:
    """Train the model of a table, or read the vectors that an earlier run kept."""
    name, model_name, _, *rest = spec.split(":")
    options = {key: int(value) for key, value in (text.split("=") for text in rest)}
    path = None if given.keep is None else Path(given.keep) / f"{spec.replace(':', '-')}-{seed}.npz"
    if path is not None and path.is_file():
        with np.load(path) as kept:
            return kept["users"], kept["items"]
    model = make_model(model_name, name, options, given.device).fit(split, rng=make_generator(seed, "train"))
    if path is not None:
        np.savez(path, users=model.user_vectors_, items=model.item_vectors_)
    return model.user_vectors_, model.item_vectors_


def measure_table(spec: str, seed: int, given: argparse.Namespace) -> dict[str, object]:
    """Train, cloak, draw decoys and attack one table."""
    warnings.simplefilter("ignore")
    name, _, target, *_ = spec.split(":")
    dataset = load_dataset(name)
    split, secret = leave_one_out(dataset), dataset.attributes[target]
    x, items = train_vectors(spec, split, seed, given)
    clock = time.perf_counter()
    served = Recommendations(split, lambda users, v: np.asarray(v @ items.T), items, np.arange(len(x)))
    method, heads = ChosenDefense(given.method).make(given.device), partial(view_with_heads, served, seed=seed)
    cloaked = defend_vectors(method, x, [secret], seed=seed, view=heads)
    maker = ListMaker(served, cloaked, [secret], ListRequest(Path("lists.parquet"), strength=given.strength), seed, x)
    seen, start = served.collect_seen_items(), time.perf_counter()
    omitted = maker.omit_items(seen)
    seconds = [round(start - clock, 1), round(time.perf_counter() - start, 1)]
    releases = {
        "undefended": served.make_release(x, 10),
        "cloaked": served.make_release(cloaked, 10),
        "decoys": served.make_release(cloaked, 10, omitted=omitted),
    }
    gains = [ndcg(served.rank_test_items(*pair), 10) for pair in ((x, seen), (cloaked, seen), (cloaked, omitted))]
    panel, rules = parse_attackers(given.panel, given.device), CrossValidation(5, given.repeats, max_repeats=1)
    row: dict[str, object] = {"table": spec, "seed": seed, "shape": x.shape, "method": given.method}
    for label, release in releases.items():
        for surface in SURFACES:
            if label not in given.releases or (label == "decoys" and surface in OF_VECTORS):
                continue  # decoys have the same vectors as cloaked
            view = build_view(replace(release), surface, rng=make_generator(seed, "view"))
            audit = audit_attribute(view, secret, panel, rules=rules, seed=seed + 1_000)
            advantage = audit.headline.advantage
            row[f"{label} {surface}"] = [round(v, 3) for v in (advantage.value, advantage.low, advantage.high)]
    row["ndcg"] = round(float(gains[0].mean()), 4)
    row["cloak_change"] = estimate_change(gains[0], gains[1])
    row["decoys_change"] = estimate_change(gains[1], gains[2])
    return row | {"decoys": round((omitted.nnz - seen.nnz) / len(x), 1), "seconds": seconds}


def estimate_change(before: FloatArray, after: FloatArray) -> list[float]:
    """Return the paired change in per cent, and the half-width of its 95 % interval."""
    change = after - before
    error = 196 * change.std() / np.sqrt(len(change)) / before.mean()
    return [round(100 * float(change.mean() / before.mean()), 2), round(float(error), 2)]


def _measure_safely(job: tuple[str, int, argparse.Namespace]) -> dict[str, object]:
    try:
        return measure_table(*job)
    except Exception as error:  # noqa: BLE001, one table that fails must not end the others
        return {"table": job[0], "seed": job[1], "error": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Print the lines of the tables that were named."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tables", nargs="+", required=True, help="data:model:attribute[:option=number]")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--method", default="sliced", help="cloak under the lists")
    parser.add_argument("--strength", type=float, default=1.0, help="strength of the decoys")
    parser.add_argument("--panel", default="logistic,mlp,kernel-ridge,trees")
    parser.add_argument("--releases", nargs="+", default=["undefended", "cloaked", "decoys"], help="what is attacked")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--keep", default=None, help="folder for trained vectors")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    jobs = [(spec, seed, given) for seed in given.seeds for spec in given.tables]
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        for row in pool.imap_unordered(_measure_safely, jobs):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
