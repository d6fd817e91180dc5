"""Made-up result documents, of the schema that `recveil audit|cloak|demo --json` print."""

from typing import Any

import numpy as np
import pytest

from recveil.audits.attribute.leak_map import where_it_leaks


def _estimate(value: float, half: float = 0.03, n: int = 1900) -> dict[str, Any]:
    return {"value": value, "low": value - half, "high": value + half, "n": n}


def _attack(balanced: float, labels: list[str], n: int, **flags: bool) -> dict[str, Any]:
    classes = len(labels)
    advantage = abs(classes * balanced - 1) / (classes - 1)
    return {
        "balanced_accuracy": _estimate(balanced, n=n),
        "advantage": {"value": advantage, "low": max(0.0, advantage - 0.05), "high": advantage + 0.05, "n": n},
        "accuracy": _estimate(min(1.0, balanced + 0.02), n=n),
        "macro_f1": _estimate(balanced - 0.01, n=n),
        "auc": _estimate(min(1.0, 0.5 + advantage / 2), n=n),
        "recall": {label: _estimate(balanced + 0.02 * (1 - 2 * (i % 2)), n=n) for i, label in enumerate(labels)},
        "inverted": flags.get("inverted", False),
        "degenerate": flags.get("degenerate", False),
    }


def target(labels: list[str], balanced: dict[str, float], verdict: str, sentence: str, **more: Any) -> dict[str, Any]:
    """The audit of one attribute."""
    classes, n = len(labels), 1900
    best = max(balanced, key=lambda name: balanced[name])
    attacks = {
        name: _attack(value, labels, n, degenerate=value == 1 / classes, inverted=value < 1 / classes - 0.03)
        for name, value in balanced.items()
    }
    share, rest = balanced[best], (1 - balanced[best]) / (classes - 1)
    headline = {key: attacks[best][key] for key in ("balanced_accuracy", "advantage")}
    return {
        "verdict": verdict,
        "sentence": sentence,
        "chance": 1 / classes,
        "majority": 0.6,
        "n": n,
        "labels": labels,
        "counts": {label: n // classes + (i == 0) * (n % classes) for i, label in enumerate(labels)},
        "margin": 0.05,
        "detectable": 0.068,
        "headline": {"attack": best, **headline, "p_value": 0.0099 if verdict == "leak" else 0.41}
        | {"chosen": {name: 0.8 if name == best else 0.1 for name in balanced}},
        "attacks": attacks,
        "confusion": [[share if i == j else rest for j in range(classes)] for i in range(classes)],
        **more,
    }


@pytest.fixture
def audit_document() -> dict[str, Any]:
    """An audit alone: nothing before, no defense, no utility."""
    return make_audit()


@pytest.fixture
def demo_document() -> dict[str, Any]:
    """Everything the schema knows: three attributes, before and after, utility overall and per class."""
    return make_demo()


@pytest.fixture
def full_document() -> dict[str, Any]:
    """The same, with all that can be said of where it leaks."""
    document = make_demo()
    for name, after in document["targets"].items():
        told = make_where(after["labels"])
        document["before"][name] |= told["before"]
        after |= told["after"]
    return document


def make_where(labels: list[str]) -> dict[str, Any]:
    """Directions of made-up vectors that leak before and not after, a curve and activity."""
    rng = np.random.default_rng(0)
    codes = np.arange(600) % len(labels)
    x = rng.standard_normal((600, 4))
    places = where_it_leaks([x + 0.5 * codes[:, None], x], codes, labels, rng=rng)
    curve = [{"ratio": r, "advantage": _estimate(r / 2), "balanced_accuracy": _estimate(0.6)} for r in (0.2, 0.4, 0.8)]
    bounds = [None, 19, 40, None]
    activity = [
        {"over": low, "up_to": high, "n": 600, "balanced_accuracy": _estimate(0.6), "advantage": _estimate(0.2)}
        for low, high in zip(bounds, bounds[1:], strict=False)
    ]
    return {
        release: {"where": where, "curve": curve, "activity": activity}
        for release, where in zip(("before", "after"), places, strict=True)
    }


def make_audit() -> dict[str, Any]:
    attacks = {"logistic": 0.71, "trees": 0.68, "mlp": 0.695}
    sentence = "gender can be guessed: logistic is right for 71 % of users of either class, where guessing gives 50 %."
    return {
        "schema": 1,
        "recveil": "0.1.0",
        "command": "audit",
        "input": {"name": "users.parquet", "n_users": 2000, "d": 32},
        "protocol": {"panel": "fast", "attacks": list(attacks), "folds": 5, "seeds": 2, "margin": 0.05, "seed": 0}
        | {"attacker": "adaptive", "surface": "user vectors", "inner_folds": 2, "p_value": "corrected resampled t"},
        "targets": {"gender": target(["F", "M"], attacks, "leak", sentence)},
        "timings": {"audit": 8.04},
        "warnings": [],
    }


def make_demo() -> dict[str, Any]:
    ages = ["under 35", "35-44", "45 and over"]
    jobs = ["student", "engineer", "health care", "arts and entertainment", "retired", "other"]
    strong, weak = {"logistic": 0.812, "trees": 0.774, "mlp": 0.803}, {"logistic": 0.443, "trees": 0.5, "mlp": 0.512}
    before = {
        "gender": target(["F", "M"], strong, "leak", "gender can be guessed from the user vectors.", bayes=0.86),
        "age": target(ages, {"logistic": 0.55, "trees": 0.52, "mlp": 0.56}, "leak", "age can be guessed."),
        "job": target(jobs, {"logistic": 0.19, "trees": 0.17, "mlp": 0.2}, "inconclusive", "Too few users to tell."),
    }
    after = {
        "gender": target(["F", "M"], weak, "none", "No attacker of the panel guesses gender better than chance."),
        "age": target(ages, {"logistic": 0.36, "trees": 0.34, "mlp": 0.37}, "inconclusive", "age: too close to call."),
        "job": target(jobs, {"logistic": 0.18, "trees": 0.17, "mlp": 0.19}, "inconclusive", "Too few users to tell."),
    }
    return make_audit() | {
        "command": "demo",
        "argv": ["recveil", "demo", "--seed", "0", "--out", "my report.html"],
        "input": {"name": "embedded world", "n_users": 2000, "d": 32, "n_items": 800, "n_interactions": 61234}
        | {"model": "bprmf"},
        "before": before,
        "targets": after,
        "defense": {
            "name": "sliced",
            "strength": 1.0,
            "targets": ["gender", "age"],
            "displacement": {"relative": 0.31, "description": "mean distance moved, relative to the mean norm"},
            "notes": ["The Gaussian step was followed by 64 sliced rounds."],
        },
        "utility": make_utility({"gender": ["F", "M"], "age": ages}),
        "timings": {"train": 3.1, "audit": 8.0, "cloak": 0.2},
        "warnings": ["100 users did not disclose gender; they were cloaked with the others but not attacked."],
    }


def make_utility(classes: dict[str, list[str]]) -> dict[str, Any]:
    """HR and NDCG at 10, before and after, overall and for each class."""

    def part(base: float, n: int) -> dict[str, Any]:
        return {
            "before": {"hr@10": _estimate(2 * base, 0.012, n), "ndcg@10": _estimate(base, 0.006, n)},
            "after": {"hr@10": _estimate(2 * base - 0.006, 0.012, n), "ndcg@10": _estimate(base - 0.003, 0.006, n)},
            "difference": {"hr@10": _estimate(-0.006, 0.005, n), "ndcg@10": _estimate(-0.003, 0.0025, n)},
        }

    per_class = {
        name: {label: part(0.05 + 0.006 * i, 900 - 200 * i) for i, label in enumerate(labels)}
        for name, labels in classes.items()
    }
    popularity = {"hr@10": _estimate(0.07, 0.01, 2000), "ndcg@10": _estimate(0.034, 0.005, 2000)}
    return part(0.056, 2000) | {"popularity": popularity, "per_class": per_class}


def make_found(auc: float, *, rule: bool = False) -> dict[str, Any]:
    """What one membership attack, or rule, found."""
    rate = {**_estimate(0.1), "fpr": 0.01, "realized_fpr": _estimate(0.0095)}
    return {
        "auc": _estimate(auc),
        "tpr_at_fpr": {"0.001": None, "0.01": rate},
        "balanced_accuracy": _estimate(auc - 0.1),
        "threshold": 0.0,
        "rule": rule,
        "inverted": False,
        "ahead_of_rules": None if rule else _estimate(0.1),
        "explained": "",
    }


@pytest.fixture
def membership_document() -> dict[str, Any]:
    """A membership audit of one attack and two rules."""
    attacks = {
        "overlap": make_found(0.5, rule=True),
        "popular-list": make_found(0.6, rule=True),
        "dlmia": make_found(0.7),
    }
    return {
        "schema": 1,
        "recveil": "0.1.0",
        "command": "membership",
        "argv": ["recveil", "membership", "--data", "demo"],
        "input": {"name": "demo", "model": "ncf", "shadow_model": "lfm", "item_vectors": "given"}
        | {"serving": {"nonmembers": "fold-in", "seen": "excluded", "k": 100}},
        "protocol": {"attacks": ["dlmia"], "kind": "transductive", "margin": 0.05, "seed": 0},
        "n": 800,
        "members": 400,
        "attacks": attacks,
        "roc": {name: [[0.0025, 0.01], [0.1, 0.3], [1.0, 1.0]] for name in attacks},
        "verdict": {"kind": "leak", "best": "dlmia", "sentence": "An outsider can tell."},
        "utility": {"members": _estimate(0.3), "others": _estimate(0.2)},
        "warnings": ["Left out: 5 users for too few interactions."],
    }
