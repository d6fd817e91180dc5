# %% [markdown]
# # Audit and defend a table of user embeddings
# A notebook in the percent format: open it in Jupyter (jupytext), VS Code or PyCharm and run it cell by cell.

# %%
import polars as pl

import recveil as rv
from recveil.core.random import make_generator

world = rv.make_world(n_users=400, n_interactions=12_000, leaks={"gender": 2.0}, rng=make_generator(0, "world"))
gender = world.dataset.attributes["gender"]
df = pl.DataFrame({"user_id": world.dataset.user_ids.tolist(), "embedding": world.taste.tolist()})
df = df.with_columns(gender=pl.Series([gender.labels[code] for code in gender.codes]))

# %% [markdown]
# ## Can an attacker infer gender?

# %%
result = rv.audit(df, target="gender", repeats=1)
print(result.targets["gender"].sentence)

# %%
chart = result.plot_attacks("gender")
chart  # shown under the cell

# %% [markdown]
# ## Defend it, and compare

# %%
cloaked = rv.cloak(df, target="gender", method="sliced", repeats=1)
print(cloaked.targets["gender"].sentence)
print(cloaked.table.head(3))

# %%
numbers = pl.from_arrow(cloaked.to_arrow())
print(numbers.filter((pl.col("attack") == "headline") & (pl.col("metric") == "advantage")))
