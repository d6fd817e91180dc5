"""A published mistake makes a perfect attack out of nothing, and the result says that it was committed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recveil.attacks.membership import MEMBERSHIP_ATTACKS
from recveil.audits.membership.audit import run_membership_attacks
from recveil.audits.membership.demonstrations import COMPARISON, LABEL_LEAK, MISTAKES
from recveil.audits.membership.game import MembershipGame
from recveil.core.errors import UsageError
from recveil.core.types import Shadow, Watched
from recveil.workflows.membership import MembershipRequest, run_membership_on_data

N_USERS, N_ITEMS, D = 120, 300, 60


def make_world(seed: int) -> tuple[Watched, np.ndarray]:
    """Histories, lists and members that have nothing to do with each other."""
    rng = np.random.default_rng(seed)
    histories = [rng.choice(N_ITEMS, 20, replace=False) for _ in range(N_USERS)]
    lists = np.stack([rng.choice(N_ITEMS, 10, replace=False) for _ in range(N_USERS)])
    vectors = np.random.default_rng(0).normal(size=(N_ITEMS, D)).astype(np.float32)
    return Watched(histories, lists, vectors), rng.permutation(np.arange(N_USERS) % 2 == 0)


def play(demonstrate: str) -> tuple[float, list[str]]:
    (shadow, known), (target, truth) = make_world(1), make_world(2)
    attack = MEMBERSHIP_ATTACKS.make(
        "dlmia", device="cpu", pretrain=150, reweight=False, kl_weight=0.001, batch_size=60
    )
    game = MembershipGame([Shadow(shadow, known)], target, truth)
    audit = run_membership_attacks(game, {"dlmia": attack}, seed=0, demonstrate=demonstrate)
    return audit.attacks["dlmia"].auc.value, audit.notes


@pytest.mark.thorough
def test_the_label_leak_turns_guessing_into_near_certainty_and_without_it_guessing_is_back() -> None:
    honest, notes = play("")
    assert abs(honest - 0.5) < 0.15
    assert not any("DEMONSTRATION" in note for note in notes)
    leaked, notes = play(LABEL_LEAK)
    assert leaked > 0.95
    assert notes[0].startswith("DEMONSTRATION, not an audit: the true members of the target")


def make_separable_world(seed: int, shift: float) -> tuple[Watched, np.ndarray]:
    """A world whose members look different, in a place that differs from world to world."""
    rng = np.random.default_rng(seed)
    member = rng.permutation(np.arange(N_USERS) % 2 == 0)
    vectors = rng.normal(size=(N_ITEMS, D)).astype(np.float32) + np.float32(shift)
    vectors[: N_ITEMS // 2] += rng.normal(size=D).astype(np.float32)
    near, far = np.arange(N_ITEMS // 2), np.arange(N_ITEMS // 2, N_ITEMS)
    histories = [rng.choice(near, 20, replace=False) for _ in range(N_USERS)]
    lists = np.stack([rng.choice(near if m else far, 10, replace=False) for m in member])
    return Watched(histories, lists, vectors), member


def play_foreign_shadow(demonstrate: str) -> float:
    """Attack a target whose item vectors have nothing to do with the shadow's."""
    (shadow, known), (target, truth) = make_separable_world(1, 0.0), make_separable_world(2, 1.0)
    attack = MEMBERSHIP_ATTACKS.make("dlmia", device="cpu", pretrain=30, alternate=60, kl_weight=0.001, batch_size=16)
    game = MembershipGame([Shadow(shadow, known)], target, truth)
    audit = run_membership_attacks(game, {"dlmia": attack}, seed=0, demonstrate=demonstrate)
    return audit.attacks["dlmia"].auc.value


@pytest.mark.thorough
def test_the_comparison_in_place_tells_members_apart_that_an_honest_attack_does_not_know() -> None:
    assert play_foreign_shadow(COMPARISON) > 0.95
    assert play_foreign_shadow("") < 0.85


def test_a_mistake_that_is_not_offered_is_refused() -> None:
    with pytest.raises(UsageError, match="Did you mean 'label-leak'"):
        play("label-leek")
    (shadow, known), (target, _) = make_world(1), make_world(2)
    game = MembershipGame([Shadow(shadow, known)], target, None)
    with pytest.raises(UsageError, match="needs the true members"):
        run_membership_attacks(game, {}, seed=0, demonstrate=LABEL_LEAK)
    assert list(MISTAKES) == [LABEL_LEAK, COMPARISON]


def write_interactions(path: Path, n_users: int, n_items: int) -> str:
    """Write a log of users and their items, which have nothing to do with each other."""
    rng = np.random.default_rng(n_users)
    rows = [f"{user},{item}" for user in range(n_users) for item in rng.choice(n_items, 25, replace=False)]
    path.write_text("user_id,item_id\n" + "\n".join(rows) + "\n")
    return str(path)


@pytest.mark.thorough
def test_the_document_names_the_mistake_and_warns_first(tmp_path: Path) -> None:
    data = write_interactions(tmp_path / "data.csv", 200, 100)
    options = {"embedding_size": 8}
    request = MembershipRequest(
        data=data, model="puresvd", options=options, attacks=["biased"], demonstrate=LABEL_LEAK, k=10
    )
    result = run_membership_on_data(request)
    assert result.demonstration == LABEL_LEAK
    assert result.warnings[0].startswith("DEMONSTRATION")
    assert sum(note.startswith("DEMONSTRATION") for note in result.warnings) == 1


@pytest.mark.thorough
def test_a_shadow_of_another_data_set_is_split_and_factored_apart(tmp_path: Path) -> None:
    data = write_interactions(tmp_path / "data.csv", 200, 100)
    other = write_interactions(tmp_path / "other.csv", 90, 60)
    options = {"embedding_size": 8}
    request = MembershipRequest(
        data=data, model="puresvd", options=options, attacks=["biased"], shadow_data=other, k=10
    )
    result = run_membership_on_data(request)
    assert result.input.shadow_data == other
    assert any("share no axes" in note for note in result.warnings)
    assert "biased" in result.attacks
