"""Saved maps: what they say, and which requests are refused before the work."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest

from recveil.core.errors import UsageError
from recveil.core.result_parts import InputSummary
from recveil.core.types import Attribute
from recveil.defenses import DEFENSES
from recveil.defenses.embeddings.map_files import SavedMap
from recveil.defenses.embeddings.transformers import MapTransformer, load_map
from recveil.testing.worlds import make_planted_leak
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.cloak_table import ClearTable, cloak_table
from recveil.workflows.defended_release import ChosenDefense
from recveil.workflows.map_saving import check_map_request, save_fitted_map


def test_the_map_carries_users_by_label_whatever_the_order_of_the_classes(tmp_path: Path) -> None:
    x, secret = make_planted_leak(200, 4, 2, 3.0, rng=np.random.default_rng(0))
    target = Attribute("age", secret.codes, ("under 30", "over 30"))  # not in alphabetical order
    table = ClearTable(InputSummary(name="E", n_users=200, d=4), x, [target])
    protocol = AuditProtocol(device="cpu")
    cloaked, result = cloak_table(table, ChosenDefense("gaussian"), protocol, audit=False)
    path = tmp_path / "age.map"
    save_fitted_map(path, table, result, protocol)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    origin = SavedMap.read_file(path).origin
    assert origin is not None
    assert (origin.attributes, origin.n_users, origin.passed) == (["age"], 200, None)
    labels = np.array(target.labels)[target.codes]
    np.testing.assert_allclose(load_map(path).transform(x, labels), cloaked, atol=1e-5)


def test_methods_without_a_map_and_large_tables_are_refused() -> None:
    with pytest.raises(UsageError, match="labelfree"):
        check_map_request(ChosenDefense("exchange"), is_large=False)
    with pytest.raises(UsageError, match="large table"):
        check_map_request(ChosenDefense("gaussian"), is_large=True)
    check_map_request(ChosenDefense("auto"), is_large=False)


@pytest.mark.parametrize("name", [t.name for t in DEFENSES.all_traits() if t.place == "embeddings"])
def test_traits_say_which_methods_keep_a_map(name: str) -> None:
    builder = DEFENSES.load(name)
    assert DEFENSES.traits(name).keeps_map == (isinstance(builder, type) and issubclass(builder, MapTransformer))
