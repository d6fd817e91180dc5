import json

import numpy as np

from recveil.core.types import Attribute, Dataset
from recveil.data.statistics import describe_dataset


def test_a_small_world_in_plain_values():
    attributes = {
        "g": Attribute("g", np.array([0, -1]), ("a", "b")),
        "h": Attribute("h", np.array([-1, -1]), (), np.array([2.0, np.nan])),
    }
    dataset = Dataset(
        "d", np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([5, 9, 7]), np.arange(2), np.arange(3), attributes
    )
    said = describe_dataset(dataset)
    assert json.loads(json.dumps(said)) == said
    assert (said["users"], said["items"], said["interactions"], said["density"]) == (2, 3, 3, 0.5)
    assert said["time"] == {"first": 5, "last": 9}
    assert said["per_user"] == {"min": 1, "q25": 1.25, "median": 1.5, "q75": 1.75, "max": 2}
    assert said["per_item"]["min"] == 0
    assert said["attributes"]["g"] == {"unknown": 1, "classes": {"a": 1, "b": 0}}
    assert said["attributes"]["h"]["unknown"] == 1
    assert said["attributes"]["h"]["values"]["median"] == 2.0


def test_without_time():
    dataset = Dataset("d", np.array([0]), np.array([0]), None, np.arange(1), np.arange(1))
    assert describe_dataset(dataset)["time"] is None
