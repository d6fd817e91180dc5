"""A search over the knobs of a defense for two aims at once: less advantage for the attacker, less loss of ranking.

Trials are cells like any others: kept in the folder as they finish, so a search goes on where it was stopped, with the
same settings in the same order, on one machine or on many. What is chosen is audited once, on users and items that the
search never saw.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from recveil.core.errors import MissingExtra, UsageError
from recveil.core.types import Estimate
from recveil.metrics.pareto import undominated
from recveil.studies.plan_checks import check_plan
from recveil.studies.plans import Cell, Plan
from recveil.studies.pooled_seeds import pool_plan
from recveil.studies.runs import Engine, attempt_cell, run_cells
from recveil.studies.search_spaces import Knob, OneOf, Whole, space_of
from recveil.studies.store import Store, create_store, describe_plan
from recveil.studies.tables import build_study_result
from recveil.studies.trials import K, make_trial_cell

__all__ = ["SettingTrial", "Tuning", "choose_trial", "propose_settings", "tune"]

SPARED_SHARE = 0.2
"""Share of the users that settings are chosen by."""

RANDOM_TRIALS = 8
"""Trials at random before the search learns from them."""

SIGNIFICANT_DIGITS = 4
Json = dict[str, Any]


@dataclass(frozen=True)
class Tuning:
    """What is tuned for what; `budget` is the most that may be lost, in per cent of NDCG@10.

    `batch` trials are asked for at a time: with more of them more workers are busy, and each knows less of the others.
    """

    data: str
    model: str
    defense: str
    target: str
    budget: float = 3.0
    trials: int = 24
    batch: int = 4
    panel: str = "fast"
    seed: int = 0
    device: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        space_of(self.defense)
        if self.trials < 1 or self.batch < 1:
            raise UsageError(f"trials and batch must be 1 or more; got {self.trials} and {self.batch}.")

    def plan(self, options: Mapping[str, Any]) -> Plan:
        """The final audit: this setting beside no defense, on the users and items that were not used to choose."""
        grid = {
            "data": [self.data],
            "model": [{"name": self.model, **self.options}],
            "defense": ["none", {"name": self.defense, "label": self.defense, **options}],
            "target": [self.target],
            "panel": [self.panel],
            "seed": [self.seed],
        }
        about = f"The setting that `recveil tune` chose for a budget of {self.budget:g} %, audited on the other users."
        title = f"{self.defense}, tuned for {self.target} on {self.data}, {self.model}"
        settings = {"k": [5, 10, 20], "unattacked": SPARED_SHARE, "device": self.device}
        raw = {"title": title, "about": about, "kind": "attribute", "grid": grid, "settings": settings}
        return Plan.parse(raw, name="tuned")

    def trial(self, defense: str, options: Mapping[str, Any]) -> Cell:
        """The cell that tries this setting."""
        like = self.plan(options).cells()[0]
        at = {**like.at, "defense": {"name": defense, "options": dict(sorted(options.items()))}}
        return make_trial_cell(at, like.settings)


@dataclass(frozen=True)
class SettingTrial:
    """One setting and what it came to on validation: advantage (the worst of the targets) and loss in per cent."""

    options: Mapping[str, Any]
    advantage: float
    loss: float
    cell: str = ""
    defended: bool = True

    def to_dict(self) -> Json:
        """For JSON."""
        part = {"advantage": self.advantage, "loss": self.loss, "cell": self.cell, "defended": self.defended}
        return {"options": dict(self.options), **part}


def propose_settings(
    space: Mapping[str, Knob], told: Sequence[tuple[Json, SettingTrial | None]], n: int, seed: int
) -> list[Json]:
    """The next n settings, after these with what came of them (None: it failed). The same answer to the same question.

    A new sampler is seeded by how much is known, so that a search that was stopped asks what it would have asked.
    """
    optuna = _import_optuna()
    spread = {name: knob.distribution() for name, knob in space.items()}
    sampler = optuna.samplers.TPESampler(seed=1000 * seed + len(told), n_startup_trials=RANDOM_TRIALS)
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
    for options, trial in told:
        state = optuna.trial.TrialState.FAIL if trial is None else optuna.trial.TrialState.COMPLETE
        values = None if trial is None else [trial.advantage, trial.loss]
        study.add_trial(optuna.trial.create_trial(params=options, distributions=spread, values=values, state=state))
    asked = [study.ask(spread).params for _ in range(n)]
    return [{name: _shorten_value(space[name], value) for name, value in params.items()} for params in asked]


def _import_optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise MissingExtra(
            "A search over knobs needs the package optuna. Install it with: pip install 'recveil[tune]'"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


def _shorten_value(knob: Knob, value: Any) -> Any:
    """A number that can be typed, and that still lies within the ends."""
    if isinstance(knob, OneOf | Whole):
        return value
    return min(max(float(f"{value:.{SIGNIFICANT_DIGITS}g}"), knob.low), knob.high)


def choose_trial(trials: Sequence[SettingTrial], budget: float) -> SettingTrial | None:
    """The most private setting that loses no more than the budget; of equals the one that loses least."""
    allowed = [t for t in trials if t.defended and t.loss <= budget]
    return min(allowed, key=lambda t: (t.advantage, t.loss), default=None)


def tune(
    tuning: Tuning,
    folder: str | Path,
    engine: Engine,
    *,
    argv: Sequence[str] = (),
    heard: Callable[[int, int], None] = lambda done, total: None,
) -> Json:
    """Search, choose for the budget, audit what was chosen; the whole as one plain dict."""
    first = tuning.plan({})
    check_plan(first)
    store = create_store(folder, first)
    with store.hold_lock():
        describe_plan(store, first)
        told = _search_settings(tuning, store, engine, heard)
        trials = [trial for _, trial in told if trial is not None]
        chosen = choose_trial(trials, tuning.budget)
        audited = None if chosen is None else _audit_choice(tuning.plan(chosen.options), store, engine)
    front = [trials[i] for i in undominated([(t.advantage, t.loss) for t in trials])]
    return {
        "recveil": version("recveil"),
        "command": "tune",
        "argv": list(argv),
        **{key: getattr(tuning, key) for key in ("data", "model", "defense", "target", "budget", "panel", "seed")},
        "model_options": dict(tuning.options),
        "failed": sum(trial is None for _, trial in told),
        "trials": [t.to_dict() for t in trials],
        "frontier": [t.to_dict() for t in front],
        "chosen": None if chosen is None else chosen.to_dict(),
        "audit": audited,
        "use": None if chosen is None else _write_command(tuning, chosen),
    }


def _search_settings(
    tuning: Tuning, store: Store, engine: Engine, heard: Callable[[int, int], None]
) -> list[tuple[Json, SettingTrial | None]]:
    """No defense, the defense as it is, and then batch after batch of settings."""
    space = space_of(tuning.defense)
    told: list[tuple[Json, SettingTrial | None]] = []
    for defense in ("none", tuning.defense):
        told += _try_settings(tuning, store, engine, [(defense, {})])
    known: list[tuple[Json, SettingTrial | None]] = []
    while len(known) < tuning.trials:
        asked = propose_settings(space, known, min(tuning.batch, tuning.trials - len(known)), tuning.seed)
        known += _try_settings(tuning, store, engine, [(tuning.defense, options) for options in asked])
        heard(len(known), tuning.trials)
    return told + known


def _try_settings(
    tuning: Tuning, store: Store, engine: Engine, asked: Sequence[tuple[str, Json]]
) -> Iterator[tuple[Json, SettingTrial | None]]:
    """What came of these settings, in their order; only those that the folder lacks are run."""
    cells = [tuning.trial(defense, options) for defense, options in asked]
    _run_missing(cells, store, engine)
    done = store.finished_ids()
    for (defense, options), cell in zip(asked, cells, strict=True):
        yield options, _read_trial(store, cell, options, defense != "none") if cell.id in done else None


def _run_missing(cells: Sequence[Cell], store: Store, engine: Engine) -> None:
    missing = {cell.id: cell for cell in cells if cell.id not in store.finished_ids()}
    for _ in run_cells(partial(attempt_cell, store.releases.absolute()), list(missing.values()), engine, store):
        pass


def _read_trial(store: Store, cell: Cell, options: Json, defended: bool) -> SettingTrial:
    rows = store.read_cell(cell.id)["records"]
    value = {(row["attack"], row["metric"], row["target"]): Estimate.from_dict(row["estimate"]).value for row in rows}
    worst = max(v for (attack, _, _), v in value.items() if attack == "headline")
    loss = -next(v for (_, metric, _), v in value.items() if metric == f"ndcg_change@{K}") + 0.0
    return SettingTrial(options, worst, loss, cell.id, defended)


def _audit_choice(plan: Plan, store: Store, engine: Engine) -> Json:
    """The chosen setting and no defense, on the users and the items that the search never saw."""
    describe_plan(store, plan)
    _run_missing(plan.cells(), store, engine)
    done = [line for line in pool_plan(plan, [store]) if line.results]
    failed = [error for line in pool_plan(plan, [store]) for error in line.errors]
    told = {}
    for line in done:
        each = {}
        for target in line.targets:
            both = line.headline(target, "two_releases")
            found = {"advantage": line.headline(target), "with_both_tables": both}
            each[target] = {key: e.to_dict() for key, e in found.items() if e is not None}
        told[line.at["defense"]] = {"targets": each, "ndcg_change@10": line.cost(K).to_dict()}
    return {"lines": told, "advice": build_study_result(store)["advice"], "errors": failed}


def _write_command(tuning: Tuning, chosen: SettingTrial) -> str:
    """How to train with this setting."""
    parts = ["recveil", "train", "--data", tuning.data, "--model", tuning.model]
    parts += [word for name, v in tuning.options.items() for word in ("--option", f"{name}={v}")]
    parts += ["--defense", tuning.defense, "--target", tuning.target.replace("+", ",")]
    parts += [word for name, v in chosen.options.items() for word in ("--defense-option", f"{name}={v}")]
    return shlex.join([*parts, "--seed", str(tuning.seed), "--out", "run"])
