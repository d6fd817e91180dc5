"""From raw files to a `Dataset`: readers, loaders for the named data sets, cleaning, splits and made-up worlds.

`sources.load(name)` is the door: it takes the name of a data set or a path, finds the files, reads and cleans them.
`fetch.get(name)` brings the official files into the cache.
"""
