from __future__ import annotations

import pytest

from recveil.models.als import ALS
from recveil.models.bprmf import BPRMF
from recveil.models.settings import SETTINGS

MODELS = {"als": ALS, "bprmf": BPRMF}


@pytest.mark.parametrize(
    ("data", "model"), [(data, model) for data, models in SETTINGS.items() for model in models if model in MODELS]
)
def test_settings_are_hyper_parameters_of_their_model(data: str, model: str) -> None:
    made = MODELS[model](**SETTINGS[data][model])  # type: ignore[arg-type]
    assert all(getattr(made, name) == value for name, value in SETTINGS[data][model].items())
