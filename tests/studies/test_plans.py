"""A plan is read or refused in one sentence; what decides numbers, and nothing else, decides the ids of its cells."""

from __future__ import annotations

import copy
import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recveil.core.errors import UsageError
from recveil.studies.plans import MAX_CELLS, Plan, read_plan

RAW: dict[str, Any] = {
    "title": "t",
    "kind": "attribute",
    "grid": {
        "data": ["demo"],
        "model": ["bprmf", {"name": "lightgcn", "label": "LightGCN, no time", "recency": 0.0}],
        "defense": ["none", {"name": "raid", "eta": 0.25}],
        "target": ["gender", "gender+age"],
        "seed": [0, 1, 2],
    },
    "settings": {"k": [10], "folds": 4},
    "smoke": {"seed": [0], "model": ["bprmf"], "k": [5]},
    "published": [{"data": "demo", "metric": "auc", "value": 0.5}],
}
MEMBERS: dict[str, Any] = {
    "title": "m",
    "kind": "membership",
    "grid": {"data": ["demo"], "target": ["als", "lfm"], "shadow": ["als"], "serving": ["popular", "fold-in"]},
}


def changed(where: str, **more: Any) -> dict[str, Any]:
    raw = copy.deepcopy(RAW)
    (raw[where] if where else raw).update(more)
    return raw


def ids(raw: dict[str, Any], size: str = "full") -> list[str]:
    return [cell.id for cell in Plan.parse(raw, name="p", size=size).cells()]


def test_the_cells_are_the_product_and_all_different() -> None:
    assert len(set(ids(RAW))) == len(ids(RAW)) == 2 * 2 * 2 * 3
    assert len(set(ids(MEMBERS))) == 4
    small = Plan.parse(RAW, name="p", size="smoke").cells()
    assert [c.at["target"] for c in small] == ["gender", "gender+age"] * 2
    assert small[0].settings["k"] == [5]
    assert small[0].settings["folds"] == 4


@given(st.lists(st.integers(0, 99), min_size=1, max_size=5, unique=True))
def test_whatever_the_seeds_each_has_its_cells(seeds: list[int]) -> None:
    cells = Plan.parse(changed("grid", seed=seeds), name="p").cells()
    assert len({c.id for c in cells}) == 8 * len(seeds)
    assert {c.seed for c in cells} == set(seeds)


def test_labels_title_and_defaults_written_out_do_not_change_an_id() -> None:
    relabelled = [{"name": "bprmf", "label": "BPR"}, {"name": "lightgcn", "recency": 0.0}]
    assert ids(changed("grid", model=relabelled)) == ids(RAW)
    assert ids(changed("", title="other", about="more", published=[])) == ids(RAW)
    assert ids(changed("grid", surface=["user_vectors"], leak_ratio=[0.8])) == ids(RAW)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("grid", {"defense": ["none", {"name": "raid", "eta": 0.5}]}),
        ("grid", {"model": ["bprmf", {"name": "lightgcn", "recency": 1.0}], "defense": ["raid"]}),
        ("grid", {"panel": ["full"]}),
        ("grid", {"leak_ratio": [0.4]}),
        ("settings", {"k": [20]}),
        ("settings", {"repeats": 2}),
        ("settings", {"unattacked": 0.2}),
    ],
)
def test_what_decides_numbers_changes_the_id(part: str, change: dict[str, Any]) -> None:
    before, after = set(ids(RAW)), set(ids(changed(part, **change)))
    assert after - before


def test_ids_are_those_of_finished_studies() -> None:
    model = {"name": "bprmf", "label": "bprmf", "embedding_size": 8, "epochs": 2}
    grid = {
        "data": ["demo"],
        "model": [model],
        "target": ["gender+age"],
        "panel": ["logistic,knn"],
        "leak_ratio": [0.5],
    }
    raw = {"title": "t", "kind": "attribute", "grid": grid, "settings": {"folds": 2, "device": "cpu"}}
    assert ids(raw) == ["04430cedd5db5526"]
    als = {"name": "als", "embedding_size": 8, "epochs": 2}
    axes = {"data": ["demo"], "target": [als], "shadow": [als], "serving": ["popular"], "attack": ["biased"]}
    settings = {"list_length": 20, "device": "cpu"}
    assert ids({"title": "t", "kind": "membership", "grid": axes, "settings": settings}) == ["a83f156926a7ed11"]
    default = Plan.parse(MEMBERS, name="p").cells()[0].at["attack"]
    assert default == "dlmia,biased"


