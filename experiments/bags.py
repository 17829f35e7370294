"""Learning from label proportions: bags of 128 people, against the bag loss of deep learning.

    python experiments/bags.py          (needs torch)

Bags of 128 people with 36 features, half of them zeros and ones; three categories, or two, drawn
from a logit with slopes of sd 0.3. "between" is the standard deviation by which the means of the
other features differ between bags, those within being 1. The bag loss (DLLP) is the cross-entropy
of a bag's published proportions and the mean of its people's predicted ones, of a linear model with
a softmax, by Adam on batches of 16 bags: "epochs" for 200 epochs, "stopped" where the loss of a
fifth of the bags, held out, was least. Log losses are of 12,800 new people; "ratio" is ours, with
default settings, over that of "epochs", and "ratio_stopped" over that of "stopped".
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass

import numpy as np

import common
import unbin

SIZE, FEATURES = 128, 36
NAMES = np.array(["a", "b", "c"])


def people(n_bags: int, between: float, rng: np.random.Generator) -> np.ndarray:
    X = rng.normal(size=(n_bags * SIZE, FEATURES))
    half = FEATURES // 2
    X[:, half:] = X[:, half:] > 0.5
    X[:, :half] += between * np.repeat(rng.normal(size=(n_bags, half)), SIZE, axis=0)
    return X


def bag_loss(X: np.ndarray, share: np.ndarray, seed: int, *, stopped: bool):
    """Return the chances, for new people, of a linear softmax trained on the bag loss."""
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    center, scale = X.mean(axis=0), X.std(axis=0)
    bags = torch.tensor(((X - center) / scale).reshape(len(share), SIZE, -1), dtype=torch.float32)
    target = torch.tensor(share, dtype=torch.float32)
    order = torch.randperm(len(share))
    held = order[: len(share) // 5] if stopped else order[:0]
    used = order[len(held) :]
    model = torch.nn.Linear(X.shape[1], share.shape[1])
    adam = torch.optim.Adam(model.parameters(), lr=1e-2)

    def loss(which):
        mean = torch.softmax(model(bags[which]), dim=2).mean(dim=1)
        return -(target[which] * torch.log(mean + 1e-9)).sum(dim=1).mean()

    best, kept = np.inf, None
    for _ in range(200):
        for batch in used[torch.randperm(len(used))].split(16):
            adam.zero_grad()
            loss(batch).backward()
            adam.step()
        if stopped:
            with torch.no_grad():
                now = float(loss(held))
            if now < best:
                best, kept = now, {k: v.clone() for k, v in model.state_dict().items()}
    if kept is not None:
        model.load_state_dict(kept)

    def chances(new: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            rows = torch.tensor((new - center) / scale, dtype=torch.float32)
            return torch.softmax(model(rows), dim=1).numpy()

    return chances


def log_loss(chance: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(np.maximum(chance[np.arange(len(y)), y], 1e-12)).mean())


@dataclass(frozen=True, slots=True)
class Bags:
    """Bags, and new people with their categories."""

    X: np.ndarray
    y: np.ndarray
    bag: np.ndarray
    new: np.ndarray
    truth: np.ndarray


def draw(cell: tuple[int, int, float], seed: int) -> Bags:
    """Return people in bags, drawn from a multinomial logit."""
    n_categories, n_bags, between = cell
    rng = np.random.default_rng(seed)
    slopes = 0.3 * rng.normal(size=(n_categories, FEATURES))
    level = 0.5 * rng.normal(size=n_categories)

    def categories(X: np.ndarray) -> np.ndarray:
        return (X @ slopes.T + level + rng.gumbel(size=(len(X), n_categories))).argmax(axis=1)

    X, new = people(n_bags, between, rng), people(100, between, rng)
    return Bags(X, categories(X), np.repeat(np.arange(n_bags), SIZE), new, categories(new))


def fitted(data: Bags, target) -> unbin.AggregatedClassifier:
    """Fit with default settings; what it would warn of is in its diagnostics."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return unbin.AggregatedClassifier(n_jobs=1).fit(data.X, target)


def published(data: Bags):
    return unbin.aggregate(NAMES[data.y], data.bag).align(data.bag)


def ours(cell: tuple[int, int, float], seed: int) -> float:
    """Return the log loss of new people from the table of bags."""
    data = draw(cell, seed)
    return log_loss(fitted(data, published(data)).predict_proba(data.new), data.truth)


def once(cell: tuple[int, int, float], seed: int) -> dict:
    """Return log losses of new people."""
    n_categories, n_bags, _ = cell
    data = draw(cell, seed)
    began = time.perf_counter()
    model = fitted(data, published(data))
    seconds = time.perf_counter() - began
    oracle = fitted(data, NAMES[data.y])
    share = np.zeros((n_bags, n_categories))
    np.add.at(share, (data.bag, data.y), 1 / SIZE)
    began = time.perf_counter()
    epochs, stopped = (
        bag_loss(data.X, share, seed, stopped=stopped)(data.new) for stopped in (False, True)
    )
    pooled = np.tile(share.mean(axis=0), (len(data.new), 1))
    chances = {
        "ours": model.predict_proba(data.new),
        "epochs": epochs,
        "stopped": stopped,
        "oracle": oracle.predict_proba(data.new),
        "pooled": pooled,
    }
    losses = {name: log_loss(chance, data.truth) for name, chance in chances.items()}
    return losses | {
        "seconds": seconds,
        "seconds_bag_loss": (time.perf_counter() - began) / 2,
    }


def main() -> None:
    runs = common.runs_from_command_line(__doc__, 10)
    cells = [
        (n_categories, n_bags, between)
        for n_categories in (3, 2)
        for n_bags in (100, 300)
        for between in (0.0, 0.3)
    ]
    found = common.over_cells(once, cells, runs)
    rows = []
    for (n_categories, n_bags, between), fits in zip(cells, found, strict=True):
        means = {name: float(np.mean([fit[name] for fit in fits])) for name in fits[0]}
        ratios = {
            name: np.array([fit["ours"] / fit[name] for fit in fits])
            for name in ("epochs", "stopped")
        }
        print({name: round(value, 2) for name, value in means.items() if "seconds" in name})
        rows.append(
            {
                "categories": n_categories,
                "bags": n_bags,
                "between": between,
                "runs": runs,
                **{name: value for name, value in means.items() if "seconds" not in name},
                "ratio": float(ratios["epochs"].mean()),
                "worst_ratio": float(ratios["epochs"].max()),
                "ratio_stopped": float(ratios["stopped"].mean()),
            }
        )
    common.report("bags", rows, store=runs >= 10)


if __name__ == "__main__":
    main()
