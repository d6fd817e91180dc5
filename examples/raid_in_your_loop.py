"""RAID in a training loop of your own: `loss = recommendation + raid(users, vectors)`."""

import numpy as np
import torch
from torch.nn import functional

import recveil as rv
from recveil.core.protocols import Penalty
from recveil.core.random import make_generator
from recveil.defenses.training.raid import Raid

EPOCHS, BATCH, D = 10, 4096, 16


def train(data, raid: Penalty | None) -> np.ndarray:
    """Train a plain BPR matrix factorization; the lines that name `raid` are all that a defense needs."""
    torch.manual_seed(0)
    users, items = torch.nn.Embedding(data.n_users, D), torch.nn.Embedding(data.n_items, D)
    parameters = [users.weight, items.weight]
    optimizer = torch.optim.Adam(parameters, lr=0.05)
    pairs = torch.as_tensor(np.stack([data.user, data.item], 1))
    for _ in range(EPOCHS):
        if raid:
            raid.start_epoch(users.weight.detach())  # 1. the whole table, before each epoch
        for batch in pairs[torch.randperm(len(pairs))].split(BATCH):
            u, i = batch.T
            vectors = users(u)
            better = (vectors * (items(i) - items(torch.randint(data.n_items, (len(u),))))).sum(1)
            loss = functional.softplus(-better).mean() + 0.01 * vectors.square().mean()
            if raid:
                loss = loss + raid(u, vectors)  # 2. the penalty of the users of this batch
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    table = users.weight.detach()
    return (raid.finish(table) if raid else table).numpy()  # 3. what to release


def main() -> None:
    world = rv.make_world(n_users=800, n_interactions=24_000, leaks={"gender": 3.0}, rng=make_generator(0, "world"))
    gender = world.dataset.attributes["gender"]
    raid = Raid(device="cpu")([gender], epochs=EPOCHS, rng=make_generator(0, "raid"))
    for name, penalty in (("without", None), ("with", raid)):
        result = rv.audit(train(world.dataset, penalty), gender, repeats=1, details=False)
        print(f"{name:8}", result.targets["gender"].sentence)


if __name__ == "__main__":
    main()
