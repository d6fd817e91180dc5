import gzip
import json

import pytest

from recveil.core.errors import DataError
from recveil.data.cleaning import clean_dataset
from recveil.data.sources import modcloth

CSV = """item_id,user_id,rating,timestamp,size,fit,user_attr,model_attr,category,brand,year,split
7443,Alex,4,2010-01-21 08:00:00+00:00,,,Small,Small,Dresses,,2012,0
7443,carolyn.agan,3,2010-01-27 08:00:00+00:00,,,,Small,Dresses,,2012,0
7444,Alex,5,2010-01-28 08:00:00+00:00,,,Large,Small,Dresses,"A, B",2012,0
7445,,5,2010-01-28 08:00:00+00:00,,,Large,Small,Dresses,,2012,0
"""
ROWS = [
    {"item_id": "123373", "waist": "29", "size": 7, "quality": 5, "cup size": "d", "hips": "38", "bra size": "34",
     "category": "new", "bust": "36", "height": "5ft 6in", "user_name": "Emily", "length": "just right",
     "fit": "small", "user_id": "991571"},
    {"item_id": "123374", "size": 13, "quality": 3, "cup size": "b", "user_name": "x", "user_id": "991571"},
    {"item_id": "123373", "size": 13, "cup size": "b", "user_name": "y", "user_id": "587883", "shoe size": "9.00"},
]  # fmt: skip


def test_the_csv_of_market_bias(tmp_path, caplog):
    (tmp_path / "df_modcloth.csv").write_text(CSV)
    dataset = clean_dataset(modcloth.read_modcloth(tmp_path), "d")
    assert dataset.user_ids.tolist() == ["Alex", "carolyn.agan"]
    assert dataset.item_ids[dataset.item].tolist() == [7443, 7443, 7444]
    assert dataset.time.tolist() == [1264060800, 1264579200, 1264665600]
    # Alex is first Small and later Large: the first value stays. Nothing is known of the other user.
    attribute = dataset.attributes["user_attr"]
    assert [attribute.labels[code] if code >= 0 else None for code in attribute.codes] == ["Small", None]
    assert list(dataset.attributes) == ["user_attr"]
    assert "left out 1 rows without an id" in caplog.text


@pytest.mark.parametrize("packed", [True, False])
def test_the_json_with_measurements(tmp_path, packed):
    text = "\n".join(map(json.dumps, ROWS)).encode()
    path = tmp_path / ("modcloth_final_data.json.gz" if packed else "modcloth_final_data.json")
    path.write_bytes(gzip.compress(text) if packed else text)
    raw = modcloth.read_modcloth(tmp_path)
    assert raw.interactions.column("rating").to_pylist() == [5, 3, None]
    dataset = clean_dataset(raw, "d")
    assert dataset.user_ids.tolist() == [587883, 991571]
    assert dataset.time is None
    known = {name: [a.labels[c] if c >= 0 else None for c in a.codes] for name, a in dataset.attributes.items()}
    assert known["cup_size"] == ["b", "d"]
    assert known["height"] == [None, "5ft 6in"]
    assert known["shoe_size"] == ["9.00", None]
    assert "user_name" not in known


def test_broken_json_is_named(tmp_path):
    (tmp_path / "modcloth_final_data.json").write_text('{"user_id": "1", "item_id": ')
    with pytest.raises(DataError, match=r"modcloth_final_data\.json cannot be read"):
        modcloth.read_modcloth(tmp_path)


def test_a_missing_field_is_named(tmp_path):
    (tmp_path / "modcloth_final_data.json").write_text('{"user_id": "1", "item_id": "2"}\n')
    with pytest.raises(DataError, match="has no field 'quality'"):
        modcloth.read_modcloth(tmp_path)
