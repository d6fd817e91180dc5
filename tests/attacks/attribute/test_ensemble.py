"""The ensemble: the mean of standardized scores, and of one member that member's own ranking."""

from __future__ import annotations

import numpy as np

from recveil.attacks.attribute.ensemble import Ensemble
from recveil.attacks.attribute.panels import make_attack
from recveil.attacks.attribute.tasks import Task
from recveil.testing.worlds import make_planted_leak


def test_an_ensemble_of_one_ranks_users_as_its_member_does() -> None:
    x, attribute = make_planted_leak(300, 3, 2, 1.5, rng=np.random.default_rng(0))
    tasks = [Task(np.arange(200), np.arange(200, 300))]
    alone = make_attack("logistic", "cpu").guess(x, attribute.codes, 2, tasks, rng=np.random.default_rng(0))[0]
    ensemble = Ensemble(("logistic",), device="cpu")
    together = ensemble.guess(x, attribute.codes, 2, tasks, rng=np.random.default_rng(0))[0]
    assert (np.diff(together[np.argsort(alone[:, 1]), 1]) >= -1e-9).all()
