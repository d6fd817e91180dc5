"""Choose hyper-parameters on the validation item, then measure the choice on the test item over three seeds.

    python benchmarks/search.py --data ml-1m --models ncf,lightgcn --jobs 4 --limit 500 --log search.jsonl

Each model's grid is tried with seed 0; the settings that rank the validation item best (NDCG@10) are run again with
seeds 1 and 2, and only then is the test item looked at. Winners are written down in `recveil/models/settings.py`.
"""

import argparse
import json
import multiprocessing
import os
import time
from pathlib import Path

GRIDS = {
    "bprmf": [{}, {"candidates": 16, "reg": 0.012, "embedding_size": 128, "learning_rate": 0.008}],
    "als": [
        {"embedding_size": d, "reg": reg, "weight": weight, "recency": 3.0}
        for d in (64, 128, 256)
        for reg in (0.001, 0.002, 0.004)
        for weight in (0.3, 1.0)
    ],
    "lightgcn": [
        {"candidates": 8, "learning_rate": rate, "reg": 1e-4, "epochs": 40, "recency": 3.0, "patience": 6}
        for rate in (0.03, 0.045)
    ],
}
_here: dict = {}


def prepare(data: str, device: str | None, threads: int) -> None:
    """Load the data once in each worker."""
    import torch

    from recveil.data.sources.catalog import load_dataset
    from recveil.data.splits import leave_one_out

    torch.set_num_threads(threads)
    _here.update(split=leave_one_out(load_dataset(data)), device=device)


def run(job: tuple) -> dict:
    """Train one model and measure it on the validation item and, for later, on the test item."""
    from recveil.core.random import make_generator
    from recveil.metrics.ranking import evaluate
    from recveil.models import MODELS

    name, options, seed, deadline = job
    found = {"model": name, "options": options, "seed": seed}
    if time.time() > deadline:
        return {**found, "skipped": "no time left"}
    start = time.time()
    try:
        model = MODELS.make(name, **options, device=_here["device"]).fit(
            _here["split"], rng=make_generator(seed, "train")
        )
    except Exception as error:  # noqa: BLE001 - a failed cell is shown, not hidden
        return {**found, "failed": f"{type(error).__name__}: {error}"[:300]}
    seconds = time.time() - start
    history = model.history_
    valid = max(history.valid) if history and history.valid else _valid(model)
    test = evaluate(model.score, _here["split"], ks=(10,))
    passes = {"passes": len(history.loss), "best": history.best} if history else {}
    numbers = {"hit_rate@10": test["hit_rate@10"].value, "ndcg@10": test["ndcg@10"].value}
    return {**found, "seconds": round(seconds, 1), "valid": valid, "test": numbers, **passes}


def _valid(model: object) -> float:
    from recveil.metrics.ranking import evaluate

    return evaluate(model.score, _here["split"], part="valid", ks=(10,))["ndcg@10"].value


def show(row: dict, log: str | None) -> None:
    """Print one line for people and log one for machines; the test item stays out of the printed line."""
    text = f"{row['model']:9} seed {row['seed']} {json.dumps(row['options'])} "
    text += row.get("failed") or row.get("skipped") or f"valid {row['valid']:.4f} {row['seconds']} s {row.get('best')}"
    print(text, flush=True)
    if log:
        with open(log, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def choose(tried: list[dict], name: str) -> dict | None:
    """Choose the settings of this model that ranked the validation item best."""
    return max((r for r in tried if r["model"] == name and "valid" in r), key=lambda r: r["valid"], default=None)


def main() -> None:
    """Search, choose, measure, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--models", default=",".join(GRIDS))
    parser.add_argument("--grids", help="JSON file: model -> list of options; instead of the grids written here")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for the search")
    parser.add_argument("--device")
    parser.add_argument("--log")
    given = parser.parse_args()
    grids = json.loads(Path(given.grids).read_text(encoding="utf-8")) if given.grids else GRIDS
    names = given.models.split(",")
    start = time.time()
    longest = max(len(grids[n]) for n in names)
    jobs = [(n, grids[n][i], 0, start + given.limit) for i in range(longest) for n in names if i < len(grids[n])]
    threads = max(1, (os.cpu_count() or 2) // given.jobs)
    context = multiprocessing.get_context("spawn")
    with context.Pool(given.jobs, prepare, (given.data, given.device, threads)) as pool:
        tried = []
        for row in pool.imap_unordered(run, jobs):
            show(row, given.log)
            tried.append(row)
        best = [r for r in (choose(tried, name) for name in names) if r]
        again = [(r["model"], r["options"], seed, start + 10 * given.limit) for seed in (1, 2) for r in best]
        final = best + pool.map(run, again, chunksize=1)
        for row in final[len(best) :]:
            show(row, given.log)
    print("\n| model | HR@10 | NDCG@10 | seconds | settings |\n| --- | --- | --- | --- | --- |")
    for row in best:
        mine = [r for r in final if r["model"] == row["model"] and "test" in r]
        hr, ndcg = (sum(r["test"][m] for r in mine) / len(mine) for m in ("hit_rate@10", "ndcg@10"))
        print(f"| {row['model']} | {hr:.4f} | {ndcg:.4f} | {row['seconds']} | {json.dumps(row['options'])} |")


if __name__ == "__main__":
    main()
