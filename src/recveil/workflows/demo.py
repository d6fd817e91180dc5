"""The flow of `recveil demo`: train, attack, defend, attack again and report on an embedded world. No download."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recveil.core.result_parts import DefenseSummary, InputSummary
from recveil.core.results import CloakResult
from recveil.core.run_folders import replace_files
from recveil.core.timing import Clock
from recveil.core.types import Dataset, FloatArray
from recveil.data.io.release_files import write_attributes, write_vectors
from recveil.data.splits import leave_one_out
from recveil.data.synthetic import World, make_demo_world
from recveil.models import MODELS
from recveil.report.charts import check_chart_packages
from recveil.workflows.audit_protocol import AuditProtocol, Results
from recveil.workflows.comparison import compare_audits
from recveil.workflows.defended_release import (
    ChosenDefense,
    ReleaseRecipe,
    measure_displacement,
    train_and_defend,
)
from recveil.workflows.ranking_protocol import DEFAULT_PROTOCOL, find_protocol
from recveil.workflows.utility import compare_rankings

__all__ = ["run_demo"]

NAME = "embedded world"
MODEL = "bprmf"
MODEL_OPTIONS = {"embedding_size": 16}
DEFENSE = ChosenDefense("sliced", {"rounds": 15})
N_USERS = 6_000
"""Users enough for the verdict `none`: with 3,000 the audit cannot resolve the margin."""

PROTECTED = ("gender",)
DEMO_FILES = ("users.parquet", "cloaked.parquet", "attributes.parquet", "result.json", "report.html")
DEMO_SIGNS = ("result.json", "report.html")
"""Files that are in every folder of the demo."""

LIST_LENGTH = 20
NOTES = (
    "age was not protected, and still leaks: a defense covers the attributes it is given.",
    "handedness was not protected: in this world nothing depends on it.",
)


def run_demo(
    out: str | Path, *, seed: int = 0, device: str | None = None, protocol: AuditProtocol | None = None
) -> CloakResult:
    """Run the demo, write its report and tables into a folder, and return the result.

    Args:
        out: folder to write into; made if missing.
        seed: the same seed gives the same numbers.
        device: torch device.
        protocol: the rules of the audits; two repeats of the fast panel if None.
    """
    check_chart_packages()
    protocol = protocol or AuditProtocol(seed=seed, device=device, max_repeats=2)
    with replace_files(Path(out), DEMO_FILES, signs=DEMO_SIGNS) as new:
        result, tables = _compare_releases(protocol, seed, device)
        shown = Path(out).name if Path(out).is_absolute() else str(out)
        command_line = ["recveil", "demo", "--seed", str(seed), "--out", shown]
        result = result.model_copy(update={"command_line": command_line})
        _write_folder(new, result, *tables)
    return result


def _compare_releases(
    protocol: AuditProtocol, seed: int, device: str | None
) -> tuple[CloakResult, tuple[Dataset, FloatArray, FloatArray]]:
    """Train, defend and audit; return the result, and the data with the vectors before and after."""
    clock = Clock()
    with clock.measure_step("make the world"):
        world = make_demo_world(seed, n_users=N_USERS)
        split = leave_one_out(world.dataset)
    recipe = ReleaseRecipe(
        MODEL, lambda chosen: MODELS.make(MODEL, device=device, **MODEL_OPTIONS), LIST_LENGTH, seed, device
    )
    protected = [world.dataset.attributes[name] for name in PROTECTED]
    released = train_and_defend(recipe, split, protected, DEFENSE, clock=clock)
    before, after = released.undefended.user_vectors_, released.user_vectors
    targets = list(world.dataset.attributes.values())
    activity = np.bincount(world.dataset.user)
    compared = compare_audits(before, after, targets, protocol, clock=clock, activity=activity, past=False)
    assert released.release.score is not None
    ranked = find_protocol(DEFAULT_PROTOCOL)
    ranks = [ranked.rank_test_items(s, split, split) for s in (released.undefended.score, released.release.score)]
    result = CloakResult(
        command="demo",
        input=_summarize_world(world, before),
        protocol=protocol.to_result(),
        defense=_summarize_defense(before, after),
        before=_add_best_possible(compared.before, world),
        targets=_add_best_possible(compared.after, world),
        utility=compare_rankings(ranks[0], ranks[1], protected),
        timings=clock.seconds,
        warnings=sorted(compared.notes),
    )
    return result, (world.dataset, before, after)


def _summarize_world(world: World, x: FloatArray) -> InputSummary:
    data = world.dataset
    return InputSummary(
        name=NAME,
        n_users=data.n_users,
        d=x.shape[1],
        n_items=data.n_items,
        n_interactions=len(data),
        model=MODEL,
    )


def _summarize_defense(before: FloatArray, after: FloatArray) -> DefenseSummary:
    moved = measure_displacement(before, after)
    return DefenseSummary(
        name=DEFENSE.name,
        strength=1.0,
        targets=list(PROTECTED),
        displacement=moved,
        options=dict(DEFENSE.options),
        notes=list(NOTES),
    )


def _add_best_possible(targets: Results, world: World) -> Results:
    """Add the accuracy of the best possible attack, which is known in a synthetic world."""
    return {name: target.model_copy(update={"best_possible": world.bayes[name]}) for name, target in targets.items()}


def _write_folder(folder: Path, result: CloakResult, data: Dataset, before: FloatArray, after: FloatArray) -> None:
    write_vectors(folder / "users.parquet", "user_id", data.user_ids, before)
    write_vectors(folder / "cloaked.parquet", "user_id", data.user_ids, after)
    write_attributes(folder / "attributes.parquet", data.user_ids, data.attributes.values())
    result.write_json(folder / "result.json")
    result.write_html(folder / "report.html")
