"""Lists beside a cloaked table: written, audited with and without the vectors, refused where they cannot be made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.data.io.release_files import write_vectors
from recveil.data.io.user_tables import read_embeddings
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.cloak import cloak_files
from recveil.workflows.cloak_table import CloakRequest
from recveil.workflows.defended_lists import ListMaker, ListRequest
from recveil.workflows.defended_release import ChosenDefense, defend_vectors
from recveil.workflows.inputs import InputFiles
from recveil.workflows.utility import recommendations_from_run

GAUSSIAN = ChosenDefense("gaussian")


def test_decoys_depend_on_the_vectors_before_the_cloak(trained_run: Path) -> None:
    vectors, targets, _ = InputFiles(None, None, run=trained_run).read(["gender"])
    served = recommendations_from_run(trained_run, vectors)
    cloaked = defend_vectors(GAUSSIAN.make("cpu"), vectors.x, targets, seed=0)
    seen = served.collect_seen_items()

    def count_decoys(undefended: np.ndarray | None) -> int:
        maker = ListMaker(served, cloaked, targets, ListRequest(Path("l.parquet")), 0, undefended)
        return int(maker.omit_items(seen).nnz - seen.nnz)

    assert count_decoys(None) > 0
    assert count_decoys(vectors.x) not in (0, count_decoys(None))


@pytest.mark.thorough
def test_lists_of_a_run_are_written_and_audited(trained_run: Path, tmp_path: Path, quick: AuditProtocol) -> None:
    request = CloakRequest(
        tmp_path / "c.parquet", tmp_path / "r.html", lists=ListRequest(tmp_path / "l.parquet", length=5)
    )
    result = cloak_files(InputFiles(None, None, run=trained_run), ["gender"], GAUSSIAN, quick, request)
    lists = result.defended_lists
    assert lists is not None
    assert (lists.method, lists.length) == ("decoys", 5)
    assert lists.decoys > 0
    advantages = [targets["gender"].headline.advantage.value for targets in (lists.undefended_together, lists.together)]
    assert advantages[1] < advantages[0]
    assert lists.utility.difference["ndcg@10"].value != 0  # decoys change who is hit, up or down
    assert any("vectors and lists" in warning for warning in result.warnings)
    assert "vectors together" in (tmp_path / "r.html").read_text()
    table = pq.read_table(tmp_path / "l.parquet")
    assert table.column_names == ["user_id", "item_id", "rank"]
    assert table.num_rows == 500 * 5


def test_lists_from_files_omit_everything_that_was_seen(
    trained_run: Path, data_folder: Path, tmp_path: Path, quick: AuditProtocol
) -> None:
    files = InputFiles(
        trained_run / "users.parquet",
        trained_run / "attributes.parquet",
        item_embeddings=trained_run / "items.parquet",
        interactions=data_folder / "interactions.parquet",
    )
    request = CloakRequest(tmp_path / "c.parquet", lists=ListRequest(tmp_path / "l.parquet"))
    assert cloak_files(files, ["gender"], GAUSSIAN, quick, request).defended_lists is None  # nothing was audited
    lists, seen = (pq.read_table(path) for path in (tmp_path / "l.parquet", data_folder / "interactions.parquet"))
    pairs = [set(zip(t["user_id"].to_pylist(), t["item_id"].to_pylist(), strict=True)) for t in (lists, seen)]
    assert len(pairs[0]) == 500 * 10
    assert not pairs[0] & pairs[1]


def test_the_key_decides_the_draws_and_not_the_seed(trained_run: Path, tmp_path: Path) -> None:
    files = InputFiles(None, None, run=trained_run)

    def write(name: str, **rules: int) -> tuple[pa.Table, np.ndarray]:
        protocol = AuditProtocol(panel="logistic", folds=3, repeats=1, device="cpu", **rules)
        request = CloakRequest(tmp_path / f"{name}.parquet", lists=ListRequest(tmp_path / f"{name}-l.parquet"))
        cloak_files(files, ["gender"], ChosenDefense("sliced", {"rounds": 2}), protocol, request)
        return pq.read_table(tmp_path / f"{name}-l.parquet"), read_embeddings(tmp_path / f"{name}.parquet").x

    one, same, other = write("a", key=9, seed=1), write("b", key=9, seed=2), write("c", key=8, seed=1)
    assert one[0].equals(same[0])
    np.testing.assert_array_equal(one[1], same[1])
    assert not one[0].equals(other[0])
    assert not np.array_equal(one[1], other[1])


def test_lists_that_cannot_be_made_are_refused(trained_run: Path, tmp_path: Path, quick: AuditProtocol) -> None:
    files = InputFiles(trained_run / "users.parquet", trained_run / "attributes.parquet")
    request = CloakRequest(tmp_path / "c.parquet", lists=ListRequest(tmp_path / "l.parquet"))
    with pytest.raises(UsageError, match="`lists_out` needs `run`, or `item_embeddings` and `interactions`"):
        cloak_files(files, ["gender"], GAUSSIAN, quick, request)
    with pytest.raises(UsageError, match="`release_items` needs `run`, or `item_embeddings` and `interactions`"):
        cloak_files(files, ["gender"], GAUSSIAN, quick, CloakRequest(tmp_path / "c.parquet", release_items=True))
    with pytest.raises(UsageError, match=r"end the name in \.parquet"):
        ListRequest(tmp_path / "l.csv")
    with pytest.raises(UsageError, match="does not hide an attribute in lists"):
        ListRequest(tmp_path / "l.parquet", method="popularity")
    wide = np.zeros((4, 3), dtype=np.float32)
    write_vectors(tmp_path / "items.parquet", "item_id", np.arange(4), wide)
    pq.write_table(pa.table({"user_id": [0], "item_id": [0]}), tmp_path / "i.parquet")
    foreign = InputFiles(
        trained_run / "users.parquet",
        trained_run / "attributes.parquet",
        item_embeddings=tmp_path / "items.parquet",
        interactions=tmp_path / "i.parquet",
    )
    with pytest.raises(DataError, match="Give the two tables of one model"):
        cloak_files(foreign, ["gender"], GAUSSIAN, quick, request)
    assert not (tmp_path / "l.parquet").exists()
    assert not (tmp_path / "c.parquet").exists()
