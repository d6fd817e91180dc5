import json
from pathlib import Path

import numpy as np
import pytest

from recveil.attacks.attribute.panels import ATTACKS
from recveil.audits.attribute.audit import audit
from recveil.audits.attribute.folds import Folds
from recveil.core.types import UNKNOWN, Attribute, Estimate, Record
from recveil.metrics.ranking import Ranks
from recveil.workflows.documents import audits, details, header, merged, protocol, utility, write_json, write_records


def ranks(*better: int) -> Ranks:
    n = len(better)
    return Ranks(np.arange(n), np.arange(n), np.array(better), np.zeros(n, dtype=np.int64))


def test_utility_is_compared_user_by_user_and_class_by_class() -> None:
    gender = Attribute("gender", np.array([0, 0, 1, 1]), ("F", "M"))
    found = utility(ranks(0, 0, 0, 0), ranks(0, 0, 50, 50), [gender])
    assert found["before"]["hr@10"]["value"] == 1.0
    assert found["after"]["hr@10"]["value"] == 0.5
    assert found["difference"]["hr@10"]["value"] == -0.5
    assert found["per_class"]["gender"]["F"]["difference"]["ndcg@10"]["value"] == 0.0
    assert found["per_class"]["gender"]["M"]["difference"]["ndcg@10"]["value"] == -1.0
    json.dumps(found, allow_nan=False)


def test_the_head_and_the_rules_name_what_was_run() -> None:
    assert header("audit", ["recveil"])["schema"] == 1
    rules = protocol("fast", Folds(5, 2), seed=3)
    assert (rules["folds"], rules["seeds"], rules["seed"]) == (5, 2, 3)
    assert "logistic" in rules["attacks"]


def test_files_are_strict_json(tmp_path: Path) -> None:
    write_json(tmp_path / "d.json", {"a": 1})
    assert json.loads((tmp_path / "d.json").read_text()) == {"a": 1}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "e.json", {"a": float("nan")})
    assert not (tmp_path / "e.json").exists()


def test_records_are_one_object_on_a_line(tmp_path: Path) -> None:
    rows = [Record("d", "m", "none", a, "gender", 0, "auc", Estimate(0.5, 0.4, 0.6, 9)) for a in ("x", "y")]
    write_records(tmp_path / "r.jsonl", rows)
    assert [json.loads(line)["attack"] for line in (tmp_path / "r.jsonl").read_text().splitlines()] == ["x", "y"]


def test_details_are_told_of_each_table_and_of_known_users_only() -> None:
    rng = np.random.default_rng(0)
    codes = np.arange(210) % 2
    codes[:10] = UNKNOWN
    target, rules = Attribute("gender", codes, ("F", "M")), Folds(folds=3, seeds=1)
    tables = [rng.standard_normal((210, 3)) + 3 * codes[:, None], rng.standard_normal((210, 3))]
    results = [[audit(x, target, {"logistic": ATTACKS["logistic"]("cpu")}, rules=rules)] for x in tables]
    first, second = details(tables, [target], results, rules, seed=0, activity=np.arange(210))
    assert first["gender"]["where"]["drawn"] == 100
    assert sum(part["n"] for part in second["gender"]["activity"]) == 200
    assert first["gender"]["where"]["distances"][0]["value"] > second["gender"]["where"]["distances"][0]["chance"]
    assert set(merged(audits(results[0]), first)["gender"]) == {*results[0][0].to_dict(), "where", "activity"}
    [alone] = details(tables[:1], [target], results[:1], rules, seed=0)
    assert set(alone["gender"]) == {"where"}
