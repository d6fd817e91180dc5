"""Studies: a plan in TOML becomes cells, each cell one file of records; interrupted anywhere, on one machine or many.

`plans` reads a plan, `plan_checks` checks it before anything runs, `measurement` measures one cell, `model_cache`
stores trained models, `store` is the folder of results, `engines` do the work, `runs` puts these together.
`study_result`, `store_comparison`, `reproduction` and `overview` read the folder; `tuning` searches the options of a
defense.
"""
