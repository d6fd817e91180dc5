"""The flow of `recveil train`: load, train, defend, measure, audit, write the run folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from recveil.core.device import check_device
from recveil.core.errors import UsageError
from recveil.core.files import write_atomically
from recveil.core.option_types import Count, SeedNumber, check_fields
from recveil.core.outputs import check_outputs
from recveil.core.privacy_parts import PrivacyGuarantee
from recveil.core.protocols import PrivateRecommender, Recommender
from recveil.core.result_parts import DefenseSummary, InputSummary, Utility
from recveil.core.results import TrainingConfig, TrainResult
from recveil.core.run_folders import check_run_folder, replace_files
from recveil.core.timing import Clock
from recveil.core.types import Attribute, Dataset, Split
from recveil.data.io.release_files import write_attributes, write_lists, write_vectors
from recveil.data.sources.catalog import find_data, load_dataset_or_demo
from recveil.defenses import DEFENSES
from recveil.models.construction import make_model
from recveil.models.persistence import save_model
from recveil.workflows.audit_protocol import AuditProtocol, collect_notes, collect_results
from recveil.workflows.defended_release import (
    ChosenDefense,
    DefendedRelease,
    ReleaseRecipe,
    measure_displacement,
    select_targets,
    train_and_defend,
)
from recveil.workflows.inputs import RUN_FILES, RUN_SIGNS
from recveil.workflows.notes import list_notes
from recveil.workflows.ranking_protocol import DEFAULT_PROTOCOL, RankingProtocol, find_protocol
from recveil.workflows.utility import compare_rankings

__all__ = ["TrainRequest", "train_dataset", "train_run"]

GUARANTEE_LOST = (
    "The defense learned from other users without noise, so the guarantee of the model no longer holds for what "
    "is released. Leave out the defense, or take its guarantee for the item vectors alone."
)


@dataclass(frozen=True)
class TrainRequest:
    """What is trained on what.

    Attributes:
        data: name of a data set, a file, a folder, or `demo`.
        model: name of the model.
        options: options of the model over those that were tuned for the data set.
        defense: the defense, if any.
        targets: attributes that it protects.
        k: length of the lists.
        seed: the same seed gives the same model.
        device: torch device.
        profile: paper whose options the model has, such as raid2025; empty for those tuned for the data set.
        protocol: what is held out and how it is ranked; see `RANKING_PROTOCOLS`.
        command_line: what made this result, kept in it.
    """

    data: str
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    defense: ChosenDefense | None = None
    targets: Sequence[str] = ()
    k: Count = 100
    seed: SeedNumber = 0
    device: str | None = None
    profile: str = ""
    protocol: str = DEFAULT_PROTOCOL
    command_line: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_fields(self, "")
        check_device(self.device)
        find_protocol(self.protocol)

    def make_model(self) -> Recommender:
        """Make the untrained model."""
        return make_model(self.model, self.data, self.options, self.device, profile=self.profile)


def train_run(request: TrainRequest, out: Path) -> TrainResult:
    """Train, defend where asked to, measure, audit, and write everything into the folder.

    A defense of the data or in training changes the model itself, so the same model is trained without it as well, to
    compare with: that takes as long again.
    """
    _check_defense(request)
    request.make_model()
    for name in RUN_FILES:
        check_outputs({"out": out / name}, [("data", find_data(request.data))])
    check_run_folder(out, RUN_FILES, signs=RUN_SIGNS)
    data = load_dataset_or_demo(request.data, seed=request.seed)
    return train_dataset(data, request, out=out)[0]


def train_dataset(
    data: Dataset, request: TrainRequest, *, out: Path | None = None
) -> tuple[TrainResult, DefendedRelease]:
    """Train on a data set in memory; return the result and what is released, and write both if a folder is named.

    The folder is replaced whole or left as it was.
    """
    _check_defense(request)
    with nullcontext() if out is None else replace_files(out, RUN_FILES, signs=RUN_SIGNS) as new:
        result, released = _train(data, request)
        if new is not None:
            _write_run(new, data, released, result)
    return result, released


def _train(data: Dataset, request: TrainRequest) -> tuple[TrainResult, DefendedRelease]:
    clock, protocol = Clock(), find_protocol(request.protocol)
    split = protocol.split_interactions(data)
    targets = _select_targets(data, request)
    recipe = ReleaseRecipe(
        request.model,
        lambda chosen: request.make_model(),
        request.k,
        request.seed,
        request.device,
    )
    released = train_and_defend(recipe, split, targets, request.defense, clock=clock)
    with clock.measure_step("measure"):
        utility = _measure_utility(released, split, targets, protocol)
    privacy, audits = _state_guarantee(released, request), {}
    if request.defense is not None and released.user_vectors.shape[1]:
        rules = AuditProtocol(seed=request.seed, device=request.device, max_repeats=2)
        with clock.measure_step("audit"):
            audits = _audit_both(released, targets, rules)
    history = released.model.history_
    result = TrainResult(
        input=InputSummary(
            name=data.name,
            n_users=data.n_users,
            d=released.user_vectors.shape[1],
            n_items=data.n_items,
            n_interactions=len(data),
            model=request.model,
        ),
        config=_build_config(request, released, targets),
        utility=utility,
        stopped=None if history is None else history.stopped,
        privacy=privacy,
        timings=clock.seconds,
        command_line=list(request.command_line),
        **{**audits, "warnings": [*data.notes, *audits.get("warnings", []), *_describe_privacy(released, request)]},
    )
    return result, released


def _state_guarantee(released: DefendedRelease, request: TrainRequest) -> PrivacyGuarantee | None:
    """Return the guarantee of the release; a defense, which learns from users too, is not covered by any."""
    model = released.model
    return model.guarantee_ if isinstance(model, PrivateRecommender) and request.defense is None else None


def _describe_privacy(released: DefendedRelease, request: TrainRequest) -> list[str]:
    if not isinstance(released.model, PrivateRecommender):
        return []
    notes = list(released.model.notes_)
    if request.defense is not None:
        notes.append(GUARANTEE_LOST)
    return notes


def _check_defense(request: TrainRequest) -> None:
    if request.defense is None:
        return
    if not request.targets:
        raise UsageError("A defense needs to know what to protect. Name a `target`, such as gender.")
    traits = DEFENSES.traits(request.defense.name)
    if traits.place == "lists":
        uses = "`recveil membership`" if traits.hides_members else "`recveil cloak` and `lists_out`"
        raise UsageError(f"'{request.defense.name}' changes lists, not the model. Use it with {uses}.")
    request.defense.make(request.device)


def _select_targets(data: Dataset, request: TrainRequest) -> list[Attribute]:
    if request.defense is None:
        return []
    numbers = DEFENSES.traits(request.defense.name).numeric_targets
    return select_targets(dict(data.attributes), list(request.targets), request.data, numbers=numbers)


def _measure_utility(
    released: DefendedRelease, split: Split, targets: Sequence[Attribute], protocol: RankingProtocol
) -> Utility:
    """Measure the ranking of what is released and, beside a defense, of the undefended model."""
    assert released.release.score is not None
    after = protocol.rank_test_items(released.release.score, split, released.platform)
    measures, note = protocol.measure(after), protocol.ranking_note
    if not targets:
        return Utility(after=measures, note=note)
    before = protocol.rank_test_items(released.undefended.score, split, split)
    classes = [target for target in targets if not target.is_numeric]
    compared = compare_rankings(before, after, classes, measures=protocol.measures, note=note)
    return compared.model_copy(update={"after": {**compared.after, **measures}})


def _audit_both(released: DefendedRelease, targets: Sequence[Attribute], protocol: AuditProtocol) -> dict[str, Any]:
    """Audit the vectors without the defense and with it."""
    before = protocol.audit_targets(released.undefended.user_vectors_, targets)
    after = protocol.audit_targets(released.user_vectors, targets)
    return {
        "protocol": protocol.to_result(),
        "before": collect_results(before),
        "targets": collect_results(after),
        "warnings": collect_notes([*before, *after]),
    }


def _build_config(request: TrainRequest, released: DefendedRelease, targets: Sequence[Attribute]) -> TrainingConfig:
    model: Any = released.model
    return TrainingConfig(
        data=request.data,
        model=request.model,
        options={f.name: vars(model)[f.name] for f in fields(model) if f.init},
        defense=_summarize_defense(request, released, targets),
        profile=request.profile,
        protocol=request.protocol,
        split=find_protocol(request.protocol).split_note,
        k=request.k,
        seed=request.seed,
    )


def _summarize_defense(
    request: TrainRequest, released: DefendedRelease, targets: Sequence[Attribute]
) -> DefenseSummary | None:
    if request.defense is None:
        return None
    before, after = released.undefended.user_vectors_, released.user_vectors
    options = dict(request.defense.options)
    return DefenseSummary(
        name=request.defense.name,
        strength=float(options.pop("strength", 1.0)),
        targets=[target.name for target in targets],
        displacement=measure_displacement(before, after) if before.shape == after.shape else float("nan"),
        options=options,
        notes=list_notes(after, targets, request.defense.name),
    )


def _write_run(folder: Path, data: Dataset, released: DefendedRelease, result: TrainResult) -> None:
    # The saved model must not give away what the released vectors hide.
    released.model.user_vectors_ = released.user_vectors
    save_model(released.model, folder / "model", name=result.config.model)
    _write_release(folder, data, released)
    if result.privacy is not None:
        with write_atomically(folder / "privacy.json") as temporary:
            temporary.write_text(result.privacy.model_dump_json(indent=2) + "\n", encoding="utf-8")
    with write_atomically(folder / "config.json") as temporary:
        temporary.write_text(json.dumps(result.config.model_dump(mode="json"), indent=2) + "\n", encoding="utf-8")
    measured = result.model_copy(update={"timings": {}, "command_line": []})  # equal bytes from run to run
    measured.write_json(folder / "metrics.json")


def _write_release(folder: Path, data: Dataset, released: DefendedRelease) -> None:
    release = released.release
    assert release.user_vectors is not None
    assert release.item_vectors is not None
    assert release.lists is not None
    if release.user_vectors.shape[1]:  # a model without user vectors exposes lists alone
        write_vectors(folder / "users.parquet", "user_id", data.user_ids, release.user_vectors)
        # A guarantee covers the items that it names: the name of another item could give away its only user.
        model, items = released.model, np.arange(data.n_items)
        if isinstance(model, PrivateRecommender):
            items = model.released_items_
        write_vectors(folder / "items.parquet", "item_id", data.item_ids[items], release.item_vectors[items])
    write_lists(folder / "recommendations.parquet", release.lists, data.user_ids, data.item_ids)
    write_attributes(folder / "attributes.parquet", data.user_ids, data.attributes.values())
