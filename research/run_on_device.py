"""Run the studies of the papers within a time limit, most wanted cells first, on one machine with a GPU or without.

    python research/run_on_device.py --seconds 540 --workers 20 --search --out studies

With `--search` settings of RAID and of other defenses are tried first, on users who are attacked nowhere else (plans
`raid2025_search*` and `raid2025_strengths`); as soon as one is chosen, the cells of the tables that it belongs to
follow. With `--rates` the learning rates of the profile are chosen before that (profile_rates.py). `--pack FILE` also
keeps all results in one archive, renewed every minute.

Undefended models, `adversarial` and `d2d` at the strengths of the plans need no search and fill the other workers. Each
cell is stored as it ends, as `recveil study run` stores it, so a later run of a plan with the same folder computes only
what is missing. Trained models stay in `--cache`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_sharing import start_sharing, stop_sharing
from profile_rates import PROFILE, apply_rates, choose_rates, submit_trainings

from recveil.defenses import DEFENSES
from recveil.studies.cell_results import CellResult
from recveil.studies.cells import Cell
from recveil.studies.plans import Plan, read_plan
from recveil.studies.runs import Outcome, attempt_cell
from recveil.studies.store import Store, create_store, describe_plan
from recveil.studies.trials import make_trial_cell

PLANS = Path(__file__).parent / "plans"
SEARCHES = ("raid2025_search", "raid2025_search_lightgcn", "raid2025_strengths")
DATA = "ml-1m"

MAX_ADVANTAGE = 0.06
"""Advantage up to which the paper's attacker counts as blind: balanced accuracy within 0.03 of one half."""

PACK_SECONDS = 60.0
"""Seconds between two archives of the results."""

HONEST_PANEL = "full"
PRINTED_PANEL = "tree,svm-rbf,naive-bayes,knn,forest,adaboost,boosting,mlp-1,mlp-2,mlp-3,mlp-4"
"""Attackers of Tables 6 to 8; XGBoost is not installed on every device."""

Job = tuple[int, str, Cell]
"""Rank (small ones first), name of the plan, and cell."""

Group = tuple[str, str, str]
"""Data set, model and method: trials among which one setting is chosen."""

Part = tuple[int, str, Mapping[str, Sequence[Any]]]
"""Rank, plan whose settings hold, and grid of some cells of a table."""


@dataclass
class Results:
    """Folders of results, one for each plan."""

    folder: Path
    stores: dict[str, Store] = field(default_factory=dict)

    def open(self, plan: Plan) -> Store:
        """Open the folder of a plan, and write the plan down in it."""
        if plan.name not in self.stores:
            self.stores[plan.name] = create_store(self.folder / plan.name)
        describe_plan(self.stores[plan.name], plan)
        return self.stores[plan.name]

    def keep(self, plan: str, cell: Cell, outcome: Outcome) -> CellResult | None:
        """Store what came of a cell."""
        if outcome.result is None:
            assert outcome.failure is not None
            self.stores[plan].write_failure(cell, outcome.failure)
            return None
        self.stores[plan].write_cell(outcome.result, outcome.timing)
        return outcome.result


