"""The strongest attacks on `dp-cov` that we know, by what the attacker sees. One JSON line for each seed.

The target is trained on a random half of all users. The attacker knows the mechanism and the released items, simulates
the release for other halves and compares one statistic of each user (offline LiRA):

- `scores`: x'Mx for the user's row x, from the scores of all items, which are Mx, times the weight of the user in the
  released matrix, since users of little weight show little.
- `score matrix`: the inner product of M and of what the user adds to the released matrix. The attacker folds in
  histories of single items, and so sees M.
- `item side`: the same product with G, the kept directions with their eigenvalues. The attacker sees the item vectors.
- `noisy matrix`: the same with all of the noisy matrix off its diagonal, which `dp-cov` does not release. It shows how
  tight the bound is.

    RECVEIL_DATA=... python benchmarks/private_adaptive.py --options '{"epsilon": 2.0}' --references 64 --jobs 5
"""

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import linalg, sparse

from recveil.attacks.membership.lira import compute_standard_scores
from recveil.attacks.membership.reference_rows import EvidenceRows
from recveil.audits.membership.platforms import ServingPolicy, TrainedPlatform, train_platform
from recveil.audits.membership.references import draw_halves
from recveil.core.random import make_generator
from recveil.core.types import BoolArray, FloatArray
from recveil.data.member_split import MemberPart
from recveil.data.sources.catalog import load_dataset_or_demo
from recveil.metrics.empirical_epsilon import estimate_epsilon
from recveil.metrics.roc import estimate_auc, estimate_tpr_at_fpr
from recveil.models.construction import make_model
from recveil.models.dp_cov import (
    KEPT_PART_OF_EDGE,
    PrivateCovariance,
    compute_residual_gram,
    estimate_directions,
    scale_pairs,
    weigh_lengths,
)
from recveil.models.nearby_pairs import NearbyPairs, project_out
from recveil.models.private_release import add_symmetric_noise, clip_histories, scale_rows
from recveil.models.sampling import build_interaction_matrix

DELTA = 1e-5
Statistics = dict[str, FloatArray]


@dataclass(frozen=True, eq=False)
class RowMatrices:
    """What each user adds to the released matrix: y y', where y is the user's row without popularity."""

    rows: sparse.csr_array
    popular: FloatArray
    full_weight_items: int

    @property
    def norms(self) -> FloatArray:
        """Norm of what each user adds."""
        return weigh_lengths(np.diff(self.rows.indptr), self.full_weight_items)

    def sum_users(self, users: BoolArray) -> FloatArray:
        """Sum what these users add."""
        return compute_residual_gram(self.rows[np.flatnonzero(users)], self.popular, self.full_weight_items)

    def multiply(self, matrix: FloatArray) -> FloatArray:
        """Compute the inner product of what each user adds with a matrix."""
        along = np.asarray(self.rows @ self.popular)
        squares = np.asarray(self.rows.multiply(self.rows).sum(1)).ravel() - along**2
        products = self.rows @ project_out(matrix, self.popular)
        energy = np.asarray(self.rows.multiply(products).sum(1)).ravel()
        return np.asarray(self.norms * energy / np.maximum(squares, 1e-9))


@dataclass(frozen=True, eq=False)
class PairMatrices:
    """What each user adds to the released matrix where items count together by nearness in time."""

    pairs: NearbyPairs
    popular: FloatArray
    full_weight_items: int

    @property
    def norms(self) -> FloatArray:
        """Norm of what each user adds."""
        return weigh_lengths(self.pairs.lengths, self.full_weight_items)

    @cached_property
    def scale(self) -> FloatArray:
        """Factor of each user's pairs."""
        return scale_pairs(self.pairs, self.popular, self.full_weight_items)

    def sum_users(self, users: BoolArray) -> FloatArray:
        """Sum what these users add."""
        return self.pairs.sum_matrices(self.scale * users, self.popular)

    def multiply(self, matrix: FloatArray) -> FloatArray:
        """Compute the inner product of what each user adds with a matrix."""
        return self.scale * self.pairs.multiply(project_out(matrix, self.popular))


