"""What is handed in beside a model: what is wrong with it is named."""

from __future__ import annotations

from typing import Any

import pytest
from scipy import sparse

from integrations.torch_module import ITEM_IDS, PAIRS, USER_IDS, read_module
from recveil.core.errors import DataError, UsageError

BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no table named": ({"users": None}, UsageError, r"user_table.weight \(160, 4\)"),
    "no such table": ({"users": "usr"}, UsageError, "no table 'usr'"),
    "no ids": ({"user_ids": None}, UsageError, "row-number"),
    "too few ids": ({"item_ids": ITEM_IDS[1:]}, DataError, "30 item vectors and 29 item ids"),
    "an id twice": ({"user_ids": [*USER_IDS[1:], USER_IDS[1]]}, DataError, "more than once"),
    "unknown option": ({"itms": "x"}, UsageError, "itms"),
    "ids of others": ({"interactions": PAIRS.assign(user_id="z")}, DataError, "only 0 of the 960 rows"),
    "a matrix of another shape": ({"interactions": sparse.eye(3)}, DataError, r"\(3, 3\)"),
    "a list": ({"interactions": [1]}, UsageError, "is a list"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_named(name: str) -> None:
    options, kind, words = BAD[name]
    with pytest.raises(kind, match=words):
        read_module(**options)
