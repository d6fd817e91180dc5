from __future__ import annotations

import numpy as np
import pytest
import torch

from recveil.core.errors import TrainingError, UsageError
from recveil.core.progress import report_progress
from recveil.core.random import make_generator
from recveil.models import MODELS
from recveil.models.bprmf import BPRMF
from recveil.models.training_loop import Schedule, train_network
from recveil.testing.worlds import make_checkerboard

QUICK = {"embedding_size": 8, "epochs": 6, "learning_rate": 0.05}


class Toy(torch.nn.Module):
    """One number per user; the loss and the ranking are whatever the test says."""

    def __init__(self, losses: list[float] | None = None, good_epoch: int | None = None) -> None:
        super().__init__()
        self.n_users = 96
        self.x = torch.nn.Parameter(torch.zeros(96, 1))
        self.losses, self.good_epoch, self.n_epochs = losses, good_epoch, 0

    def draw_epoch(self, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        self.n_epochs += 1
        return (torch.full((1, 4), self.n_epochs),)

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        scale = self.losses[self.n_epochs - 1] if self.losses else 1.0
        return ((self.x - batch[0][0]) ** 2).mean() * scale

    def compute_user_vectors(self, users: torch.Tensor) -> torch.Tensor:
        return self.x[users]

    def compute_item_vectors(self) -> torch.Tensor:
        return self.x

    def score_items(self, rows: torch.Tensor) -> torch.Tensor:
        """Perfect in one epoch (for some users, where it is said for how many), without an opinion in the others."""
        board = make_checkerboard()
        scores = torch.zeros(len(rows), board.train.n_items)
        if self.n_epochs == self.good_epoch:
            user, item = (torch.as_tensor(a) for a in (board.valid.user, board.valid.item))
            scores[user, item] = 1.0
        return scores


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_the_best_epoch_is_kept_and_patience_ends_training() -> None:
    toy = Toy(good_epoch=2)
    seen: list[float] = []
    toy.register_state_dict_post_hook(lambda *_: seen.append(float(toy.x[0].detach())))
    history = train_network(toy, make_checkerboard(), Schedule(50, 0.1, patience=3), generator=seeded())
    assert history.best == 1
    assert len(history.valid) == 5  # three epochs without gain after the second
    assert history.valid[1] == max(history.valid) == 1.0
    assert len(seen) == 5
    assert float(toy.x[0].detach()) == seen[1] != seen[4]  # copied at the best epoch
    assert history.stopped is None


def test_without_validation_items_all_epochs_run() -> None:
    board = make_checkerboard()
    empty = type(board)(board.train, board.valid.take(np.zeros(len(board.valid), bool)), board.test)
    history = train_network(Toy(good_epoch=2), empty, Schedule(9, 0.1, patience=1), generator=seeded())
    assert len(history.loss) == 9
    assert history.valid == []
    assert history.best == 8


BAD = [float("nan"), float("inf")]


@pytest.mark.parametrize("bad", BAD)
def test_a_fault_in_the_first_epoch_is_an_error(bad: float) -> None:
    with pytest.raises(TrainingError, match=r"recommendation loss is no longer.*epoch 1.*learning_rate than 0.1\.$"):
        train_network(Toy(losses=[bad]), None, Schedule(9, 0.1), generator=seeded())


@pytest.mark.parametrize("bad", BAD)
def test_a_loss_that_is_not_finite_ends_training_with_the_last_good_epoch(bad: float) -> None:
    toy, short = Toy(losses=[1, 1, bad]), Toy(losses=[1, 1])
    with pytest.warns(RuntimeWarning, match=r"recommendation loss is no longer.*epoch 3.*one after epoch 2\."):
        history = train_network(toy, None, Schedule(9, 0.1), generator=seeded())
    train_network(short, None, Schedule(9, 0.1, max_epochs=2), generator=seeded())
    assert torch.equal(toy.x, short.x)
    assert toy.x.abs().min() > 0
    assert len(history.loss) == 2
    assert history.best == 1
    assert history.stopped is not None
    assert "epoch 3" in history.stopped


def test_after_a_fault_the_best_ranked_epoch_is_kept() -> None:
    toy, short = Toy(losses=[1, 1, 1, float("nan")], good_epoch=2), Toy()
    with pytest.warns(RuntimeWarning, match="epoch 4.*one after epoch 2"):
        history = train_network(toy, make_checkerboard(), Schedule(9, 0.1), generator=seeded())
    train_network(short, None, Schedule(9, 0.1, max_epochs=2), generator=seeded())
    assert torch.equal(toy.x, short.x)
    assert (history.best, len(history.loss)) == (1, 3)


def test_weights_that_are_not_finite_are_noticed_while_the_loss_is_finite() -> None:
    """The root's slope is infinite at 0, and its value is not."""

    class Rooted(Toy):
        def loss(self, *batch: torch.Tensor) -> torch.Tensor:
            loss = super().loss(*batch)
            return loss + (self.x - self.x.detach()).abs().sqrt().sum() if self.n_epochs == 3 else loss

    toy = Rooted()
    with pytest.warns(RuntimeWarning, match="gradient is no longer a number.*epoch 3, step 1.*one after epoch 2"):
        train_network(toy, None, Schedule(3, 0.1), generator=seeded())
    assert torch.isfinite(toy.x).all()


class Watcher:
    """A penalty that pulls users to the origin and writes down how it was called."""

    needs_items = False

    def __init__(self, weight: float = 0.0) -> None:
        self.weight, self.calls, self.users, self.items = weight, [], [], None

    def start_epoch(self, user_vectors: torch.Tensor) -> None:
        assert not user_vectors.requires_grad
        self.calls.append("epoch")

    def __call__(
        self, users: torch.Tensor, user_vectors: torch.Tensor, item_vectors: torch.Tensor | None = None
    ) -> torch.Tensor:
        assert len(users) == len(user_vectors)
        self.calls.append("step")
        self.users.append(users.clone())
        self.items = item_vectors
        return self.weight * user_vectors.square().sum()

    def measure_shortfall(self, user_vectors: torch.Tensor) -> float:
        assert not user_vectors.requires_grad
        return np.inf

    def finish(self, user_vectors: torch.Tensor) -> torch.Tensor:
        self.calls.append("finish")
        return user_vectors + 1000.0


def test_a_penalty_is_called_for_epochs_steps_and_the_end() -> None:
    watcher = Watcher()
    model = BPRMF(**QUICK).fit(make_checkerboard(), penalty=watcher, rng=make_generator(0, "t"))
    per_epoch = watcher.calls[1 : watcher.calls.index("epoch", 1)]
    assert per_epoch == ["step"] * len(per_epoch)
    assert watcher.calls == (["epoch", *per_epoch]) * 6 + ["finish"]
    assert model.user_vectors_.min() > 900
    assert np.allclose(model.score(np.array([3])), model.user_vectors_[[3]] @ model.item_vectors_.T)
    assert watcher.items is None


def test_every_user_is_penalized_alike() -> None:
    watcher = Watcher()
    train_network(Toy(), None, Schedule(12, 0.1, penalty_users=96), penalty=watcher, generator=seeded())
    blocks = torch.cat(watcher.users)
    assert torch.bincount(blocks, minlength=96).max() <= 12
    for users in watcher.users:
        assert len(set(users.tolist())) == len(users)


SHORT = {"max_length": 4, "hidden_size": 8}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "small"),
    [("bprmf", {}), ("caser", {}), ("dmf", {}), ("ncf", {}), ("lightgcn", {}), ("gru4rec", SHORT), ("bert4rec", SHORT)],
)
def test_a_penalty_of_zero_changes_nothing_and_a_pull_to_the_origin_shrinks_the_released_vectors(
    name: str, small: dict[str, int]
) -> None:
    board = make_checkerboard()
    empty = type(board)(board.train, board.valid.take(np.zeros(len(board.valid), bool)), board.test)

    def vectors(penalty: Watcher | None) -> np.ndarray:
        model = MODELS.make(name, **small, epochs=2, learning_rate=0.05, device="cpu")
        found = model.fit(empty, penalty=penalty, rng=make_generator(0, "t")).user_vectors_
        return found if penalty is None else found - 1000.0

    plain = vectors(None)
    np.testing.assert_array_equal((plain + 1000.0) - 1000.0, vectors(Watcher(0.0)))
    assert np.abs(vectors(Watcher(10.0))).mean() < 0.5 * np.abs(plain).mean()