@dataclass
class Search:
    """Trials of settings, and for each data set, model and method the setting that was chosen."""

    plans: dict[str, Plan]
    printed: Mapping[tuple[str, str], float]
    trials: dict[Group, dict[str, Cell]] = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)
    seen: dict[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def begin(cls, plans: Sequence[Plan]) -> Search:
        """Make the trials of these plans; ML-100K only has the model of the paper's Table 5."""
        search = cls({plan.name: plan for plan in plans}, read_printed_changes())
        for plan in plans:
            for cell in plan.cells():
                model, choice = cell.label("model"), cell.choice("defense")
                if cell.data != "ml-100k" or model == "ncf":
                    method = choice.name
                    trial = make_trial_cell(cell.at, cell.settings)
                    search.trials.setdefault((cell.data, model, method), {})[cell.label("defense")] = trial
                    search.origin[trial.id] = plan.name
        return search

    def list_jobs(self) -> Iterator[Job]:
        """List the trials: RAID's first, LightGCN's before the others because they train longest."""
        for (data, model, method), trials in self.trials.items():
            rank = 1 if method == "raid" else 5 if method in ("noise", "d2d") else 40
            rank += (model != "lightgcn") + 50 * (data == "ml-100k")
            yield from ((rank, self.origin[cell.id], cell) for cell in trials.values())

    def learn(self, cell: Cell, result: CellResult | None) -> None:
        """Take in a trial; a failed one can never be chosen."""
        advantage, change = float("inf"), float("-inf")
        if result is not None:
            advantage = max(r.estimate.value for r in result.records if r.attack == "headline")
            change = next(r.estimate.value for r in result.records if r.metric == "ndcg_change@10")
        self.seen[cell.id] = (advantage, change)

    def choose(self, group: Group) -> str | None:
        """Choose the setting of a method; None while trials are missing.

        Of RAID the blind one that loses least, else the most private one; of another method the one whose NDCG@10
        changes most nearly as printed.
        """
        if any(cell.id not in self.seen for cell in self.trials[group].values()):
            return None
        by_label = {label: self.seen[cell.id] for label, cell in self.trials[group].items()}
        if "raid" in group[2]:
            return min(by_label, key=lambda label: (max(by_label[label][0], MAX_ADVANTAGE), -by_label[label][1]))
        printed = self.printed.get((group[1], group[2]), 0.0)
        return min(by_label, key=lambda label: abs(by_label[label][1] - printed))

    def find_entry(self, group: Group, label: str) -> dict[str, Any] | str:
        """Find the chosen setting as its plan has it."""
        plan = self.plans[self.origin[self.trials[group][label].id]]
        entries: list[dict[str, Any] | str] = plan.raw["grid"]["defense"] + plan.raw["smoke"].get("defense", [])
        return next(each for each in entries if each == label or (isinstance(each, dict) and each["label"] == label))


def read_printed_changes() -> dict[tuple[str, str], float]:
    """Read by how much the paper's NDCG@10 of ML-1M changes under each method, in per cent, protecting gender."""
    plan = read_plan(PLANS / "raid2025_table3.toml")
    numbers = [n for n in plan.published if (n.data, n.target, n.metric) == (DATA, "gender", "ndcg@10")]
    printed = {(n.model, n.defense.partition(",")[0]): n.value or 0.0 for n in numbers}
    return {(model, method): 100 * (v / printed[model, "none"] - 1) for (model, method), v in printed.items()}


def make_table_plan(name: str, group: Group, table: str, grid: Mapping[str, Any]) -> Plan:
    """Make a plan of one setting, with cells that are those of a table."""
    data, model, _ = group
    raw = {
        "title": f"Chosen settings: {model} on {data}",
        "kind": "attribute",
        "grid": {"data": [data], "model": [model], "panel": ["raid-mlp"], "seed": [0], **grid},
        "settings": read_plan(PLANS / f"raid2025_{table}.toml").raw["settings"],
    }
    return Plan.parse(raw, name=name)


def list_parts(group: Group, defense: dict[str, Any] | str, label: str) -> list[Part]:
    """List the cells of the tables that a setting belongs to, most wanted first."""
    data, model, method = group
    if data != DATA:
        return [(50, "table2", {"target": ["gender"], "seed": [0, 1, 2]})]
    both = ["gender", "age3"]
    parts: list[Part] = [(6, "table2", {"target": both, "seed": [0, 1, 2]})]
    if model == "ncf":
        parts.append((9, "table10", {"target": both, "leak_ratio": [0.2, 0.4, 0.6, 0.8], "panel": ["mlp-2"]}))
    if model == "dmf":
        parts.append((11, "table6", {"target": both, "panel": [PRINTED_PANEL]}))
    if method == "raid" and isinstance(defense, dict):
        renewals = [{**defense, "xi": xi, "label": f"{label}, xi {xi}"} for xi in (1, 2, 3)]
        parts.append((12, "table2", {"target": ["gender"], "defense": renewals}))
        parts.append((30, "table6", {"target": ["gender"], "panel": [HONEST_PANEL]}))
        defense = {**defense, "several": "sequential", "label": f"{label}, one after the other"}
    if model == "dmf":
        parts.append((13, "table11", {"target": ["gender+age3"], "defense": [defense], "panel": ["mlp-2"]}))
    return parts


def list_table_jobs(
    results: Results, group: Group, defense: dict[str, Any] | str, label: str, *, sooner: int = 0
) -> Iterator[Job]:
    """List the cells of a setting; other seeds and age come later."""
    data, model, method = group
    for number, (rank, table, grid) in enumerate(list_parts(group, defense, label)):
        name = f"raid2025_chosen_{model}_{method}_{data}_{number}"
        plan = make_table_plan(name, group, table, {"defense": [defense], **grid})
        results.open(plan)
        for cell in plan.cells():
            later = (3 if method in ("raid", "none") else 15) * (cell.seed > 0) + (cell.target != "gender")
            yield rank - sooner + later, plan.name, cell


def list_fixed_jobs(results: Results) -> Iterator[Job]:
    """List the cells that need no search: undefended models first, and Table 5."""
    for model in ("lightgcn", "ncf", "dmf"):
        yield from list_table_jobs(results, (DATA, model, "none"), "none", "none", sooner=6)
        yield from list_table_jobs(results, (DATA, model, "adversarial"), "adversarial", "adversarial", sooner=3)
        d2d = {"name": "d2d", "label": "d2d", "weight": 0.1}
        yield from list_table_jobs(results, (DATA, model, "default-d2d"), d2d, "d2d")
    defenses = ["none", "d2d", "adversarial-pot", "raid-pot", "d2d-int", "adversarial"]
    group = ("ml-100k", "ncf", "table 5")
    plan = make_table_plan("raid2025_part_of_table5", group, "table5", {"defense": defenses, "target": ["gender"]})
    results.open(plan)
    yield from ((50, plan.name, cell) for cell in plan.cells())


def name_training(cell: Cell) -> str:
    """Name the training that a cell waits for: a second cell of the same training would only wait."""
    defense = cell.choice("defense")
    key = [cell.data, cell.at["model"], cell.seed, cell.settings.get("profile")]
    if not defense.is_undefended and DEFENSES.traits(defense.name).place == "training":
        key += [cell.at["defense"], cell.target]
    return repr(key)


def run_job(cache: Path, rates: Mapping[str, float], job: Job) -> Outcome:
    """Run one cell in a worker, on one core; the profile has these learning rates."""
    import torch

    torch.set_num_threads(1)
    apply_rates(rates)
    return attempt_cell(cache, job[2])


def start_pool(workers: int) -> ProcessPoolExecutor:
    """Start the workers, each a process of its own."""
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


def run_all(options: argparse.Namespace, results: Results) -> None:
    """Keep the workers busy with the most wanted cells until the time is over, then end them."""
    end = time.monotonic() + options.seconds
    queue: list[Job] = list(list_fixed_jobs(results)) if options.size == "full" else []
    search = None
    if options.search:
        search = Search.begin([read_plan(PLANS / f"{name}.toml", options.size) for name in SEARCHES])
        for searched in search.plans.values():
            results.open(searched)
        queue += search.list_jobs()
    queue = [
        job for job in queue if not options.only or options.only in f"{job[1]} {job[2].data} {job[2].label('model')}"
    ]
    opened = set[Group]()
    finished = set[str]().union(*(store.finished_ids() for store in results.stores.values()))
    started = {cell.id for _, _, cell in queue if cell.id in finished}
    trained = set[str]()
    running: dict[Future[Outcome], Job] = {}
    begun = packed = time.monotonic()
    pool = start_pool(options.workers)
    trainings = submit_trainings(pool, options.cache) if options.rates else {}
    rates: dict[str, float] = {}
    try:
        while time.monotonic() < end:
            open_trainings = [future for future in trainings.values() if not future.done()]
            if trainings and not open_trainings:
                rates, trainings = choose_rates(trainings), {}
                print(f"{time.monotonic() - begun:6.0f} s  learning rates: {rates}", flush=True)
            queue = [job for job in sorted(queue, key=lambda job: job[0]) if job[2].id not in started]
            ready = [job for job in queue if not trainings or job[2].rules.profile != PROFILE]
            in_training = {name_training(job[2]) for job in running.values()} - trained
            for job in ready:
                if len(running) + len(open_trainings) >= options.workers:
                    break
                if job[2].id not in started and name_training(job[2]) not in in_training:
                    started.add(job[2].id)
                    in_training |= {name_training(job[2])} - trained
                    running[pool.submit(run_job, options.cache, rates, job)] = job
            if not running and not open_trainings:
                break
            left = min(PACK_SECONDS, end - time.monotonic())
            waiting: list[Future[Any]] = [*running, *open_trainings]
            done, _ = wait(waiting, timeout=max(0.0, left), return_when=FIRST_COMPLETED)
            for future in done & running.keys():
                rank, plan, cell = running.pop(future)
                try:
                    outcome = future.result()
                except BrokenProcessPool:  # a worker died, of memory or of the device: what ran is begun again
                    print("a worker died; the pool starts again", flush=True)
                    started -= {job[2].id for job in [*running.values(), (rank, plan, cell)]}
                    queue += [*running.values(), (rank, plan, cell)]
                    running, pool = {}, start_pool(options.workers)
                    break
                trained.add(name_training(cell))
                result = results.keep(plan, cell, outcome)
                report(time.monotonic() - begun, rank, plan, cell, outcome)
                if search is not None and plan in SEARCHES:
                    search.learn(cell, result)
            packed = pack_results(results.folder, options.pack, packed)
            for group in [g for g in (search.trials if search else ()) if g not in opened]:
                assert search is not None
                label = search.choose(group)
                if label is not None:
                    opened.add(group)
                    print(f"chosen for {' '.join(group)}: {label}", flush=True)
                    if options.size == "full":
                        queue += list_table_jobs(results, group, search.find_entry(group, label), label)
    finally:
        for process in list((pool._processes or {}).values()):  # noqa: SLF001 - the pool has no way to end running work
            process.kill()
        pool.shutdown(wait=False, cancel_futures=True)
        pack_results(results.folder, options.pack, float("-inf"))
        print(f"{len(running)} cells were cut off, {len(queue)} not begun", flush=True)


def pack_results(folder: Path, archive: Path | None, last: float) -> float:
    """Pack all results into one file if the last time is a minute ago, whole or not at all; return the time."""
    now = time.monotonic()
    if archive is None or now - last < PACK_SECONDS:
        return last
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive.with_suffix(".part"), "w:gz", compresslevel=3) as pack:
        pack.add(folder, arcname=folder.name)
    os.replace(archive.with_suffix(".part"), archive)
    return now


