from __future__ import annotations

import json
import math

from recveil.core.privacy_parts import EmpiricalEpsilon, GaussianRelease, PrivacyGuarantee


def test_a_guarantee_without_noise_is_null_in_json_and_comes_back() -> None:
    guarantee = PrivacyGuarantee(
        mechanism="m",
        unit="one user",
        epsilon=math.inf,
        delta=1e-5,
        mu=math.inf,
        item_failure=1e-7,
        releases=[GaussianRelease(name="counts", sensitivity=1.0, noise=0.0)],
        max_auc=1.0,
        max_tpr_at_1_percent_fpr=1.0,
        n_released_items=3,
        noise_seeded_by="operating system",
        noise_is_secret=False,
        sentence="No guarantee.",
    )
    plain = json.loads(guarantee.model_dump_json())
    assert (plain["epsilon"], plain["mu"], plain["releases"][0]["noise"]) == (None, None, 0.0)
    assert math.isnan(PrivacyGuarantee.model_validate(plain).epsilon)


def test_an_empirical_epsilon_may_stand_without_a_guarantee() -> None:
    bound = EmpiricalEpsilon(
        lower_bound=1.5, guarantee=None, delta=1e-5, attack="lira", n_guesses=100, n_right=90, n_users=500
    )
    assert EmpiricalEpsilon.model_validate_json(bound.model_dump_json()) == bound
