"""Absolute paths are cut to file names; labels of data are left alone."""

from __future__ import annotations

import pytest

from recveil.core.path_names import hide_folders, shorten_document, shorten_paths


@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        ("/home/me/users.csv", "users.csv"),
        ("--out=/home/me/o.csv", "--out=o.csv"),
        ("~/a/b", "b"),
        ("C:\\data\\x", "x"),
        ("runs/a", "runs/a"),
        ("age=35,45", "age=35,45"),
    ],
)
def test_folders_of_absolute_paths_are_hidden(argument: str, shown: str) -> None:
    assert hide_folders(argument) == shown


def test_sentences_of_a_document_lose_folders_and_labels_keep_them() -> None:
    assert shorten_paths("There is no file /home/me/x.csv. Check it.") == "There is no file x.csv. Check it."
    document = {
        "warnings": ["See /home/me/x.log."],
        "labels": ["/a/b", "c"],
        "counts": {"/a/b": 3},
        "inner": {"sentence": "In /tmp/run/a all is well.", "data": "/data/ml/u.csv"},
    }
    assert shorten_document(document) == {
        "warnings": ["See x.log."],
        "labels": ["/a/b", "c"],
        "counts": {"/a/b": 3},
        "inner": {"sentence": "In a all is well.", "data": "u.csv"},
    }


def test_a_database_loses_its_folder_and_a_bucket_does_not() -> None:
    assert hide_folders("duckdb:/home/me/u.db?query=SELECT a FROM t") == "duckdb:u.db?query=SELECT a FROM t"
    assert hide_folders("s3://bucket/a/x.parquet") == "s3://bucket/a/x.parquet"
