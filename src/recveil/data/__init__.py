"""From raw files to a `Dataset`: readers, public data sets, cleaning, splits and synthetic worlds.

`sources.catalog.load_dataset(name)` takes the name of a data set or a path, finds the files, reads and cleans them.
`sources.download.fetch_dataset(name)` brings the official files into the cache.
"""
