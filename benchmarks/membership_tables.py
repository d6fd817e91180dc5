"""Rows of `benchmarks/membership.py` as Markdown: the page that `--show` prints.

A cell is the AUC with its interval; over several seeds the mean, and the smallest and largest of the seeds.
"""

from collections.abc import Callable, Iterable

import numpy as np

KINDS = {"general": "general recommenders", "sequential": "sequential recommenders"}
TITLE = """# Membership inference

Written by `python benchmarks/membership.py --show ...` from rows that the same script measured with `--part heat`,
`ablation`, `generators`, `defense`, `null`, `power` and `features`. A cell that is missing was not measured. What it
means: [membership.md](../membership.md)."""
NOTE = (
    "AUC with DeLong's 95 % interval; over several seeds the mean and, in brackets, the smallest and the largest seed. "
    "`best rule` is the rule with the largest AUC on the target itself, the hardest to beat. An asterisk marks an "
    "attack that is ahead of every rule (paired interval; over several seeds, in each of them)."
)


def page(rows: list[dict]) -> str:
    """Write all parts that were measured."""
    titles = {
        "heat": ("Shadow x target (DL-MIA, Figure 3)", heat),
        "ablation": ("Ablation (DL-MIA, Table 2)", flat("setting")),
        "generators": ("Item vectors (DL-MIA, Table 3)", flat("vectors")),
        "defense": ("Popularity randomization (DL-MIA, Figure 4)", flat("game")),
        "null": ("No difference, no alarm", null),
        "power": ("An overfitted model", power),
        "features": ("Features and difference vectors (DL-MIA, Figures 1 and 5)", features),
    }
    shown = []
    for part, (title, show) in titles.items():
        mine = [row for row in rows if row["part"] == part]
        if mine:
            shown += [f"## {title}", *(text for group in worlds(mine) for text in show(group))]
    return "\n\n".join([TITLE, NOTE, *shown])


def worlds(rows: list[dict]) -> Iterable[list[dict]]:
    """Group rows by data set, kind and policy, in the order they were measured."""
    for key in unique((row["data"], row["kind"], row["policy"]) for row in rows):
        yield [row for row in rows if (row["data"], row["kind"], row["policy"]) == key]


def heading(rows: list[dict]) -> str:
    """Write the world, its numbers of users and seeds, and the hit rates of the lists."""
    first, seeds = rows[0], len({row["seed"] for row in rows})
    plain = [row for row in rows if row.get("game", "undefended") == "undefended"]
    worth = {who: np.mean([row["utility"][who]["value"] for row in plain]) for who in ("members", "others")}
    return (
        f"### {first['data']}, {KINDS[first['kind']]}, others served by `{first['policy']}`\n\n"
        f"{first['n']:,} target users, {seeds} seed{'s' * (seeds > 1)}; mean hit rate of members' lists "
        f"{worth['members']:.3f}, of others' {worth['others']:.3f}."
    )


def heat(rows: list[dict]) -> Iterable[str]:
    """Write a square for the best rule and for each attack."""
    yield heading(rows)
    shadows, targets = (unique(row[side] for row in rows) for side in ("shadow", "target"))
    for name in ("best rule", *attacks(rows)):
        lines = [[name if name == "best rule" else f"`{name}`", *(f"target {t}" for t in targets)]]
        for shadow in shadows:
            cells = [[r for r in rows if (r["shadow"], r["target"]) == (shadow, target)] for target in targets]
            lines.append([f"shadow {shadow}", *(cell(some, name) for some in cells)])
        yield table(lines)


def flat(what: str) -> Callable[[list[dict]], Iterable[str]]:
    """Write a line for each setting, with a column for the best rule and for each attack."""

    def show(rows: list[dict]) -> Iterable[str]:
        yield heading(rows)
        names = ["best rule", *attacks(rows)]
        lost = any(row.get("others_lost") for row in rows)
        lines = [["shadow", "target", *([] if what == "setting" else [what]), *names, *(["others' hit rate"] * lost)]]
        for key in unique((row["shadow"], row["target"], row.get(what, "")) for row in rows):
            some = [row for row in rows if (row["shadow"], row["target"], row.get(what, "")) == key]
            labels = list(key[:2]) if what == "setting" else list(key)
            lines.append([*labels, *(cell(some, name) for name in names), *([change(some)] if lost else [])])
        yield table(lines)

    return show


