"""Speed of the audit: the full panel against a plain scikit-learn loop, and growth with the users.

    RECVEIL_DATA=... python benchmarks/audit.py [--device cuda] [--seeds 5] [--only mlp-1,mlp-2] [--skip plain,growth]

Both attack 32-dimensional BPR-MF vectors of the data set, gender, in 5 folds x 5 repeats; times are CPU seconds. The
plain loop standardizes, balances the classes and fits the outer folds only; ours also plays the inner folds by which
the headline is chosen and guesses are relabelled, so its fits are two for each of the loop's. Plain kernel ridge
chooses among the same kernels, bandwidths and ridges as ours, on two quarters of the users as ours does; it and the
plain ensemble are run for one repeat, and their time is multiplied. Balanced accuracies must agree to 0.01.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import resource
import time
import warnings
from collections.abc import Sequence
from itertools import product

import numpy as np
import torch
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.class_weight import compute_sample_weight

from recveil.attacks.attribute.panels import make_panel
from recveil.attacks.attribute.tasks import Task
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation, FoldTrial, run_attacks_on_folds
from recveil.core.random import make_generator
from recveil.data.sources.catalog import load_dataset
from recveil.data.splits import leave_one_out
from recveil.metrics.leakage import balanced_accuracy, compute_confusion
from recveil.models.bprmf import BPRMF
from recveil.testing.worlds import make_no_leak, make_planted_leak

WIDTHS, RIDGES = (0.2, 0.45, 1.0), (0.3, 3.0, 30.0)
KERNELS = {"rbf": lambda d: np.exp(-0.5 * d**2), "laplace": lambda d: np.exp(-d)}
SLOW = ("kernel-ridge", "ensemble")
"""Attackers whose plain loop is run for one repeat, and its time multiplied."""

NEURAL = ("logistic", "mlp-1", "mlp-2", "mlp-3", "mlp-4")


class PlainKernelRidge(ClassifierMixin, BaseEstimator):
    """Kernel ridge by Cholesky factors in single precision, its setting chosen on two quarters of the users."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> "PlainKernelRidge":
        """Try each kernel, bandwidth and ridge, and fit the best of them to all users."""
        self.classes_, x = np.unique(y), x.astype(np.float32)
        weight = compute_sample_weight("balanced", y).astype(np.float32)
        side = np.where(y == self.classes_[1], 1, -1).astype(np.float32)
        order = np.random.default_rng(0).permutation(len(x))
        unit, losses = float(np.median(euclidean_distances(x[order[:1_000]]))), {}
        for test in np.array_split(order, 4)[1::2]:
            train = np.setdiff1d(order, test)
            near, far = euclidean_distances(x[train]), euclidean_distances(x[test], x[train])
            for kernel, width in product(KERNELS, WIDTHS):
                inside, outside = (KERNELS[kernel](d / (width * unit)) for d in (near, far))
                for ridge in RIDGES:
                    guess = outside @ solve_kernel_system(inside, ridge, side[train], weight[train])
                    loss = float((weight[test] * (guess - side[test]) ** 2).sum())
                    losses[kernel, width, ridge] = losses.get((kernel, width, ridge), 0.0) + loss
        kernel, width, ridge = min(losses, key=losses.__getitem__)
        self.users_, self.kernel_ = x, lambda distances: KERNELS[kernel](distances / (width * unit))
        self.coefficients_ = solve_kernel_system(self.kernel_(euclidean_distances(x)), ridge, side, weight)
        return self

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Return shares from the predicted side."""
        distances = euclidean_distances(x.astype(np.float32), self.users_)
        share = np.clip(0.5 + 0.5 * self.kernel_(distances) @ self.coefficients_, 1e-6, 1 - 1e-6)
        return np.stack([1 - share, share], 1)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return the likelier class."""
        return self.classes_[self.predict_proba(x).argmax(1)]


