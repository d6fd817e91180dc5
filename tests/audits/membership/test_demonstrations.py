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


def make_turned_world(seed: int, looks: bool | None) -> tuple[Watched, np.ndarray]:
    """A world whose lists lie on one side or the other of two axes.

    In the shadow (`looks` None) the first axis is membership and the second says nothing. In the target all users lie
    on one side of the first, where the shadow's members (or others) are, and the second is membership.
    """
    rng = np.random.default_rng(seed)
    member = rng.permutation(np.arange(N_USERS) % 2 == 0)
    first, second = (member, rng.permutation(member)) if looks is None else (np.full(N_USERS, looks), member)
    vectors = rng.normal(size=(N_ITEMS, 8)).astype(np.float32)
    read, *groups = np.split(np.arange(N_ITEMS), 5)
    for number, group in enumerate(groups):
        vectors[group, :2] += 6 * np.array([number // 2, number % 2]) - 3
    histories = [rng.choice(read, 20, replace=False) for _ in range(N_USERS)]
    lists = np.stack([rng.choice(groups[group], 10, replace=False) for group in 2 * first + second])
    return Watched(histories, lists, vectors), member


def attack_turned_world(demonstrate: str, seed: int, *, looks: bool, exchange: bool) -> float:
    """Attack a target all of whose users look alike to the shadow; `exchange` calls its members the others."""
    (shadow, known), (target, truth) = make_turned_world(2 * seed + 1, None), make_turned_world(2 * seed + 2, looks)
    attack = MEMBERSHIP_ATTACKS.make("dlmia", device="cpu", pretrain=30, alternate=30, kl_weight=0.001, batch_size=60)
    game = MembershipGame([Shadow(shadow, known)], target, truth ^ exchange)
    audit = run_membership_attacks(game, {"dlmia": attack}, seed=seed, demonstrate=demonstrate)
    return audit.attacks["dlmia"].auc.value


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_the_comparison_in_place_finds_whoever_is_called_a_member(seed: int) -> None:
    """Members keep the prediction of the attack and others go to the boundary, so the side of it decides the order."""
    for exchange in (False, True):
        assert attack_turned_world(COMPARISON, seed, looks=True, exchange=exchange) > 0.95
    assert attack_turned_world(COMPARISON, seed, looks=False, exchange=False) < 0.05


@pytest.mark.thorough
def test_an_honest_attack_does_not_know_who_is_called_a_member() -> None:
    """It may be right or wrong by luck, but never both ways: nothing of the truth reaches its training."""
    called = attack_turned_world("", 0, looks=True, exchange=False)
    exchanged = attack_turned_world("", 0, looks=True, exchange=True)
    assert called + exchanged == pytest.approx(1.0, abs=1e-9)


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
