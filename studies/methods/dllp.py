"""DLLP: a linear softmax of the bins trained on the bag loss (Ardehaly and Culotta 2017)."""

from __future__ import annotations

import numpy as np

from studies.registry import Fitted, Method, NotAvailable, Task, VotesTask
from studies.tables import proportions

EPOCHS, PATIENCE, BATCH, RATE = 200, 20, 16, 1e-2


def bag_loss(X: np.ndarray, weights: np.ndarray, bags: list[np.ndarray], shares: np.ndarray):
    """Return chances of the categories for new people, of a linear softmax.

    The loss is the cross-entropy of a bag's published shares and its people's mean chances. Adam,
    batches of 16 bags, 200 epochs at most; the epoch is kept that a fifth of the bags, left out,
    likes best, and training ends when 20 epochs in a row are no better.

    Parameters
    ----------
    X : (n, d)
    weights : (n,) people that a row stands for
    bags : rows of each bag
    shares : (B, K)
    """
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    center, scale = X.mean(axis=0), X.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    rows = torch.tensor((X - center) / scale, dtype=torch.float32)
    target = torch.tensor(shares, dtype=torch.float32)
    model = torch.nn.Linear(X.shape[1], shares.shape[1])
    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    order = torch.randperm(len(bags)).tolist()
    held, used = order[: len(bags) // 5], order[len(bags) // 5 :]

    def batch(which):
        members = np.concatenate([bags[b] for b in which])
        bag = torch.tensor(np.repeat(np.arange(len(which)), [len(bags[b]) for b in which]))
        weight = torch.tensor(weights[members], dtype=torch.float32)
        weight = weight / torch.zeros(len(which)).index_add(0, bag, weight)[bag]
        return members, bag, weight, target[list(which)]

    def loss(members, bag, weight, share):
        chance = torch.softmax(model(rows[members]), dim=1) * weight[:, None]
        mean = torch.zeros_like(share).index_add(0, bag, chance)
        return -(share * torch.log(mean + 1e-9)).sum(dim=1).mean()

    left_out = batch(held) if held else None
    best, kept, since = np.inf, None, 0
    for _ in range(EPOCHS):
        for some in torch.tensor(used)[torch.randperm(len(used))].split(BATCH):
            adam.zero_grad()
            loss(*batch(some.tolist())).backward()
            adam.step()
        if left_out is not None:
            with torch.no_grad():
                now = float(loss(*left_out))
            since += 1
            if now < best:
                best, kept, since = now, {k: v.clone() for k, v in model.state_dict().items()}, 0
            if since >= PATIENCE:
                break
    if kept is not None:
        model.load_state_dict(kept)

    def chances(new: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            scaled = torch.tensor((new - center) / scale, dtype=torch.float32)
            return torch.softmax(model(scaled), dim=1).numpy().astype(float)

    return chances


def members(place: np.ndarray, n_blocks: int) -> list[np.ndarray]:
    """Return the rows of each block."""
    order = np.argsort(place, kind="stable")
    return np.split(order, np.cumsum(np.bincount(place, minlength=n_blocks))[:-1])


def fit(task: Task) -> Fitted:
    """Train on the bins of every block of every table; predict chances times midpoints."""
    if any("histogram" not in table.release.to_columns() for table in task.tables):
        raise NotAvailable("the bag loss needs shares of categories or bins")
    bags, shares = [], []
    for table in task.tables:
        share, values = proportions(table)
        bags += members(np.unique(table.ids, return_inverse=True)[1], len(share))
        shares.append(share)
    chances = bag_loss(task.X, np.ones(len(task.X)), bags, np.concatenate(shares))
    return Fitted(lambda X: chances(X) @ values)


def cells(task: VotesTask) -> tuple[np.ndarray, str]:
    """Train on the groups of each block; every block has the groups' chances."""
    task.margins_only()
    n_blocks, n_groups = task.people.shape
    X = np.tile(np.eye(n_groups), (n_blocks, 1))
    bags = members(np.repeat(np.arange(n_blocks), n_groups), n_blocks)
    shares = task.counts / task.counts.sum(axis=1, keepdims=True)
    chances = bag_loss(X, task.people.ravel(), bags, shares)
    return task.people[:, :, None] * chances(np.eye(n_groups)), ""


METHOD = Method("DLLP bag loss", __doc__, 8, fit=fit, cells=cells, needs=("torch",))