def test_a_strong_penalty_is_obeyed() -> None:
    plain = BPRMF(**QUICK, reg=0.0).fit(make_checkerboard(), rng=make_generator(0, "t"))
    pulled = BPRMF(**QUICK, reg=0.0).fit(make_checkerboard(), penalty=Watcher(10.0), rng=make_generator(0, "t"))
    assert np.abs(pulled.user_vectors_ - 1000.0).mean() < 0.2 * np.abs(plain.user_vectors_).mean()


def test_penalized_users_differ_by_epoch_and_repeat_with_the_seed() -> None:
    def shown(seed: int) -> torch.Tensor:
        watcher = Watcher()
        train_network(Toy(), None, Schedule(4, 0.1), penalty=watcher, generator=torch.Generator().manual_seed(seed))
        return torch.stack(watcher.users)

    assert torch.equal(shown(0), shown(0))
    assert not torch.equal(shown(0), shown(1))
    assert len(torch.unique(shown(0), dim=0)) == 4


def test_a_penalty_sees_a_quarter_of_the_batch_within_limits() -> None:
    class Wide(Toy):
        def __init__(self, batch: int) -> None:
            super().__init__()
            self.n_users, self.batch, self.x = 5000, batch, torch.nn.Parameter(torch.zeros(5000, 1))

        def draw_epoch(self, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
            return (torch.ones(1, self.batch),)

    def seen(batch: int, most: int) -> int:
        watcher = Watcher()
        train_network(Wide(batch), None, Schedule(1, 0.1, penalty_users=most), penalty=watcher, generator=seeded())
        return len(watcher.users[0])

    assert seen(8, 1024) == 32
    assert 45 < seen(200, 1024) <= 50
    assert seen(8192, 100) == 100
    assert seen(8192, 1024) == 200  # small data are cut into 25 blocks


def test_a_penalty_that_needs_items_gets_them_with_their_gradient() -> None:
    watcher = Watcher()
    watcher.needs_items = True
    BPRMF(**QUICK).fit(make_checkerboard(), penalty=watcher, rng=make_generator(0, "t"))
    assert watcher.items is not None
    assert watcher.items.shape == (24, 8)
    assert watcher.items.requires_grad


def test_a_penalty_that_is_not_finite_is_named() -> None:
    with pytest.raises(TrainingError, match="penalty is no longer a number.*epoch 1, step 1.*weaker defense"):
        BPRMF(**QUICK).fit(make_checkerboard(), penalty=Watcher(float("nan")), rng=make_generator(0, "t"))


def test_a_penalty_that_breaks_in_the_third_epoch_leaves_the_model_of_the_second() -> None:
    class Breaking(Watcher):
        def __call__(self, users: torch.Tensor, user_vectors: torch.Tensor, *rest: object) -> torch.Tensor:
            return super().__call__(users, user_vectors) * (float("nan") if self.calls.count("epoch") == 3 else 1.0)

    class Noting(Watcher):
        """Keeps the table as each epoch finds it."""

        def start_epoch(self, user_vectors: torch.Tensor) -> None:
            super().start_epoch(user_vectors)
            self.tables = [*getattr(self, "tables", []), user_vectors.numpy() + 1000.0]

    noting = Noting(0.1)
    BPRMF(**QUICK).fit(make_checkerboard(), penalty=noting, rng=make_generator(0, "t"))
    with pytest.warns(RuntimeWarning, match="penalty is no longer a number.*epoch 3, step 1.*weaker.*after epoch 2"):
        model = BPRMF(**QUICK).fit(make_checkerboard(), penalty=Breaking(0.1), rng=make_generator(0, "t"))
    np.testing.assert_array_equal(model.user_vectors_, noting.tables[2])
    assert len(model.history_.loss) == model.passes_ == 2


def test_with_a_penalty_the_last_epoch_is_kept_not_the_best_ranked() -> None:
    toy = Toy(good_epoch=1)
    history = train_network(
        toy, make_checkerboard(), Schedule(9, 0.1, patience=1), penalty=Watcher(), generator=seeded()
    )
    assert history.best == 8
    assert len(history.loss) == 9


def test_the_best_epoch_is_kept_among_those_in_which_the_penalty_has_taken_effect() -> None:
    class Settling(Watcher):
        def measure_shortfall(self, user_vectors: torch.Tensor) -> float:
            return 0.0 if self.calls.count("epoch") > 2 else np.inf

    schedule = Schedule(9, 0.1, patience=2)
    early, late = (
        train_network(Toy(good_epoch=good), make_checkerboard(), schedule, penalty=Settling(), generator=seeded())
        for good in (1, 4)
    )
    assert (late.best, len(late.loss), len(late.valid)) == (3, 6, 4)  # two epochs unjudged, two without gain
    assert (early.best, len(early.loss)) == (2, 5)  # the epoch that ranks best came before the defense


def test_an_epoch_in_which_the_effect_is_lost_again_does_not_replace_the_kept_one() -> None:
    class Passing(Watcher):
        def measure_shortfall(self, user_vectors: torch.Tensor) -> float:
            return 0.0 if self.calls.count("epoch") == 4 else np.inf

    history = train_network(
        Toy(good_epoch=1), make_checkerboard(), Schedule(9, 0.1, patience=2), penalty=Passing(), generator=seeded()
    )
    assert (history.best, len(history.loss), len(history.valid)) == (3, 9, 1)


def test_where_the_goal_is_not_reached_the_epoch_nearest_to_it_is_kept() -> None:
    class Approaching(Watcher):
        def measure_shortfall(self, user_vectors: torch.Tensor) -> float:
            return (np.inf, 3.0, 1.0, 1.0, 2.0, 4.0, 4.0, 4.0, 4.0)[self.calls.count("epoch") - 1]

    schedule = Schedule(9, 0.1, patience=2)
    for good, kept, ranked in ((1, 2, 3), (4, 3, 3)):
        history = train_network(
            Toy(good_epoch=good), make_checkerboard(), schedule, penalty=Approaching(), generator=seeded()
        )
        assert (history.best, len(history.loss), len(history.valid)) == (kept, 9, ranked)


def test_progress_is_reported() -> None:
    heard = []

    def reporter(items, label, total):  # type: ignore[no-untyped-def]
        heard.append((label, total))
        return items

    with report_progress(reporter):
        BPRMF(**QUICK).fit(make_checkerboard(), rng=make_generator(0, "t"))
    assert heard == [("training BPR-MF", 6)]


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"patience": 0}, {"learning_rate": 0.0}, {"learning_rate": np.nan}])
def test_wrong_settings_are_errors(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        BPRMF(**{**QUICK, **wrong}).fit(make_checkerboard(), rng=make_generator(0, "t"))


@pytest.mark.thorough
def test_long_schedules_rank_every_second_epoch_and_short_ones_each() -> None:
    def judged(epochs: int) -> tuple[int, int]:
        model = BPRMF(embedding_size=4, epochs=epochs, patience=epochs, device="cpu")
        history = model.fit(make_checkerboard(), rng=make_generator(0, "t")).history_
        return len(history.loss), len(history.valid)

    assert judged(7) == (7, 7)
    assert judged(201) == (201, 101)  # every second epoch, and the last
