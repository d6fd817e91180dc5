"""Tables larger than memory: the same maps and audits as everywhere else, from one pass over blocks of rows.

A table is a folder of Parquet parts (also one Parquet file, or a .npy file). What is learned from it is small and
merges in any order; what is written is written part by part, and a run that was cut short goes on where it stopped.
"""