def test_tables_call_things_by_label_or_name_and_options() -> None:
    cells = Plan.parse(RAW, name="p").cells()
    assert {c.label("model") for c in cells} == {"bprmf", "LightGCN, no time"}
    assert {c.label("defense") for c in cells} == {"none", "raid (eta 0.25)"}
    assert cells[0].label("data") == "demo"
    assert cells[0].device is None


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (changed("", tilte="x"), r"No key of the plan p is called 'tilte'. Did you mean 'title'\?"),
        (
            {("knd" if key == "kind" else key): value for key, value in changed("").items()},
            r"No key of the plan p is called 'knd'. Did you mean 'kind'\?",
        ),
        (changed("grid", sead=[1]), r"No key of \[grid\] in the plan p is called 'sead'. Did you mean 'seed'\?"),
        (changed("settings", fold=3), r"No key of \[settings\].*'fold'. Did you mean 'folds'\?"),
        (changed("smoke", modl=["x"]), r"No key of \[smoke\].*'modl'. Did you mean 'model'\?"),
        (changed("", published=[{"valeu": 1}]), r"\[published.*'valeu'. Did you mean 'value'\?"),
        (changed("", kind="attributes"), "kind: input should be 'attribute' or 'membership'"),
        (changed("grid", seed=[]), "comes to no cells: seed is an empty list"),
        (changed("grid", seed=[-1]), r"grid.seed.0: input should be greater than or equal to 0"),
        (changed("grid", seed=[True]), r"grid.seed.0: input should be a valid integer"),
        (changed("grid", seed=[10**25]), r"grid.seed.0: input should be less than or equal to"),
        (changed("settings", folds=10**25), r"settings.folds: input should be less than or equal to 1000"),
        (changed("settings", repeats=True), r"settings.repeats: input should be a valid integer"),
        (changed("grid", seed=list(range(10_000)), target=[f"t{n}" for n in range(10_000)]), "at most 100,000 are run"),
        (changed("grid", seed=3), r"grid.seed: input should be a valid list"),
        (changed("grid", seed=[1, 1]), "has '1' twice in seed"),
        (changed("grid", model=["bprmf", {"name": "bprmf", "label": "x"}]), "has 'x' twice in model"),
        (changed("grid", defense=[{"name": "a", "label": "x"}, {"name": "b", "label": "x"}]), "'x' twice in defense"),
        (changed("grid", model=[{"label": "x"}]), "grid.model.0.name: field required"),
        (changed("settings", k=[500]), "settings.k.0: input should be less than or equal to 200"),
        (changed("settings", device="gpu"), "settings.device: string should match pattern"),
        (changed("settings", k=[]), "settings.k: list should have at least 1 item"),
        (changed("settings", unattacked=float("nan")), "settings.unattacked"),
        (changed("grid", model=[{"name": "bprmf", "rate": float("inf")}]), "option 'rate' must be .* finite number"),
        (changed("grid", model=[{"name": "bprmf", "day": datetime.date(2026, 1, 1)}]), "option 'day' must be"),
        (changed("", published=[{"value": float("nan")}]), "published.0.value: input should be a finite number"),
        (changed("grid", seed=list(range(MAX_CELLS))), "comes to 800,000 cells"),
        ({"title": "x", "kind": "attribute"}, "grid: field required"),
        ({**MEMBERS, "grid": {**MEMBERS["grid"], "panel": ["full"]}}, r"No key of \[grid\].*'panel'"),
    ],
)
def test_the_first_mistake_in_a_plan_is_one_sentence(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Plan.parse(raw, name="p").cells()


def test_files_are_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "table1.toml"
    path.write_text('title = "x"\nkind = "attribute"\n[grid]\ndata = ["demo"]\nmodel = ["als"]\ntarget = ["gender"]\n')
    plan = read_plan(path)
    assert (plan.name, plan.size, len(plan.cells())) == ("table1", "full", 1)
    with pytest.raises(UsageError, match="No size is called 'smal'"):
        read_plan(path, "smal")
    with pytest.raises(UsageError, match="Cannot read the plan .*none.toml"):
        read_plan(tmp_path / "none.toml")
    for content in (b"title = ", b"title = " + b"9" * 5_000, b"title = " + b"[" * 2_000, b"title = '\xff'"):
        path.write_bytes(content)
        with pytest.raises(UsageError, match="is not TOML"):
            read_plan(path)
    path.write_text(
        'title = "x"\nkind = "attribute"\n[grid]\ndata = ["d"]\nmodel = ["m"]\ntarget = ["t"]\n[smoke]\nk = 0'
    )
    with pytest.raises(UsageError, match="settings.k"):
        read_plan(path)
