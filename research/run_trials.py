"""Try the settings of a plan on users who are attacked nowhere else, and on the validation items.

    python research/run_trials.py research/plans/raid2025_search_lightgcn.toml --out studies/search

Each cell of the plan becomes a trial: the attackers of the plan on the users that `unattacked` spares, and the change
of NDCG@10 of the validation items. Trials are stored as they end, so a second run goes on. The last line names, for
each model, the setting that loses least of NDCG@10 among those that leave the attacker within 0.03 of chance, as
`run_on_device.py` chooses it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from run_on_device import Results, Search

from recveil.studies.cells import Cell
from recveil.studies.plans import read_plan
from recveil.studies.runs import attempt_cell


def run_trial(results: Results, search: Search, plan: str, label: str, cell: Cell) -> None:
    """Run a trial unless it is stored, and print what came of it."""
    store = results.stores[plan]
    if cell.id in store.finished_ids():
        result = store.read_cell(cell.id)
    else:
        result = results.keep(plan, cell, attempt_cell(store.releases, cell))
    search.learn(cell, result)
    advantage, change = search.seen[cell.id]
    print(f"{cell.data}  {cell.label('model')}  {label}  {advantage:.3f}  {change:+.1f} %", flush=True)


def main() -> None:
    """Read the options and run the trials of one plan after another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--out", type=Path, default=Path("studies"))
    parser.add_argument("--size", choices=("full", "smoke"), default="full")
    options = parser.parse_args()
    plan = read_plan(options.plan, options.size)
    results, search = Results(options.out), Search.begin([plan])
    results.open(plan)
    for group, trials in search.trials.items():
        for label, cell in trials.items():
            run_trial(results, search, plan.name, label, cell)
        print(f"chosen for {' '.join(group)}: {search.choose(group)}", flush=True)


if __name__ == "__main__":
    main()
