"""Difference vectors and features of DL-MIA as pictures (its Figures 1 and 5): t-SNE of two clouds in each panel.

Figure 1: difference vectors of shadow and target, and for the target those an outsider makes beside those that the
recommender's own item states make. Two tables of item vectors share no axes, so the second kind looks apart whatever it
holds; it is drawn again after the outsider's table was turned onto the recommender's (least squares over the items).
Figure 5: invariant and specific features of shadow and target, after the joint training and after re-weighting.

A picture of t-SNE proves little, so each panel has a number: how well a logistic regression tells the two clouds apart
in all dimensions, on users it was not fitted to (AUC; one half: not at all). A part of `membership.py`.
"""

from dataclasses import replace

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.manifold import TSNE
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from recveil.attacks.membership.difference_vectors import compute_difference_vectors
from recveil.attacks.membership.dlmia import DLMIA
from recveil.audits.membership.platforms import ServedPlatform
from recveil.core.random import make_generator
from recveil.core.types import Shadow, Watched
from recveil.report.charts import draw_file
from recveil.report.figures import ScatterPlot, ScatterPoint

SHOWN = 100
"""Users of each cloud."""

Panels = dict[str, dict[str, np.ndarray]]


def panels(shadow: ServedPlatform, target: ServedPlatform, own: np.ndarray, seed: int, device: str) -> Panels:
    """Compute the clouds of each panel; `own` are the target's item states, NaN for unknown items."""
    full = DLMIA(device=device)
    found = {}
    for when, attack in (("before", replace(full, reweight=False)), ("after", full)):
        fitted = attack.fit(
            [Shadow(shadow.watched, shadow.member)], reference=target.watched, rng=make_generator(seed, "features")
        )
        found[when] = {
            name: fitted.compute_features(side.watched) for name, side in (("shadow", shadow), ("target", target))
        }
    vectors = {
        name: compute_difference_vectors(side.watched) for name, side in (("shadow", shadow), ("target", target))
    }
    features = {
        f"{kind}-{when}": {name: getattr(one, kind) for name, one in sides.items()}
        for kind in ("invariant", "specific")
        for when, sides in found.items()
    }
    return {"difference-vectors": vectors, **estimates(target.watched, own), **features}


def estimates(seen: Watched, own: np.ndarray) -> Panels:
    """Compute the target's difference vectors by the outsider's table, plain and rotated, and by the recommender's.

    Users without an interaction that the recommender knows have none by its states, and are left out.
    """
    known = np.isfinite(own).all(1)
    users = [u for u, history in enumerate(seen.histories) if known[history].any()]
    seen = replace(seen, histories=[seen.histories[u] for u in users], lists=seen.lists[users])
    table = np.where(known[:, None], seen.item_vectors, np.nan)
    turned = table @ np.linalg.lstsq(table[known], own[known], rcond=None)[0]
    clouds = {
        name: compute_difference_vectors(replace(seen, item_vectors=t))
        for name, t in (("own", own), ("turned", turned))
    }
    outside = compute_difference_vectors(replace(seen, item_vectors=table))
    width = max(outside.shape[1], own.shape[1])
    padded = {"outsider": outside, "recommender": clouds["own"]}
    padded = {name: np.pad(x / x.std(), ((0, 0), (0, width - x.shape[1]))) for name, x in padded.items()}
    return {"own-states": padded, "own-states-turned": {"outsider": clouds["turned"], "recommender": clouds["own"]}}


def apart(clouds: dict[str, np.ndarray]) -> float:
    """Measure how well two clouds are told apart; rows of the same user are left out together."""
    x, y = np.concatenate(list(clouds.values())), np.repeat([0, 1], [len(c) for c in clouds.values()])
    sizes = {len(cloud) for cloud in clouds.values()}
    fold = (
        np.concatenate([np.arange(len(c)) % 5 for c in clouds.values()]) if len(sizes) == 1 else np.arange(len(x)) % 5
    )
    parts = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(5)]
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500))
    return float(roc_auc_score(y, cross_val_predict(model, x, y, cv=parts, method="decision_function")))


def picture(clouds: dict[str, np.ndarray], title: str, seed: int) -> str:
    """Draw both clouds in the plane of one t-SNE."""
    rng = make_generator(seed, "shown")
    some = {name: x[rng.choice(len(x), min(SHOWN, len(x)), replace=False)] for name, x in clouds.items()}
    flat = StandardScaler().fit_transform(np.concatenate(list(some.values())))
    places = TSNE(perplexity=20, init="pca", random_state=seed).fit_transform(flat)
    group = np.repeat(list(some), [len(x) for x in some.values()])
    points = [
        ScatterPoint(round(float(x), 2), round(float(y), 2), str(g)) for (x, y), g in zip(places, group, strict=True)
    ]
    return draw_file(ScatterPlot(id="features", title=title, points=points))
