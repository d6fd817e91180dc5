import pytest

from recveil.core.errors import DataError
from recveil.data.cleaning import clean_dataset
from recveil.data.sources import kuaisar


def small(folder):
    header = (
        "user_id,item_id,playing_time,duration_ms,time,timestamp,click,forward,like,follow,search,search_item_related"
    )
    rows = [
        "1,103656000000,60792.0,45400.0,2023-05-22 15:53:20,1684742000000.0,1,0,0,0,0,0",
        "1,7,0.0,45400.0,2023-05-22 15:53:20,1684742000000.0,0,0,0,0,0,0",
        "2,7,100.0,45400.0,2023-05-22 15:53:21,1.684742001e+12,1,0,0,0,1,0",
    ]
    (folder / "rec_inter.csv").write_text("\n".join([header, *rows]) + "\n")
    header = (
        "user_id,search_session_id,search_session_time,search_session_timestamp,keyword,search_source,"
        "item_id,click_cnt,item_type"
    )
    rows = [
        '2,1,2023-05-22 21:58:52,1684763932919,"[20, 34, 3]",USER_INPUT,9,1,VIDEO',
        '2,1,2023-05-22 21:58:52,1684763932919,"[20, 34, 3]",USER_INPUT,10,0,VIDEO',
        '2,1,2023-05-22 21:58:52,1684763932919,"[20, 34, 3]",USER_INPUT,11,1,USER',
    ]
    (folder / "src_inter.csv").write_text("\n".join([header, *rows]) + "\n")
    features = (
        "user_id,search_active_level,rec_active_level,onehot_feat1,onehot_feat2\n1,1,2,0,3\n2,0,2,1,7\n3,0,0,0,0\n"
    )
    (folder / "user_features.csv").write_text(features)
    return folder


def test_clicked_recommendations(tmp_path):
    dataset = clean_dataset(kuaisar.read_kuaisar(small(tmp_path)), "d")
    assert dataset.item_ids[dataset.item].tolist() == [103656000000, 7]
    assert dataset.time.tolist() == [1684742000, 1684742001]
    assert dataset.attributes["onehot_feat2"].labels == ("3", "7")
    assert set(dataset.attributes) == {"search_active_level", "rec_active_level", "onehot_feat1", "onehot_feat2"}


def test_clicked_search_results_too(tmp_path):
    dataset = clean_dataset(kuaisar.read_kuaisar(small(tmp_path), search=True), "d")
    assert dataset.item_ids[dataset.item].tolist() == [103656000000, 7, 9]


def test_other_columns_are_refused(tmp_path):
    (small(tmp_path) / "rec_inter.csv").write_text("user_id,item_id\n1,2\n")
    with pytest.raises(DataError, match=r"rec_inter\.csv lacks a column"):
        kuaisar.read_kuaisar(tmp_path)