@dataclass(frozen=True, eq=False)
class Simulator:
    """Rows of all users over the released items, what they add to the matrix, and the mechanism."""

    rows: sparse.csr_array
    added: RowMatrices | PairMatrices
    noise: float
    model: PrivateCovariance

    @classmethod
    def watch(cls, target: TrainedPlatform, model: PrivateCovariance) -> "Simulator":
        """Take from a trained target what its attacker knows."""
        assert model.guarantee_ is not None
        items = np.flatnonzero(target.is_known)
        seen = target.history.take(target.is_known[target.history.item])
        seen = replace(seen, item=np.searchsorted(items, seen.item), item_ids=seen.item_ids[items])
        seen = clip_histories(seen, model.max_history)
        rows = scale_rows(build_interaction_matrix(seen, model.recency))
        popular = np.asarray(model.item_vectors_[model.released_items_, 0], dtype=np.float64)
        popular /= np.linalg.norm(popular)
        added: RowMatrices | PairMatrices = RowMatrices(rows, popular, model.full_weight_items)
        if model.span is not None:
            added = PairMatrices(NearbyPairs.find(seen, model.span), popular, model.full_weight_items)
        return cls(rows, added, model.guarantee_.releases[2].noise, model)

    def draw_matrix(self, users: BoolArray, rng: np.random.Generator) -> FloatArray:
        """Draw the noisy matrix of these users."""
        gram = add_symmetric_noise(self.added.sum_users(users), self.noise, rng)
        np.fill_diagonal(gram, 0.0)
        return gram

    def compute_statistics(self, gram: FloatArray) -> Statistics:
        """Compute what each attacker compares, for all users."""
        size = self.model.embedding_size - 1
        vectors = estimate_directions(gram, self.noise, max_directions=size, reg=self.model.reg)
        values, directions = linalg.eigh(gram)
        kept = values > KEPT_PART_OF_EDGE * 2 * self.noise * np.sqrt(len(gram) / 2)
        along = np.asarray(self.rows @ self.added.popular)
        return {
            "scores": self.added.norms * (along**2 + np.square(np.asarray(self.rows @ vectors)).sum(1)),
            "score matrix": self.added.multiply(vectors @ vectors.T),
            "item side": self.added.multiply((directions[:, kept] * values[kept]) @ directions[:, kept].T),
            "noisy matrix": self.added.multiply(gram),
        }


def attack_target(data_name: str, options: dict[str, Any], references: int, seed: int) -> dict[str, Any]:
    """Train and attack one target."""
    begin = time.process_time()
    data, rng = load_dataset_or_demo(data_name, seed=0), make_generator(seed, "halves")
    member = rng.random(data.n_users) < 0.5
    model = make_model("dp-cov", data_name, {"noise_seed": 0, **options}, "cpu")
    assert isinstance(model, PrivateCovariance)
    target = train_platform(MemberPart(data, member), model, ServingPolicy(k=1), rng=rng.spawn(1)[0])
    simulator, rng = Simulator.watch(target, model), make_generator(seed, "halves", "references")
    # Given its items, the target's matrix is drawn once more: all attackers then see parts of the same one.
    observed = simulator.compute_statistics(simulator.draw_matrix(member, rng))
    inside = draw_halves(data.n_users, references, rng)
    drawn = [simulator.compute_statistics(simulator.draw_matrix(half, rng)) for half in inside.T]
    scores = {
        name: compute_standard_scores(
            EvidenceRows(np.stack([d[name] for d in drawn], axis=1), inside, value), spread="pooled"
        )
        for name, value in observed.items()
    }
    line: dict[str, Any] = {"data": data_name, "options": options, "references": references, "seed": seed}
    for name, score in scores.items():
        auc, rates = estimate_auc(member, score), estimate_tpr_at_fpr(member, score, 0.01)
        proved = estimate_epsilon(member, {name: score}, delta=DELTA, rng=make_generator(seed, "halves", name))
        line[name] = {
            "auc": [round(x, 4) for x in (auc.value, auc.low, auc.high)],
            "tpr": None if rates is None else round(rates.tpr.value, 4),
            "epsilon proved": round(proved.epsilon, 3),
        }
    guarantee = model.guarantee_
    assert guarantee is not None
    line["bound"] = {"auc": round(guarantee.max_auc, 4), "tpr": round(guarantee.max_tpr_at_1_percent_fpr, 4)}
    return {**line, "items": guarantee.n_released_items, "cpu_s": round(time.process_time() - begin, 1)}


def main() -> None:
    """Read the command line and print one line for each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--options", default="{}", help="options of the model as JSON")
    parser.add_argument("--references", type=int, default=64)
    parser.add_argument("--seeds", type=int, nargs="+", default=range(5))
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    attack = partial(attack_target, given.data, json.loads(given.options), given.references)
    with ProcessPoolExecutor(given.jobs) as pool:
        lines = pool.map(attack, given.seeds) if given.jobs > 1 else map(attack, given.seeds)
        for line in lines:
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
