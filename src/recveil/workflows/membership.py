"""From a model or files to a document: the body of `recveil membership`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from recveil.attacks.membership.reference_attacks import ReferenceAttack
from recveil.attacks.membership.rules import RULES
from recveil.audits.catalog import MEMBERSHIP_ATTACKS, REFERENCED, lookup, make
from recveil.audits.gates import Checks
from recveil.audits.membership.audit import MembershipAudit, MembershipGame, run_membership_attacks
from recveil.audits.membership.conclusion import DEFAULT_MARGIN, compute_roc_curves, judge_membership
from recveil.audits.membership.scenarios import ItemSource, ObservedScenario, PreparedScenario, TrainedScenario
from recveil.core.errors import UsageError
from recveil.core.files import check_output_file, write_atomically
from recveil.core.protocols import MembershipAttack
from recveil.core.timing import Clock
from recveil.workflows.audit import check_outputs, write_results
from recveil.workflows.documents import header

__all__ = ["MembershipOutputs", "MembershipConfig", "run_membership"]

TABLES = (".parquet", ".pq", ".csv")
ATTACKS: Mapping[str, Callable[..., MembershipAttack | ReferenceAttack]] = {**MEMBERSHIP_ATTACKS, **REFERENCED}


@dataclass(frozen=True)
class MembershipConfig:
    """Who attacks, and how. `options` are written attack.name, as in dlmia.encoder."""

    attacks: Sequence[str] = tuple(MEMBERSHIP_ATTACKS)
    options: Mapping[str, Any] = field(default_factory=dict)
    inductive: bool = False
    margin: float = DEFAULT_MARGIN
    seed: int = 0
    device: str | None = None

    @property
    def referenced(self) -> bool:
        """Whether any of the attacks needs reference models."""
        return any(name in REFERENCED for name in self.attacks)

    def made(self) -> dict[str, MembershipAttack | ReferenceAttack]:
        """The attacks, ready to run; the rules need no naming."""
        chosen = [name for name in dict.fromkeys(self.attacks) if name != "rules"]
        given: dict[str, dict[str, Any]] = {name: {} for name in chosen}
        for key, value in self.options.items():
            name, dot, option = key.partition(".")
            if not dot:
                raise UsageError(
                    f"Cannot read --attack-option {key}. Write attack.name=value, as in dlmia.pretrain=50."
                )
            lookup("attack that was asked for", name, given)[option] = value
        return {name: self._make(name, options) for name, options in given.items()}

    def _make(self, name: str, options: Mapping[str, Any]) -> MembershipAttack | ReferenceAttack:
        constructor = lookup("membership attack", name, ATTACKS)
        placed = {"device": self.device} if "device" in {f.name for f in fields(constructor)} else {}  # type: ignore[arg-type]
        return make("membership attack", name, ATTACKS, **{**placed, **options})

    def run(self, game: MembershipGame) -> MembershipAudit:
        """Play one game."""
        return run_membership_attacks(game, self.made(), seed=self.seed, inductive=self.inductive)

    def told(self, audit: MembershipAudit) -> dict[str, Any]:
        """What one game came to, for the document."""
        return {
            **audit.to_dict(),
            "verdict": judge_membership(audit, margin=self.margin),
            "roc": compute_roc_curves(audit),
        }


@dataclass(frozen=True)
class MembershipOutputs:
    """Where to write what was found; nothing is written where no path is given."""

    report: Path | None = None
    out: Path | None = None
    scores: Path | None = None

    def check(self) -> None:
        """Find out before the work, not after it, that a result cannot be written."""
        check_outputs(self.report, self.out)
        if self.scores is not None and check_output_file(self.scores).suffix.lower() not in TABLES:
            raise UsageError(f"Cannot tell how to write {self.scores}. Use .parquet or .csv.")


def run_membership(
    scene: TrainedScenario | ObservedScenario,
    items: ItemSource,
    play: MembershipConfig,
    *,
    outputs: MembershipOutputs | None = None,
    checks: Checks | None = None,
) -> dict[str, Any]:
    """Attack the target, and where it is defended also the undefended one and with the attacker who does not know."""
    outputs, checks = outputs or MembershipOutputs(), checks or Checks()
    outputs.check()
    attacks = play.made()
    checks.check_names([*attacks, *RULES])
    if isinstance(scene, ObservedScenario) and scene.target_members is None and checks.gates:
        raise UsageError("--fail-if needs numbers, and there are none without --target-members. Give both or neither.")
    if play.referenced and getattr(scene, "references", None) is None:
        raise UsageError(
            "Attacks with reference models need a target that is trained here. Add --data, or leave them out."
        )
    by_lists = [name for name in attacks if name not in REFERENCED]
    clock = Clock()
    with clock.measure_step("make the game"):
        stage = scene.build(items, vectors=bool(by_lists), seed=play.seed, device=play.device)
    with clock.measure_step("attack"):
        audit = play.run(stage.game)
    document = {**header("membership", sys.argv), **_document(stage, play, audit)}
    if play.referenced and isinstance(scene, TrainedScenario) and scene.references is not None:
        document["protocol"]["references"] = asdict(scene.references)
    with clock.measure_step("attack in other ways"):
        for name, other in (("before", stage.before), ("static", stage.static)):
            if other is not None:
                document[name] = play.told(play.run(other))
    document["timings"] = clock.seconds
    if outputs.scores is not None and stage.game.target_users is not None:
        _write_scores(outputs.scores, stage.game.target_users, audit)
    write_results(document, outputs.report, outputs.out)
    return document


def _document(stage: PreparedScenario, play: MembershipConfig, audit: MembershipAudit) -> dict[str, Any]:
    told = play.told(audit)
    protocol = {
        "attacks": list(play.made()),
        "rules": list(RULES),
        "kind": "inductive" if play.inductive else "transductive",
        "margin": play.margin,
        "seed": play.seed,
        "attack_options": dict(play.options),
    }
    warnings = [*stage.notes, *told["notes"]]
    return {"input": dict(stage.about), "protocol": protocol, **stage.facts, **told, "warnings": warnings}


def _write_scores(path: Path, users: NDArray[Any], audit: MembershipAudit) -> None:
    """One row for each user who was attacked: the id, what every attack and rule says, and the truth where known."""
    columns: dict[str, Any] = {"user_id": users[audit.users], **audit.scores}
    if audit.truth is not None:
        columns["member"] = audit.truth
    write = pyarrow.csv.write_csv if path.suffix.lower() == ".csv" else pyarrow.parquet.write_table
    with write_atomically(path) as temporary:
        write(pa.table(columns), temporary)