def null(rows: list[dict]) -> Iterable[str]:
    """Write how often each interval missed one half where there was no leak."""
    yield (
        f"{len(rows)} runs on {rows[0]['data']}: users split again, shadow and target trained on all users, and who is "
        f"called a member is chance ({rows[0]['n']} target users). `out` counts the intervals of the AUC that miss one "
        "half; they hold for all lines together, so that of 100 runs 5 should have one that does."
    )
    lines = [["", "out", "mean AUC", "smallest", "largest"]]
    for name, one in rows[0]["attacks"].items():
        found = [row["attacks"][name]["auc"] for row in rows]
        out = sum(not auc["low"] <= 0.5 <= auc["high"] for auc in found)
        values = [auc["value"] for auc in found]
        numbers = (f"{number:.3f}" for number in (np.mean(values), min(values), max(values)))
        lines.append([f"`{name}`{' (rule)' if one['rule'] else ''}", str(out), *numbers])
    alarms = sum(any(not f["auc"]["low"] <= 0.5 <= f["auc"]["high"] for f in r["attacks"].values()) for r in rows)
    yield table([*lines, ["**runs with any**", str(alarms), "", "", ""]])


def power(rows: list[dict]) -> Iterable[str]:
    """Write the results of ALS with tuned settings and overfitted."""
    seeds = len({row["seed"] for row in rows})
    bad = next(row["options"] for row in rows if row["options"])
    how = ", ".join(f"{name} {value:g}" for name, value in bad.items())
    yield (
        f"ALS on {rows[0]['data']}, others served by `fold-in`, which is exact for ALS: {rows[0]['n']} target users, "
        f"{seeds} seed{'s' * (seeds > 1)}. Overfitted: {how}. "
        "`lira` and `rmia` see scores and have 16 reference models; the other attacks see lists."
    )
    names = ["best rule", *attacks(rows)]
    lines = [["settings", *names, "members' hit rate", "others' hit rate"]]
    for setting in unique(row["setting"] for row in rows):
        some = [row for row in rows if row["setting"] == setting]
        worth = (spread([row["utility"][who] for row in some]) for who in ("members", "others"))
        lines.append([setting, *(cell(some, name) for name in names), *worth])
    yield table(lines)


PANELS = {
    "difference-vectors": "Figure 1a: difference vectors, shadow and target",
    "own-states": "Figure 1b: the target's, by the outsider's item vectors and by the recommender's",
    "own-states-turned": "The same, the outsider's item vectors turned onto the recommender's",
    "invariant-before": "Figure 5a: invariant features, before re-weighting",
    "invariant-after": "Invariant features, after it",
    "specific-before": "Figure 5b: specific features, before re-weighting",
    "specific-after": "Specific features, after it",
}


def features(rows: list[dict]) -> Iterable[str]:
    """Write how far apart the clouds of each panel are, with the pictures."""
    row = rows[-1]
    yield (
        f"{row['data']}, shadow {row['shadow']}, target {row['target']}, others served by `{row['policy']}`, "
        f"{row['n']:,} target users. Apart: how well a logistic regression tells the two clouds of a panel, on users "
        "it was not fitted to (AUC). Pictures by t-SNE of 100 users of each."
    )
    lines = [[f"[{title}](membership-{name}.svg)", f"{row['apart'][name]:.3f}"] for name, title in PANELS.items()]
    yield table([["panel", "apart"], *lines])
    yield "\n".join(f"![{title}](membership-{name}.svg)" for name, title in PANELS.items())


def attacks(rows: list[dict]) -> list[str]:
    """List the attacks that are no rules."""
    return [name for name, one in rows[0]["attacks"].items() if not one["rule"]]


def best_rule(row: dict) -> str:
    """Find the rule with the largest AUC on the target."""
    return max((n for n, one in row["attacks"].items() if one["rule"]), key=lambda n: row["attacks"][n]["auc"]["value"])


def cell(rows: list[dict], name: str) -> str:
    """Format one AUC, and the rule it belongs to."""
    if not rows:
        return ""
    chosen = [best_rule(row) if name == "best rule" else name for row in rows]
    found = [row["attacks"][one] for row, one in zip(rows, chosen, strict=True)]
    ahead = all(one["ahead_of_rules"] is not None and one["ahead_of_rules"]["low"] > 0 for one in found)
    which = f" ({', '.join(unique(chosen))})" if name == "best rule" else "*" if ahead else ""
    return spread([one["auc"] for one in found]) + which


def change(rows: list[dict]) -> str:
    """Format the change of the non-members' hit rate; empty where there is none."""
    found = [row["others_lost"] for row in rows]
    return "" if rows[0].get("game") == "undefended" else spread(found, "+")


def spread(found: list[dict], sign: str = "") -> str:
    """Format value and interval of one number, or mean and range of several."""
    values = [one["value"] for one in found]
    low, high = (found[0]["low"], found[0]["high"]) if len(found) == 1 else (min(values), max(values))
    return f"{np.mean(values):{sign}.3f} [{low:{sign}.3f}, {high:{sign}.3f}]"


def table(lines: list[list[str]]) -> str:
    """Write a Markdown table; the first line is the head."""
    rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([rows[0], "| --- " * len(lines[0]) + "|", *rows[1:]])


def unique(values: Iterable) -> list:
    """List each value once, in order."""
    return list(dict.fromkeys(values))
