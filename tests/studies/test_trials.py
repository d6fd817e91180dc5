import numpy as np
import pytest

from recveil.core.errors import DataError
from recveil.studies import attribute_cells as attribute
from recveil.studies import cells as cell
from recveil.studies import trials as trial
from recveil.studies.plans import Plan


def trial_of(share: float, defense: str = "noise", **options):
    grid = {"data": ["demo"], "model": [{"name": "bprmf", "embedding_size": 8, "epochs": 1}], "target": ["gender"]}
    grid |= {"panel": ["logistic"], "defense": [{"name": defense, **options}]}
    raw = {"title": "t", "kind": "attribute", "grid": grid, "settings": {"unattacked": share, "k": [10]}}
    like = Plan.parse(raw, name="p").cells()[0]
    return trial.make_trial_cell(like.at, like.settings)


def test_only_spared_users_are_attacked_and_only_validation_items_ranked(tmp_path, monkeypatch) -> None:
    seen = {}
    real_audit, real_rank = trial.audit, trial.ranking.rank

    def audited(x, target, *rest, **named):
        seen["users"] = target.codes
        return real_audit(x, target, *rest, **named)

    def ranked(score, held, known, **named):
        seen.setdefault("held", []).append(held)
        return real_rank(score, held, known, **named)

    monkeypatch.setattr(trial, "audit", audited)
    monkeypatch.setattr(trial.ranking, "rank", ranked)
    found = cell.run_cell(trial_of(0.2, scale=1.0), tmp_path).content
    split = attribute.load_split("demo")
    spared = np.sort(attribute.select_spared_users(split.train.n_users, 0.2))
    assert np.array_equal(seen["users"], split.train.attributes["gender"].codes[spared])
    assert all(held is split.valid for held in seen["held"])
    assert found["details"]["users"] == 600
    assert {row["metric"] for row in found["records"]} == {"advantage", "ndcg_change@10"}
    change = next(r["estimate"] for r in found["records"] if r["metric"] == "ndcg_change@10")
    assert change["value"] < 0  # noise as large as the table costs something


def test_a_trial_has_another_name_than_the_cell_it_is_like(tmp_path) -> None:
    one = trial_of(0.2)
    assert one.id != attribute_cell(one).id
    assert one.id != trial_of(0.2, scale=0.5).id


def attribute_cell(one):
    from recveil.studies.plans import Cell

    return Cell("attribute", one.at, one.settings, one.labels)


def test_too_few_users_to_choose_by_is_an_error(tmp_path) -> None:
    with pytest.raises(DataError, match="30 users to choose settings by, and at least 100"):
        cell.run_cell(trial_of(0.01), tmp_path)