def report(seconds: float, rank: int, plan: str, cell: Cell, outcome: Outcome) -> None:
    """Print one line for a finished cell: what it is and its main numbers."""
    names = [str(each["name"]) if isinstance(each, Mapping) else str(each) for each in cell.at.values()]
    line: dict[str, Any] = {}
    if outcome.failure is not None:
        line = {"failed": outcome.failure.error[:200]}
    elif outcome.result is not None:
        wanted = ("ndcg@10", "ndcg_change@10")
        line = {r.metric: round(r.estimate.value, 4) for r in outcome.result.records if r.metric in wanted}
        scores = [r for r in outcome.result.records if r.metric in ("balanced_accuracy", "advantage")]
        line |= {
            f"{r.attack} {r.target}": round(r.estimate.value, 3) for r in scores if r.attack in ("headline", "raid-mlp")
        }
        line["s"] = {step: round(took) for step, took in outcome.timing.seconds.items()}
    print(f"{seconds:6.0f} s  {rank}  {plan}  {' '.join(names)}  {line}", flush=True)


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=520.0)
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("studies"))
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "recveil_models")
    parser.add_argument("--rates", action="store_true", help="choose the learning rates of the profile first")
    parser.add_argument("--search", action="store_true", help="search RAID's settings first")
    parser.add_argument("--pack", type=Path, help="one archive of all results, renewed every minute")
    parser.add_argument("--only", default="", help="only first jobs with this text in their plan, data and model")
    parser.add_argument("--size", choices=("full", "smoke"), default="full")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    options.out.mkdir(parents=True, exist_ok=True)
    shared = start_sharing(options.cache / "mps")
    print(f"GPU shared by NVIDIA's service: {shared}", flush=True)
    try:
        run_all(options, Results(options.out))
    finally:
        if shared:
            stop_sharing()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # killed workers leave threads of the pool behind that would wait for them
