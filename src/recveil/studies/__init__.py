"""Studies: a plan in TOML becomes cells, each cell one file of records; interrupted anywhere, on one machine or many.

`plan` reads, `check` finds what is wrong before anything runs, `cell` measures one combination, `release` keeps trained
models, `store` is the folder of results, `local` and `ray` do the work, `study` puts these together.
"""
