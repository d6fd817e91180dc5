"""The rehearsal of a defense: it tells a map that protects undisclosed users from one that does not."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.core.errors import UsageError
from recveil.core.result_parts import InputSummary
from recveil.core.types import UNDISCLOSED, Attribute
from recveil.testing.worlds import make_planted_leak
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.cloak_table import ClearTable, cloak_table
from recveil.workflows.defended_release import ChosenDefense
from recveil.workflows.rehearsal import rehearse_defense

QUICK = AuditProtocol(panel="logistic", folds=3, repeats=1, max_repeats=1, device="cpu")


def test_a_map_by_class_leaves_hidden_users_to_attackers_and_labelfree_does_not() -> None:
    x, secret = make_planted_leak(1_000, 4, 2, 3.0, rng=np.random.default_rng(0))
    by_class, by_vector = (
        rehearse_defense(x, [secret], ChosenDefense(name), QUICK).targets[secret.name]
        for name in ("gaussian", "labelfree")
    )
    assert by_class.n_hidden == pytest.approx(300, abs=2)
    assert by_class.knows_some.low > 0.3
    assert by_vector.knows_some.value < 0.2
    assert by_vector.from_disclosed.value < 0.2


def test_a_cloak_with_undisclosed_users_says_what_was_rehearsed() -> None:
    x, secret = make_planted_leak(400, 4, 2, 3.0, rng=np.random.default_rng(0))
    codes = np.where(np.arange(400) % 4 == 0, UNDISCLOSED, secret.codes)
    table = ClearTable(InputSummary(name="E", n_users=400, d=4), x, [Attribute("gender", codes, secret.labels)])
    result = cloak_table(table, ChosenDefense("gaussian"), QUICK)[1]
    assert result.rehearsal is not None
    assert result.rehearsal.targets["gender"].knows_some.value > 0.3
    notes = " ".join(result.defense.notes)
    assert "100 users did not disclose gender. Rehearsal" in notes
    assert "label-free map" not in notes


def test_half_a_rehearsal_is_refused() -> None:
    with pytest.raises(UsageError, match="`rehearse`.*`method`"):
        AuditProtocol(rehearse=0.3)
    with pytest.raises(UsageError, match="`rehearse`.*`method`"):
        AuditProtocol(rehearsed_method="sliced")
