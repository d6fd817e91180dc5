from __future__ import annotations

from recveil.report.figures import target_figures, utility_figures


def _figures(document, name="gender"):
    after = document["targets"][name]
    releases = {"before": document["before"][name], "after": after} if "before" in document else {"": after}
    return {figure["id"]: figure for figure in target_figures(name, after["labels"], releases)}


def test_a_compared_attribute_has_four_figures_and_two_series(demo_document):
    figures = _figures(demo_document)
    assert list(figures) == ["gender.accuracy", "gender.advantage", "gender.confusion.before", "gender.confusion.after"]
    assert figures["gender.accuracy"]["series"] == ["before", "after"]
    assert [line["at"] for line in figures["gender.accuracy"]["lines"]] == [0.5, 0.86]
    assert [line["at"] for line in figures["gender.advantage"]["lines"]] == [0.05]


def test_every_attack_of_the_document_is_a_point(demo_document):
    drawn = {(row["group"], row["series"], row["value"]) for row in _figures(demo_document)["gender.accuracy"]["rows"]}
    expected = {
        (attack, release, result["balanced_accuracy"]["value"])
        for release, part in (("before", "before"), ("after", "targets"))
        for attack, result in demo_document[part]["gender"]["attacks"].items()
    }
    assert drawn == expected


def test_an_audit_alone_needs_no_key(audit_document):
    figures = _figures(audit_document)
    assert list(figures) == ["gender.accuracy", "gender.advantage", "gender.confusion"]
    assert all(figure["series"] == [] for figure in figures.values())


def test_nulls_are_left_out_and_an_empty_figure_is_not_made(audit_document):
    target = audit_document["targets"]["gender"]
    target["attacks"]["logistic"]["balanced_accuracy"]["value"] = None
    for result in target["attacks"].values():
        result["advantage"] = None
    del target["confusion"]
    figures = _figures(audit_document)
    assert list(figures) == ["gender.accuracy"]
    assert [row["group"] for row in figures["gender.accuracy"]["rows"]] == ["trees", "mlp"]


def test_the_rows_of_a_confusion_matrix_are_the_true_classes(audit_document):
    audit_document["targets"]["gender"]["confusion"] = [[0.9, 0.1], [0.3, 0.7]]
    cells = _figures(audit_document)["gender.confusion"]["cells"]
    shares = {(cell["truth"], cell["guess"]): cell["text"] for cell in cells}
    assert shares == {("F", "F"): "90 %", ("F", "M"): "10 %", ("M", "F"): "30 %", ("M", "M"): "70 %"}


def test_a_class_with_few_users_is_in_no_figure(audit_document, demo_document):
    audit_document["targets"]["gender"]["counts"]["F"] = 9
    assert {cell["truth"] for cell in _figures(audit_document)["gender.confusion"]["cells"]} == {"M"}
    small = demo_document["utility"]["per_class"]["gender"]["F"]
    small["after"]["ndcg@10"]["n"] = 9
    groups = [("gender", "F", small), ("gender", "M", demo_document["utility"]["per_class"]["gender"]["M"])]
    for figure in utility_figures(demo_document["utility"], "ndcg@10", groups):
        assert {row["group"] for row in figure["rows"]} == {"Everyone", "gender: M"}


def test_utility_figures_show_levels_and_the_paired_change(demo_document):
    levels, change = utility_figures(demo_document["utility"], "ndcg@10", [])
    assert [(row["series"], row["value"]) for row in levels["rows"]] == [("before", 0.056), ("after", 0.053)]
    assert [row["value"] for row in change["rows"]] == [-0.003]
    assert change["lines"] == [{"label": "no change", "at": 0.0}]
