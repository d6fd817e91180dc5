"""Hyper-parameters that were chosen on the validation items of a data set; a model's own defaults serve elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["SETTINGS"]

SETTINGS: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    # 5-core, leave-one-out, full ranking; found by benchmarks/search.py, numbers in benchmarks/README.md.
    #
    # `recency`: BPR-MF is the model of the papers (0). ALS, DMF, NCF and LightGCN do not reach the quality asked for
    # without a sense of time. The validation item asks for more still (10), but then a vector tells of the last few
    # items only: it is held at 3, where the newest pair counts twenty times the oldest.
    "ml-1m": {
        "als": {"embedding_size": 256, "epochs": 10, "reg": 0.004, "weight": 1.0, "recency": 3.0},
        "bert4rec": {
            "hidden_size": 256,
            "epochs": 30,
            "learning_rate": 0.001,
            "batch_size": 128,
            "dropout": 0.2,
            "mask": 0.3,
            "copies": 4,
            "max_length": 200,
            "patience": 10,
        },
        "bprmf": {
            "embedding_size": 128,
            "epochs": 20,
            "learning_rate": 0.008,
            "batch_size": 8192,
            "reg": 0.012,
            "candidates": 16,
        },
        "caser": {"epochs": 20, "learning_rate": 0.001, "targets": 1, "embedding_size": 100, "batch_size": 4096},
        "dmf": {
            "embedding_size": 64,
            "hidden_size": 256,
            "candidates": 8,
            "learning_rate": 0.003,
            "epochs": 12,
            "recency": 3.0,
        },
        "gru4rec": {
            "hidden_size": 256,
            "epochs": 40,
            "learning_rate": 0.002,
            "batch_size": 128,
            "dropout": 0.5,
            "max_length": 200,
            "patience": 10,
        },
        "lightgcn": {
            "embedding_size": 32,
            "layers": 3,
            "candidates": 8,
            "learning_rate": 0.03,
            "reg": 0.0001,
            "epochs": 40,
            "recency": 3.0,
            "patience": 6,
        },
        "ncf": {
            "embedding_size": 64,
            "reg": 0.01,
            "candidates": 4,
            "learning_rate": 0.005,
            "epochs": 20,
            "recency": 3.0,
        },
    },
}
"""Data set -> model -> hyper-parameters."""
