"""Invented result documents, typed, of every command; fixtures for the tests that read documents."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from recveil.core.membership_parts import (
    ListDefenseSummary,
    MembershipAttackResult,
    MembershipFindings,
    MembershipInput,
    MembershipProtocol,
    MembershipUtility,
    OperatingPoint,
    ServedHits,
    ServingRule,
)
from recveil.core.result_parts import (
    ActivityGroup,
    AttackResult,
    AttributeProtocol,
    ClassDistance,
    ClassPicture,
    ClassTarget,
    CurvePoint,
    DefenseSummary,
    Frontier,
    FrontierPoint,
    FrontierTarget,
    Headline,
    Histogram,
    InputSummary,
    LeakMap,
    NumericAttackResult,
    NumericHeadline,
    NumericTarget,
    UserMap,
    Utility,
    UtilityChange,
    Verdict,
)
from recveil.core.results import (
    AuditResult,
    CloakResult,
    MembershipResult,
    StudyResult,
    TrainingConfig,
    TrainResult,
    TuneResult,
)
from recveil.core.study_parts import (
    CellCounts,
    Failure,
    HeatCell,
    HeatMap,
    StudyFrontier,
    StudyFrontierPoint,
    StudySettings,
    StudyTable,
    TableColumn,
    TableRow,
    TuningTrial,
)
from recveil.core.types import Estimate

AGES = ["under 35", "35-44", "45 and over"]
JOBS = ["student", "engineer", "health care", "arts and entertainment", "retired", "other"]
STRONG = {"logistic": 0.812, "trees": 0.774, "mlp": 0.803}
WEAK = {"logistic": 0.443, "trees": 0.5, "mlp": 0.512}
N = 1900

TargetBuilder = Callable[..., ClassTarget]


@dataclass(frozen=True)
class Svg:
    """A drawing, parsed."""

    root: ElementTree.Element

    @property
    def texts(self) -> list[str | None]:
        return [element.text for element in self.root.iter("text")]

    def marks(self, kind: str) -> list[ElementTree.Element]:
        groups = [group for group in self.root.iter("g") if f"mark-{kind} role-mark" in group.get("class", "")]
        return [mark for group in groups for mark in group]


@pytest.fixture
def read_svg() -> Callable[[str], Svg]:
    return lambda svg: Svg(ElementTree.fromstring(svg))


def estimate(value: float, half: float = 0.03, n: int = N) -> Estimate:
    return Estimate(value, value - half, value + half, n)


def build_attack(accuracy: float, labels: list[str]) -> AttackResult:
    k = len(labels)
    advantage = abs(k * accuracy - 1) / (k - 1)
    return AttackResult(
        balanced_accuracy=estimate(accuracy),
        advantage=Estimate(advantage, max(0.0, advantage - 0.05), advantage + 0.05, N),
        accuracy=estimate(min(1.0, accuracy + 0.02)),
        macro_f1=estimate(accuracy - 0.01),
        auc=estimate(min(1.0, 0.5 + advantage / 2)),
        recall={label: estimate(accuracy + 0.02 * (1 - 2 * (i % 2))) for i, label in enumerate(labels)},
        inverted=accuracy < 1 / k - 0.03,
        degenerate=accuracy == 1 / k,
    )


def build_target(
    labels: list[str], accuracies: dict[str, float], verdict: str = "leak", **parts: object
) -> ClassTarget:
    """The audit of one attribute; `parts` replace its fields."""
    k, best = len(labels), max(accuracies, key=lambda name: accuracies[name])
    attacks = {name: build_attack(value, labels) for name, value in accuracies.items()}
    share, rest = accuracies[best], (1 - accuracies[best]) / (k - 1)
    return ClassTarget(
        verdict=Verdict(verdict),
        sentence=f"The audit says: {verdict}.",
        chance=1 / k,
        majority=0.6,
        n=N,
        labels=labels,
        counts={label: N // k + (i == 0) * (N % k) for i, label in enumerate(labels)},
        margin=0.05,
        resolution=0.06,
        detectable=0.068,
        headline=Headline(
            **attacks[best].__dict__,
            attack=best,
            p_value=0.0099 if verdict == "leak" else 0.41,
            fold_shares={name: 0.8 if name == best else 0.1 for name in accuracies},
        ),
        attacks=attacks,
        confusion=[[share if i == j else rest for j in range(k)] for i in range(k)],
    ).model_copy(update=parts)


def build_leak_map(labels: list[str], shift: float) -> LeakMap:
    """Classes as bells along one direction, `shift` apart, and as a map of 4 x 4 cells."""
    edges = np.linspace(-4, 4, 9).tolist()
    middles = (np.array(edges[1:]) + edges[:-1]) / 2
    pictures = []
    for i, label in enumerate(labels):
        density = np.exp(-((middles - shift * i) ** 2) / 2) / np.sqrt(2 * np.pi)
        shares = [None if cell % 5 == 0 else (1 + cell + i) / 200 for cell in range(16)]
        grid = UserMap(bins=4, shares=shares, mean=[shift * i, 0.1 * i])
        histogram = Histogram(edges=edges, density=density.tolist())
        pictures.append(ClassPicture(label=label, users=100, histogram=histogram, map=grid))
    distances = [
        ClassDistance(classes=[a, b], value=(shift * (j - i)) ** 2, chance=0.06)
        for i, a in enumerate(labels)
        for j, b in enumerate(labels)
        if i < j
    ]
    return LeakMap(n_fitted=300, n_drawn=300, ranges=[[-4.0, 4.0], [-3.5, 3.5]], classes=pictures, distances=distances)


def add_leak_parts(target: ClassTarget, shift: float) -> ClassTarget:
    bounds = [None, 19, 40, None]
    scores = {"balanced_accuracy": estimate(0.6), "advantage": estimate(0.2)}
    curve = [CurvePoint(ratio=r, advantage=estimate(r / 2), balanced_accuracy=estimate(0.6)) for r in (0.2, 0.4, 0.8)]
    activity = [ActivityGroup(over=a, up_to=b, n=600, **scores) for a, b in zip(bounds, bounds[1:], strict=False)]
    leak_map = build_leak_map(target.labels, shift)
    return target.model_copy(update={"leak_map": leak_map, "activity": activity, "curve": curve})


def build_change(base: float, n: int) -> dict[str, dict[str, Estimate]]:
    return {
        "before": {"hit_rate@10": estimate(2 * base, 0.012, n), "ndcg@10": estimate(base, 0.006, n)},
        "after": {"hit_rate@10": estimate(2 * base - 0.006, 0.012, n), "ndcg@10": estimate(base - 0.003, 0.006, n)},
        "difference": {"hit_rate@10": estimate(-0.006, 0.005, n), "ndcg@10": estimate(-0.003, 0.0025, n)},
    }


def build_utility(classes: dict[str, list[str]]) -> Utility:
    per_class = {
        name: {label: UtilityChange(**build_change(0.05 + 0.006 * i, 900 - 200 * i)) for i, label in enumerate(labels)}
        for name, labels in classes.items()
    }
    return Utility(**build_change(0.056, 2000), per_class=per_class, note="")


PROTOCOL = AttributeProtocol(
    panel="fast",
    attacks=list(STRONG),
    folds=5,
    repeats=2,
    inner_folds=2,
    margin=0.05,
    p_value="corrected resampled t, one-sided",
    seed=0,
)
DEFENSE = DefenseSummary(
    name="sliced",
    strength=1.0,
    targets=["gender", "age"],
    displacement=0.31,
    notes=["1 users with undisclosed age went through the label-free map."],
)


@pytest.fixture
def make_target() -> TargetBuilder:
    return build_target


@pytest.fixture
def audit_result() -> AuditResult:
    """An audit alone: one attribute that leaks, no defense."""
    return AuditResult(
        recveil_version="0.1.0",
        command_line=["recveil", "audit", "--embeddings", "/home/alice/users.parquet", "--attributes=/data/facts.csv"],
        input=InputSummary(name="users.parquet", n_users=2000, d=32),
        protocol=PROTOCOL,
        targets={
            "gender": build_target(["F", "M"], {"logistic": 0.71, "trees": 0.68, "mlp": 0.695}, n_undisclosed=100)
        },
        timings={"audit": 8.04},
    )


@pytest.fixture
def numeric_result(audit_result: AuditResult) -> AuditResult:
    """The audit of a number."""
    scores = {"advantage": estimate(0.8), "r2": estimate(0.64), "correlation": estimate(0.8)}
    flags = {"inverted": False, "degenerate": False}
    age = NumericTarget(
        verdict=Verdict.LEAK,
        sentence="An outsider can guess age.",
        n=500,
        mean=40.1,
        spread=6.07,
        margin=0.05,
        resolution=0.1,
        detectable=0.2,
        headline=NumericHeadline(**scores, **flags, attack="ridge", p_value=2e-7, fold_shares={"ridge": 1.0}),
        attacks={"ridge": NumericAttackResult(**scores, **flags)},
    )
    return audit_result.model_copy(update={"targets": {"age": age}})


@pytest.fixture
def cloak_result() -> CloakResult:
    """Three attributes before and after a defense of two, with utility overall and for each class."""
    before = {
        "gender": build_target(["F", "M"], STRONG, best_possible=0.86),
        "age": build_target(AGES, {"logistic": 0.55, "trees": 0.52, "mlp": 0.56}),
        "job": build_target(JOBS, {"logistic": 0.19, "trees": 0.17, "mlp": 0.2}, "inconclusive"),
    }
    after = {
        "gender": build_target(["F", "M"], WEAK, "none"),
        "age": build_target(AGES, {"logistic": 0.36, "trees": 0.34, "mlp": 0.37}, "inconclusive"),
        "job": build_target(JOBS, {"logistic": 0.18, "trees": 0.17, "mlp": 0.19}, "inconclusive"),
    }
    return CloakResult(
        recveil_version="0.1.0",
        command="demo",
        command_line=["recveil", "demo", "--seed", "0", "--out", "my report.html"],
        input=InputSummary(name="embedded world", n_users=2000, d=32, n_items=800, n_interactions=61234, model="bprmf"),
        protocol=PROTOCOL,
        before=before,
        targets=after,
        defense=DEFENSE,
        utility=build_utility({"gender": ["F", "M"], "age": AGES}),
        timings={"train": 3.1, "audit": 8.0, "cloak": 0.2},
        warnings=["100 users did not disclose gender.", "job: its 7 users of class x are too few; see /home/a/x.log."],
    )


def build_frontier() -> Frontier:
    """Eight methods at three strengths, more than there are colors."""
    methods = ["gaussian", "sliced", "leace", "min-norm", "attrcloak", "noise", "au-pot", "labelfree"]
    settings = [("none", 0.0), *((method, strength) for method in methods for strength in (0.5, 0.75, 1.0))]
    points = [
        FrontierPoint(
            method=method,
            strength=strength,
            displacement=strength / 2,
            cost=0.02 * strength * (1 + number % 5),
            advantage=max(0.6 - 0.5 * strength - 0.01 * (number % 3), 0.0),
            targets={
                "gender": FrontierTarget(
                    verdict=Verdict.LEAK, advantage=estimate(max(0.6 - 0.5 * strength - 0.01 * (number % 3), 0.0))
                )
            },
        )
        for number, (method, strength) in enumerate(settings)
    ]
    return Frontier(cost_measure="loss of NDCG@10", points=points, knee=3, excluded={"d2d": "too many users"})


@pytest.fixture
def full_result(cloak_result: CloakResult) -> CloakResult:
    """Two of the attributes with all that can be measured of where they leak."""
    before = {name: add_leak_parts(cloak_result.before[name], 0.5) for name in ("gender", "age")}
    after = {name: add_leak_parts(cloak_result.targets[name], 0.02) for name in ("gender", "age")}
    return cloak_result.model_copy(update={"before": before, "targets": after, "frontier": build_frontier()})


@pytest.fixture
def gender_result(full_result: CloakResult) -> CloakResult:
    """The same for gender alone, which is quicker to draw."""
    parts = {"before": {"gender": full_result.before["gender"]}, "targets": {"gender": full_result.targets["gender"]}}
    return full_result.model_copy(update=parts)


@pytest.fixture
def train_result(cloak_result: CloakResult) -> TrainResult:
    """A model trained with a defense that fails."""
    options = {"epochs": 3, "embedding_size": 8}
    return TrainResult(
        recveil_version="0.1.0",
        command_line=["recveil", "train", "--data", "demo", "--out", "run"],
        input=cloak_result.input,
        protocol=PROTOCOL,
        config=TrainingConfig(
            data="demo", model="bprmf", options=options, defense=DEFENSE, split="leave-one-out", k=100, seed=3
        ),
        utility=cloak_result.utility,
        before={"gender": cloak_result.before["gender"]},
        targets={"gender": cloak_result.before["gender"]},
    )


def build_member_attack(auc: float, *, is_rule: bool = False) -> MembershipAttackResult:
    rate = OperatingPoint(value=0.1, low=0.07, high=0.13, n=400, realized_fpr=estimate(0.0095))
    return MembershipAttackResult(
        auc=estimate(auc, 0.02, 800),
        tpr_at_fpr={"0.001": None, "0.01": rate},
        balanced_accuracy=estimate(auc - 0.1),
        threshold=0.0,
        is_rule=is_rule,
        is_clear=abs(auc - 0.5) > 0.04,
        inverted=auc < 0.48,
        ahead_of_rules=None if is_rule else estimate(0.1),
        explained_by_rule=False,
    )


@pytest.fixture
def membership_result() -> MembershipResult:
    """A membership audit of one attack and two rules."""
    attacks = {
        "overlap": build_member_attack(0.5, is_rule=True),
        "popular-list": build_member_attack(0.6, is_rule=True),
        "dlmia": build_member_attack(0.7),
    }
    return MembershipResult(
        recveil_version="0.1.0",
        command_line=["recveil", "membership", "--data", "demo"],
        input=MembershipInput(
            name="demo",
            n_users=800,
            n_items=100,
            model="ncf",
            shadow_model="lfm",
            item_vectors="given",
            serving=ServingRule(nonmembers="fold-in", seen="excluded", k=100),
        ),
        protocol=MembershipProtocol(
            attacks=["dlmia"], rules=["overlap", "popular-list"], kind="transductive", margin=0.05, seed=0
        ),
        n_users=800,
        n_members=400,
        verdict=Verdict.LEAK,
        sentence="An outsider can tell.",
        best_attack="dlmia",
        attacks=attacks,
        roc={name: [[0.0025, 0.01], [0.1, 0.3], [1.0, 1.0]] for name in attacks},
        utility=MembershipUtility(after=ServedHits(members=estimate(0.3), non_members=estimate(0.2))),
        warnings=["Excluded: 5 users with too few interactions."],
    )


@pytest.fixture
def defended_membership(membership_result: MembershipResult) -> MembershipResult:
    """The same with a defense: undefended 0.9, defended against a static attacker 0.4, against an adaptive one 0.7."""
    attacks = membership_result.attacks
    findings = MembershipFindings(
        **{name: getattr(membership_result, name) for name in MembershipFindings.model_fields}
    )
    before, static = (
        findings.model_copy(update={"attacks": {"dlmia": build_member_attack(auc)}}) for auc in (0.9, 0.4)
    )
    hits = ServedHits(members=estimate(0.35), non_members=estimate(0.3))
    utility = membership_result.utility.model_copy(update={"before": hits, "non_member_change": estimate(-0.1)})
    defense = ListDefenseSummary(name="popularity", options={"pool": 200})
    parts = {"before": before, "static": static, "utility": utility, "defense": defense, "attacks": attacks}
    return membership_result.model_copy(update=parts)


SETTINGS = StudySettings(
    k=[5, 10], folds=5, repeats=1, unattacked=0.2, device="", list_length=100, seen="excluded", user_minimum=20
)


@pytest.fixture
def study_result() -> StudyResult:
    """An attribute study with a hole, a failure, a contest and one frontier."""
    columns = [TableColumn(key="a", label="A_1 & %", digits=2, signed=True), TableColumn(key="b", label="seeds")]
    rows = [
        TableRow(label="x|y <i>bad", cells={"a": Estimate(-0.51234, -0.6, -0.4, 100), "b": "2 of 3"}),
        TableRow(label="hole", cells={"b": "0 of 3 (3 failed)"}),
    ]
    table = StudyTable(id="t", title="A table", note="Note.", columns=columns, rows=rows)
    points = [
        StudyFrontierPoint(
            defense=name, advantage=estimate(a), change=estimate(change, 2.0), best=best, hypervolume=None
        )
        for name, a, change, best in (
            ("none", 0.6, 0.0, True),
            ("<i>bad", 0.02, -3.0, True),
            ("noise", 0.5, -9.0, False),
        )
    ]
    return StudyResult(
        recveil_version="0.1.0",
        command_line=["recveil", "study", "report", "/home/alice/p"],
        name="p",
        size="full",
        kind="attribute",
        title="T <b>",
        source="",
        about="About.",
        cells=CellCounts(wanted=6, done=2, failed=3, missing=1),
        failures=[Failure(cell="c", error="<script> in /home/alice/x.py")],
        settings=SETTINGS,
        tables=[table],
        wins=table.model_copy(update={"id": "wins", "title": "Wins"}),
        volumes=table.model_copy(update={"rows": []}),
        frontiers=[StudyFrontier(title="demo, gender", reference=[0.6, 20.0], points=points, hypervolume=0.9)],
        advice=["Use it."],
    )


@pytest.fixture
def membership_study(study_result: StudyResult) -> StudyResult:
    """A membership study with one heat map."""
    pairs = [("als", "als"), ("als", "lfm"), ("lfm", "als"), ("lfm", "lfm")]
    cells = [HeatCell(shadow=shadow, target=target, auc=0.7) for shadow, target in pairs]
    heat = HeatMap(title="dlmia", labels=["als", "lfm"], cells=cells)
    return study_result.model_copy(update={"kind": "membership", "frontiers": [], "heats": [heat]})


@pytest.fixture
def tune_result() -> TuneResult:
    """Three trials, of which the second is chosen."""
    trials = [
        TuningTrial(options={}, advantage=0.6, loss=0.0, cell="a", defended=False),
        TuningTrial(options={"x": 1}, advantage=0.1, loss=2.0, cell="b", defended=True),
        TuningTrial(options={"x": 2}, advantage=0.3, loss=4.0, cell="c", defended=True),
    ]
    return TuneResult(
        data="demo",
        model="bprmf",
        defense="noise",
        target="<gender>",
        budget=3.0,
        panel="fast",
        seed=0,
        trials=trials,
        frontier=trials[:2],
        chosen=trials[1],
        use="recveil cloak",
    )