def solve_kernel_system(gram: np.ndarray, ridge: float, side: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return (gram + ridge / weight)^-1 side; balanced sides have the mean 0."""
    system = gram.copy()
    system.flat[:: len(gram) + 1] += ridge / weight
    return cho_solve(cho_factor(system, overwrite_a=True, check_finite=False), side, check_finite=False)


class PlainEnsemble(ClassifierMixin, BaseEstimator):
    """Mean of the standardized log-odds of a line, two networks, kernels and trees of scikit-learn."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> "PlainEnsemble":
        """Fit all members."""
        self.classes_, weight = np.unique(y), compute_sample_weight("balanced", y)
        networks = [MLPClassifier(h, early_stopping=True, random_state=0) for h in ((100,), (100, 64))]
        trees = HistGradientBoostingClassifier(
            class_weight="balanced", learning_rate=0.15, max_iter=40, max_leaf_nodes=15, early_stopping=False
        )
        plain = [LogisticRegression(class_weight="balanced"), PlainKernelRidge(), trees]
        self.models_ = [*(m.fit(x, y, sample_weight=weight) for m in networks), *(m.fit(x, y) for m in plain)]
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return the likelier class."""
        odds = [np.diff(np.log(np.clip(m.predict_proba(x), 1e-6, None)), axis=1)[:, 0] for m in self.models_]
        return self.classes_[(np.mean([o / o.std() for o in odds], axis=0) > 0).astype(int)]


def plain_panel(seed: int) -> dict:
    """Return the attackers of the full panel as scikit-learn has them: model, way of balancing."""
    weighed = {"class_weight": "balanced"}

    def mlp(*hidden: int) -> MLPClassifier:
        return MLPClassifier(hidden, early_stopping=True, random_state=seed)

    found = {
        "majority": (DummyClassifier(strategy="prior"), ""),
        "random": (DummyClassifier(strategy="stratified", random_state=seed), ""),
        "logistic": (LogisticRegression(**weighed), ""),
        "lda": (LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto", priors=[0.5, 0.5]), ""),
        "qda": (QuadraticDiscriminantAnalysis(reg_param=1e-2, priors=[0.5, 0.5]), ""),
        "naive-bayes": (GaussianNB(priors=[0.5, 0.5], var_smoothing=1e-3), ""),
        "knn": (KNeighborsClassifier(25), "votes"),
        "svm-linear": (LinearSVC(**weighed), ""),
        "svm-rbf": (SVC(**weighed), ""),
        "tree": (DecisionTreeClassifier(min_samples_leaf=5, random_state=seed, **weighed), ""),
        "forest": (
            RandomForestClassifier(100, max_depth=20, min_samples_leaf=6, random_state=seed),
            "sample",
        ),
        "adaboost": (AdaBoostClassifier(n_estimators=50, random_state=seed), "sample"),
        "boosting": (GradientBoostingClassifier(n_estimators=100, random_state=seed), "sample"),
        "mlp-1": (mlp(), "sample"),
        "mlp-2": (mlp(100), "sample"),
        "mlp-3": (mlp(100, 64), "sample"),
        "mlp-4": (mlp(100, 64, 32), "sample"),
        "kernel-ridge": (PlainKernelRidge(), ""),
        "ensemble": (PlainEnsemble(), ""),
    }
    try:
        from xgboost import XGBClassifier
    except ImportError:
        return found
    return {**found, "xgboost": (XGBClassifier(random_state=seed), "sample")}


def plain(name: str, x: np.ndarray, y: np.ndarray, folds: int, seeds: int) -> tuple[float, float]:
    """Return the CPU seconds and the balanced accuracy of one attacker in the plain loop."""
    repeats = 1 if name in SLOW else seeds
    start, reached = time.process_time(), []
    for seed in range(repeats):
        for train, test in StratifiedKFold(folds, shuffle=True, random_state=seed).split(x, y):
            scale = StandardScaler().fit(x[train])
            model, balance = plain_panel(seed)[name]
            given = {"sample_weight": compute_sample_weight("balanced", y[train])} if balance == "sample" else {}
            model.fit(scale.transform(x[train]), y[train], **given)
            if balance == "votes":
                guess = (model.predict_proba(scale.transform(x[test])) / np.bincount(y[train])).argmax(1)
            else:
                guess = model.predict(scale.transform(x[test]))
            reached.append(balanced_accuracy(compute_confusion(y[test], guess, 2)))
    return (time.process_time() - start) * seeds / repeats, float(np.mean(reached))


def ours(name: str, attack: object, x: np.ndarray, y: np.ndarray, rules: CrossValidation) -> tuple[float, float]:
    """Return the CPU seconds and the balanced accuracy of one attacker of ours, inner folds included."""
    start = time.process_time()
    trials = run_attacks_on_folds(x, y, 2, {name: attack}, rules=rules, seed=0)[name]
    return time.process_time() - start, score(trials)


def score(trials: Sequence[FoldTrial]) -> float:
    """Return the mean balanced accuracy over the folds."""
    counts = [compute_confusion(trial.test.truth, trial.test.score.argmax(1), 2) for trial in trials]
    return float(np.mean([balanced_accuracy(each) for each in counts]))


def compare(x: np.ndarray, y: np.ndarray, seeds: int, attacks: dict, beside: bool) -> None:
    """Print one row for each attacker, and the sums."""
    rules = CrossValidation(5, seeds)
    for attack in attacks.values():  # what is compiled or loaded once is not the panel's cost
        attack.guess(x[:400], y[:400], 2, [Task(np.arange(300), np.arange(300, 400))], rng=make_generator(0, "warm"))
    print(
        "| attacker | plain CPU s | our CPU s | ratio | plain BAcc | our BAcc |\n| --- | --- | --- | --- | --- | --- |"
    )
    sums = {"all": np.zeros(2), "logistic and MLPs": np.zeros(2)}
    for name, attack in attacks.items():
        seconds, reached = ours(name, attack, x, y, rules)
        before, aim = plain(name, x, y, 5, seeds) if beside else (float("nan"), float("nan"))
        for kind in ("all", "logistic and MLPs") if name in NEURAL else ("all",):
            sums[kind] += before, seconds
        print(
            f"| {name} | {before:.1f} | {seconds:.1f} | {before / seconds:.1f} | {aim:.3f} | {reached:.3f} |",
            flush=True,
        )
    for kind, (before, seconds) in sums.items():
        print(f"| **{kind}** | {before:.1f} | {seconds:.1f} | {before / seconds:.1f} | | |", flush=True)


def growth(sizes: list[int], d: int, device: str) -> None:
    """Print seconds of the `fast` panel and peak memory for growing numbers of users (5 folds, one repeat)."""
    print("\n| users | d | seconds | per 1,000 users | peak memory |\n| --- | --- | --- | --- | --- |")
    costs: list[float] = []
    for n in sizes:
        x, secret = make_no_leak(n, d, 2, rng=make_generator(0, "growth", str(n)))
        start = time.process_time()
        audit_attribute(x, secret, make_panel("fast", device), rules=CrossValidation(5, 1))
        seconds = time.process_time() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        costs.append(seconds)
        print(f"| {n:,} | {d} | {seconds:.1f} | {seconds / n * 1000:.2f} | {peak:.1f} GiB |", flush=True)
    if len(sizes) > 1:
        print(f"\nCPU time grows as users^{np.log(costs[-1] / costs[0]) / np.log(sizes[-1] / sizes[0]):.2f}")


def time_large_table(n: int, d: int, device: str) -> None:
    """Print the seconds of each attacker of the full panel on a large table with a leak (5 folds, one repeat)."""
    x, secret = make_planted_leak(n, d, 2, 1.0, rng=make_generator(0, "large"))
    print(f"\n{n:,} x {d}, {device}\n\n| attacker | seconds | CPU s | BAcc |\n| --- | --- | --- | --- |", flush=True)
    total = np.zeros(2)
    for name, attack in make_panel("full", device).items():
        start = np.array([time.monotonic(), sum(os.times()[:4])])
        trials = run_attacks_on_folds(x, secret.codes, 2, {name: attack}, rules=CrossValidation(5, 1), seed=0)[name]
        spent = np.array([time.monotonic(), sum(os.times()[:4])]) - start
        total += spent
        print(f"| {name} | {spent[0]:.1f} | {spent[1]:.1f} | {score(trials):.3f} |", flush=True)
    print(f"| **all** | {total[0]:.1f} | {total[1]:.1f} | |", flush=True)


def main() -> None:
    """Compare the panel with the plain loop, then measure growth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="names of attackers, or 'neural'; if not given, all of the panel")
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--large", type=int, default=0, help="users of a large table for the full panel")
    parser.add_argument("--skip", default="", help="plain, panel, growth")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if "panel" not in given.skip:
        data = load_dataset(given.data)
        split = leave_one_out(data)
        model = BPRMF(embedding_size=32, epochs=10, device=given.device).fit(split, rng=make_generator(0, "train"))
        secret = data.attributes["gender"].codes
        known = secret >= 0
        x = np.asarray(model.user_vectors_[known], dtype=np.float64)
        attacks = make_panel("full", given.device)
        only = NEURAL if given.only == "neural" else [name for name in given.only.split(",") if name]
        chosen = {name: attacks[name] for name in only or attacks}
        compare(x, secret[known], given.seeds, chosen, "plain" not in given.skip)
    if given.large:
        time_large_table(given.large, 64, given.device)
    if "growth" not in given.skip:
        growth([int(n) for n in given.sizes.split(",")], 64, given.device)


if __name__ == "__main__":
    main()
