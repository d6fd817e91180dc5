"""A search over the options of a defense for two aims at once: less advantage for the attacker, less loss of ranking.

Trials are cells like any others: stored in the folder as they finish, so a search goes on where it was stopped, with
the same settings in the same order, on one machine or on many. The chosen setting is audited once, on users and items
that the search never used.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from recveil.core.device import check_device
from recveil.core.errors import DataError, MissingExtra, RecveilError, unknown_name
from recveil.core.option_types import Count, NonNegativeFloat, SeedNumber, check_fields
from recveil.core.results import TuneResult
from recveil.core.study_parts import TunedAudit, TunedLine, TunedTarget, TuningTrial
from recveil.core.traits import Choice, Range
from recveil.data.sources.catalog import load_dataset_or_demo
from recveil.defenses import DEFENSES
from recveil.metrics.pareto import find_pareto_front
from recveil.studies.cells import UNDEFENDED, Cell, MethodChoice
from recveil.studies.plan_checks import check_plan
from recveil.studies.plans import Plan
from recveil.studies.pooled_seeds import PooledCell, pool_plan
from recveil.studies.runs import Engine, attempt_cell, run_cells
from recveil.studies.store import Store, create_store, describe_plan
from recveil.studies.study_result import build_study_result
from recveil.studies.trials import K, choose_spared_users, make_trial_cell

__all__ = ["TriedSetting", "TuningConfig", "choose_trial", "find_search_space", "propose_settings", "tune"]

SPARED_SHARE = 0.2
"""Share of the users that settings are chosen by."""

RANDOM_TRIALS = 8
"""Trials at random before the search learns from them."""

SIGNIFICANT_DIGITS = 4
"""Digits of a proposed number, so that it can be typed."""

Space = Mapping[str, Range | Choice]


@dataclass(frozen=True)
class TuningConfig:
    """What is tuned for what.

    Attributes:
        data: name of the data set, or a path.
        model: name of the model.
        defense: name of the defense.
        target: attribute to protect; several at once as in gender+age.
        budget: largest loss that is allowed, in per cent of NDCG@10.
        trials: settings to try beside the defaults.
        batch: settings proposed at a time: more keep more workers busy, and each is proposed knowing fewer results.
        panel: attackers, a panel or names between commas.
        seed: seed of the search, the models and the folds.
        device: device to compute on; empty chooses one.
        options: options of the model.
        profile: paper whose options the model has; empty for those tuned for the data set.
    """

    data: str
    model: str
    defense: str
    target: str
    budget: NonNegativeFloat = 3.0
    trials: Count = 24
    batch: Count = 4
    panel: str = "fast"
    seed: SeedNumber = 0
    device: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    profile: str = ""

    def __post_init__(self) -> None:
        check_fields(self, "")
        check_device(self.device or None)
        find_search_space(self.defense)

    def make_plan(self, options: Mapping[str, Any]) -> Plan:
        """Make the plan of the final audit: this setting beside no defense, on users and items not used to choose."""
        grid = {
            "data": [self.data],
            "model": [{"name": self.model, **self.options}],
            "defense": [UNDEFENDED, {"name": self.defense, "label": self.defense, **options}],
            "target": [self.target],
            "panel": [self.panel],
            "seed": [self.seed],
        }
        about = f"The setting that `recveil tune` chose for a budget of {self.budget:g} %, audited on the other users."
        title = f"{self.defense}, tuned for {self.target} on {self.data}, {self.model}"
        settings = {"k": [5, 10, 20], "unattacked": SPARED_SHARE, "profile": self.profile, "device": self.device}
        raw = {"title": title, "about": about, "kind": "attribute", "grid": grid, "settings": settings}
        return Plan.parse(raw, name="tuned")

    def make_trial(self, choice: MethodChoice) -> Cell:
        """Make the cell that tries this setting."""
        like = self.make_plan(choice.options).cells()[0]
        coordinate = {"name": choice.name, "options": dict(sorted(choice.options.items()))}
        return make_trial_cell({**like.at, "defense": coordinate}, like.settings)


@dataclass(frozen=True)
class TriedSetting:
    """A setting and its trial; None where the trial failed."""

    options: Mapping[str, Any]
    trial: TuningTrial | None


def find_search_space(defense: str) -> Space:
    """Find the options of a defense that a search tries; a defense without any is an error."""
    space = DEFENSES.traits(defense).search_space
    if not space:
        tunable = [traits.name for traits in DEFENSES.all_traits() if traits.search_space]
        raise unknown_name("defense with options to tune", defense, tunable)
    return space


def propose_settings(space: Space, tried: Sequence[TriedSetting], n: int, seed: int) -> list[dict[str, Any]]:
    """Propose the next n settings; the same answer to the same question.

    A new sampler is seeded by how much is known, so a search that was stopped proposes what it would have proposed.

    Args:
        space: options and their ranges.
        tried: settings that were tried, in order.
        n: settings to propose.
        seed: seed of the search.
    """
    optuna = _import_optuna()
    distributions = {name: _make_distribution(optuna, domain) for name, domain in space.items()}
    sampler = optuna.samplers.TPESampler(seed=1000 * seed + len(tried), n_startup_trials=RANDOM_TRIALS)
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
    for setting in tried:
        state, values = optuna.trial.TrialState.FAIL, None
        if setting.trial is not None:
            state, values = optuna.trial.TrialState.COMPLETE, [setting.trial.advantage, setting.trial.loss]
        past = {"params": dict(setting.options), "distributions": distributions, "values": values, "state": state}
        study.add_trial(optuna.trial.create_trial(**past))
    proposals = [study.ask(distributions).params for _ in range(n)]
    return [{name: _shorten_value(space[name], value) for name, value in params.items()} for params in proposals]


def _make_distribution(optuna: Any, domain: Range | Choice) -> Any:
    if isinstance(domain, Choice):
        return optuna.distributions.CategoricalDistribution(domain.words)
    if domain.is_integer:
        return optuna.distributions.IntDistribution(int(domain.low), int(domain.high), log=domain.log)
    return optuna.distributions.FloatDistribution(domain.low, domain.high, log=domain.log)


def _import_optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise MissingExtra(
            "A search over options needs the package optuna. Install it with: pip install 'recveil[tune]'"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


def _shorten_value(domain: Range | Choice, value: Any) -> Any:
    """Return a number that can be typed and still lies within the range."""
    if isinstance(domain, Choice) or domain.is_integer:
        return value
    return min(max(float(f"{value:.{SIGNIFICANT_DIGITS}g}"), domain.low), domain.high)


def choose_trial(trials: Sequence[TuningTrial], budget: float) -> TuningTrial | None:
    """Choose the most private setting within the budget; of equals the one that loses least."""
    allowed = [trial for trial in trials if trial.defended and trial.loss <= budget]
    return min(allowed, key=lambda trial: (trial.advantage, trial.loss), default=None)


def tune(
    config: TuningConfig,
    folder: str | Path,
    engine: Engine,
    *,
    command_line: Sequence[str] = (),
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> TuneResult:
    """Search, choose for the budget, and audit the chosen setting.

    Args:
        config: what is tuned for what.
        folder: folder of trials and results; with the same folder a search goes on.
        engine: runs the trials.
        command_line: the command, for the result.
        on_progress: called with the settings tried and the settings to try.

    Raises:
        UsageError: the data, model, defense or target cannot be used.
        DataError: there are too few users to choose settings by.
        MissingExtra: optuna is not installed.
    """
    first = config.make_plan({})
    check_plan(first)
    choose_spared_users(load_dataset_or_demo(config.data, seed=0).n_users, SPARED_SHARE)
    store = create_store(folder)
    with store.hold_lock():
        describe_plan(store, first)
        tried = _search_settings(config, store, engine, on_progress)
        trials = [setting.trial for setting in tried if setting.trial is not None]
        chosen = choose_trial(trials, config.budget)
        audit = None if chosen is None else _audit_choice(config.make_plan(chosen.options), store, engine)
    return TuneResult(
        command_line=list(command_line),
        data=config.data,
        model=config.model,
        model_options=dict(config.options),
        defense=config.defense,
        target=config.target,
        budget=config.budget,
        panel=config.panel,
        seed=config.seed,
        n_failed=len(tried) - len(trials),
        trials=trials,
        frontier=[trials[i] for i in find_pareto_front([(trial.advantage, trial.loss) for trial in trials])],
        chosen=chosen,
        audit=audit,
        use=None if chosen is None else _write_command(config, chosen),
    )


def _search_settings(
    config: TuningConfig, store: Store, engine: Engine, on_progress: Callable[[int, int], None]
) -> list[TriedSetting]:
    """Try no defense, the defaults of the defense, and then batch after batch of settings."""
    space = find_search_space(config.defense)
    start = [
        setting
        for name in (UNDEFENDED, config.defense)
        for setting in _try_settings(config, store, engine, [MethodChoice(name)])
    ]
    if all(setting.trial is None for setting in start):
        raise _make_failure_error(config, store)
    tried: list[TriedSetting] = []
    while len(tried) < config.trials:
        proposals = propose_settings(space, tried, min(config.batch, config.trials - len(tried)), config.seed)
        tried += _try_settings(config, store, engine, [MethodChoice(config.defense, p) for p in proposals])
        on_progress(len(tried), config.trials)
    return start + tried


def _make_failure_error(config: TuningConfig, store: Store) -> RecveilError:
    """Return the error for a search that cannot begin, with the reason of its first trial."""
    failure = store.read_failure(config.make_trial(MethodChoice(UNDEFENDED)).id)
    message = f"Neither the undefended model nor the defaults of {config.defense} could be measured. {failure.error}"
    return DataError(message) if failure.foreseen else RecveilError(message)


def _try_settings(
    config: TuningConfig, store: Store, engine: Engine, choices: Sequence[MethodChoice]
) -> Iterator[TriedSetting]:
    """Yield the trials of these settings in their order; only those that the folder lacks are run."""
    cells = [config.make_trial(choice) for choice in choices]
    _run_missing(cells, store, engine)
    done = store.finished_ids()
    for choice, cell in zip(choices, cells, strict=True):
        yield TriedSetting(choice.options, _read_trial(store, cell, choice) if cell.id in done else None)


def _run_missing(cells: Sequence[Cell], store: Store, engine: Engine) -> None:
    missing = {cell.id: cell for cell in cells if cell.id not in store.finished_ids()}
    for _ in run_cells(partial(attempt_cell, store.releases.absolute()), list(missing.values()), engine, store):
        pass


def _read_trial(store: Store, cell: Cell, choice: MethodChoice) -> TuningTrial:
    records = store.read_cell(cell.id).records
    advantages = [record.estimate.value for record in records if record.attack == "headline"]
    changes = [record.estimate.value for record in records if record.metric == f"ndcg_change@{K}"]
    if not advantages or not changes:
        raise DataError(f"The trial {cell.id} in {store.folder} has no numbers. Delete its file and run again.")
    return TuningTrial(
        options=dict(choice.options),
        advantage=max(advantages),  # the worst of the targets
        loss=-changes[0] + 0.0,
        cell=cell.id,
        defended=not choice.is_undefended,
    )


def _audit_choice(plan: Plan, store: Store, engine: Engine) -> TunedAudit:
    """Audit the chosen setting and no defense, on users and items that the search never used."""
    describe_plan(store, plan)
    _run_missing(plan.cells(), store, engine)
    pooled = pool_plan(plan, [store])
    return TunedAudit(
        lines={cells.at["defense"]: _summarize_line(cells) for cells in pooled if cells.results},
        advice=build_study_result(store).advice,
        errors=[error for cells in pooled for error in cells.errors],
    )


def _summarize_line(cells: PooledCell) -> TunedLine:
    targets = {}
    for target in cells.targets:
        advantage = cells.estimate_headline(target)
        assert advantage is not None
        both = cells.estimate_headline(target, both_tables=True)
        targets[target] = TunedTarget(advantage=advantage, with_both_tables=both)
    return TunedLine(targets=targets, ndcg_change=cells.estimate_cost(K))


def _write_command(config: TuningConfig, chosen: TuningTrial) -> str:
    """Write the command that trains with this setting."""
    parts = ["recveil", "train", "--data", config.data, "--model", config.model]
    parts += [word for name, value in config.options.items() for word in ("--option", f"{name}={value}")]
    parts += ["--profile", config.profile] if config.profile else []
    parts += ["--defense", config.defense, "--target", config.target.replace("+", ",")]
    parts += [word for name, value in chosen.options.items() for word in ("--defense-option", f"{name}={value}")]
    return shlex.join([*parts, "--seed", str(config.seed), "--out", "run"])
