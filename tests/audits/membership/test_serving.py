"""Rules by which members and non-members are served."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.audits.membership.platforms import train_platform
from recveil.audits.membership.serving import ServingPolicy
from recveil.core.errors import UsageError
from recveil.data.member_split import MemberPart
from recveil.data.synthetic import make_world
from recveil.models.bprmf import BPRMF
from recveil.models.puresvd import PureSVD


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nonmembers": "fold-in-al"}, "Did you mean 'fold-in-all'"),
        ({"seen": "hidden"}, "No rule for seen items is called 'hidden'"),
        ({"k": 0}, "A list needs at least one place"),
    ],
)
def test_rules_that_do_not_exist_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ServingPolicy(**options)  # type: ignore[arg-type]


def test_who_is_folded_in() -> None:
    rules = [ServingPolicy(name) for name in ("fold-in", "popular", "fold-in-all")]
    assert [rule.folds_in_nonmembers for rule in rules] == [True, False, True]
    assert [rule.folds_in_members for rule in rules] == [False, False, True]


@pytest.mark.parametrize(("model", "is_exact"), [(PureSVD, True), (BPRMF, False)])
def test_members_can_be_served_like_users_that_the_model_never_saw(model: type, is_exact: bool) -> None:
    data = make_world(n_users=60, n_items=30, n_interactions=900, leaks={}, rng=np.random.default_rng(0)).dataset
    part = MemberPart(data, np.arange(60) % 2 == 0)
    options = {"embedding_size": 4, "device": "cpu"} | ({} if model is PureSVD else {"epochs": 2})
    by_training, by_fold_in = (
        train_platform(part, model(**options), ServingPolicy(name, k=5), rng=np.random.default_rng(1)).score(
            np.flatnonzero(part.member)
        )
        for name in ("fold-in", "fold-in-all")
    )
    assert np.allclose(by_training, by_fold_in, atol=1e-4, equal_nan=True) == is_exact
